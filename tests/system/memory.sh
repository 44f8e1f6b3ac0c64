#!/bin/bash
# SPDX-License-Identifier: MIT
# Partitions change while others compute: grown, shrunk, taken away and given, planned first, moved
# out of the way with their guests, who notice nothing; refused as a whole where there is no room;
# and vgpud is killed in the middle, again and again.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 4 --vram 512M
config <<-CONF
	vfs = 4
	policy = strict
	[vf gpu0/0]
	memory_mib = 64
	[vf gpu0/1]
	memory_mib = 64
	[vf gpu0/2]
	memory_mib = 64
	[vf gpu0/3]
	memory_mib = 64
CONF
start_vgpud
mib() { echo $(($(vf "$1" memory_bytes) >> 20)); }
at() { echo $(($(vf "$1" memory_offset) >> 20)); }
free() { echo $(($(json memory show | jq .free_bytes) >> 20)); }
clean() { [ "$(json memory show | jq .scrubbing_bytes)" = 0 ]; }
await 30 clean
for n in 0 1 2 3; do await 30 is $n state available; done
total=$(free)

# One grows, and says before where to; another has none, and gets some again.
ctl memory plan 3 128M | grep -q '128 MiB at' || fail "no plan: $(ctl memory plan 3 128M)"
[ "$(mib 3)" = 64 ] || fail "a plan has changed something"
ctl memory set 3 128M >/dev/null || fail "VF 3 was not grown"
[ "$(mib 3)" = 128 ] || fail "VF 3 has $(mib 3) MiB"
ctl memory set 2 none >/dev/null || fail "VF 2 kept its memory"
await 30 clean
[ "$(mib 2)" = 0 ] && [ "$(free)" = $((total - 64 + 64)) ] || fail "$(ctl memory show)"
ctl memory set 2 64M >/dev/null || fail "VF 2 has got none"

# What is impossible changes nothing.
before=$(json memory show | jq -c .extents)
! ctl memory set 2 400M 2>"$run/refused.log" || fail "400 MiB were found"
grep -q 'at most .* MiB can be had' "$run/refused.log" || fail "$(cat "$run/refused.log")"
[ "$(json memory show | jq -c .extents)" = "$before" ] || fail "a refusal has changed something"

# With guests that compute, in VF 0 and 1.
start_guest a 0 sha256 --seconds 300; a=$guest_pid
start_guest b 1 gemm --seconds 300; b=$guest_pid
await 30 is 0 state active
await 30 is 1 state active
! ctl memory set 1 32M 2>"$run/refused.log" || fail "the memory of a guest was taken away"
grep -q 'VF 1 is active' "$run/refused.log" || fail "$(cat "$run/refused.log")"
for size in 16 96 32 64; do
	ctl memory set 3 ${size}M >/dev/null || fail "VF 3 was not given $size MiB"
	[ "$(mib 3)" = $size ] || fail "VF 3 has $(mib 3) MiB"
done

# A hole on each side of VF 1 is not enough; VF 1 is moved, and computes on.
ctl memory set 2 none >/dev/null && ctl memory set 3 none >/dev/null || fail "not taken away"
await 30 clean
rest=$(free) whole=$(($(json memory show | jq .largest_free_bytes) >> 20))
[ $whole = $rest ] || fail "not one piece: $(ctl memory show)"
ctl memory set 3 16M >/dev/null
kill -INT $a; wait_guest $a a
await 30 is 0 state available
ctl memory set 0 none >/dev/null
await 30 clean
want=$(($(free) / 16 * 16))
ctl memory plan 2 ${want}M | grep -q 'to be moved: VF' || fail "$(ctl memory plan 2 ${want}M; ctl memory show)"
old=$(at 1) runs=$(vf 1 dispatches)
ctl memory set 2 ${want}M >/dev/null || fail "$(ctl memory show)"
[ "$(mib 2)" = "$want" ] || fail "VF 2 has $(mib 2) MiB"
[ "$(at 1)" != "$old" ] || fail "VF 1 was not moved"
await 30 at_least 1 dispatches $((runs + 5))
ctl memory set 2 none >/dev/null
await 30 clean

# Compaction, with vgpud killed in the middle: whoever computes goes on, every partition is where it
# was or where it was meant to be, and what is nobody's is cleared before it is given out.
for i in 1 2 3 4 5 6; do
	ctl memory set 0 48M >/dev/null && ctl memory set 2 32M >/dev/null && ctl memory set 0 none >/dev/null || fail "$(ctl memory show)"
	ctl memory compact >/dev/null 2>&1 &
	compact=$!
	sleep 0.0$((i * 7 % 10))
	kill -9 $vgpud_pid
	wait $compact $vgpud_pid 2>/dev/null
	start_vgpud
	await 30 clean
	json memory show | jq -e '[.extents[] | select(.state == "owned") | .bytes] | add > 0' >/dev/null
	[ "$(mib 1)" = 64 ] || fail "$(ctl memory show)"
	runs=$(vf 1 dispatches)
	await 30 at_least 1 dispatches $((runs + 3))
done
for n in 0 2 3; do ctl memory set $n none >/dev/null || fail "$(ctl memory show)"; done
ctl memory compact || fail "not compacted"
await 30 clean
[ "$(json memory show | jq '.largest_free_bytes == .free_bytes')" = true ] || fail "$(ctl memory show)"
kill -INT $b; wait_guest $b b
[ "$(field b resets)" = 0 ] || fail "the guest that was moved was reset"
