#!/bin/bash
# SPDX-License-Identifier: MIT
# Measures the cost of oversubscription: how much of the engine's time VFs with endless work get. Six VFs have 1, 1.5 and 2
# times the GPU's memory together; then two VFs have all of it each, so that no VF can run during a swap. The model beside
# it: no time is lost if a resident VF can run during a swap; otherwise the VFs get epoch / (epoch + swap), with the swap
# times measured.
# One JSON object on stdout; nothing is asserted. Usage: VGPU_BUILD=DIR swap.sh [SECONDS]
. "$(dirname "$0")/../system/lib.sh"
seconds=${1:-20}
results=
measure() { # NAME RATIO VFS MIB VRAM
	local name=$1 ratio=$2 vfs=$3 size=$4 vram=$5 n p=()
	start_softgpu --vfs "$vfs" --vram "${vram}M"
	config <<-CONF
		vfs = $vfs
		policy = equal
		slice_us = 5000
		epoch_ms = 1000
		host_memory_mib = $((vfs * size))
	CONF
	start_vgpud
	for n in $(seq 0 $((vfs - 1))); do await 30 is "$n" state available; done
	for n in $(seq 0 $((vfs - 1))); do start_guest "g$n" "$n" spin --us 5000 --depth 16 --seconds 1000; p+=($guest_pid); done
	await 60 active "$vfs"
	for n in $(seq 0 $((vfs - 1))); do await 60 at_least "$n" dispatches 10; done
	json vf list >"$run/before"
	json memory show >"$run/memory0"
	sleep "$seconds"
	json vf list >"$run/after"
	json memory show >"$run/memory"
	results+="$(jq -n --slurpfile a "$run/before" --slurpfile b "$run/after" --slurpfile m0 "$run/memory0" --slurpfile m "$run/memory" --arg name "$name" --argjson ratio "$ratio" --argjson alone "$([ "$vfs" -le 2 ] && echo true || echo false)" '
		[range(0; $b[0].vfs | length) | $b[0].vfs[.].run_ns - $a[0].vfs[.].run_ns] as $ran |
		($b[0].now_ns - $a[0].now_ns) as $wall | $m[0] as $m |
		(($m.swap_out_ns + $m.swap_in_ns) / 1e9) as $cost | ($m.epoch_ns / 1e9) as $epoch |
		{case: $name, ratio: $ratio, alone: $alone, engine: ($ran | add / $wall), least_over_most: (($ran | min) / ($ran | max)),
		 write_gb_s: ($m.host_write_rate / 1e9), read_gb_s: ($m.host_read_rate / 1e9), swaps_per_s: (($m.swaps_in - $m0[0].swaps_in) / $wall * 1e9), swap_s: $cost, epoch_s: $epoch, wait_max_s: ($m.swap_wait_max_ns / 1e9),
		 model: (if $ratio == 1 or ($alone | not) then 1 else $epoch / ($epoch + $cost) end)}'),"
	for n in $(seq 0 $((vfs - 1))); do
		kill -INT "${p[n]}"
		wait_guest "${p[n]}" "g$n"
	done
	kill $vgpud_pid; wait $vgpud_pid
	kill $softgpu_pid; wait $softgpu_pid
}
measure "one, alone" 1 1 384 416
measure "all are there" 1 6 128 800
measure "four of six are there" 1.5 6 128 544
measure "three of six are there" 2 6 128 416
measure "one of two is there" 2 2 384 416
# engine_over_unswapped compares with the case without swaps that has as many VFs on the GPU.
jq -n --argjson r "[${results%,}]" --arg machine "$(this_machine)" \
	'{bench: "swap", machine: $machine, cases: [$r[] | .engine_over_unswapped = .engine / (if .alone then $r[0] else $r[1] end).engine]}'
