#!/bin/bash
# SPDX-License-Identifier: MIT
# Measures the real programs: shares, lateness at the ends of slices (beside cyclictest's), world switches, lost time,
# latency beside a hog, and vgpud's own costs. One JSON object on stdout; nothing is asserted.
# Usage: VGPU_BUILD=DIR live.sh [SECONDS for each measurement]
. "$(dirname "$0")/../system/lib.sh"
tools=${BENCH_TOOLS:-$VGPU_BUILD}/tests/bench
seconds=${1:-8}
note() { echo "live: $*" >&2; }
stop() { kill "$vgpud_pid" "$softgpu_pid" 2>/dev/null; wait "$vgpud_pid" "$softgpu_pid" 2>/dev/null; rm -rf "$run/gpu"; }
# Starts softgpu, with the options in $sg, and vgpud, with the configuration on stdin.
machine() { start_softgpu --vfs 4 $sg; config; start_vgpud; }
busy() { # WORKLOAD...: starts one guest for each VF
	local i=0 w
	guests=()
	for w in "$@"; do
		start_guest g$i $i $w --seconds 1000
		guests+=($guest_pid)
		i=$((i + 1))
	done
	await 30 active $#
	sleep 1
}
idle() { kill -INT "${guests[@]}" 2>/dev/null; wait "${guests[@]}" 2>/dev/null; }

# What this machine needs for two round trips to another process, which is the least that a world switch takes: one to stop a
# VF, and one to start another. vgpud stands still meanwhile, and a VF computes.
trips() {
	kill -STOP "$vgpud_pid"
	"$tools/bench-trips" 2 1000 $((seconds * 500)) || fail "bench-trips ended with $?"
	kill -CONT "$vgpud_pid"
}

# Computes the share error from the records, over windows of 1 s that begin with a turn of VF 0.
windows() {
	json timeline --ms 60000 | jq -c --argjson promised "$1" '
		[.records[] | select(.type == "run" or .type == "stop")] as $r
		| reduce $r[] as $x ({acc: [0,0,0,0], begin: null, out: []};
			if $x.type == "stop" then .acc[$x.vf] += $x.a
			elif $x.vf == 0 and (.begin == null or $x.t_ns - .begin >= 1e9) then
				(if .begin != null then .out += [.acc] else . end) | .begin = $x.t_ns | .acc = [0,0,0,0]
			else . end)
		| [.out[] | (add) as $all | [range(0;4) as $i | ((.[$i] / $all) - $promised[$i]) / $promised[$i] * 100 | fabs]]
		| flatten | sort as $e
		| {windows: ($e | length / 4), mean: ($e | add / length), p99: $e[(($e | length) * 99 / 100 | floor)], max: $e[-1]}'
}

note "shares: 4 VFs, one always 1-2 ms late"
shares=
sg="--latency save=50,load=50,run=10 --fault late-idle,vf=3,us=1000-2000"
for policy in strict equal fair; do
	machine <<<"vfs = 4
policy = $policy
slice_us = 2000"
	busy spin spin spin spin
	sleep $((seconds + 4))
	shares+="\"$policy\":$(windows '[0.25,0.25,0.25,0.25]'),"
	idle; stop
done

