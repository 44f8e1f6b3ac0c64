#!/bin/bash
# SPDX-License-Identifier: MIT
# CUDA programs over VFs: a program that uses the Driver API, linked to the libcuda.so.1 of tools/cuda, on softgpu's CUDA engine,
# whose own driver is the one in software (tools/cuda/driver/soft_cuda.c) or, with VGPU_ON_GPU=yes, the host's, on a GPU. Two programs at a
# time on two VFs; a second one on a VF; a program that is killed at random instants while its neighbour computes; GPU kernels that never end
# or fault; softgpu that dies.
. "$(dirname "$0")/lib.sh"
choose_driver
sample=$VGPU_BUILD/tests/cuda/programs/cuda-sample
library=$VGPU_BUILD/tools/cuda/library/libcuda.so.1
# The library exports the calls of the Driver API, and nothing else.
exported=$(nm -D --defined-only "$library" | awk '{print $3}' | grep -vE '^(__asan|__odr_asan|___asan|__ubsan)')
[ "$(grep -c '^cu[A-Z]' <<<"$exported")" -gt 400 ] || fail "$library exports too little: $exported"
other=$(grep -v '^cu[A-Z]' <<<"$exported")
[ -z "$other" ] || fail "$library exports more than the Driver API: $other"
# What it has for each thread takes room of which there is little where a program has loaded much (tools/cuda/library/cuda_call.h).
for_each_thread=$(readelf -lW "$library" | awk '$1 == "TLS" {print $6}')
[ $((for_each_thread)) -gt 0 ] && [ $((for_each_thread)) -le 64 ] || fail "$library has $for_each_thread bytes for each thread"

gpu() {
	LD_LIBRARY_PATH=$driver "$softgpu" --dir "$run/gpu" --engine cuda --vfs 3 --vram 384M --window 32M --kill-after 2000 2>>"$run/softgpu.log" &
	softgpu_pid=$!
}
gpu
await 90 test -S "$run/gpu/pf.sock"
config <<-CONF
	vfs = 3
	policy = fair
	slice_us = 10000
	grace_ms = 10000
CONF
start_vgpud
program() { # NAME VF [loop | forever | far | asserts]: starts a program; sets $program_pid
	local name=$1 vf=$2
	shift 2
	rm -f "$run/$name.txt"
	VGPU_CUDA_LOG=1 VGPU_CUDA_VF="$run/gpu/vf$vf.sock" "$sample" "$@" >"$run/$name.txt" 2>"$run/$name.log" &
	program_pid=$!
}
runs() { [ "$(awk '{print $3}' "/proc/$1/stat")" != Z ]; } # a program of this test that was not waited for
says() { grep -q "$2" "$run/$1.txt"; }

# No VF, no such VF, and a VF whose engine runs no GPU kernels are each an error with a reason.
VGPU_CUDA_LOG=1 "$sample" >"$run/none.txt" 2>"$run/none.err" && fail "a program without a VF succeeded"
says none CUDA_ERROR_NO_DEVICE && grep -q 'set VGPU_CUDA_VF' "$run/none.err" || fail "$(cat "$run/none.txt" "$run/none.err")"
VGPU_CUDA_LOG=1 VGPU_CUDA_VF="$run/gpu/vf9.sock" "$sample" >"$run/none.txt" 2>"$run/none.err" && fail "a program without a VF succeeded"
says none CUDA_ERROR_NO_DEVICE && grep -q 'cannot connect' "$run/none.err" || fail "$(cat "$run/none.txt" "$run/none.err")"

