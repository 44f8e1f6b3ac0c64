#!/bin/bash
# SPDX-License-Identifier: MIT
# canary.sh [driver|firmware]: tenants write marks wherever they can and end in every way: they are killed or reset, their driver
# starts again, their partition is resized, taken away or moved. No tenant finds a mark of another tenant, and in the end all of the
# GPU's memory contains only the marks of the tenant that is still running. vgpud detects a GPU that reports memory as cleared that
# is not. A GPU that schedules itself divides its memory once, and clears it itself.
kind=${1:-driver}
. "$(dirname "$0")/lib.sh"
canary=$VGPU_BUILD/tests/system/canary
policy=strict rounds='1 2 3' mib=256
[ "$kind" = driver ] || policy=fair rounds=1 mib=96
start_softgpu --vfs 4 --vram ${mib}M --scheduler "$kind"
config <<-CONF
	vfs = 4
	policy = $policy
CONF
start_vgpud
for n in 0 1 2 3; do await 30 is $n state available; done
write() { # VF MARK: starts $writer, which keeps running
	"$canary" write "$run/gpu/vf$1.sock" "$2" >"$run/write.$2" 2>>"$run/canary.log" &
	writer=$!
	await 30 test -s "$run/write.$2"
	[ "$(cat "$run/write.$2")" -gt 100000 ] || fail "mark $2 was not written: $(cat "$run/write.$2")"
	# by now its context, which contains the mark, has been saved
	await 30 at_least "$1" run_ns 1000
	[ "$kind" = firmware ] || await 30 at_least "$1" dispatches 2
}
nothing() { # VF MARKS...: fails if one of the marks is found
	local vf=$1
	shift
	[ "$("$canary" find "$run/gpu/vf$vf.sock" "$@" | sort -u)" = 0 ] || fail "VF $vf has found a mark of $*"
	await 30 is "$vf" state available
}
write 3 900 # runs until the end; because it has work, the contexts of the other VFs are saved
marks=()
for round in $rounds; do
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
		[ "$kind" = firmware ] || ctl memory set $n $((16 + round % 2 * 16))M >/dev/null || fail "$(ctl memory show)"
		nothing $n "${marks[@]}"
	done
	[ "$kind" = driver ] || break
	ctl memory set 1 none >/dev/null
	ctl memory compact || fail "memory compact failed"
	ctl memory set 1 16M >/dev/null
done
# A driver starts again: the tenant and its mapping stay the same, and the memory is clear. Where firmware schedules, the memory is the
# tenant's until its VF is reset.
if [ "$kind" = driver ]; then
	[ "$("$canary" again "$run/gpu/vf0.sock" 77 | tail -1)" = 0 ] || fail "a mark from before the driver's restart was found after it"
	marks+=(77)
	await 30 is 0 state available
	await 30 clean
	[ "$(json memory show | jq .failed_pieces)" = 0 ] || fail "$(json memory show | jq .failed_pieces) pieces were not clear after a scrub"
fi
# The GPU stops a VF that accesses memory outside its partition, and vgpud reports which VF it was.
"$canary" reach "$run/gpu/vf0.sock" $(($(vf 0 memory_bytes) >> 20)) >"$run/reach" &
writer=$!
await 30 test -s "$run/reach"
[ "$(cat "$run/reach")" = 3 ] || fail "the access was not stopped as out of range (error 3): $(cat "$run/reach")"
await 30 at_least 0 violations 1
ctl events | grep -q 'VF 0 .*violation' || fail "$(ctl events)"
grep -q "VF 0 accessed memory outside its partition; the GPU stopped it" "$run/vgpud.log" || fail "vgpud's log does not report the access outside the partition"
[ "$(vf 3 violations)" = 0 ] || fail "the violation was counted for VF 3"
kill $writer
wait $writer 2>/dev/null
# All of the GPU's memory is searched through the PF, which vgpud has released.
kill $vgpud_pid
wait $vgpud_pid
"$canary" pf "$run/gpu/pf.sock" $mib 900 "${marks[@]}" >"$run/found" || fail "canary cannot search the GPU's memory through the PF"
[ "$(head -1 "$run/found")" -gt 100000 ] || fail "the search does not find the mark of the tenant that is still running"
[ "$(tail -n +2 "$run/found" | sort -u)" = 0 ] || fail "marks are left: $(paste -sd' ' "$run/found")"
[ "$kind" = driver ] || exit 0

# After its first three pieces the GPU skips clears and reports success. If it skips two, vgpud has them cleared again. If it
# always skips, vgpud gives the VF to no tenant.
for count in 2 1000000; do
	"$softgpu" --dir "$run/liar$count" --vfs 1 --vram 64M --fault skip-clear,skip=3,count=$count 2>>"$run/softgpu.log" &
	await 60 test -S "$run/liar$count/pf.sock"
	printf '[daemon]\nsocket = %s\n[gpu gpu0]\ndevice = vfio-user:%s\nvfs = 1\n' "$run/control.sock" "$run/liar$count/pf.sock" >"$run/vgpud.conf"
	start_vgpud
	await 30 is 0 state available
	if [ $count = 2 ]; then
		[ "$("$canary" again "$run/liar$count/vf0.sock" 5 | tail -1)" = 0 ] || fail "memory that the GPU did not clear was given to a tenant"
		[ "$(json memory show | jq .failed_pieces)" = 2 ] || fail "vgpud did not count 2 pieces that were not clear: $(json memory show)"
	else
		"$canary" again "$run/liar$count/vf0.sock" 5 >"$run/said" 2>&1 && fail "a VF whose memory could not be cleared was given to a tenant"
		await 30 is 0 state failed
	fi
	kill $vgpud_pid
	wait $vgpud_pid
done
