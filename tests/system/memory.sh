#!/bin/bash
# SPDX-License-Identifier: MIT
# Partitions change while other VFs compute: vgpud plans changes, grows, shrinks, takes away and gives partitions, and moves
# partitions that are in the way while their guests compute. A request without room is refused and changes nothing. vgpud is
# killed repeatedly in the middle of moves.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 4 --vram 1G
config <<-CONF
	vfs = 4
	grace_ms = 1000
	policy = strict
	[vf gpu0/0]
	memory_mib = 192
	[vf gpu0/1]
	memory_mib = 128
	[vf gpu0/2]
	memory_mib = 64
	[vf gpu0/3]
	memory_mib = 64
CONF
start_vgpud
free() { echo $(($(json memory show | jq .free_bytes) >> 20)); }
await 30 clean
for n in 0 1 2 3; do await 30 is $n state available; done
total=$(free)
# The descriptor by which the process of VF 3 has its partition: its number, and which file it is.
descriptor() { find "/proc/$(process_of 3)/fd" -lname '/memfd:softgpu (deleted)' -printf '%f\n'; }
file() { stat -Lc %i "/proc/$(process_of 3)/fd/$(descriptor)"; }

# VF 3 grows, as planned before. VF 2 loses its memory and gets memory again.
ctl memory plan 3 128M | grep -q '128 MiB at' || fail "no plan: $(ctl memory plan 3 128M)"
[ "$(mib 3)" = 64 ] || fail "memory plan changed the size of VF 3"
ctl memory set 3 128M >/dev/null || fail "memory set refused to grow VF 3"
[ "$(mib 3)" = 128 ] || fail "VF 3 has $(mib 3) MiB"
ctl memory set 2 none >/dev/null || fail "memory set refused to take the memory of VF 2"
await 30 clean
[ "$(mib 2)" = 0 ] && [ "$(free)" = "$total" ] || fail "$(ctl memory show)"
ctl memory set 2 64M >/dev/null || fail "memory set refused to give VF 2 memory"

# An impossible request is refused and changes nothing.
before=$(json memory show | jq -c .extents)
! ctl memory set 2 1000M 2>"$run/refused.log" || fail "memory set gave VF 2 1000 MiB, more than there is"
grep -q 'can free at most .* MiB in one block' "$run/refused.log" || fail "$(cat "$run/refused.log")"
[ "$(json memory show | jq -c .extents)" = "$before" ] || fail "a refused request changed the extents"

# Now guests compute in VF 0 and VF 1.
start_guest a 0 sha256 --seconds 300; a=$guest_pid
start_guest b 1 gemm --seconds 300; b=$guest_pid
await 30 is 0 state active
await 30 is 1 state active
! ctl memory set 1 32M 2>"$run/refused.log" || fail "memory set resized the partition of an active VF"
grep -q 'VF 1 is active' "$run/refused.log" || fail "$(cat "$run/refused.log")"
# Its process keeps the descriptor's number: a thread of it may be about to send it to a client.
number=$(descriptor)
renewed() { [ "$(descriptor)" = "$number" ] && [ "$(file)" != "$was" ]; }
for size in 16 96 none 32 64; do
	was=$(file)
	ctl memory set 3 ${size/%[0-9]/&M} >/dev/null || fail "VF 3 was not given $size MiB"
	[ "$(mib 3)" = ${size/none/0} ] || fail "VF 3 has $(mib 3) MiB"
	[ $size = none ] || await 30 renewed
done

# The holes on both sides of VF 1 are each too small: vgpud moves VF 1, whose guest continues.
ctl memory set 2 none >/dev/null && ctl memory set 3 none >/dev/null || fail "memory set refused to take the memory of VF 2 or VF 3"
await 30 clean
rest=$(free) whole=$(($(json memory show | jq .largest_free_bytes) >> 20))
[ $whole = $rest ] || fail "the free memory is not one block: $(ctl memory show)"
ctl memory set 3 16M >/dev/null
kill -INT $a; wait_guest $a a
await 30 is 0 state available
ctl memory set 0 none >/dev/null
await 30 clean
want=$(($(free) / 16 * 16))
ctl memory plan 2 ${want}M | grep -q 'VFs to be moved: ' || fail "$(ctl memory plan 2 ${want}M; ctl memory show)"
old=$(at 1) runs=$(vf 1 dispatches)
ctl memory set 2 ${want}M >/dev/null || fail "$(ctl memory show)"
[ "$(mib 2)" = "$want" ] || fail "VF 2 has $(mib 2) MiB"
[ "$(at 1)" != "$old" ] || fail "VF 1 was not moved"
await 30 at_least 1 dispatches $((runs + 5))
ctl memory set 2 none >/dev/null
await 30 clean

kill -INT $b; wait_guest $b b
[ "$(field b resets)" = 0 ] || fail "the guest that was moved was reset"

# vgpud is killed repeatedly in the middle of a move: the guest continues, its partition is at the old or the new place, and
# memory without an owner is cleared before it is given out.
moving() { json memory show | jq -e '[.extents[] | select(.state == "moving")] | length > 0'; }
caught() { ! kill -0 "$change" 2>/dev/null || moving; }
# vgpud itself may be changing a partition that is not of the configured size since it was found at the start.
set_memory() { # VF SIZE
	local end=$((SECONDS + 30))
	until ctl memory set "$@" >/dev/null 2>"$run/refused.log"; do
		grep -q 'another change .* is under way; try again' "$run/refused.log" && [ $SECONDS -lt $end ] || fail "$(cat "$run/refused.log"; ctl memory show)"
		sleep 0.02
	done
}
settled() { clean && { [ "$(mib 2)" = 0 ] || [ "$(mib 2)" = 64 ]; }; }
hits=0
for i in $(seq 12); do
	for n in 0 1 2 3; do
		await 30 is $n state available
		set_memory $n none
	done
	await 30 clean
	set_memory 0 320M && set_memory 1 320M && set_memory 0 none
	start_guest c$i 1 gemm --seconds 100; c=$guest_pid
	await 30 is 1 state active
	await 30 clean
	size=$(($(json memory show | jq .after_compaction_bytes) >> 20))
	[ $size -gt $(($(json memory show | jq .largest_free_bytes) >> 20)) ] || fail "no move is needed here, so none can be interrupted: $(ctl memory show)"
	ctl memory set 2 ${size}M >/dev/null 2>&1 &
	change=$!
	await 30 caught # the move is under way, or already over
	moving >/dev/null && hits=$((hits + 1))
	kill -9 $vgpud_pid
	wait $change $vgpud_pid 2>/dev/null
	start_vgpud
	await 30 settled
	[ "$(mib 1)" = 320 ] && { [ "$(at 1)" = 352 ] || [ "$(at 1)" = 32 ]; } || fail "$(ctl memory show)"
	runs=$(vf 1 dispatches)
	await 30 at_least 1 dispatches $((runs + 3))
	kill -INT $c; wait_guest $c c$i
	[ "$(field c$i resets)" = 0 ] || fail "the guest that was being moved was reset"
	[ $i -ge 4 ] && [ $hits -ge 2 ] && break
done
[ $hits -ge 1 ] || fail "vgpud was never killed in the middle of a move"
