#!/bin/bash
# SPDX-License-Identifier: MIT
# A client of one VF makes that VF's process wait, fail, starve and die, in every way that has been seen to hurt others when
# one process served all VFs. Two tenants compute beside it: neither is reset, their shares are kept by vgpud's own records,
# nobody waits longer than without an attack by more than a slice and the grace, and the VF can be used again.
. "$(dirname "$0")/lib.sh"
slice_ms=10 grace_ms=1000
start_softgpu --vfs 3
config <<-CONF
	vfs = 3
	policy = strict
	slice_us = $((slice_ms * 1000))
	grace_ms = $grace_ms
CONF
start_vgpud
vf_process() { # VF
	local p
	for p in $(cat /proc/"$softgpu_pid"/task/*/children); do
		tr '\0' ' ' <"/proc/$p/cmdline" | grep -q "softgpu-vf --vf $1 " && echo "$p"
	done
}
served() { [ -n "$(vf_process "$1")" ]; }

# Each process is nobody's, cannot become more, goes first where memory runs out, and has a budget of descriptors.
for n in 0 1 2; do
	p=$(vf_process $n)
	[ "$(echo "$p" | wc -w)" = 1 ] || fail "VF $n has the processes '$p'"
	for line in "NoNewPrivs:	1" "Seccomp:	2" "CapPrm:	0*" "CapEff:	0*"; do
		grep -qx "$line" "/proc/$p/status" || fail "VF $n: $(cat "/proc/$p/status")"
	done
	[ "$(id -u)" != 0 ] || ! grep -qE '^(Uid|Gid):.*\b0\b' "/proc/$p/status" || fail "VF $n's process is root's"
	[ "$(cat "/proc/$p/oom_score_adj")" -gt "$(cat "/proc/$softgpu_pid/oom_score_adj")" ] || fail "VF $n's process would outlive the device"
	[ "$(awk '/open files/ {print $5}' "/proc/$p/limits")" -le 1200 ] || fail "VF $n's process may have any number of files"
	# Nothing of what its client can send runs at a priority of the real-time class.
	for t in /proc/"$p"/task/*; do
		case $(cat "$t/comm") in sv-server | sv-bell) [ "$(awk '{print $41}' "$t/stat")" = 0 ] || fail "$(cat "$t/comm") is real-time" ;; esac
	done
done

start_guest a 0 mixed --depth 16 --seconds 600; a=$guest_pid
start_guest b 1 sha256 --depth 16 --seconds 600; b=$guest_pid
await 30 active 2
shares_kept 5
longest() { json vf list | jq '[.vfs[0, 1].wait_max_ns] | max'; }
quiet=$(longest)
for kind in interrupts holes registers maps resets silence; do
	"$VGPU_BUILD/tests/system/attack" $kind "$run/gpu/vf2.sock" 600 >"$run/attack.txt" 2>&1 &
	attacker=$!
	pids+=($attacker)
	shares_kept 5
	kill -9 $attacker; wait $attacker 2>/dev/null
	# It is served again, within the time that a process has to say that it is there.
	"$VGPU_BUILD/tests/system/attack" look "$run/gpu/vf2.sock" 30 >"$run/look.txt" || fail "after $kind the VF is not served"
done
# Its process is stopped, and killed.
for signal in STOP KILL; do
	start_guest victim$signal 2 spin --seconds 600; victim=$guest_pid
	await 30 active 3
	p=$(vf_process 2)
	kill -$signal "$p"
	await 60 test ! -e "/proc/$p"
	wait $victim
	await 60 served 2
	await 60 is 2 state available
	start_guest next$signal 2 mandelbrot --jobs 2; wait_guest $guest_pid next$signal
	await 60 is 2 state available
done
shares_kept 5
[ "$(json vf list | jq '[.vfs[0, 1] | .resets + .guest_resets + .hangs] | add')" = 0 ] || fail "an innocent VF was reset: $(ctl vf list)"
reset_ms=5 # which a process that does not stop has when it is reset
now=$(longest)
[ "$now" -le $((quiet + (slice_ms + grace_ms + reset_ms) * 1000000)) ] || fail "a tenant waited $now ns, $quiet ns without attacks"
kill -INT $a $b
wait_guest $a a; wait_guest $b b
# Nothing is left behind: as many processes as VFs, and as many descriptors as before.
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
[ ! -e "$run/gpu/vf2.sock" ] || fail "sockets are left over"
