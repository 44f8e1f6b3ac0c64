#!/bin/bash
# SPDX-License-Identifier: MIT
# Each scenario once broke a promise; all of them have to be kept. One name: that one only.
set -uo pipefail
cd "$(dirname "$0")/cases" || exit 1
sim=$VGPU_BUILD/tools/sim/vgpu-sim
bad=0
for s in ${1:-*.scn}; do
	printf '%-32s ' "$s"
	"$sim" check "$s" || bad=1
	# Where vgpud is restarted, the new core's calls to its policy are checked as well.
	grep -q '^at .* restart$' "$s" || continue
	"$sim" run --check "$s" >/dev/null || { echo "$s: a call to the policy breaks the contract"; bad=1; }
done
exit $bad
