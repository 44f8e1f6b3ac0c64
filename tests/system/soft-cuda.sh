#!/bin/bash
# SPDX-License-Identifier: MIT
# All of softgpu's CUDA engine, on a CUDA driver in software (tools/cuda/driver/soft_cuda.c): tenants' GPU kernels from their file to
# their results, with a gate and without; a compiler error; a GPU kernel that cannot be stopped, whose worker is killed and
# whose VF alone is reset. cuda.sh is the test on a real GPU.
. "$(dirname "$0")/lib.sh"
driver=$VGPU_BUILD/tools/cuda/driver
[ -e "$driver/libcuda.so.1" ] || fail "$driver/libcuda.so.1 is missing: build it first"
# Unsuitable GPUs are refused, each with one sentence.
while read -r attribute says; do
	SOFT_CUDA_ATTRIBUTE=$attribute LD_LIBRARY_PATH=$driver "$softgpu" --dir "$run/none" --engine cuda 2>"$run/refused.txt" &&
		fail "softgpu accepted a GPU with attribute $attribute"
	[ "$(wc -l <"$run/refused.txt")" = 1 ] && grep -q "$says" "$run/refused.txt" || fail "$attribute: $(cat "$run/refused.txt")"
done <<-CASES
	17=1 drives a display
	20=3 accepts one process only
	75=6 (compute capability 6.0) is too old
	102=0 is too old
CASES
# A driver that does not start: each error has its own sentence, which says what to do.
while read -r error says; do
	SOFT_CUDA_INIT=$error LD_LIBRARY_PATH=$driver "$softgpu" --dir "$run/none" --engine cuda 2>"$run/refused.txt" &&
		fail "softgpu accepted a driver that reports error $error"
	[ "$(wc -l <"$run/refused.txt")" = 1 ] && grep -q "error $error: .*$says" "$run/refused.txt" || fail "$error: $(cat "$run/refused.txt")"
done <<-CASES
	3 load the kernel modules nvidia and nvidia-uvm
	46 end the program that has it to itself
	100 the NVIDIA driver sees no GPU: check
	802 start nvidia-fabricmanager
	803 load the module anew, or reboot
	804 remove cuda-compat
	999 check that /dev/nvidia-uvm exists
	1 an unknown error
CASES
LD_LIBRARY_PATH=$driver "$softgpu" --dir "$run/none" --engine cuda --gpu 7 2>"$run/refused.txt" && fail "softgpu accepted --gpu 7 with one GPU"
grep -q -- '--gpu 7: there is no such GPU; the highest number is 0' "$run/refused.txt" || fail "$(cat "$run/refused.txt")"
LD_LIBRARY_PATH=$driver "$softgpu" --dir "$run/none" --engine cuda --module-memory 1M 2>"$run/refused.txt" && fail "softgpu accepted --module-memory 1M"
grep -q 'module-memory 1048576 bytes is too little' "$run/refused.txt" || fail "$(cat "$run/refused.txt")"
LD_LIBRARY_PATH=$driver "$softgpu" --dir "$run/gpu" --engine cuda --vfs 2 --vram 256M --window 32M --kill-after 5000 2>>"$run/softgpu.log" &
softgpu_pid=$!
await 90 test -S "$run/gpu/pf.sock"
grep -q 'cannot be stopped by disabling channels: the device does not offer it' "$run/softgpu.log" || fail "softgpu's log does not say that GPU kernels cannot be stopped"
config <<-CONF
	vfs = 2
	policy = fair
	slice_us = 10000
	grace_ms = 10000
CONF
start_vgpud
[ "$(json gpu show | jq -r .preemption)" = kill ] || fail "$(ctl gpu show)"
# Who is alone is not stopped, which would be to kill it, while nobody waits for the GPU.
start_guest alone 1 hog --us 1500000 --jobs 1
wait_guest $guest_pid alone
[ "$(json vf show 1 | jq .ends.slice)" = 0 ] && [ "$(vf 1 hangs)" = 0 ] || fail "a VF that was alone was told to stop: $(ctl vf show 1)"

start_guest a 0 saxpy --device-memory --seconds 300; a=$guest_pid
await 60 at_least 0 run_ns 30000000
saxpy=$(dirname "$0")/saxpy.ptx own=$(dirname "$0")/../cuda/driver/own.ptx
python3 - "$run/x" "$run/y" <<'PY'
import struct, sys
n = 1 << 13
open(sys.argv[1], 'wb').write(struct.pack('<%df' % n, *range(n)))
open(sys.argv[2], 'wb').write(struct.pack('<%df' % n, *([1.0] * n)))
PY
launch() { "$guest" launch "$@" --socket "$run/gpu/vf1.sock" >"$run/launch.txt" 2>&1; }
for gated in "" --gated; do
	# shellcheck disable=SC2086
	launch "$saxpy" $gated --function saxpy --grid 32 --block 256 --arg inout:"$run/y:$run/z" --arg in:"$run/x" --arg f32:2 --arg u32:8192 ||
		fail "$(cat "$run/launch.txt")"
	python3 - "$run/z" <<'PY' || fail "the GPU kernel's results are wrong"
