#!/bin/bash
# SPDX-License-Identifier: MIT
# reset-cut.sh [driver|firmware]: vgpud is killed while it resets a VF: the next vgpud resets the VF again and tells the guest, which knows that a reset has
# begun, that the reset has ended. The cases: vgpud is killed early in the reset; late in it; and killed early, with the next
# vgpud started when the GPU has finished the reset. On a GPU that vgpud switches, and on one that schedules itself.
kind=${1:-driver}
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 2 --latency flr=400000 --scheduler "$kind"
# Nothing here hangs, on a busy machine either.
printf 'vfs = 2\ngrace_ms = %s\n' "$([ "$kind" = driver ] && echo 1000 || echo 5000)" | config
start_vgpud
start_guest a 0 sha256 --seconds 1000; a=$guest_pid
start_guest b 1 sha256 --seconds 1000; b=$guest_pid
await 30 active 2
for pauses in "0 0" "0.3 0" "0.1 1"; do
	set -- $pauses
	begin_reset 0
	sleep "$1" # the instant in the reset at which vgpud is killed
	kill -9 $vgpud_pid
	wait $vgpud_pid $reset 2>/dev/null
	sleep "$2"
	start_vgpud
	await 60 active 2
	await 30 at_least 0 run_ns 1000000
	[ "$(vf 1 resets)" = 0 ] || fail "VF 1 was reset, too"
done
kill -INT $a $b
wait_guest $a a; wait_guest $b b
[ "$(field a resets)" -ge 3 ] || fail "guest a saw $(field a resets) resets, want at least 3"
[ "$(field b resets)" = 0 ] || fail "guest b was reset and lost work"
