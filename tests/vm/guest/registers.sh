# SPDX-License-Identifier: MIT
# The register tests of softgpu over PCI, for both ways to hold a PF, on three GPUs, one of each layout.
. /tests/lib.sh
token=,token=0b9ad3ae-6dc5-4e49-b0cb-d46a5a4b4b7e
check "PFs held by sysfs" test-registers sysfs:0000:01:00.0 sysfs:0000:02:00.0 sysfs:0000:03:00.0
check "PFs held by VFIO" test-registers vfio:0000:01:00.0$token vfio:0000:02:00.0$token vfio:0000:03:00.0$token
finish
