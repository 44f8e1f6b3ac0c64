#!/bin/bash
# SPDX-License-Identifier: MIT
# What the gate costs programs, on lavapipe: one program behind an open gate, and two that share, beside the same programs without
# the layer; the latency of an interactive program beside a hog and batch; shares of two and of four. Programs that are compared run
# in turn, in pairs, and medians of the pairs' ratios are printed: so load of others hits both. Prints JSON; nothing is asserted.
# Usage: VGPU_BUILD=DIR gated.sh [PAIRS [SECONDS of each run]]
. "$(dirname "$0")/../system/lib.sh"
pairs=${1:-9} seconds=${2:-2}
. "$(dirname "$0")/../gate/lavapipe.sh"
# Other programs of this machine come after those that are measured, the ones without the layer too.
first=()
! chrt --rr 1 true 2>/dev/null || first=(chrt --rr 1)
note() { echo "gated: $*" >&2; }
config() { # SLICE_US: a vgpud with four seats
	cat >"$run/vgpud.conf" <<-CONF
		[daemon]
		socket = $run/control.sock
		[gpu gpu0]
		device = vulkan:llvmpipe
		vfs = 4
		policy = fair
		slice_us = $1
		grace_ms = 5000
	CONF
	start_vgpud
}
stop_vgpud() { kill "$vgpud_pid"; wait "$vgpud_pid"; }
# begin NAME GATED WEIGHT OPTIONS...: starts a program; GATED: yes, or no for one without the layer. Sets $begun.
begin() {
	local name=$1 gated=$2 weight=$3
	shift 3
	if [ "$gated" = yes ]; then
		"${first[@]}" "$vgpuctl" run --gpu gpu0 --weight "$weight" -- "$load" "$@" >"$run/$name.json" 2>"$run/$name.log" &
	else
		"${first[@]}" "$load" "$@" >"$run/$name.json" 2>"$run/$name.log" &
	fi
	begun=$!
}
ends() { # PID NAME
	wait "$1" || fail "$2 ended with $?: $(cat "$run/$2.log" "$run/$2.json")"
	[ "$(jq .wrong "$run/$2.json")" = 0 ] || fail "$2: wrong results"
}
rate() { jq '.submissions / .seconds' "$run/$1.json"; }
of() { jq ".$2" "$run/$1.json"; }
all_free() { [ "$(json vf list | jq '[.vfs[] | select(.state == "available")] | length')" = 4 ]; }
ready() { grep -q 'ready on' "$run/$1.log"; }
# Shader steps for submissions of about that many microseconds, from what one of 500 steps takes here now.
steps_for() {
	begin calm no 0 --seconds 1 --steps 500
	ends $begun calm
	jq --argjson us "$1" '[$us / (.seconds * 1e6 / .submissions) * 500 | round, 1] | max' "$run/calm.json"
}
summary() { # FILE: of pairs {gated, bare}, rates
	jq -cs 'def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
		{pairs: length, gated_per_s: (map(.gated) | median), bare_per_s: (map(.bare) | median),
		 ratio: (map(.gated / .bare) | median), ratios: (map(.gated / .bare * 1000 | round / 1000) | sort)}' "$1"
}
rates() { # GATED OPTIONS...: prints the sum of the rates of $count programs that run together
	local i started=()
	for i in $(seq "$count"); do begin "p$i" "$@"; started+=("$begun"); done
	for i in $(seq "$count"); do ends "${started[i - 1]}" "p$i"; done
	for i in $(seq "$count"); do rate "p$i"; done | jq -s add
	[ "$1" = no ] || await 30 all_free
}
paired() { # COUNT OPTIONS...
	local i a b
	count=$1
	: >"$run/pairs"
	for i in $(seq "$pairs"); do
		if [ $((i % 2)) = 0 ]; then
			a=$(rates yes 100 --seconds "$seconds" "${@:2}") || exit 1
			b=$(rates no 100 --seconds "$seconds" "${@:2}") || exit 1
		else
			b=$(rates no 100 --seconds "$seconds" "${@:2}") || exit 1
			a=$(rates yes 100 --seconds "$seconds" "${@:2}") || exit 1
		fi
		echo "{\"gated\": $a, \"bare\": $b}" >>"$run/pairs"
	done
	summary "$run/pairs"
}

