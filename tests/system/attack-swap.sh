#!/bin/bash
# SPDX-License-Identifier: MIT
# VFs on CUDA's driver in software have more memory together than the GPU has. While one guest attacks, with modules that take memory and
# time to compile and with launches without an end, two others are swapped, and root resizes a fourth VF: their results are right, and they
# are not reset.
. "$(dirname "$0")/lib.sh"
driver=$VGPU_BUILD/tools/cuda/driver
[ -e "$driver/libcuda.so.1" ] || fail "$driver/libcuda.so.1 is missing: build it first"
truncate -s 192M "$run/pool"
chmod 666 "$run/pool"
chmod 755 "$run"
LD_LIBRARY_PATH=$driver SOFT_CUDA_POOL=$run/pool start_softgpu --engine cuda --vfs 4 --vram 272M --window 32M --kill-after 2000 --worker-memory 192M
config <<-CONF
	vfs = 4
	slice_us = 10000
	grace_ms = 10000
	host_memory_mib = 288
	epoch_ms = 200
	[vf gpu0/3]
	memory_mib = 48
	pinned = yes
CONF
start_vgpud
total() { json memory show | jq ".$1"; }
swapped() { [ "$(total swaps_in)" -ge "$1" ]; }
for n in 0 1 2 3; do await 60 is $n state available; done
for n in 0 1; do start_guest g$n $n saxpy --device-memory --seconds 600; g[n]=$guest_pid; done
begun() { grep -q begun "$run/attack.txt"; }
for kind in bombs launches; do
	: >"$run/attack.txt"
	"$VGPU_BUILD/tests/system/attack" $kind "$run/gpu/vf2.sock" 600 >"$run/attack.txt" 2>&1 & attacker=$!
	await 120 begun
	had=$(total swaps_in)
	ctl memory set 3 32M >/dev/null || fail "VF 3 cannot be resized while VF 2 attacks: $(ctl memory show)"
	ctl memory set 3 48M >/dev/null || fail "VF 3 cannot be resized while VF 2 attacks: $(ctl memory show)"
	await 200 swapped $((had + 4))
	kill $attacker
	wait $attacker || fail "the attack $kind ended with $?: $(cat "$run/attack.txt")"
	for n in 0 1; do await 120 at_least $n dispatches $(($(vf $n dispatches) + 3)); done
	! is 2 state quarantined || ctl vf reset 2
	await 60 is 2 state available
done
for n in 0 1; do
	kill -INT ${g[n]}; wait_guest ${g[n]} g$n
	[ "$(field g$n resets)" = 0 ] || fail "guest $n was reset"
done
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
