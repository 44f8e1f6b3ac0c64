#!/bin/bash
# SPDX-License-Identifier: MIT
# `run --check` and `compare` judge budgets where VFs stop no later than the policy was told, and nowhere else.
set -uo pipefail
sim=$VGPU_BUILD/tools/sim/vgpu-sim
command -v jq >/dev/null || { echo "skipped: jq is missing"; exit 77; }
bad=0
late() { # LATE, in us
	printf '%s\n' 'vfs 2' 'until 3s' 'work_from 100ms' 'policy deadline' 'vf * work=always budget_us=4000 period_us=10000' "vf 1 late=$1us"
}
same() {
	[ "$2" = "$3" ] || { echo "$1: '$2', not '$3'"; bad=1; }
}
run() { late "$1" | "$sim" run --check --json - | jq -c '[.deadlines > 0, .missed]'; }
compare() { late "$1" | "$sim" compare --json - | jq -c '.[] | select(.policy == "deadline") | [.deadlines > 0, .missed]'; }
for c in run compare; do
	same "$c, in time" "$($c 500)" '[true,0]'
	same "$c, too late" "$($c 501)" '[false,0]'
done
exit $bad
