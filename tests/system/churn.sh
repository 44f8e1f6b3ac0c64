#!/bin/bash
# SPDX-License-Identifier: MIT
# Stopping a VF takes longer while another VF's worker starts or ends, because a GPU's driver holds its locks then. A worker
# that does not stop is killed soon if no other worker starts or ends, and later if one does; until then its VF is not reset.
# A stopped process stands for a driver that does not return.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 3 --engine host --window 32M --kill-after 150
config <<-CONF
	vfs = 3
	policy = equal
	grace_ms = 10000
CONF
start_vgpud
grep -q 'it is killed after 150 ms, and after [0-9]* ms' "$run/softgpu.log" || fail "softgpu's log does not say when work is killed"
start_guest a 0 sha256 --seconds 300; a=$guest_pid
start_guest b 1 sha256 --seconds 300; b=$guest_pid
await 60 active 2
worker() { process_of "$1" softgpu-worker; }
now() { date +%s%N; }
resets() { vf 0 resets; }
was_reset() { [ "$(resets)" -gt "$1" ]; }
goes_on() { # after the VF was reset, or its worker continued
	await 60 is 0 state active
	local turns
	turns=$(vf 0 dispatches)
	await 60 at_least 0 dispatches $((turns + 3))
}
# Sets $took to the time until VF 0 is reset because its worker does not stop.
time_kill() {
	local before begin
	before=$(resets)
	begin=$(now)
	kill -STOP "$(worker 0)"
	await 60 was_reset "$before"
	took=$(($(now) - begin))
}
goes_on
# The second time, the worker that has followed the first one has been ready for long: only a worker is killed, not the VF's process.
for _ in 1 2; do
	time_kill
	quiet=$took
	goes_on
done
grep 'its process is killed' "$run/softgpu.log" && fail "a VF lost its process, although nothing but its worker stood still"
ctl vf reset 0 || fail "vgpuctl vf reset failed" # the operator's: vgpud counts the guest's resets anew
goes_on

# The worker of VF 2, which has no guest, is asked to end and does not; softgpu kills it only after 6 s.
has_worker() { [ -n "$(worker 2)" ]; }
disturb() {
	ctl memory set 2 64M >/dev/null || fail "$(ctl memory show)"
	await 30 has_worker
	ends=$(worker 2)
	kill -STOP "$ends"
	ctl memory set 2 none >/dev/null || fail "$(ctl memory show)"
}
# A stop that takes longer than without that, but not too long, costs VF 0 nothing.
disturb
before=$(resets)
stopped=$(worker 0)
kill -STOP "$stopped"
sleep 0.6
kill -CONT "$stopped"
goes_on
[ "$(resets)" = "$before" ] || fail "VF 0 was reset, although another worker was ending: $(ctl events)"
kill -9 "$ends" 2>/dev/null
disturb
time_kill
kill -0 "$ends" || fail "the worker that does not end has been killed already, or this machine has stood still"
[ "$took" -gt $((2 * quiet)) ] ||
	fail "a worker was killed after $((took / 1000000)) ms while another one ended, and after $((quiet / 1000000)) ms otherwise"
goes_on
kill -9 "$ends" 2>/dev/null
[ "$(vf 1 resets)" = 0 ] || fail "VF 1, whose worker has stopped in time, was reset"
# guest a was reset four times and computes on
kill -INT $a $b
wait_guest $a a
wait_guest $b b
[ "$(field a resets)" = 4 ] && [ "$(field b resets)" = 0 ] || fail "resets: $(field a resets), $(field b resets)"
