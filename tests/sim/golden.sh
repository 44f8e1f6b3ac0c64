#!/bin/bash
# SPDX-License-Identifier: MIT
# Each scenario makes the decisions that are written down beside it. `golden.sh write` writes them.
set -uo pipefail
cd "$(dirname "$0")/scenarios" || exit 1
sim=$VGPU_BUILD/tools/sim/vgpu-sim
bad=0
told() { # what is written down of a scenario
	case "$1" in
	everything.scn) "$sim" run --json "$1" | jq -r '"\(.decisions) decisions, hash \(.hash)"' ;;
	*) "$sim" run --log "$1" ;;
	esac
}
command -v jq >/dev/null || { echo "skipped: jq is missing"; exit 77; }
for s in *.scn; do
	if [ "${1:-}" = write ]; then
		told "$s" >"${s%.scn}.log"
		continue
	fi
	told "$s" | diff -u "${s%.scn}.log" - || { echo "FAILED: $s"; bad=1; }
	"$sim" check "$s" || bad=1
done
exit $bad
