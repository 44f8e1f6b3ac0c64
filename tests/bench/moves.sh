#!/bin/bash
# SPDX-License-Identifier: MIT
# Measures what other VFs lose while a partition is moved: two VFs compute under strict slices, and a third one, of 512 MiB,
# is moved to make room for a fourth. Reports the turns of the two during the move and in the second before it, and how long
# the change takes. One JSON object on stdout; nothing is asserted.
# Usage: VGPU_BUILD=DIR moves.sh [ROUNDS], at most 4: guests may not start more often.
. "$(dirname "$0")/../system/lib.sh"
rounds=${1:-4}
start_softgpu --vfs 5 --vram 2G
config <<-CONF
	vfs = 5
	policy = strict
	slice_us = 2000
	partition = demand
	[vf gpu0/0]
	memory_mib = 64
	[vf gpu0/1]
	memory_mib = 64
CONF
start_vgpud
for n in 0 1 2 3 4; do await 30 is $n state available; done
start_guest a 0 spin --seconds 1000; start_guest b 1 spin --seconds 1000
await 30 is 0 state active
await 30 is 1 state active
results=
for i in $(seq "$rounds"); do
	for n in 2 3 4; do
		await 30 is $n state available
		ctl memory set $n none >/dev/null || fail "$(ctl memory show)"
	done
	await 30 clean
	ctl memory set 3 512M >/dev/null && ctl memory set 2 512M >/dev/null && ctl memory set 3 none >/dev/null || fail "$(ctl memory show)"
	start_guest c 2 sha256 --seconds 1000; c=$guest_pid
	await 30 at_least 2 dispatches 3
	await 30 clean
	size=$(($(json memory show | jq .after_compaction_bytes) >> 20))
	json vf list >"$run/quiet"
	sleep 1
	json vf list >"$run/before"
	ctl memory set 4 ${size}M >/dev/null || fail "$(ctl memory show)"
	json vf list >"$run/after"
	results+="$(jq -s '
		def span($a; $b): {ms: (($b.now_ns - $a.now_ns) / 1e6), turns: ([range(0;2) | $b.vfs[.].dispatches - $a.vfs[.].dispatches] | add)};
		{quiet: span(.[0]; .[1]), moving: span(.[1]; .[2])}' "$run/quiet" "$run/before" "$run/after"),"
	kill -INT $c; wait $c
	[ "$(field c wrong)" = 0 ] || fail "guest c has wrong results"
done
json memory show >"$run/memory"
jq -n --argjson r "[${results%,}]" --slurpfile m "$run/memory" '
	def rate(f): ($r | map(f.turns) | add) / ($r | map(f.ms) | add) * 1000;
	{moves: $m[0].moves, given_up: $m[0].aborted_moves, moved_mib: ($m[0].moved_bytes / 1048576),
	 change_ms: ($r | map(.moving.ms) | sort | {p50: .[length / 2 | floor], max: .[-1]}),
	 others_turns_per_s: {quiet: rate(.quiet), moving: rate(.moving), ratio: (rate(.moving) / rate(.quiet))}}'
