#!/bin/bash
# SPDX-License-Identifier: MIT
# Guests make softgpu and vgpud work at real-time priorities, by messages, resets and connections. One VF causes little of that, and all
# together not much, whatever they do; and a VF that has done nothing is served meanwhile.
. "$(dirname "$0")/lib.sh"
attack=$VGPU_BUILD/tests/system/attack
start_softgpu --vfs 7
config <<<"vfs = 7"
start_vgpud
for n in 0 1 2 3 4 5 6; do await 30 is $n state available; done
# real_time: CPU time that threads of the real-time class have had, in ns.
real_time() {
	local t
	for t in /proc/"$softgpu_pid"/task/* /proc/"$vgpud_pid"/task/*; do
		[ "$(awk '{print $41}' "$t/stat")" = 0 ] || cut -d' ' -f1 "$t/schedstat"
	done | awk '{s += $1} END {printf "%.0f\n", s}'
}
[ "$(real_time)" != 0 ] || { echo "skipped: no thread is real-time here"; exit 77; }
# What is allowed is 5 % of one CPU for a VF, and 20 % for all. Prices are estimates, so twice as much is no failure.
causes() { # KIND VFS PERCENT
	local before began i
	attackers=()
	for ((i = 0; i < $2; i++)); do
		: >"$run/attack$i.txt"
		"$attack" "$1" "$run/gpu/vf$i.sock" 600 >"$run/attack$i.txt" 2>&1 &
		attackers+=($!)
		pids+=($!)
	done
	for ((i = 0; i < $2; i++)); do await 60 grep -q begun "$run/attack$i.txt"; done
	# What has been saved up is used up first.
	sleep 2
	before=$(real_time) began=$EPOCHREALTIME
	if [ "$2" = 6 ]; then
		start_guest neighbour 6 mandelbrot --jobs 5
		wait_guest $guest_pid neighbour
	fi
	sleep 3
	awk -v ns=$(($(real_time) - before)) -v began="$began" -v now="$EPOCHREALTIME" -v what="$1 by $2 VFs" -v most="$3" '
		BEGIN {part = ns / 1e7 / (now - began); printf "%s: %.1f %% of one CPU at real-time priorities, allowed %s\n", what, part, most; exit part > 2 * most}' ||
		fail "$1 by $2 VFs cause too much"
	kill "${attackers[@]}"
	wait "${attackers[@]}"
	for ((i = 0; i < $2; i++)); do await 60 is $i state available; done
}
kinds=${*:-messages resets unread}
for kind in $kinds; do
	causes "$kind" 1 5
	causes "$kind" 6 20
done
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
