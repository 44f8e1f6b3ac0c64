#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpud is stopped for longer than it gives a VF to stop or a reset to end. A VF that answered in time must not count as
# late: neither when vgpud continues, nor when it is killed as it continues and a new vgpud takes over the GPU. systemd's
# watchdog does the latter: it sends SIGABRT, then SIGCONT, and vgpud's threads run until SIGABRT is delivered.
# VGPU_CYCLES: the number of repetitions of each case, 3 by default.
. "$(dirname "$0")/lib.sh"
export ASAN_OPTIONS=$ASAN_OPTIONS:handle_abort=0 # the test itself sends SIGABRT: the sanitizer must not report it
cycles=${VGPU_CYCLES:-3}
grace_ms=6000 # so long that only a hang reaches it: a VF's process may have to wait for a CPU for a second
start_softgpu --vfs 3 --latency flr=400000
config <<-CONF
	vfs = 3
	policy = equal
	grace_ms = $grace_ms
CONF
start_vgpud
start_guest a 0 sha256 --seconds 10000; a=$guest_pid
start_guest b 1 spin --us 20000 --depth 16 --seconds 10000; b=$guest_pid
start_guest c 2 hog --us 30000 --seconds 10000; c=$guest_pid

# Every VF has had at least three more turns than in before.json.
go_on() {
	look now && jq -en --slurpfile a "$run/before.json" --slurpfile b "$run/now.json" \
		'[range(0; 3) | $b[0].vfs[.].dispatches - $a[0].vfs[.].dispatches] | min >= 3'
}
all_go_on() { # WHEN
	await 60 go_on
	[ "$(jq -c '[.vfs[] | .hangs, .resets] | unique' "$run/now.json")" = "[0]" ] ||
		fail "$1: a VF was reset: $(ctl vf list; ctl events)"
}
some_instant() { sleep "0.$(printf %03d $((RANDOM % 200)))"; }
stop_for_long() { # at a random instant
	some_instant
	kill -STOP $vgpud_pid
	sleep $((grace_ms / 1000)).25
}

await 30 active 3
look before
all_go_on "at first"
for i in $(seq "$cycles"); do
	stop_for_long
	kill -CONT $vgpud_pid
	look before
	all_go_on "stopped $i times"
done

for i in $(seq "$cycles"); do
	stop_for_long
	kill -ABRT $vgpud_pid
	kill -CONT $vgpud_pid
	wait $vgpud_pid 2>/dev/null
	start_vgpud
	[ "$(json gpu show | jq .adopted)" = true ] || fail "the GPU was not adopted"
	look before
	all_go_on "vgpud was replaced $i times"
done

# A reset ends while vgpud is stopped, long before vgpud continues: vgpud counts one reset, which worked.
begin_reset 2
kill -STOP $vgpud_pid
sleep 0.8
kill -CONT $vgpud_pid
wait $reset || fail "vgpuctl vf reset failed"
await 60 is 2 state active
[ "$(vf 2 resets)" = 1 ] || fail "vgpud took a reset that had ended in time for late: $(ctl events)"

kill -INT $a $b $c
wait_guest $a a; wait_guest $b b; wait_guest $c c
[ "$(field a resets) $(field b resets) $(field c resets)" = "0 0 1" ] || fail "a tenant lost work: $(cat "$run"/?.json)"
