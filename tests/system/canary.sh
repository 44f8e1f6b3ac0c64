#!/bin/bash
# SPDX-License-Identifier: MIT
# Tenants leave marks wherever they can write, and go in every way: killed, reset, their driver started again, their
# partition resized, taken away and moved. Nobody finds a mark of another, and in the end none is left in all of the
# GPU's memory but those of who is still there. A GPU that only says that it has cleared is found out.
. "$(dirname "$0")/lib.sh"
canary=$VGPU_BUILD/tests/system/canary
start_softgpu --vfs 4 --vram 256M
config <<-CONF
	vfs = 4
	policy = strict
CONF
start_vgpud
for n in 0 1 2 3; do await 30 is $n state available; done
write() { # VF MARK: $writer stays
	"$canary" write "$run/gpu/vf$1.sock" "$2" >"$run/write.$2" 2>>"$run/canary.log" &
	writer=$!
	pids+=($!)
	await 30 test -s "$run/write.$2"
	[ "$(cat "$run/write.$2")" -gt 100000 ] || fail "mark $2 was not written: $(cat "$run/write.$2")"
	# its context has been saved, with the mark in it
	await 30 at_least "$1" dispatches 2
}
nothing() { # VF MARKS...: none of them is found
	local vf=$1
	shift
	[ "$("$canary" find "$run/gpu/vf$vf.sock" "$@" | sort -u)" = 0 ] || fail "VF $vf has found a mark of $*"
	await 30 is "$vf" state available
}
write 3 900 # who is still there in the end, and lets the others be saved
marks=()
for round in 1 2 3; do
	for n in 0 1 2; do
		mark=$((round * 10 + n))
		marks+=($mark)
		write $n $mark
		case $(((round + n) % 3)) in
		0) kill -9 $writer ;;
		1) ctl vf reset $n >/dev/null; await 30 is $n context none; kill -9 $writer ;;
		2) kill $writer ;;
		esac
		wait $writer 2>/dev/null
		await 30 is $n state available
		ctl memory set $n $((16 + round % 2 * 16))M >/dev/null || fail "$(ctl memory show)"
		nothing $n "${marks[@]}"
	done
	ctl memory set 1 none >/dev/null
	ctl memory compact || fail "not compacted"
	ctl memory set 1 16M >/dev/null
done
# Its driver starts again: the same owner, the same mapping, and nothing in it.
[ "$("$canary" again "$run/gpu/vf0.sock" 77 | tail -1)" = 0 ] || fail "what was there before a reset is there after it"
marks+=(77)
await 30 is 0 state available
await 30 clean
[ "$(json memory show | jq .failed_pieces)" = 0 ] || fail "$(json memory show | jq .failed_pieces) pieces were not clear"
# Who reaches out of its memory is stopped, and it is told who it was.
"$canary" reach "$run/gpu/vf0.sock" $(($(vf 0 memory_bytes) >> 20)) >"$run/reach" &
writer=$!
pids+=($writer)
await 30 test -s "$run/reach"
[ "$(cat "$run/reach")" = 3 ] || fail "not stopped as out of range: $(cat "$run/reach")"
await 30 at_least 0 violations 1
ctl events | grep -q 'VF 0 .*violation' || fail "$(ctl events)"
grep -q "VF 0 accessed memory outside its partition; the GPU stopped it" "$run/vgpud.log" || fail "not told"
[ "$(vf 3 violations)" = 0 ] || fail "somebody else is blamed"
kill $writer
wait $writer 2>/dev/null
# All of the memory, through the PF: vgpud lets go of it.
kill $vgpud_pid
wait $vgpud_pid
"$canary" pf "$run/gpu/pf.sock" 256 900 "${marks[@]}" >"$run/found" || fail "the PF cannot be searched"
[ "$(head -1 "$run/found")" -gt 100000 ] || fail "the search does not find who is still there"
[ "$(tail -n +2 "$run/found" | sort -u)" = 0 ] || fail "marks are left: $(paste -sd' ' "$run/found")"

# A GPU that lies about clearing after its first three pieces, twice: it is made to do it. Always: the VF is nobody's any more.
for count in 2 1000000; do
	"$softgpu" --dir "$run/liar$count" --vfs 1 --vram 64M --fault skip-clear,skip=3,count=$count 2>>"$run/softgpu.log" &
	pids+=($!)
	await 20 test -S "$run/liar$count/pf.sock"
	printf '[daemon]\nsocket = %s\n[gpu gpu0]\ndevice = vfio-user:%s\nvfs = 1\n' "$run/control.sock" "$run/liar$count/pf.sock" >"$run/vgpud.conf"
	start_vgpud
	await 30 is 0 state available
	if [ $count = 2 ]; then
		[ "$("$canary" again "$run/liar$count/vf0.sock" 5 | tail -1)" = 0 ] || fail "what a GPU did not clear was handed on"
		[ "$(json memory show | jq .failed_pieces)" = 2 ] || fail "not noticed: $(json memory show)"
	else
		"$canary" again "$run/liar$count/vf0.sock" 5 >"$run/said" 2>&1 && fail "a VF that could not be cleared was handed on"
		await 30 is 0 state failed
	fi
	kill $vgpud_pid
	wait $vgpud_pid
done
