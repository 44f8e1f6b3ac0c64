#!/bin/bash
# SPDX-License-Identifier: MIT
# What VFs of a softgpu that schedules itself are served, in real time: four with equal shares that always work, of which one
# stops 6 ms late. Prints the worst error of a share, in points, over windows of 1 s and 10 s, and the settings that vgpud wrote
# in a second, all without the first 10 s. Usage: VGPU_BUILD=DIR firmware.sh [SECONDS]
. "$(dirname "$0")/../system/lib.sh"
seconds=${1:-60}
measure() { # POLICY
	start_softgpu --vfs 4 --scheduler firmware --fault late-idle,vf=3,us=6000
	echo "vfs = 4
policy = $1" | config
	start_vgpud
	for n in 0 1 2 3; do start_guest g$n $n endless --seconds 1000; done
	await 30 active 4
	sleep 10
	first=$(json gpu show | jq .plan_writes)
	end=$((SECONDS + seconds))
	while [ $SECONDS -lt $end ]; do
		json vf list | jq -c '[.wall_ns, [.vfs[].run_ns]]'
		sleep 0.2
	done | uniq >"$run/samples"
	writes=$(($(json gpu show | jq .plan_writes) - first))
	jq -sr --arg policy "$1" --argjson writes "$writes" --argjson seconds "$seconds" '. as $s
		| def worst($ns): [range(length) as $i
			| first(range($i; length) | select($s[.][0] - $s[$i][0] >= $ns)) as $j
			| [range(4) as $v | $s[$j][1][$v] - $s[$i][1][$v]] | (add) as $all | .[] | 100 * (. / $all - 0.25) | fabs] | max * 100 | round / 100;
		"\($policy): \(worst(1e9)) points over 1 s, \(worst(1e10)) over 10 s, \($writes / $seconds * 100 | round / 100) settings written in a second"' "$run/samples"
	jobs -p | xargs kill -9 2>/dev/null
	wait 2>/dev/null
	rm -r "$run/gpu"
}
this_machine
measure best-effort
measure fair
