#!/bin/bash
# SPDX-License-Identifier: MIT
# A VF has one client after the other, while who had its process before tries to accept them. None sees a page of another's memory: what
# it finds is empty, and what it keeps of its predecessor's does not change with its own. Prints how many pages were seen.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/attack-lib.sh"
n=300 each=150
[ "${VGPU_CYCLES:-0}" -lt 40 ] || n=10000 each=1000
use_impostors softgpu-vf
becomes none
# Not real-time: a VF would wait for its processes, which cost softgpu time.
start_softgpu --vfs 4 --vram 96M --no-realtime
config <<<"vfs = 4"
start_vgpud
await 30 is 3 state available
# Processes that were taken over: the VF's own, and the one that it leaves behind.
impostors() {
	for p in /proc/[0-9]*; do
		[ "$p/exe" -ef "$run/libexec/vgpud/softgpu-vf" ] && echo "${p#/proc/}"
	done
}
has_kept() { [ "$(impostors | wc -l)" -ge 2 ]; } # softgpu may have ended one, and has another one by now
for ((i = 0; i < n; i += each)); do
	becomes keeps
	ends 3
	await 30 has_kept
	becomes none
	ends 3
	VGPU_SUCCESSIONS=$each "$attack" successions "$run/gpu/vf3.sock" 3600 >"$run/seen.txt" || fail "$(cat "$run/seen.txt")"
	[ "$(awk '/rounds/ {print $1}' "$run/seen.txt")" -ge $each ] || fail "fewer successions than $each: $(cat "$run/seen.txt")"
	mapfile -t left < <(impostors)
	kill -9 "${left[@]}" || fail "who had the VF's process before has ended before all these clients had come"
done
! grep -q "impostor: accepts" "$run/softgpu.log" || fail "who had the VF's process before accepts its clients"
echo "$n successions, 0 pages of others seen"
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
