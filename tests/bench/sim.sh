#!/bin/bash
# SPDX-License-Identifier: MIT
# Measures the simulator: decisions in a second of CPU time, 8 VFs with endless work, medians. One JSON object on stdout; nothing
# is asserted. `checks` is with all invariants and the monitor; `drawn` has world switches and late stops that are drawn anew.
# Usage: VGPU_BUILD=DIR sim.sh [RUNS]
. "$(dirname "$0")/../system/lib.sh"
runs=${1:-7}
# case GPU: what the GPU does, the virtual time of a run in seconds, and options.
cases="bare|load=0 run=0|1500|
drawn|load=20us..80us run=10us..30us|600|
checks|load=0 run=0|60|--check"
rows=
for policy in equal strict fair; do
	while IFS='|' read -r name gpu seconds options; do
		parameters=
		[ $policy != fair ] || parameters=slice_us=1000
		cat >"$run/scenario" <<-END
			vfs 8
			seed 1
			until ${seconds}s
			policy $policy $parameters
			gpu $gpu
			vf * work=always$([ "$name" != drawn ] || echo ' late=0..500us')
		END
		for _ in $(seq "$runs"); do
			# shellcheck disable=SC2086
			{ TIMEFORMAT='%U %S'; time "$VGPU_BUILD/tools/sim/vgpu-sim" run "$run/scenario" --json $options >"$run/out"; } 2>"$run/time" ||
				fail "vgpu-sim ended with $?: $(tail -2 "$run/time")"
			jq -c --arg t "$(tail -1 "$run/time")" '.decisions / ($t | split(" ") | map(tonumber) | add)' "$run/out"
		done >"$run/rates"
		rows+=$(jq -cs --arg policy $policy --arg name "$name" --argjson runs "$runs" \
			'sort | {policy: $policy, case: $name, decisions_per_s: (.[$runs / 2 | floor] | round), least: (.[0] | round), most: (.[-1] | round)}' "$run/rates"),
	done <<<"$cases"
done
jq -n --arg machine "$(this_machine)" --argjson rows "[${rows%,}]" '{bench: "sim", machine: $machine, results: $rows}'
