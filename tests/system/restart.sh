#!/bin/bash
# SPDX-License-Identifier: MIT
# restart.sh [driver|firmware]: vgpud is killed during a slice, or stopped, and started again: the new vgpud adopts the running
# VFs, and all that tenants lose is the time that the restart took. On a GPU that vgpud switches, and on one that schedules itself,
# which goes on meanwhile.
kind=${1:-driver}
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 3 --scheduler "$kind"
# The grace is 1 s, so that a machine that stands still for 50 ms causes no hang in this test.
as() { # COMPLETION: interrupt or poll
	config <<-CONF
		vfs = 3
		$([ "$kind" = firmware ] && echo "policy = fair" || printf 'policy = strict\nslice_us = %s' "$slice_us")
		completion = $1
		grace_ms = $([ "$kind" = driver ] && echo 1000 || echo 5000)
	CONF
}
rounds='KILL:poll KILL:interrupt TERM:poll KILL:poll TERM:interrupt KILL:interrupt'
[ "$kind" = driver ] || rounds='KILL:poll TERM:interrupt KILL:poll'
as interrupt
start_vgpud
start_guest a 0 sha256 --seconds 300; a=$guest_pid
start_guest b 1 gemm --seconds 300; b=$guest_pid
start_guest c 2 mixed --seconds 300; c=$guest_pid
await 30 active 3
for how in $rounds; do
	await 30 at_least 1 run_ns 20000000
	kill -${how%:*} $vgpud_pid
	wait $vgpud_pid 2>/dev/null
	as ${how#*:}
	start_vgpud
	[ "$(json gpu show | jq .adopted)" = true ] || fail "the GPU was not adopted"
	await 30 active 3
done
[ "$kind" = firmware ] || shares_kept 3 turns=$slice_us
kill -INT $a $b $c
wait_guest $a a; wait_guest $b b; wait_guest $c c
for g in a b c; do [ "$(field $g resets)" = 0 ] || fail "tenant $g was reset"; done
# vgpud does not take a GPU with fewer VFs while one of the others is in use, and changes nothing.
start_guest d 0 sha256 --seconds 300; d=$guest_pid
await 30 is 0 state active
kill $vgpud_pid; wait $vgpud_pid
config <<-CONF
	vfs = 2
CONF
start_lost "$run/vgpud.conf" 'VF 0 is in use' || fail "vgpud does not say that VF 0 is in use: $(cat "$run/lost.txt")"
kill -0 $d || fail "the tenant died"
kill -9 $d; wait $d 2>/dev/null

# vgpud is killed after it has received a guest's request for an exclusive window and before it has answered: the guest asks
# again.
kill $softgpu_pid; wait $softgpu_pid
rm -rf "$run/gpu"
start_softgpu --vfs 2
config <<-CONF
	vfs = 2
	grace_ms = 4000
CONF
start_vgpud
start_guest e 0 hog --us 700000 --seconds 300; e=$guest_pid
await 30 at_least 0 run_ns 1
# Guest f waits for the rest of the hog's job. If that ended before the test saw f wait, f is started once more.
waits_or_runs() { state=$(vf 1 state); [ "$state" = exclusive ] || [ "$state" = active ]; }
for _ in $(seq 20); do
	start_guest f 1 sha256 --seconds 300; f=$guest_pid
	await 30 waits_or_runs
	[ "$state" = active ] || break
	kill -9 $f; wait $f 2>/dev/null
	await 30 is 1 state available
done
[ "$state" = exclusive ] || fail "in 20 attempts guest f was never seen to wait for the hog"
kill -9 $vgpud_pid; wait $vgpud_pid 2>/dev/null
start_vgpud
await 60 is 1 state active
await 30 at_least 1 run_ns 1000000
kill -INT $f; wait_guest $f f
kill -INT $e; wait_guest $e e
