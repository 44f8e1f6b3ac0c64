#!/bin/bash
# SPDX-License-Identifier: MIT
# An endless job, a hog and a tenant whose work faults run beside an honest tenant, which gets its share and right results.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 4
config <<-CONF
	vfs = 4
	policy = fair
	grace_ms = 1000
	window_max_ms = 10000
CONF
start_vgpud
start_guest honest 0 mixed --depth 8 --seconds 600; a=$guest_pid
start_guest endless 1 endless --seconds 600
start_guest hog 2 hog --us 10000 --seconds 600
await 30 active 3
shares_kept 3
# The work of guest fault faults again and again. Its VF is reset each time, with a back-off before the guest may return, and is
# not quarantined: nobody had to wait for it to stop.
start_guest fault 3 fault --seconds 600
await 60 at_least 3 hangs 4
kill $guest_pid
wait $guest_pid
! grep -q 'VF 3 is quarantined' "$run/vgpud.log" || fail "a VF whose work faults was quarantined: $(ctl vf show 3)"
[ "$(vf 3 window_timeouts)" = 0 ] || fail "want no window time-out: $(ctl vf show 3)"
[ "$(vf 0 resets)" = 0 ] && [ "$(vf 1 resets)" = 0 ] && [ "$(vf 2 resets)" = 0 ] || fail "a VF that did nothing wrong was reset"
kill -INT $a
wait_guest $a honest
