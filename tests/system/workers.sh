#!/bin/bash
# SPDX-License-Identifier: MIT
# softgpu with a worker process for each VF, on the CPU. Tenants compute under strict slices, and work that does not stop by
# itself is stopped hard. Each worker is killed: its own VF is reset and no other VF is affected. No worker is left when
# softgpu ends.
. "$(dirname "$0")/lib.sh"
start_softgpu --vfs 4 --engine host --window 32M --kill-after 2000
config <<-CONF
	vfs = 4
	policy = strict
	grace_ms = 4000
CONF
start_vgpud
[ "$(json gpu show | jq -r .preemption)" = hard ] || fail "$(ctl gpu show)"
ctl gpu show | grep -q 'preemption .*at any instruction' || fail "$(ctl gpu show)"
children() { local p; for p in $(cat /proc/"$softgpu_pid"/task/*/children); do [ "$(cat "/proc/$p/comm")" != softgpu-worker ] || echo "$p"; done; }
[ "$(children | wc -l)" = 4 ] || fail "4 VFs have $(children | wc -l) workers"
# No worker is root or can become root, and a seccomp filter limits its system calls.
for p in $(children); do
	for line in "NoNewPrivs:	1" "Seccomp:	2" "CapPrm:	0*" "CapEff:	0*"; do
		grep -qx "$line" "/proc/$p/status" || fail "worker $p: $(cat "/proc/$p/status")"
	done
	[ "$(id -u)" != 0 ] || ! grep -qE '^(Uid|Gid):.*\b0\b' "/proc/$p/status" || fail "worker $p runs as root"
done
[ "$(id -u)" = 0 ] || echo "skipped: needs root, whose workers run as another user"
# What a worker says is logged as its own; softgpu's log itself it has not.
p=$(children | head -n 1)
[ -z "$(find "/proc/$p/fd" -lname "$run/softgpu.log")" ] || fail "a worker has softgpu's log"
echo "<0>vgpud: forged" >"/proc/$p/fd/2"
await 60 grep -qx "<4>softgpu: VF [0-3]'s worker: vgpud: forged" "$run/softgpu.log"
! grep -q "^<0>" "$run/softgpu.log" || fail "a worker writes lines of others"

start_guest a 0 sha256 --device-memory --seconds 300; a=$guest_pid
start_guest b 1 mixed --seconds 300; b=$guest_pid
start_guest c 2 hog --us 20000 --seconds 300; c=$guest_pid
start_guest d 3 dma --seconds 300; d=$guest_pid
await 60 active 4
shares_kept 3
[ "$(json vf list | jq '[.vfs[].resets] | add')" = 0 ] || fail "a VF was reset: $(ctl vf list)"

# Each worker is killed: its tenant continues with a new worker, and the other tenants continue undisturbed.
await 60 is 0 state active
resets() { [ "$(json vf list | jq '[.vfs[].resets] | add')" -ge "$1" ]; }
i=0
for victim in $(children | shuf); do
	{ seq 1 4000; echo "last words of $victim"; } >"/proc/$victim/fd/2"
	kill -9 "$victim"
	await 60 resets $((++i))
	await 30 grep -q "last words of $victim" "$run/softgpu.log"
	await 60 active 4
done
for n in 0 1 2 3; do
	turns=$(vf $n dispatches)
	await 60 at_least $n dispatches $((turns + 3))
done
kill -INT $a $b $c $d
total=0
for g in a b c d; do
	eval "wait_guest \$$g $g"
	total=$((total + $(field $g resets)))
done
[ "$total" = 4 ] || fail "4 workers were killed, and tenants were reset $total times"
[ "$(grep -c 'worker has died' "$run/softgpu.log")" = 4 ] || fail "softgpu's log does not report the death of 4 workers"
! grep -q 'does not stop' "$run/softgpu.log" || fail "softgpu reports a worker that does not stop"
has_workers() { [ "$(children | wc -l)" = "$1" ]; }
await 30 has_workers 4 # one for each VF, none left over

# This engine loads no GPU kernels of tenants, and says so.
"$guest" launch "$0" --function f --socket "$run/gpu/vf0.sock" 2>"$run/launch.err" && fail "launch succeeded on the CPU engine"
for wrong in "--arg u32:x" "--arg u32:4294967296" "--arg f32:1,5" "--arg out:0" "--arg in:/nonexistent" "--arg nothing" "--grid 1,2,3,4" \
	"--grid 0" "--block 1x" "--shared -1" "--repeat 0"; do
	# shellcheck disable=SC2086
	"$guest" launch "$0" --function f --socket "$run/gpu/vf0.sock" $wrong 2>"$run/usage.err"
	[ $? = 2 ] && grep -qE 'not a valid value|want' "$run/usage.err" || fail "launch does not refuse $wrong: $(cat "$run/usage.err")"
done
grep -q 'loads no GPU kernels' "$run/launch.err" || fail "$(cat "$run/launch.err")"
"$softgpu" --dir "$run/none" --engine host --worker-user nobody-of-that-name 2>"$run/user.err" && fail "softgpu started with a worker user that does not exist"
grep -q 'there is no such user' "$run/user.err" || fail "$(cat "$run/user.err")"
# The CUDA engine says in one sentence what is missing on a machine without a GPU, or in a build without CUDA.
if ! "$softgpu" --dir "$run/none" --engine cuda --gpu 200 2>"$run/cuda.err"; then
	[ "$(wc -l <"$run/cuda.err")" = 1 ] && grep -qE 'NVIDIA|--gpu 200|this build has no CUDA' "$run/cuda.err" || fail "$(cat "$run/cuda.err")"
fi
# Partitions of VFs that compute are moved; the device memory of a VF is not copied and stays the same.
for n in 0 1 2 3; do await 30 is $n state available; done
for n in 1 2; do start_guest m$n $n gemm --device-memory --seconds 300; m[n]=$guest_pid; done
await 60 active 2
ctl memory set 0 none >/dev/null && ctl memory set 3 none >/dev/null && ctl memory set 3 96M >/dev/null && ctl memory set 0 16M >/dev/null || fail "$(ctl memory show)"
[ "$(json memory show | jq .moves)" -ge 1 ] || fail "no partition was moved: $(ctl memory show)"
for n in 1 2; do
	turns=$(vf $n dispatches)
	await 60 at_least $n dispatches $((turns + 3))
	kill -INT ${m[n]}; wait_guest ${m[n]} m$n
	[ "$(field m$n resets)" = 0 ] || fail "the guest of VF $n was reset when its partition was moved"
done
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
left=$(children)
kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
for p in $left; do ! kill -0 "$p" 2>/dev/null || fail "worker $p is still there"; done
