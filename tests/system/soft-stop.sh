#!/bin/bash
# SPDX-License-Identifier: MIT
# softgpu on a GPU whose resource manager lets nobody stop channels, but set time slices (tools/cuda/driver/soft_gpu.h): work is killed,
# unless --soft-stop allows that it goes on, and then only if the test at softgpu's start has found that its part is small.
. "$(dirname "$0")/lib.sh"
driver=$VGPU_BUILD/tools/cuda/driver
[ -e "$driver/libcuda.so.1" ] || fail "$driver/libcuda.so.1 is missing: build it first"
export LD_LIBRARY_PATH=$driver SOFT_CUDA_RM=$run/shared-gpu
truncate -s 4096 "$SOFT_CUDA_RM"
chmod 666 "$SOFT_CUDA_RM"
chmod 755 "$run"
begin() { # options
	rm -rf "$run/gpu"
	: >"$run/softgpu.log"
	"$softgpu" --dir "$run/gpu" --engine cuda --vfs 2 --vram 256M --window 32M --kill-after 5000 "$@" 2>>"$run/softgpu.log" &
	softgpu_pid=$!
	await 120 test -S "$run/gpu/pf.sock"
	start_vgpud
}
end() {
	kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
	kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
}
config <<-CONF
	vfs = 2
	policy = fair
	slice_us = 10000
	grace_ms = 10000
CONF
for wrong in 0 51 x; do
	"$softgpu" --dir "$run/none" --engine cuda --soft-stop $wrong 2>"$run/refused.txt" && fail "softgpu accepted --soft-stop $wrong"
	grep -q -- "--soft-stop $wrong: want a number from 1 to 50" "$run/refused.txt" || fail "$(cat "$run/refused.txt")"
done

# Nobody has allowed it: it is not even tried.
begin
! grep -q 'softly' "$run/softgpu.log" || fail "a soft stop was tried without --soft-stop"
[ "$(json gpu show | jq -r '"\(.preemption) \(.preempt_leak_ppm)"')" = 'kill 0' ] || fail "$(ctl gpu show)"
! grep -q 'softly' "$run/vgpud.log" || fail "vgpud speaks of soft stops"
end

# On some GPUs a time slice has no effect: stopped work has about half of the GPU, which is more than was allowed.
SOFT_CUDA_INERT=1 begin --soft-stop 20
grep -Eq 'continues, with (3|4|5|6)[0-9]\.[0-9] % of the GPU beside other work' "$run/softgpu.log" || fail "the part is not in softgpu's log"
grep -q 'cannot be stopped by the shortest time slice: --soft-stop allows it less' "$run/softgpu.log" || fail "softgpu's log does not say why"
[ "$(json gpu show | jq -r '"\(.preemption) \(.preempt_leak_ppm)"')" = 'kill 0' ] || fail "$(ctl gpu show)"
end

# It is allowed, and its part is small.
begin --soft-stop 20
grep -q 'work that is stopped softly continues, with [0-9.]* % of the GPU beside other work' "$run/softgpu.log" || fail "the part is not in softgpu's log"
[ "$(json gpu show | jq -r .preemption)" = soft ] || fail "$(ctl gpu show)"
leak=$(json gpu show | jq .preempt_leak_ppm)
[ "$leak" -gt 0 ] && [ "$leak" -le 200000 ] || fail "the part is $leak millionths"
ctl gpu show | grep -q 'preemption .*soft: stopped work continues.* % of the GPU beside another VF' || fail "$(ctl gpu show)"
grep -q 'the GPU stops VFs softly' "$run/vgpud.log" || fail "vgpud's log does not say so"
# A GPU kernel that never ends is not killed, and the other tenant has its turns.
start_guest a 0 saxpy --device-memory --seconds 300; a=$guest_pid
await 60 at_least 0 dispatches 3
"$guest" launch "$(dirname "$0")/../cuda/driver/own.ptx" --function forever --arg out:8:"$run/counted" --socket "$run/gpu/vf1.sock" >"$run/launch.txt" 2>&1 &
endless=$!
await 60 at_least 1 dispatches 5
turns=$(vf 0 dispatches)
await 60 at_least 0 dispatches $((turns + 5))
await 60 at_least 1 dispatches 10
! grep -q 'is killed, and' "$run/softgpu.log" || fail "work was killed"
kill -0 $endless || fail "the endless GPU kernel has ended: $(cat "$run/launch.txt")"
kill -9 $endless; wait $endless 2>/dev/null
kill -INT $a; wait_guest $a a
[ "$(field a resets)" = 0 ] || fail "the tenant of VF 0 was reset"
end
