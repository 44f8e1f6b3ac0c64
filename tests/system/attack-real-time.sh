#!/bin/bash
# SPDX-License-Identifier: MIT
# Guests make softgpu and vgpud work at real-time priorities, by messages, resets and connections. One VF causes little of that, and all
# together not much, whatever they do; and a VF that has done nothing is served meanwhile.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/attack-lib.sh"
use_impostors softgpu-vf
becomes none
attack=$VGPU_BUILD/tests/system/attack
start_softgpu --vfs 7
# A process that keeps what it is lent is not to be quarantined for that.
config <<<$'vfs = 7\ngrace_ms = 4000'
start_vgpud
for n in 0 1 2 3 4 5 6; do await 30 is $n state available; done
threads | jq -e 'any(.[][0]; . > 0)' >/dev/null || { echo "skipped: no thread is real-time here"; exit 77; }
# What is allowed is 5 % of one CPU for a VF, and 20 % for all. Prices are estimates, so twice as much is no failure.
causes() { # KIND VFS PERCENT
	local before began i
	attackers=()
	for ((i = 0; i < $2; i++)); do
		: >"$run/attack$i.txt"
		"$attack" "$1" "$run/gpu/vf$i.sock" 600 >"$run/attack$i.txt" 2>&1 &
		attackers+=($!)
	done
	for ((i = 0; i < $2; i++)); do await 60 grep -q begun "$run/attack$i.txt"; done
	# What has been saved up is used up first.
	sleep 2
	before=$(threads) began=$EPOCHREALTIME
	if [ "$2" = 6 ]; then
		start_guest neighbour 6 mandelbrot --jobs 5
		wait_guest $guest_pid neighbour
	fi
	sleep 3
	awk -v ns="$(jq -n --argjson a "$(threads)" --argjson b "$before" "$had_real_time had_real_time(\$a; \$b)")" -v began="$began" -v now="$EPOCHREALTIME" -v what="$1 by $2 VFs" -v most="$3" '
		BEGIN {part = ns / 1e7 / (now - began); printf "%s: %.1f %% of one CPU at real-time priorities, allowed %s\n", what, part, most; exit part > 2 * most}' ||
		fail "$1 by $2 VFs cause too much"
	kill "${attackers[@]}"
	wait "${attackers[@]}"
	for ((i = 0; i < $2; i++)); do await 60 is $i state available; done
}
# A process that was taken over computes for 15 ms whenever it must stop, at the priority that it is lent for that: in any second at most
# 5 % of a CPU. It says itself how long it had the priority. Two neighbours compute, so that it must stop often.
keeps_priority() {
	local n
	for n in 0 1; do start_guest loan$n $n spin --us 2000 --depth 16 --seconds 600; tenants+=($guest_pid); done
	becomes keeps-on
	ends 3
	await 120 said_often
	becomes none
	ends 3
	kill -INT "${tenants[@]}"
	for n in 0 1; do wait_guest "${tenants[$n]}" loan$n; done
	for n in 0 1 3; do await 60 is $n state available; done
	said | awk '{sum += $1; of += $2; part = 100 * $1 / $2; most = part > most ? part : most} END {
		printf "a loan that is kept: %.1f %% of one CPU at real-time priorities, at most %.1f %% in a second, allowed 5\n", 100 * sum / of, most; exit sum == 0 || most > 5}' ||
		fail "one VF has too much of a priority that it is lent, or none: $(said)"
}
said() { sed -n 's/.*impostor: was real-time for \([0-9]*\) us of \([0-9]*\)$/\1 \2/p' "$run/softgpu.log"; }
said_often() { [ "$(said | wc -l)" -ge 10 ]; }
kinds=${*:-messages resets unread loans}
for kind in $kinds; do
	[ "$kind" != loans ] || { keeps_priority; continue; }
	causes "$kind" 1 5
	causes "$kind" 6 20
done
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