import struct, sys
n = 1 << 13
sys.exit(struct.unpack('<%df' % n, open(sys.argv[1], 'rb').read()) != tuple(2.0 * i + 1 for i in range(n)))
PY
	cp "$run/z" "$run/z.right"
	rm "$run/z"
	await 30 is 1 state available
done
# A guest may have its VF reset three times a minute, and more launches follow: the operator's reset ends the count.
again() { await 60 is 1 state available; ctl vf reset 1; await 60 is 1 state available; }
# Other images: PTX with a zero byte behind it, and a fat binary with PTX in it.
python3 - "$saxpy" "$run" <<'PY'
import struct, sys
text, run = open(sys.argv[1], 'rb').read() + b'\0', sys.argv[2]
open(run + '/zero.ptx', 'wb').write(text)
def entry(kind, capability, body):
    return struct.pack('<HHIQIIIIQQ', kind, 0x101, 64, len(body), 0, 0, 0, capability, 0, 0x11) + bytes(16) + body
entries = entry(2, 90, b'a binary for another GPU') + entry(1, 70, text)
open(run + '/saxpy.fatbin', 'wb').write(struct.pack('<IHHQ', 0xba55ed50, 1, 16, len(entries)) + entries)
sections = [(0, 0, 0, 0, 0), (1, 3, 0, 384, 16), (3, 1, 6, 384, 16), (5, 8, 3, 400, 64 << 30)]
table = b''.join(struct.pack('<IIQQQQIIQQ', n, t, f, 0, at, size, 0, 0, 4, 0) for n, t, f, at, size in sections)
head = b'\x7fELF\2\1\1' + bytes(9) + struct.pack('<HHIQQQIHHHHHH', 2, 190, 1, 0, 0, 64, 0, 64, 0, 0, 64, 4, 1)
open(run + '/huge.cubin', 'wb').write(head + table + bytes(64) + b'\0s\0t\0.nv.global\0' + bytes(16))
PY
for image in zero.ptx saxpy.fatbin; do
	launch "$run/$image" --function saxpy --grid 32 --block 256 --arg inout:"$run/y:$run/z" --arg in:"$run/x" --arg f32:2 --arg u32:8192 ||
		fail "$image: $(cat "$run/launch.txt")"
	cmp "$run/z" "$run/z.right" >>"$run/launch.txt" 2>&1 || fail "$image: the GPU kernel's results are wrong"
	again
done
# A file that is no PTX and PTX that does not compile are refused; the launcher shows the compiler's message.
launch "$0" --function saxpy && fail "launch accepted a shell script as a GPU kernel"
grep -q 'the image is no PTX, no cubin and no fat binary' "$run/launch.txt" || fail "$(cat "$run/launch.txt")"
again
printf '.version 6.0\nnonsense\n' >"$run/bad.ptx"
launch "$run/bad.ptx" --function saxpy && fail "launch accepted PTX that does not compile"
grep -q 'line 2: an unknown directive: nonsense' "$run/launch.txt" || fail "$(cat "$run/launch.txt")"
again

# A binary whose arrays take 64 GiB outside the partition is refused, with the reason.
launch "$run/huge.cubin" --function saxpy && fail "launch accepted a binary that takes 64 GiB"
grep -q 'the module takes 65537 MiB, and .* are left' "$run/launch.txt" || fail "$(cat "$run/launch.txt")"
again

# The worker of a GPU kernel that never ends is killed after its slice, and the launcher says so; the other tenant continues.
launch "$own" --function forever --arg out:8:"$run/counted" && fail "the launch of an endless GPU kernel succeeded"
grep -q 'was reset' "$run/launch.txt" || fail "$(cat "$run/launch.txt")"
grep -Eq 'VF 1(: its work)? does not stop: its (worker|process) is killed' "$run/softgpu.log" ||
	fail "softgpu's log does not say that the worker of VF 1 was killed, or its process"
had=$(vf 0 run_ns)
await 60 at_least 0 run_ns $((had + 30000000))
kill -INT $a; wait_guest $a a
[ "$(field a resets)" = 0 ] || fail "the tenant of VF 0, which did nothing wrong, was reset"
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
