#!/bin/bash
# SPDX-License-Identifier: MIT
# Measures what vgpud itself costs, on GPUs without a device: CPU time, context switches, page faults and cache misses for a
# world switch, and memory. Beside it, in turn with it, what this machine needs to wake as many threads as often (bench-wake).
# A slice is 500 us at least, so one GPU has at most 2000 switches a second. One JSON object on stdout; nothing is asserted.
# Usage: VGPU_BUILD=DIR alone.sh [SECONDS for each measurement [ROUNDS [GPUS,SWITCHES_PER_S]]]
. "$(dirname "$0")/../system/lib.sh"
tools=${BENCH_TOOLS:-$VGPU_BUILD}/tests/bench
seconds=${1:-1} rounds=${2:-3}
ms=$(awk -v s="$seconds" 'BEGIN {print s * 1000}')
# GPUs, and switches a second of all of them together.
cells='1,1000 1,2000 8,1000 8,10000 64,1000 64,10000'
gpus() { # N SLICE_US
	local i
	printf '[daemon]\nsocket = %s\n' "$run/control.sock"
	for i in $(seq 0 $(($1 - 1))); do
		printf '[gpu gpu%d]\ndevice = null:\nvfs = 4\npolicy = equal\nslice_us = %d\n' "$i" "$2"
	done
}
switches() { json stats --gpu gpu0 | jq -c '{now_ns, switches}'; }
cell() { # GPUS PER_S
	local i slice=$((1000000 * $1 / $2))
	gpus "$1" $slice >"$run/vgpud.conf"
	BENCH_ALLOCS=$run/allocs LD_PRELOAD=$tools/libbench_allocs.so "$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log" &
	vgpud_pid=$!
	await 30 ctl gpu list
	: >"$run/wakes"
	: >"$run/uses"
	for i in $(seq "$rounds"); do
		kill -STOP $vgpud_pid
		"$tools/bench-wake" "$1" $(($2 / $1)) "$ms" >>"$run/wakes" || fail "bench-wake ended with $?"
		kill -CONT $vgpud_pid
		sleep 0.2
		{
			switches
			"$tools/bench-usage" $vgpud_pid "$ms" || fail "bench-usage ended with $?"
			switches
		} | jq -cs '.[1] + {per_s: ((.[2].switches - .[0].switches) / (.[2].now_ns - .[0].now_ns) * 1e9)}' >>"$run/uses"
	done
	kill $vgpud_pid
	wait $vgpud_pid
	# Memory, for as many switches, without the library that counts allocations.
	start_vgpud
	"$tools/bench-usage" $vgpud_pid $((ms * rounds)) >"$run/memory" || fail "bench-usage ended with $?"
	kill $vgpud_pid
	wait $vgpud_pid
	jq -cn --argjson gpus "$1" --argjson wanted "$2" --argjson allocs "$(cat "$run/allocs")" \
		--slurpfile wakes "$run/wakes" --slurpfile uses "$run/uses" --slurpfile memory "$run/memory" '
		def median: sort | .[(length - 1) / 2 | floor];
		def a_switch(f): [$uses[] | select(f != null) | f / (.per_s * $gpus)] | if length > 0 then median else null end;
		{gpus: $gpus, wanted_per_s: $wanted, switches_per_s: ([$uses[].per_s * $gpus] | median),
		 cpu_us: a_switch(.cpu_us), machine_cpu_us: ([$wakes[].cpu_us] | median),
		 ratio: ([range($uses | length) | $uses[.].cpu_us / ($uses[.].per_s * $gpus) / $wakes[.].cpu_us] | median),
		 cpu_percent: ([$uses[].cpu_us / 1e4] | median),
		 context_switches: a_switch(.switches), faults: a_switch(.faults), cache_misses: a_switch(.cache_misses),
		 engine_thread_allocations: $allocs, rss_kib: $memory[0].rss_kib, own_kib: $memory[0].own_kib}'
}
for i in ${3:-$cells}; do cell "${i%,*}" "${i#*,}"; done >"$run/cells"
jq -n --arg machine "$(this_machine)" --slurpfile cells "$run/cells" '{bench: "alone", machine: $machine, cells: $cells}'
