#!/bin/bash
# SPDX-License-Identifier: MIT
# Clients send noise to the sockets of the PF and of all VFs while two tenants compute: the tenants get their shares and
# right results.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 4
config <<-CONF
	vfs = 4
	grace_ms = 1000
	policy = equal
CONF
start_vgpud
start_guest a 0 mixed --seconds 300; a=$guest_pid
start_guest b 1 sha256 --seconds 300; b=$guest_pid
await 30 active 2
for s in pf vf0 vf1 vf2 vf3; do
	"$VGPU_BUILD/tests/system/rubbish" "$run/gpu/$s.sock" || fail "softgpu refused a connection to $s.sock after malformed input"
done
shares_kept 3
kill -INT $a $b
wait_guest $a a; wait_guest $b b
[ "$(field a resets)" = 0 ] && [ "$(field b resets)" = 0 ] || fail "a tenant was reset"
start_guest c 2 gemm --jobs 3; wait_guest $guest_pid c
