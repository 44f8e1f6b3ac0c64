#!/bin/bash
# SPDX-License-Identifier: MIT
# Measures how much of the GPU's memory a VF's programs can take: its device memory (the partition), its --module-memory, and what
# its worker has from the start is theirs, but for the heap of GPU kernels, which is a part of --module-memory; "beyond_bytes" is what
# they had above that. bench-quota tries, with another seed in each
# round, and bench-free looks from another process. The driver is the one in software, which takes memory for modules and for local
# memory as we expect NVIDIA's to (tools/cuda/driver/soft_cuda.c). With VGPU_ON_GPU=yes it is the host's,
# on a GPU that nothing else uses. One JSON object on stdout; nothing is asserted.
# Usage: VGPU_BUILD=DIR quota.sh [ROUNDS]
. "$(dirname "$0")/../system/lib.sh"
tools=${BENCH_TOOLS:-$VGPU_BUILD}/tests/bench
choose_driver
# Whole pages of 2 MiB do not fill the memory for modules, nor what the heap leaves of it.
modules=17 window=32
truncate -s 512M "$run/pool"
chmod 666 "$run/pool"
chmod 755 "$run"
export SOFT_CUDA_POOL=$run/pool
LD_LIBRARY_PATH=$driver start_softgpu --engine cuda --vfs 1 --vram 128M --window ${window}M --module-memory ${modules}M --kill-after 2000
config <<-CONF
	vfs = 1
	grace_ms = 10000
CONF
start_vgpud
await 30 is 0 state available
partition=$(($(mib 0) - window))
# Whether what is free is what it was when the VF had begun: its worker has ended, and another has begun.
is_as_before() { [ "$(echo | LD_LIBRARY_PATH=$driver "$tools/bench-free" | cut -d' ' -f2)" = "$(jq -s last.free "$run/rounds.json")" ]; }
mkfifo "$run/ask" "$run/answer"
for seed in $(seq "${1:-16}"); do
	LD_LIBRARY_PATH=$driver "$tools/bench-free" <"$run/ask" >"$run/answer" 2>"$run/free.log" &
	free_pid=$!
	VGPU_CUDA_VF=$run/gpu/vf0.sock "$tools/bench-quota" $modules "$seed" 100 3>"$run/ask" <"$run/answer" \
		>>"$run/rounds.json" 2>"$run/quota.log" || fail "bench-quota ended with $?"
	wait $free_pid || fail "bench-free ended with $?"
	await 60 is 0 state available
	resets=$(vf 0 resets)
	ctl vf reset 0
	await 60 at_least 0 resets $((resets + 1))
	await 60 is 0 state available
	await 60 is_as_before
done
jq -s --arg machine "$(this_machine)" --arg driver "$(driver_name)" --argjson partition "$partition" --argjson modules $((modules << 20)) '
	def mib: . / 1048576;
	first.kept as $heap | (first | .all - .free - $heap + $modules) as $quota | (map(.all - .least) | max) as $taken |
	{bench: "quota", machine: $machine, driver: $driver, partition_mib: $partition, module_memory_mib: ($modules | mib),
	 worker_mib: (first | .all - .free - $heap | mib - $partition), heap_mib: ($heap | mib), quota_mib: ($quota | mib),
	 attempts: (map(.attempts) | add), refused: (map(.refused) | add), most_taken_mib: ($taken | mib),
	 beyond_bytes: ([0, $taken - $quota] | max)}' "$run/rounds.json"