config 10000
await 30 ctl gpu list
ms1=$(steps_for 1000) us100=$(steps_for 100) ms4=$(steps_for 4000)
note "alone, submissions of 1 ms"
alone1=$(paired 1 --steps "$ms1" --deep 4)
note "alone, submissions of 0.1 ms"
alone01=$(paired 1 --steps "$us100" --deep 8)
# Submissions of 4 ms fill the device: two programs without the layer get no more than one does.
note "two together, slices of 10 ms, submissions of 4 ms"
together=$(paired 2 --steps "$ms4" --deep 4)
count=1
one=$(rates no 100 --seconds "$seconds" --steps "$ms4" --deep 4)

# Each pair: alone behind the gate, then beside batch and a hog, whose submissions are the longest. What one submission of the hog takes
# when it is alone is taken off: a turn ends when a submission does. Once with a latency_slice_us, once without.
note "interactive, 2 ms at 60 Hz"
export LP_NUM_THREADS=1 # leaves a CPU to others: Linux stops real-time programs that leave none for 50 ms of each second
ms1=$(steps_for 1000) ms2=$(steps_for 2000) ms8=$(steps_for 8000)
frames() { # NAME [NAME=VALUE]
	"${first[@]}" "$vgpuctl" run --gpu gpu0 --weight 100 ${2:-} -- "$load" --seconds $((2 * seconds)) --steps "$ms2" --deep 1 --every-us 16667 \
		>"$run/$1.json" 2>"$run/$1.log" || fail "$1 ended with $?: $(cat "$run/$1.log")"
}
: >"$run/frames"
for _ in $(seq "$pairs"); do
	begin long yes 100 --seconds 1 --steps "$ms8"
	ends "$begun" long
	frames alone
	begin hog yes 100 --seconds 1000 --steps "$ms8"; hog=$begun
	begin batch yes 100 --seconds 1000 --steps "$ms1" --deep 4; batch=$begun
	await 30 ready hog
	await 30 ready batch
	frames plain
	frames sooner latency_slice_us=1000
	kill -INT "$hog" "$batch"
	ends "$hog" hog
	ends "$batch" batch
	await 30 all_free
	jq -cn --argjson alone "$(of alone p99_ms)" --argjson plain "$(of plain p99_ms)" --argjson sooner "$(of sooner p99_ms)" \
		--argjson hog "$(jq '.seconds * 1000 / .submissions' "$run/long.json")" '{alone: $alone, plain: $plain, sooner: $sooner, hog: $hog}' >>"$run/frames"
done
frames=$(jq -cs 'def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
	{pairs: length, alone_p99_ms: (map(.alone) | median), hog_submission_ms: (map(.hog) | median),
	 beside_p99_ms: (map(.sooner) | median), ratio: (map((.sooner - .hog) / .alone) | median), ratios: (map((.sooner - .hog) / .alone * 1000 | round / 1000) | sort),
	 without_latency_slice_p99_ms: (map(.plain) | median), without_latency_slice_ratio: (map((.plain - .hog) / .alone) | median)}' "$run/frames")
stop_vgpud

shares() { # WEIGHT...: the error of each program's share of engine time against its weight, in points, over 10 s
	local i=0 w started=()
	for w in "$@"; do
		begin "s$i" yes "$w" --seconds 1000 --steps "$ms1" --deep 4
		started+=("$begun")
		i=$((i + 1))
	done
	for i in $(seq 0 $(($# - 1))); do await 30 ready "s$i"; done
	sleep 1
	json vf list >"$run/before"
	sleep 10
	json vf list >"$run/after"
	kill -INT "${started[@]}"
	for i in $(seq 0 $(($# - 1))); do ends "${started[i]}" "s$i"; done
	await 30 all_free
	jq -cn --slurpfile a "$run/before" --slurpfile b "$run/after" '
		[$b[0].vfs[] | select(.state != "available") as $v | $a[0].vfs[] | select(.vf == $v.vf) | {weight: $v.params.weight, ns: ($v.run_ns - .run_ns)}]
		| (map(.weight) | add) as $weights | (map(.ns) | add) as $all
		| map({weight, share: (.ns / $all * 100), error: (.ns / $all * 100 - .weight / $weights * 100)})
		| {shares: ., worst_points: (map(.error | fabs) | max)}'
}
config 10000
note "shares"
two=$(shares 70 30)
four=$(shares 40 30 20 10)
stop_vgpud
jq -n --argjson alone1 "$alone1" --argjson alone01 "$alone01" --argjson together "$together" --argjson one "$one" --argjson frames "$frames" \
	--argjson two "$two" --argjson four "$four" --argjson seconds "$seconds" \
	'{seconds: $seconds, alone_1_ms: $alone1, alone_0_1_ms: $alone01, together: ($together + {one_bare_per_s: $one}), interactive: $frames, shares_70_30: $two, shares_4_3_2_1: $four}'
