#!/bin/bash
# SPDX-License-Identifier: MIT
# VFs have more memory together than the GPU has: four VFs compute, and there is room for two. They are swapped without
# effect on their guests: results are right, and no guest is reset. A pinned VF stays resident. vgpud is killed repeatedly in the
# middle of swaps, three times, or six if VGPU_CYCLES is set; the next vgpud finds the host memory and its contents again.
# swap-shares.sh tests the shares.
. "$(dirname "$0")/lib.sh"
keeper=$VGPU_BUILD/tools/keeper/vgpud-keeper
start_softgpu --vfs 5 --vram 256M
config <<-CONF
	vfs = 5
	grace_ms = 1000
	host_memory_mib = 384
	epoch_ms = 200
	[vf gpu0/0]
	weight = 200
	[vf gpu0/4]
	memory_mib = 16
	pinned = yes
CONF
"$keeper" "$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log" &
keeper_pid=$!
await 30 ctl gpu list
child() { tr -d ' ' <"/proc/$keeper_pid/task/$keeper_pid/children"; }
pids+=("$(child)")
total() { json memory show | jq ".$1"; }
swapped() { [ "$(total swaps_in)" -ge "$1" ]; }
for n in 0 1 2 3 4; do await 30 is $n state available; [ "$(mib $n)" = $((n == 4 ? 16 : 96)) ] || fail "$(ctl memory show)"; done
[ "$(json vf list | jq '[.vfs[] | select(.swapped)] | length')" = 2 ] || fail "$(ctl memory show)"

start_guest p 4 gemm --seconds 300; p=$guest_pid
work=(sha256 gemm mandelbrot saxpy)
for n in 0 1 2 3; do start_guest g$n $n ${work[n]} --seconds 300; g[n]=$guest_pid; done
await 60 active 5
await 120 swapped 5
[ "$(vf 4 swapped)" = false ] || fail "VF 4 is pinned and was swapped out"
[ -n "$(ctl memory show | grep 'VFs that are swapped out')" ] || fail "$(ctl memory show)"

kill -INT ${g[3]}; wait_guest ${g[3]} g3
await 30 is 3 state available

# vgpud is killed while a VF is being swapped; the next vgpud has the same memory, and all guests continue.
on_the_way() { json memory show | jq -e '[.extents[], .host_extents[] | select(.state == "moving")] | length > 0'; }
other_child() { [ -n "$(child)" ] && [ "$(child)" != "$1" ] && ctl gpu list; }
has_run() { [ "$(vf "$1" dispatches)" -gt 3 ]; }
for i in 1 2 3 ${VGPU_CYCLES:+4 5 6}; do
	await 120 on_the_way
	old=$(child)
	kill -9 "$old"
	await 30 other_child "$old"
	pids+=("$(child)")
	[ "$(json gpu show | jq .adopted)" = true ] || fail "the GPU was not adopted"
	for n in 0 1 2; do await 60 has_run $n; done
done

# A guest is killed while its VF is swapped out: the VF becomes available and serves another guest.
is_out() { [ "$(vf "$1" swapped)" = true ] && is "$1" state active; }
await 120 is_out 1
kill -9 ${g[1]}; wait ${g[1]} 2>/dev/null
await 30 is 1 state available
start_guest h1 1 sha256 --seconds 300; g[1]=$guest_pid
await 60 is 1 state active
await 60 has_run 1

for n in 0 2; do kill -INT ${g[n]}; wait_guest ${g[n]} g$n; [ "$(field g$n resets)" = 0 ] || fail "guest $n was reset"; done
kill -INT ${g[1]}; wait_guest ${g[1]} h1
kill -INT $p; wait_guest $p p

# The partitions of a swapped VF and of the pinned VF are resized. A size that leaves some VF no room to be swapped in is
# refused.
for n in 0 1 2 3 4; do await 30 is $n state available; done
ctl memory set 1 48M >/dev/null && [ "$(mib 1)" = 48 ] || fail "$(ctl memory show)"
ctl memory plan 1 96M | grep -q 'in host memory until it has work; its memory is swapped' || fail "$(ctl memory plan 1 96M)"
ctl memory set 4 128M >/dev/null && [ "$(mib 4)" = 128 ] || fail "$(ctl memory show)"
! ctl memory set 4 160M 2>"$run/refused.log" || fail "VF 4 was given memory that the other VFs need to be swapped in"
! ctl memory set 1 128M 2>"$run/refused.log" || fail "VF 1 was given more memory than the pinned VF leaves"

# vgpud refuses another host_memory_mib while a VF is swapped out, because that VF would lose its memory.
await 60 is 4 state available
for n in 0 1 2; do start_guest k$n $n sha256 --seconds 300; g[n]=$guest_pid; done
for n in 0 1 2; do await 60 is $n state active; done
await 120 is_out 2
sed -i 's/host_memory_mib = 384/host_memory_mib = 400/' "$run/vgpud.conf"
old=$(child)
kill -HUP "$keeper_pid"
refused() { grep -q '384 MiB of host memory are kept for this GPU' "$run/vgpud.log"; }
await 30 refused
sed -i 's/host_memory_mib = 400/host_memory_mib = 384/' "$run/vgpud.conf"
kill -HUP "$keeper_pid"
await 60 other_child "$old"
pids+=("$(child)")
for n in 0 1 2; do kill -INT ${g[n]}; wait_guest ${g[n]} k$n; [ "$(field k$n resets)" = 0 ] || fail "guest $n was reset"; done
kill "$keeper_pid"; wait "$keeper_pid"
