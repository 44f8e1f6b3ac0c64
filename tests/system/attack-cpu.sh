#!/bin/bash
# SPDX-License-Identifier: MIT
# attack-cpu.sh [process|worker|stays|firmware]: the process of one VF, or its worker, is taken over and computes in many threads, at a
# priority above the engines of all VFs; stays: a worker that begins with that when it is told to end; firmware: a process, on a GPU that
# schedules itself. Its neighbours get done what they get done without it, and operators see what it takes.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/attack-lib.sh"
kind=${1:-process} program=softgpu-vf takes="its process takes"
becomes_kind=burns
case $kind in
worker) program=softgpu-worker takes="its worker takes" grace_ms=4000 ;;
stays) program=softgpu-worker takes="its worker computes" becomes_kind=stays grace_ms=4000 ;;
esac
use_impostors $program
becomes none
case $kind in
process) start_tenants ;;
worker | stays) start_tenants --engine host --window 32M --kill-after 2000 ;;
firmware)
	start_softgpu --vfs 4 --scheduler firmware
	config <<<"vfs = 4"
	start_vgpud
	for n in 0 1 2 3; do await 30 is $n state available; done
	for n in 0 1 2; do start_guest t$n $n spin --us 50000 --depth 16 --seconds 600; tenants+=($guest_pid); done
	;;
esac
# What VF 0 completes in a second, over so many.
work() { # SECONDS
	local before at=$EPOCHREALTIME
	before=$(vf 0 jobs)
	sleep "$1"
	awk -v n=$(($(vf 0 jobs) - before)) -v from="$at" -v to="$EPOCHREALTIME" 'BEGIN {print n / (to - from)}'
}
was_killed() { grep -q "VF 3: $takes " "$run/softgpu.log"; }
shown() { ctl events | grep -qE "VF 3 +cpu +above its share"; }
# One after the other was ended, with a rest of 10 s between any two.
rested() { [ $((($(grep -c "VF 3: $takes " "$run/softgpu.log") - 1) * 10)) -le $((SECONDS - began)) ]; }
counted() { at_least 0 jobs 1; }
await 30 counted
before=$(work 5)
cpu=$(vf 3 cpu_ns)
becomes $becomes_kind
began=$SECONDS
ends 3
# Of workers one is taken over: a client does that, and there is none while the VF rests.
taken_over() { [ "$(readlink "/proc/$(process_of 3 softgpu-worker)/exe")" -ef "$run/libexec/vgpud/softgpu-worker" ]; }
[ $program = softgpu-vf ] || { await 30 taken_over; becomes none; }
[ $kind != stays ] || { await 30 is 3 state available; ends 3; }
with=$(work 10)
await 30 was_killed
rested || fail "the VF had another process at once"
[ $kind = stays ] || await 30 shown
becomes none
[ $kind = stays ] || [ "$(vf 3 cpu_ns)" -gt $((cpu + 100000000)) ] || fail "its CPU time was not counted: $(vf 3 cpu_ns)"
await 30 is 3 state available
"$attack" look "$run/gpu/vf3.sock" 30 >"$run/look.txt" || fail "the VF is not served"
after=$(work 5)
awk -v b="$before" -v w="$with" -v a="$after" 'BEGIN {alone = (b + a) / 2; printf "VF 0 completes %.1f jobs a second, %.1f under attack, %.1f after it\n", b, w, a; exit w < 0.9 * alone}' ||
	fail "a neighbour gets less done while another VF's process computes"
end_tenants