# A program that wants no device sees none, says why, and takes no slot; vgpu-cuda-check says so, too.
for list in "" -1 5 GPU-nonsense MIG-1; do
	CUDA_VISIBLE_DEVICES=$list VGPU_CUDA_LOG=1 VGPU_CUDA_VF="$run/gpu/vf1.sock" "$sample" >"$run/none.txt" 2>"$run/none.err" && fail "a program saw a device: '$list'"
	says none CUDA_ERROR_NO_DEVICE && grep -qF "CUDA_VISIBLE_DEVICES=$list: this program sees no device" "$run/none.err" || fail "'$list': $(cat "$run/none.txt" "$run/none.err")"
	CUDA_VISIBLE_DEVICES=$list VGPU_CUDA_VF="$run/gpu/vf1.sock" LD_LIBRARY_PATH="${library%/*}:$VGPU_BUILD/tools/cuda/nvml" "$VGPU_BUILD/tools/cuda/library/vgpu-cuda-check" >"$run/none.txt" 2>"$run/none.err" &&
		fail "vgpu-cuda-check finds nothing wrong with CUDA_VISIBLE_DEVICES='$list'"
	grep -qF "CUDA_VISIBLE_DEVICES=$list: programs see no device; unset it, or set it to 0 or GPU-" "$run/none.err" || fail "$(cat "$run/none.err")"
done

# All checks, in two programs at a time on two VFs, which they give back.
program a 0; a=$program_pid
program b 1; b=$program_pid
for p in $a $b; do wait "$p" || fail "a program failed: $(cat "$run"/[ab].txt)"; done
await 60 is 0 state available
await 60 is 1 state available
grep -q 'cuMemAdvise is not supported' "$run/a.log" || fail "the log does not name a call that is not supported: $(cat "$run/a.log")"
grep -q "NVIDIA's runtime library (cudart)" "$run/a.log" || fail "the log does not say why programs with cudart do not run: $(cat "$run/a.log")"
[ "$(grep -c 'can have at most 1023 bytes: xxx' "$run/a.log")" = 2 ] || fail "the log does not say that names are too long: $(cat "$run/a.log")"

# GPU kernels reach memory of the program, so that the checks about it have checked something.
LD_LIBRARY_PATH=$VGPU_BUILD/tools/cuda/library:$VGPU_BUILD/tools/cuda/nvml VGPU_CUDA_VF=$run/gpu/vf0.sock "$VGPU_BUILD/tools/cuda/library/vgpu-cuda-check" \
	>"$run/check.txt" 2>&1 && grep -q '^managed  *yes' "$run/check.txt" || fail "$(cat "$run/check.txt")"
await 60 is 0 state available

# GPU kernels in CUDA C++, which clang compiles here: each level of optimization makes other PTX of them.
sources=$(dirname "$0")/../cuda/programs
for level in 0 1 2 3 s; do
	"$sources/make-ptx" "$sources/compiled.cu" -O$level >"$run/compiled-O$level.ptx" 2>"$run/clang.log" || fail "clang makes no PTX of compiled.cu with -O$level"
done
VGPU_CUDA_LOG=1 VGPU_CUDA_VF="$run/gpu/vf0.sock" "$VGPU_BUILD/tests/cuda/programs/cuda-compiled" "$run"/compiled-O*.ptx >"$run/compiled.txt" 2>&1 &&
	grep -q '^5 files: 0 wrong' "$run/compiled.txt" || fail "GPU kernels that clang has compiled: $(cat "$run/compiled.txt")"
await 60 is 0 state available

# A program that is alone, and launches again just when its VF is to yield, is not told to stop, which could be to kill it.
program a 2 pauses
wait $program_pid || fail "a program that pauses now and then failed: $(cat "$run/a.txt" "$run/a.log")"
[ "$(json vf show 2 | jq '.overrun_ns * 50 < .run_ns')" = true ] || fail "GPU kernels of a VF that was alone were to stop: $(ctl vf show 2)"
await 60 is 2 state available

# A suite of short programs is not held up: each brings its VF up and down.
for n in $(seq 25); do
	LD_LIBRARY_PATH=$VGPU_BUILD/tools/cuda/library:$VGPU_BUILD/tools/cuda/nvml VGPU_CUDA_VF=$run/gpu/vf1.sock "$VGPU_BUILD/tools/cuda/library/vgpu-cuda-check" >"$run/check.txt" 2>&1 ||
		fail "program $n in a row: $(cat "$run/check.txt")"
done
[ "$(vf 1 refused)" = 0 ] || fail "a program in a row was refused: $(ctl vf show 1)"
await 60 is 1 state available

