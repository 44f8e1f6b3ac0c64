#!/bin/bash
# SPDX-License-Identifier: MIT
# What attacks on a VF cost its neighbours: runs the tests of attacks, and writes what they measured, as
# docs/figures/attacks.json. A test that fails ends this. VGPU_BUILD names the build.
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
jq -rs -L "$(dirname "$0")" --arg day "$(date -u +%F)" --arg load "$load" \
	--arg machine "$(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo), $(nproc) CPUs, Linux $(uname -r)" \
	'include "figures";
	 {bench: "attacks", day: $day, machine: $machine, load: ($load | tonumber), attacks: [.[] | select(.attack != "nobody attacks") |
	  {attack, missing_ms, bound_ms, extra_wait_ms, wait_bound_ms, late_ms, attacker_ms, attacker_bound_ms, innocents_reset}]} | laid_out' "$rows"
