#!/bin/bash
# SPDX-License-Identifier: MIT
# hang.sh [driver|firmware]: a VF that does not stop is reset and put in back-off; its guest starts again. After the third hang the
# VF is quarantined until an operator resets it. The other VF loses time, but nothing else. A GPU that schedules itself resets the VF
# itself, after the time-out that vgpud has set, and knows no quarantine.
kind=${1:-driver}
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 2 --latency flr=2000 --scheduler "$kind" --fault hang,cmd=idle,vf=1,skip=10,count=3
config <<-CONF
	vfs = 2
	policy = equal
	grace_ms = 1000
CONF
start_vgpud
start_guest a 0 sha256 --seconds 100; a=$guest_pid
start_guest b 1 spin --seconds 100; b=$guest_pid
if [ "$kind" = firmware ]; then
	await 60 is 1 hangs 3
	await 30 at_least 1 run_ns 1
	kill -INT $a $b
	wait_guest $a a; wait_guest $b b
	[ "$(field a resets) $(field b resets)" = "0 3" ] || fail "guest b hung three times: a was reset $(field a resets) times, b $(field b resets)"
	[ "$(grep -c 'VF 1 did not answer' "$run/vgpud.log")" = 3 ] || fail "vgpud's log has not three hangs of VF 1"
	exit 0
fi
await 60 is 1 state quarantined
[ "$(vf 1 hangs)" = 3 ] || fail "want three hangs: $(ctl vf show 1)"
wait $b
[ $? = 3 ] || fail "the guest of a quarantined VF was not refused (exit status 3)"
[ "$(vf 0 resets)" = 0 ] || fail "VF 0, which did nothing wrong, was reset"
ctl events >"$run/events.txt"
# What the trace has of hangs, resets and windows is a trace.
ctl trace --ms 60000 >"$run/trace.json"
/usr/bin/python3 "$(dirname "$0")/trace-format.py" "$run/trace.json" >"$run/said" 2>&1 || fail "$(cat "$run/said")"
for what in running overrun "exclusive window" "being reset"; do
	jq -e --arg what "$what" 'any(.traceEvents[]; .ph == "X" and .name == $what)' "$run/trace.json" >/dev/null || fail "the trace has nothing $what"
done
grep -q 'VF 1.*hang' "$run/events.txt" || fail "vgpuctl events does not show the hang"
grep -q 'VF 1 is quarantined' "$run/vgpud.log" || fail "vgpud's log does not report the quarantine"
ctl vf reset 1 || fail "vgpuctl vf reset failed"
await 30 is 1 state available
start_guest c 1 gemm --jobs 5; c=$guest_pid
wait_guest $c c
kill -INT $a
wait_guest $a a
[ "$(field a resets)" = 0 ] || fail "the guest of VF 0 was reset and lost work"