# A program that closes the library can load it again.
VGPU_CUDA_LOG=1 VGPU_CUDA_VF="$run/gpu/vf0.sock" "$VGPU_BUILD/tests/cuda/programs/cuda-reload" "$library" >"$run/reload.txt" 2>&1 || fail "$(cat "$run/reload.txt")"
await 60 is 0 state available

# A second program cannot have a VF that is in use, and the first one goes on.
program a 0 loop; a=$program_pid
await 60 says a ready
VGPU_CUDA_LOG=1 VGPU_CUDA_VF="$run/gpu/vf0.sock" "$sample" >"$run/none.txt" 2>"$run/none.err" && fail "two programs have one VF"
says none CUDA_ERROR_DEVICE_UNAVAILABLE && grep -q 'another program holds' "$run/none.err" || fail "$(cat "$run/none.txt" "$run/none.err")"

# A program that is killed at random instants leaves nothing: its VF comes back with its memory clear and no context, and works;
# its neighbour computes right results all the time, and is never reset.
resets=$(vf 0 resets)
for i in 1 2 3 4; do
	program b 1 loop
	await 60 says b ready
	sleep "0.$((RANDOM % 300 + 100))"
	kill -9 "$program_pid"
	wait "$program_pid" 2>>"$run/b.log"
	await 60 is 1 state available
	runs "$a" || fail "the neighbour of a killed program ended in round $i: $(cat "$run/a.txt")"
done
program b 1
wait $program_pid || fail "after programs were killed, another one failed: $(cat "$run/b.txt" "$run/b.log")"
await 60 is 1 state available
[ "$(vf 0 resets)" = "$resets" ] || fail "the neighbour of killed programs was reset"

# A GPU kernel that never ends is killed after its slice; its program's context ends with an error, and the neighbour goes on. One that writes
# to no memory, or of which an assertion fails, ends at once, and the program is told why, though the VF has been reset meanwhile. Three of these in a minute hold the VF back
# for 1, 2 and 4 s, and nothing more: the next program needs no operator.
for i in forever far asserts; do
	program c 2 $i
	wait $program_pid && fail "a GPU kernel succeeded that is wrong: $i"
	case $i in far) says c CUDA_ERROR_ILLEGAL_ADDRESS ;; asserts) says c CUDA_ERROR_ASSERT && grep -qF 'thread: [5,0,0] Assertion `x < 3` failed.' "$run/c.log" ;; *) says c CUDA_ERROR_LAUNCH_FAILED ;; esac || fail "$(cat "$run/c.txt" "$run/c.log")"
done
program c 2
wait $program_pid || fail "after three faults, another program failed: $(cat "$run/c.txt" "$run/c.log")"
json events --limit 1000 >"$run/events.json"
jq -e '[.records[] | select(.vf == 2)] as $all | [$all[] | select(.type == "hang").t_ns] as $faults |
	($faults | length) == 3 and all($faults[]; . as $at |
		([$faults[] | select(. <= $at and . > $at - 59e9)] | length) as $strikes |
		[$all[] | select(.type == "window" and .t_ns > $at).t_ns][0] - $at >= 1e9 * pow(2; $strikes - 1))' "$run/events.json" >/dev/null ||
	fail "three faults have not held the VF back for 1, 2 and 4 s: $(ctl events --limit 50)"
runs "$a" || fail "the neighbour of an endless GPU kernel ended: $(cat "$run/a.txt")"
[ "$(vf 0 resets)" = "$resets" ] || fail "the neighbour of an endless GPU kernel was reset"
# softgpu dies under a program, which gets CUDA's error for that. With the next softgpu the next program works, without an operator.
kill -9 $softgpu_pid
wait $softgpu_pid 2>>"$run/a.log"
wait $a && fail "a program works without softgpu"
says a CUDA_ERROR_LAUNCH_FAILED || fail "$(cat "$run/a.txt" "$run/a.log")"
gpu
await 60 is 0 state available
program a 0
wait $program_pid || fail "with another softgpu, a program failed: $(cat "$run/a.txt" "$run/a.log")"
# Nothing is left: every descriptor and process that the programs had in softgpu is gone.
await 60 is 0 state available
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
