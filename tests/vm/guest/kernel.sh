# SPDX-License-Identifier: MIT
# The access layer (vfio/) on this Linux.
. /tests/lib.sh
check "test-kernel succeeds" test-kernel
finish
