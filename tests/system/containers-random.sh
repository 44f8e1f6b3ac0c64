#!/bin/bash
# SPDX-License-Identifier: MIT
# What is found out about containers only by many: random operations and kills, and after each of them vgpud's leases are exactly the
# containers that live. A failure is made smaller, and the plan that is left is printed.
#
#     VGPU_BUILD=DIR containers-random.sh [STEPS]           # VGPU_SEED: another beginning
#     VGPU_BUILD=DIR containers-random.sh --plan N,N,...    # what a failure has printed
. "$(dirname "$0")/containers-lib.sh"
start_host 1
start_mount
gpu_runs() { json gpu list | jq -e '.gpus[0].state == "running"'; }
coproc PY { TENANT="${tenant_runs[*]}" PLAIN="${plain[*]}" python3 -B "$here/containers-random.py" \
	"$run" "${VGPU_SEED:-$RANDOM}" "${@:-40}" 2>"$run/random.log"; }
exec {out}<&"${PY[0]}" {in}>&"${PY[1]}"
last=''
while read -r -u "$out" line; do
	last=$line
	case $line in
	VGPUD)
		kill -9 "$vgpud_pid"; wait "$vgpud_pid" 2>/dev/null
		start_vgpud ;;
	SOFTGPU)
		kill -9 "$softgpu_pid"; wait "$softgpu_pid" 2>/dev/null
		start_gpu ;;
	AFRESH)
		kill -9 "$vgpud_pid" "$softgpu_pid"; wait "$vgpud_pid" "$softgpu_pid" 2>/dev/null
		rm -f "$run"/leases.json
		start_gpu
		start_vgpud ;;
	*) echo "$line"; continue ;;
	esac
	await 60 gpu_runs
	echo "$vgpud_pid" >&"$in"
done
[ "$last" = "done" ] || fail "$last"
