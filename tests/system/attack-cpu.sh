#!/bin/bash
# SPDX-License-Identifier: MIT
# The process of one VF is taken over and computes in many threads, at a priority above the engines of all VFs. Its neighbours get done
# what they get done without it, and operators see what it takes.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/attack-lib.sh"
use_impostors softgpu-vf
becomes none
start_tenants
# What VF 0 completes in a second, over so many.
work() { # SECONDS
	local before at=$EPOCHREALTIME
	before=$(vf 0 jobs)
	sleep "$1"
	awk -v n=$(($(vf 0 jobs) - before)) -v from="$at" -v to="$EPOCHREALTIME" 'BEGIN {print n / (to - from)}'
}
was_killed() { grep -q "VF 3: its process takes more CPU time" "$run/softgpu.log"; }
shown() { ctl events | grep -qE "VF 3 +cpu +above its share"; }
# One process after the other was ended, with a rest of 10 s between any two.
rested() { [ $((($(grep -c "VF 3: its process takes more CPU time" "$run/softgpu.log") - 1) * 10)) -le $((SECONDS - began)) ]; }
counted() { at_least 0 jobs 1; }
await 30 counted
before=$(work 5)
cpu=$(vf 3 cpu_ns)
becomes burns
began=$SECONDS
ends 3
with=$(work 10)
await 30 was_killed
rested || fail "the VF had another process at once"
await 30 shown
becomes none
[ "$(vf 3 cpu_ns)" -gt $((cpu + 100000000)) ] || fail "its CPU time was not counted: $(vf 3 cpu_ns)"
await 30 is 3 state available
"$attack" look "$run/gpu/vf3.sock" 30 >"$run/look.txt" || fail "the VF is not served"
after=$(work 5)
awk -v b="$before" -v w="$with" -v a="$after" 'BEGIN {alone = (b + a) / 2; printf "VF 0 completes %.1f jobs a second, %.1f under attack, %.1f after it\n", b, w, a; exit w < 0.9 * alone}' ||
	fail "a neighbour gets less done while another VF's process computes"
end_tenants
