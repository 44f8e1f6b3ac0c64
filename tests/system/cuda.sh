#!/bin/bash
# SPDX-License-Identifier: MIT
# On an NVIDIA GPU: tenants under slices and weights get results that are right to the bit, in the window and in device
# memory. A tenant runs a GPU kernel of its own. A GPU kernel that faults and one that never ends do not disturb others.
. "$(dirname "$0")/lib.sh"
need_gpu
"$softgpu" --dir "$run/gpu" --engine cuda --vfs 4 --vram 4G --window 64M 2>>"$run/softgpu.log" &
softgpu_pid=$!
await 90 test -S "$run/gpu/pf.sock"
config <<-CONF
	vfs = 4
	policy = fair
	slice_us = 10000
	[vf gpu0/0]
	weight = 300
CONF
start_vgpud
ctl gpu show
# vgpud's promise for NVIDIA GPUs: any GPU kernel can be stopped at any instruction and continued later.
[ "$(json gpu show | jq -r .preemption)" = hard ] || fail "preemption is not hard: $(ctl gpu show)"

start_guest a 0 gemm --device-memory --size 4 --seconds 300; a=$guest_pid
start_guest b 1 mixed --seconds 300; b=$guest_pid
start_guest c 2 sha256 --device-memory --seconds 300; c=$guest_pid
await 60 active 3
has_turns() { [ "$(vf 0 dispatches)" -ge "$1" ]; }
await 60 has_turns 100

# A tenant's own GPU kernel: y[i] = a x[i] + y[i], with a gate and without.
saxpy=$(dirname "$0")/saxpy.ptx
python3 - "$run/x" "$run/y" <<'PY'
import struct, sys
n = 1 << 16
open(sys.argv[1], 'wb').write(struct.pack('<%df' % n, *range(n)))
open(sys.argv[2], 'wb').write(struct.pack('<%df' % n, *([1.0] * n)))
PY
for gated in "" --gated; do
	"$guest" launch "$saxpy" $gated --function saxpy --grid 256 --block 256 --arg inout:"$run/y:$run/z" --arg in:"$run/x" --arg f32:2 \
		--arg u32:65536 --socket "$run/gpu/vf3.sock" >"$run/launch.txt" 2>&1 || fail "$(cat "$run/launch.txt")"
	python3 - "$run/z" <<'PY' || fail "the GPU kernel's results are wrong"
import struct, sys
n = 1 << 16
sys.exit(struct.unpack('<%df' % n, open(sys.argv[1], 'rb').read()) != tuple(2.0 * i + 1 for i in range(n)))
PY
	await 30 is 3 state available
done

# A tenant whose GPU kernel never ends gets its share and no more.
start_guest e 3 endless --seconds 300; e=$guest_pid
await 60 active 4
shares_kept 3
kill -9 $e; wait $e 2>/dev/null
await 60 is 3 state available
# A GPU kernel that writes outside the memory of its VF costs its tenant the VF, and the launcher says so.
"$guest" launch "$saxpy" --function saxpy --block 32 --arg u64:0x700000000000 --arg u64:0x700000000000 --arg f32:2 --arg u32:32 \
	--socket "$run/gpu/vf3.sock" >"$run/poke.txt" 2>&1 && fail "a GPU kernel wrote outside the memory of its VF"
grep -q 'was reset' "$run/poke.txt" || fail "$(cat "$run/poke.txt")"
for g in a b c; do
	eval "kill -INT \$$g; wait_guest \$$g $g"
	[ "$(field $g resets)" = 0 ] || fail "tenant $g was reset"
done
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
