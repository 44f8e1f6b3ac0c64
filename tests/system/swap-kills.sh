#!/bin/bash
# SPDX-License-Identifier: MIT
# VFs are swapped and resized while whoever takes part dies: VFs' processes, their clients, vgpud, with whatever it is just doing, and in
# the end softgpu. No tenant finds a mark of another one, and each byte of the GPU's memory and the host's is accounted for once.
# VGPU_SEED repeats a run; VGPU_CYCLES: how many deaths, 16.
. "$(dirname "$0")/lib.sh"
canary=$VGPU_BUILD/tests/system/canary keeper=$VGPU_BUILD/tools/keeper/vgpud-keeper
RANDOM=${VGPU_SEED:=$$}
echo "VGPU_SEED=$VGPU_SEED"
start_softgpu --vfs 4 --vram 128M
config <<-CONF
	vfs = 4
	grace_ms = 4000
	host_memory_mib = 160
	epoch_ms = 100
CONF
"$keeper" "$vgpud" --config "$run/vgpud.conf" 2>>"$run/vgpud.log" &
keeper_pid=$!
await 30 ctl gpu list
child() { tr -d ' ' <"/proc/$keeper_pid/task/$keeper_pid/children"; }
pids+=("$(child)")
for n in 0 1 2 3; do await 30 is $n state available; done
marks=() writers=() last=0
write() { # VF: a tenant that writes another mark, and has work for ever
	local mark=$((++last))
	"$canary" write "$run/gpu/vf$1.sock" $mark >"$run/write.$mark" 2>>"$run/canary.log" &
	writers[$1]=$!
	marks+=($mark)
	await 120 test -s "$run/write.$mark"
}
# Extents follow each other without a gap, from 0 to all that there is, on the GPU and behind it in the host, and what is a VF's on the GPU
# is its whole memory or nothing.
accounts() {
	json memory show | jq -e --argjson vfs "$(json vf list)" '
		def whole($from; $n): (sort_by(.offset) | reduce .[] as $e ($from; if . == $e.offset then . + $e.bytes else -1 end)) == $from + $n;
		. as $m | (.extents | whole(0; $m.total_bytes)) and (.host_extents | whole(.[0].offset; $m.host_bytes)) and
		([range(4) as $n | [$m.extents[] | select(.vf == $n and .state == "owned") | .bytes] | add // 0 |
			. == 0 or . == $vfs.vfs[$n].memory_bytes] | all)'
}
books() { accounts >/dev/null || fail "$1: memory is not accounted for: $(json memory show)"; }
successor() { [ -n "$(child)" ] && [ "$(child)" != "$1" ] && ctl gpu list; }
for n in 0 1 2 3; do write $n; done
for ((i = 0; i < ${VGPU_CYCLES:-16}; i++)); do
	n=$((RANDOM % 4)) at=0.$((RANDOM % 400 + 100)) was=$(child)
	# A change of the partition is under way while something dies.
	ctl memory set $n $((RANDOM % 2 * 8 + 56))M >"$run/set.txt" 2>&1 &
	change=$!
	sleep $at
	case $((RANDOM % 4)) in
	0) what="the process of VF $n"; kill -9 "$(process_of $n)" ;;
	1) what="the tenant of VF $n"; kill -9 ${writers[n]} ;;
	2) what="vgpud"; kill -9 "$was"; await 60 successor "$was"; pids+=("$(child)") ;;
	3) what="vgpud, and the process of VF $n"; kill -9 "$was" "$(process_of $n)"; await 60 successor "$was"; pids+=("$(child)") ;;
	esac
	wait $change
	books "$what dies"
	kill -9 ${writers[n]} 2>/dev/null
	wait ${writers[n]} 2>/dev/null
	await 120 is $n state available
	found=$(timeout 120 "$canary" find "$run/gpu/vf$n.sock" "${marks[@]}" | sort -u)
	[ "$found" = 0 ] || fail "$what dies: VF $n has found a mark of another tenant: $found"
	await 120 is $n state available
	write $n
	books "$what has died"
done
[ "$(json memory show | jq '.swaps_in + .swaps_out')" -gt 0 ] || fail "nothing was swapped: $(json memory show)"
[ "$(json memory show | jq .failed_pieces)" = 0 ] || fail "pieces were not clear after a scrub: $(json memory show)"
# The GPU itself dies. vgpud and the next one begin again.
kill -9 "$softgpu_pid"
wait "$softgpu_pid" 2>/dev/null
kill -9 "${writers[@]}" 2>/dev/null
rm -f "$run/gpu/"*
start_softgpu --vfs 4 --vram 128M
for n in 0 1 2 3; do await 60 is $n state available; done
books "another GPU"
[ "$("$canary" find "$run/gpu/vf0.sock" "${marks[@]}" | sort -u)" = 0 ] || fail "a mark was found on another GPU"
kill $keeper_pid; wait $keeper_pid || fail "vgpud-keeper ended with $?"
