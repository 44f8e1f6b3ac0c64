#!/bin/bash
# SPDX-License-Identifier: MIT
# An endless job, a hog and a faulting tenant beside an honest one.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 4
config <<-CONF
	vfs = 4
	policy = fair
CONF
start_vgpud
start_guest honest 0 mixed --seconds 60; a=$guest_pid
start_guest endless 1 endless --seconds 60
start_guest hog 2 hog --us 10000 --seconds 60
await 30 active 3
shares_kept 6
# It faults, is reset, held back, and in the end not let in any more. (Its end may reset it before
# vgpud has seen the fault: then that is no strike.)
for i in 1 2 3 4 5 6 7 8; do
	start_guest fault 3 fault --seconds 30
	wait $guest_pid
	code=$?
	[ $code = 3 ] && break
done
[ $code = 3 ] || fail "the faulting tenant was not refused: $code"
await 30 is 3 state quarantined
# On a machine that stands still a window may time out, which is a strike as well.
[ $(($(vf 3 hangs) + $(vf 3 window_timeouts))) = 3 ] || [ "$(vf 3 window_timeouts)" = 2 ] || fail "not three strikes"
[ "$(vf 0 resets)" = 0 ] && [ "$(vf 1 resets)" = 0 ] && [ "$(vf 2 resets)" = 0 ] || fail "a neighbour was reset"
kill -INT $a
wait_guest $a honest
