# SPDX-License-Identifier: MIT
# The access layer (vfio/) on this Linux.
. /tests/lib.sh
check "test-kernel" test-kernel
finish
