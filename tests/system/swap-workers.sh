#!/bin/bash
# SPDX-License-Identifier: MIT
# VFs with workers have more memory together than the GPU has: three VFs compute in device memory, and there is room for two.
# They are swapped without effect on their guests. The worker of a VF that is swapped out is killed: that VF is reset, and no
# other. Once with workers on this CPU, and once with the CUDA driver in software, whose memory is no larger than the GPU's.
. "$(dirname "$0")/lib.sh"
driver=$VGPU_BUILD/tools/cuda/driver
[ -e "$driver/libcuda.so.1" ] || fail "$driver/libcuda.so.1 is missing: build it first"
total() { json memory show | jq ".$1"; }
swapped() { [ "$(total swaps_in)" -ge "$1" ]; }
is_out() { [ "$(vf "$1" swapped)" = true ] && is "$1" state active; }
is_reset() { [ "$(vf "$1" resets)" -gt "$2" ]; }

swap_on() { # ENGINE WORKLOADS...
	local engine=$1 n work
	shift
	work=("$@")
	start_softgpu --engine "$engine" --vfs 3 --vram 224M --window 32M --kill-after 5000
	config <<-CONF
		vfs = 3
		slice_us = 10000
		grace_ms = 10000
		host_memory_mib = 288
		epoch_ms = 200
	CONF
	start_vgpud
	for n in 0 1 2; do await 60 is $n state available; [ "$(mib $n)" = 96 ] || fail "$(ctl memory show)"; done
	[ "$(json vf list | jq '[.vfs[] | select(.swapped)] | length')" = 1 ] || fail "$(ctl memory show)"
	for n in 0 1 2; do start_guest "$engine$n" $n ${work[n]} --device-memory --seconds 300; g[n]=$guest_pid; done
	await 120 active 3
	await 200 swapped 4
	# Its worker dies while it is out: only this VF is reset.
	await 120 is_out 1
	resets=$(vf 1 resets)
	kill -9 "$(process_of 1 softgpu-worker)"
	await 120 is_reset 1 "$resets"
	kill -9 ${g[1]}; wait ${g[1]} 2>/dev/null
	for n in 0 2; do await 120 at_least $n dispatches $(($(vf $n dispatches) + 3)); done
	for n in 0 2; do
		kill -INT ${g[n]}; wait_guest ${g[n]} "$engine$n"
		[ "$(field "$engine$n" resets)" = 0 ] || fail "guest $n was reset"
	done
	kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
	kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
}

swap_on host gemm sha256 saxpy
# A worker that has no memory on the GPU left over for another: 3 times 64 MiB do not fit.
truncate -s 160M "$run/pool"
chmod 666 "$run/pool"
chmod 755 "$run"
export LD_LIBRARY_PATH=$driver SOFT_CUDA_POOL=$run/pool
rm -f "$run/gpu/"*
swap_on cuda saxpy saxpy saxpy
