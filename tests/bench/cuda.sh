#!/bin/bash
# SPDX-License-Identifier: MIT
# Measures calls of a CUDA program over a VF that has the GPU to itself: asynchronous launches, a synchronous round trip beside an
# eventfd ping-pong, and copies beside memcpy(). The worker's own driver is the one in software, which launches nothing quickly: the
# guest's side of a launch is what is measured. It copies at once, as if by DMA (SOFT_CUDA_COPIES in tools/cuda/driver/soft_cuda.c). With
# VGPU_ON_GPU=yes it is the host's, and a GPU launches and copies. One JSON object on stdout; nothing is asserted.
# Usage: VGPU_BUILD=DIR cuda.sh [ROUNDS]
. "$(dirname "$0")/../system/lib.sh"
choose_driver
LD_LIBRARY_PATH=$driver SOFT_CUDA_COPIES=1 start_softgpu --engine cuda --vfs 1 --window 64M --kill-after 2000
config <<-CONF
	vfs = 1
	grace_ms = 10000
CONF
start_vgpud
await 30 is 0 state available
VGPU_CUDA_LOG=1 VGPU_CUDA_VF=$run/gpu/vf0.sock "${BENCH_TOOLS:-$VGPU_BUILD}/tests/bench/bench-cuda" "$(dirname "$0")/../cuda/programs/sample.ptx" "${1:-2000}" \
	>"$run/cuda.json" 2>"$run/cuda.log" || fail "bench-cuda ended with $?"
jq --arg machine "$(this_machine)" --arg driver "$(driver_name)" '{bench: "cuda", machine: $machine, driver: $driver} + .' "$run/cuda.json"
