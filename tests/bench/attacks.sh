#!/bin/bash
# SPDX-License-Identifier: MIT
# What attacks on a VF cost its neighbours: runs the tests of attacks, and writes what they measured, each attack beside the same tenants
# just before it (control), as docs/figures/attacks.json. A test that fails ends this. VGPU_BUILD names the build.
set -euo pipefail
tests=$(cd "$(dirname "$0")/../system" && pwd)
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
run() { # TEST [KIND...]
	ATTACK_FIGURES=$rows "$tests/$1.sh" ${2:+"${@:2}"} >&2
}
load=$(cut -d' ' -f1 /proc/loadavg)
run attacks
run attack-memory
run attack-process
run attack-worker
[ ! -e "$VGPU_BUILD/tools/cuda/driver/libcuda.so.1" ] || run attack-cuda
run attacks-together
jq -rs -L "$(dirname "$0")" --arg day "$(date -u +%F)" --arg load "$load" \
	--arg machine "$(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo), $(nproc) CPUs, Linux $(uname -r)" \
	'include "figures";
	 {bench: "attacks", day: $day, machine: $machine, load: ($load | tonumber), attacks: [foreach .[] as $r ({};
	   if $r.attack | startswith("nobody attacks") then {control: $r} else {control, row: $r} end; select(.row)) | .control as $c | .row |
	  {attack, jobs_per_s, control_jobs_per_s: $c.jobs_per_s, list_p99_ms, control_list_p99_ms: $c.list_p99_ms, hook_p99_ms,
	   control_hook_p99_ms: $c.hook_p99_ms, real_time_percent, control_real_time_percent: $c.real_time_percent, missing_ms, bound_ms, extra_wait_ms, wait_bound_ms, late_ms, attacker_ms, attacker_bound_ms, innocents_reset}]} | laid_out' "$rows"
