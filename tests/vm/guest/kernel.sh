# SPDX-License-Identifier: MIT
# The access layer against this kernel.
. /tests/lib.sh
check "test-kernel" test-kernel
finish
