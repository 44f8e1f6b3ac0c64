#!/bin/bash
# SPDX-License-Identifier: MIT
# A tenant is killed during a slice, several times: its VF is reset and scrubbed and can be used again; the other tenants
# keep their shares and get right results.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 3
config <<-CONF
	vfs = 3
	grace_ms = 1000
	policy = strict
	slice_us = $slice_us
CONF
start_vgpud
start_guest a 0 sha256 --depth 8 --seconds 300; a=$guest_pid
start_guest b 1 gemm --depth 8 --seconds 300; b=$guest_pid
for i in 1 2 3 4 5; do
	start_guest victim 2 endless --seconds 300
	await 30 is 2 state active
	await 30 at_least 2 dispatches $((i * 3))
	kill -9 $guest_pid
	await 30 is 2 state available
done
[ "$(vf 2 guest_resets)" -ge 5 ] || fail "vgpud did not count the resets of VF 2 by its guests"
[ "$(vf 2 hangs)" = 0 ] || fail "vgpud counted a hang for a tenant that was killed"
start_guest c 2 mandelbrot --jobs 3; c=$guest_pid
wait_guest $c c
shares_kept 3 0=1 1=1 turns=$slice_us
kill -INT $a $b
wait_guest $a a; wait_guest $b b
[ "$(field a resets)" = 0 ] && [ "$(field b resets)" = 0 ] || fail "a tenant that was not killed was reset"
