# SPDX-License-Identifier: MIT
# The register tests of softgpu over PCI, with PFs held by $hold, on three GPUs, one of each layout.
. /tests/lib.sh
token=
[ "$hold" = sysfs ] || token=,token=0b9ad3ae-6dc5-4e49-b0cb-d46a5a4b4b7e
check "PFs held by $hold" test-registers $hold:0000:01:00.0$token $hold:0000:02:00.0$token $hold:0000:03:00.0$token
finish