note "boundary lateness, beside cyclictest at the same priority"
sg=
machine <<<"vfs = 4
policy = equal
slice_us = 1000"
busy spin spin spin spin
json stats >"$run/a.json"
cyclic=null
if command -v cyclictest >/dev/null; then
	cyclictest -q -m -p 50 -i 1000 -D "$seconds" -H 20000 -t 1 >"$run/cyclic.txt" 2>/dev/null
	cyclic=$(awk '/^[0-9]+ [0-9]+$/ {n[$1+0] = $2; all += $2; if ($1+0 > top) top = $1+0}
		/Max Latencies/ {max = $NF+0}
		function q(f,  i, s) {for (i = 0; i <= top; i++) {s += n[i]; if (s >= all * f) return i}; return top}
		END {printf "{\"n\":%d,\"p50_us\":%d,\"p99_us\":%d,\"p999_us\":%d,\"max_us\":%d}", all, q(.5), q(.99), q(.999), max}' "$run/cyclic.txt")
else
	sleep "$seconds"
fi
json stats >"$run/b.json"
late=$(jq -c '.boundary_lateness' "$run/b.json")
switch=$(jq -c '.world_switch' "$run/b.json")
preempt=$(jq -c '.preemption' "$run/b.json")
trips_switch=$(trips)
idle; stop

note "boundary lateness with spin_us = 100"
machine <<<"vfs = 4
policy = equal
slice_us = 1000
spin_us = 100"
busy spin spin spin spin
json stats >"$run/a.json"
sleep "$seconds"
json stats >"$run/b.json"
spin=$(jq -c --slurpfile a "$run/a.json" '.boundary_lateness + {spin_us: 100, switches_per_s: ((.switches - $a[0].switches) * 1e9 / (.now_ns - $a[0].now_ns)),
	spun_percent: (100 * (.spun_ns - $a[0].spun_ns) / (.now_ns - $a[0].now_ns))}' "$run/b.json")
idle; stop

note "lost time beyond W/(q+W)"
lost=
for policy in equal fair; do
	for q in 1000 2000 6000; do
		machine <<<"vfs = 4
policy = $policy
slice_us = $q"
		busy spin spin spin spin
		json stats >"$run/a.json"; json vf list >"$run/av.json"
		sleep "$seconds"
		json stats >"$run/b.json"; json vf list >"$run/bv.json"
		# W is the mean time of a world switch; the useful time of the engine is the time that VFs ran.
		lost+=$(jq -cn --slurpfile a "$run/a.json" --slurpfile b "$run/b.json" --slurpfile av "$run/av.json" --slurpfile bv "$run/bv.json" --argjson q $q --arg p $policy '
			($b[0].wall_ns - $a[0].wall_ns) as $wall
			| ($b[0].switch_ns - $a[0].switch_ns) as $sw | ($b[0].switches - $a[0].switches) as $n
			| (([$bv[0].vfs[].run_ns] | add) - ([$av[0].vfs[].run_ns] | add)) as $run
			| ($sw / $n) as $w
			| {policy: $p, slice_us: $q, switch_us: ($w / 1000), lost_percent: (100 * (1 - $run / $wall)), predicted_percent: (100 * $w / ($q * 1000 + $w))}
			| .beyond_points = .lost_percent - .predicted_percent'),
		idle; stop
	done
done

note "interactive beside a hog"
inter=
for policy in fair equal; do
	machine <<<"vfs = 4
policy = $policy
slice_us = 4000
[vf gpu0/0]
$([ $policy = fair ] && echo latency_slice_us = 500)"
	start_guest alone 0 interactive --us 500 --seconds "$seconds"; wait_guest $guest_pid alone
	start_guest hog 1 hog --us 2000 --seconds 1000; h1=$guest_pid
	start_guest batch 2 spin --seconds 1000; h2=$guest_pid
	await 30 active 2
	start_guest beside 0 interactive --us 500 --seconds "$seconds"; wait_guest $guest_pid beside
	kill -INT $h1 $h2; wait $h1 $h2
	inter+="\"$policy\":{\"alone_p50_us\":$(field alone p50_us),\"alone_p99_us\":$(field alone p99_us),\"beside_p50_us\":$(field beside p50_us),\"beside_p99_us\":$(field beside p99_us)},"
	stop
done

note "what vgpud costs at 1000 switches a second"
start_softgpu --vfs 4 
config <<<"vfs = 4
policy = equal
slice_us = 900"
export BENCH_ALLOCS=$run/allocs
preload=$tools/libbench_allocs.so
LD_PRELOAD=$preload "$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log" &
vgpud_pid=$!
await 30 ctl gpu list
unset BENCH_ALLOCS
busy spin spin spin spin
ticks() { awk -v f="$1" '{print $f}' "/proc/$vgpud_pid/stat"; } # 14 user, 15 system
json stats >"$run/a.json"; u0=$(ticks 14) s0=$(ticks 15)
sleep "$seconds"
json stats >"$run/b.json"; u1=$(ticks 14) s1=$(ticks 15)
trips_cost=$(trips)
rss=$(awk '/^VmRSS/ {print $2}' "/proc/$vgpud_pid/status")
cost=$(jq -cn --slurpfile a "$run/a.json" --slurpfile b "$run/b.json" --argjson u $((u1 - u0)) --argjson sys $((s1 - s0)) --argjson rss "$rss" --argjson trips "$trips_cost" '
	(($b[0].now_ns - $a[0].now_ns) / 1e9) as $s
	| {switches_per_s: (($b[0].switches - $a[0].switches) / $s), user_percent: ($u / $s), system_percent: ($sys / $s), cpu_percent: (($u + $sys) / $s), rss_kib: $rss}
	| . + {switch_cpu_us: (.cpu_percent * 1e4 / .switches_per_s), two_trips_cpu_us: $trips.cpu_us}')
idle
kill $vgpud_pid; wait $vgpud_pid
allocs=$(cat "$run/allocs")
kill $softgpu_pid; wait $softgpu_pid

jq -n --argjson shares "{${shares%,}}" --argjson late "$late" --argjson cyclic "$cyclic" --argjson switch "$switch" --argjson trips "$trips_switch" \
	--argjson preempt "$preempt" --argjson spin "$spin" --argjson lost "[${lost%,}]" --argjson inter "{${inter%,}}" --argjson cost "$cost" \
	--argjson allocs "$allocs" --arg machine "$(this_machine)" \
	'{bench: "live", machine: $machine, share_error_percent: $shares, boundary_lateness: $late, lateness_with_spin: $spin, cyclictest: $cyclic,
	  world_switch: $switch, two_trips: $trips.round, preemption: $preempt, lost_time: $lost, interactive: $inter,
	  vgpud: ($cost + {engine_thread_allocations: $allocs})}'
