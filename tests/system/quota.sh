#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs of a VF that take as much of the GPU's memory as they can never have more than the VF's (tests/bench/quota.sh), and come
# close to it.
set -uo pipefail
found=$("$(dirname "$0")/../bench/quota.sh" 6)
status=$?
echo "$found"
[ "$status" = 0 ] || exit "$status"
jq -e '.beyond_bytes == 0' <<<"$found" >/dev/null || { echo "FAILED: a VF has had more than its own"; exit 1; }
jq -e '.refused > 100 and .most_taken_mib > .quota_mib - 6' <<<"$found" >/dev/null || { echo "FAILED: the programs did not come close to it"; exit 1; }
