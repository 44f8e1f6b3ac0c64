#!/bin/bash
# SPDX-License-Identifier: MIT
# NVML for a VF that a CUDA program has, by the libnvidia-ml.so.1 of tools/cuda/nvml: what it says of memory and processes while programs
# allocate, free and are killed; and programs of others on it (nvidia-smi, nvtop, gpustat), which are fetched.
. "$(dirname "$0")/lib.sh"
tests=$VGPU_BUILD/tests
library=$VGPU_BUILD/tools/cuda/nvml/libnvidia-ml.so.1
# The library exports NVML's calls, and nothing else; it stays in memory.
exported=$(nm -D --defined-only "$library" | awk '{print $3}' | grep -vE '^(__asan|__odr_asan|___asan|__ubsan)')
[ "$(grep -c '^nvml[A-Z]' <<<"$exported")" -gt 340 ] || fail "$library exports too little: $exported"
other=$(grep -v '^nvml[A-Z]' <<<"$exported")
[ -z "$other" ] || fail "$library exports more than NVML: $other"
readelf -d "$library" | grep -q NODELETE || fail "$library can be unloaded"

LD_LIBRARY_PATH=$VGPU_BUILD/tools/cuda/driver start_softgpu --engine cuda --vfs 2 --window 32M --kill-after 2000
config <<-CONF
	vfs = 2
	policy = fair
	slice_us = 10000
	grace_ms = 10000
CONF
start_vgpud
await 60 is 0 state available
export VGPU_CUDA_VF=$run/gpu/vf0.sock
mib=$((1 << 20))
nvml() { "$tests/cuda/nvml/nvml-sample" >"$run/nvml.txt" 2>"$run/nvml.log" || fail "nvml-sample: $(cat "$run/nvml.txt")"; }
says() { grep -qx -- "$1" "$run/nvml.txt"; }
tells() { nvml && says "$1"; }
expect() { # LINE...
	nvml
	for line in "$@"; do says "$line" || fail "nvml-sample does not say '$line': $(cat "$run/nvml.txt")"; done
}
# starts NAME: a program that has memory; its input is descriptor 5. Sets $program_pid.
starts() {
	rm -f "$run/$1.in" "$run/$1.txt"
	mkfifo "$run/$1.in"
	"$tests/cuda/nvml/nvml-hold" <"$run/$1.in" >"$run/$1.txt" 2>>"$run/$1.log" &
	program_pid=$!
	exec 5>"$run/$1.in"
	await 60 grep -q ^total "$run/$1.txt"
}
does() { # NAME LINE: the program allocates or frees
	local before
	before=$(wc -l <"$run/$1.txt")
	echo "$2" >&5
	await 60 eval "[ \$(wc -l <$run/$1.txt) -gt $before ]"
	[ "$(tail -1 "$run/$1.txt")" = ok ] || fail "the program cannot do '$2'"
}

# Without a program nobody knows the VF's memory, because a socket has one client; and nothing has connected to it.
expect "name VF of softgpu" "memory not supported: a VF does not tell this" "pci ffffffff:00:00.0" \
	"compute exclusive process" "virtualization not supported: a VF does not tell this" "persistence disabled" "mig disabled, then disabled"
says process && fail "there is a process: $(cat "$run/nvml.txt")"
is 0 state available || fail "looking at a VF has taken it"

starts a
all=$(sed -n 's/^total //p' "$run/a.txt")
[ "$all" -gt $((64 * mib)) ] && [ "$all" -lt "$(vf 0 memory_bytes)" ] || fail "the program sees $all bytes"
expect "name no GPU, but its interface in software, CUDA 12.4" "uuid $(head -1 "$run/a.txt")" "capability 7.0" "$(grep ^compute "$run/a.txt")" \
	"total $all" "used 0" "free $all" "process $program_pid 0"
does a "+$((12 * mib))"
expect "total $all" "used $((12 * mib))" "free $((all - 12 * mib))" "process $program_pid $((12 * mib))"
does a "+$((5 * mib))"
expect "used $((17 * mib))" "process $program_pid $((17 * mib))"
does a -
expect "used $((12 * mib))"
# The other VF is not this one, whatever path leads to this one.
VGPU_CUDA_VF=$run/gpu/vf1.sock expect "memory not supported: a VF does not tell this"
VGPU_CUDA_VF=$run/gpu/../gpu/vf0.sock expect "used $((12 * mib))"
ln -s "$run/gpu/vf0.sock" "$run/other.sock"
VGPU_CUDA_VF=$run/other.sock expect "used $((12 * mib))"

# Programs that others have written.
needed=(python3-pynvml python3-psutil python3-blessed python3-six python3-wcwidth python3-pkg-resources libncursesw6 libdrm2 libsystemd0)
if "$(dirname "$0")/../fetch" "$run/fetched" nvtop gpustat "${needed[@]}" 2>"$run/fetch.txt"; then
	root=$run/fetched/root
	python() { LD_LIBRARY_PATH=$VGPU_BUILD/tools/cuda/nvml PYTHONPATH=$root/usr/lib/python3/dist-packages /usr/bin/python3 "$@"; }
	python -m gpustat --json >"$run/gpustat.txt" 2>"$run/gpustat.log" || fail "gpustat ended with $?"
	[ "$(jq -r '.gpus[0] | "\(.uuid) \(."memory.used") \(."memory.total") \(.processes[0].pid) \(.processes[0].gpu_memory_usage)"' "$run/gpustat.txt")" = \
		"$(head -1 "$run/a.txt") 12 $((all / mib)) $program_pid 12" ] || fail "gpustat: $(cat "$run/gpustat.txt")"
	mkfifo "$run/keys"
	TERM=xterm LD_LIBRARY_PATH=$VGPU_BUILD/tools/cuda/nvml:$(echo "$root"/usr/lib/*-linux-gnu) \
		script -qefc "$root/usr/bin/nvtop" "$run/nvtop.txt" <"$run/keys" >/dev/null 2>&1 &
	nvtop_pid=$!
	exec 6>"$run/keys"
	await 30 grep -aq "no GPU, but its interface in software" "$run/nvtop.txt"
	await 30 grep -aqE "$program_pid .*Compute .* 12MiB" "$run/nvtop.txt"
	echo q >&6
	exec 6>&-
	wait $nvtop_pid || fail "nvtop ended with $?: $(cat "$run/nvtop.txt")"
else
	echo "skipped: $(cat "$run/fetch.txt")"
fi

if "$(dirname "$0")/../fetch" "$run/smi" nvidia-smi 2>"$run/fetch.txt"; then
	smi() { LD_LIBRARY_PATH=$VGPU_BUILD/tools/cuda/nvml "$run/smi/root/usr/lib/nvidia/current/nvidia-smi" "$@" >"$run/smi.txt" 2>&1 || fail "nvidia-smi $* ended with $?: $(cat "$run/smi.txt")"; }
	shows() { grep -qE -- "$1" "$run/smi.txt" || fail "nvidia-smi does not show '$1': $(cat "$run/smi.txt")"; }
	smi
	shows " 12MiB / +$((all / mib))MiB "
	shows " $program_pid +C .*nvml-hold +12MiB "
	smi -L
	shows "^GPU 0: no GPU, but its interface in software, CUDA 12.4 \(UUID: $(head -1 "$run/a.txt")\)$"
	smi --query-gpu=compute_mode,persistence_mode,mig.mode.current,mig.mode.pending --format=csv,noheader
	shows "^Exclusive_Process, Disabled, Disabled, Disabled$"
	smi -q -x
	shows "<pid>$program_pid</pid>"
	smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv,noheader,nounits
	shows "^$(head -1 "$run/a.txt"), $program_pid, 12$"
else
	echo "skipped: $(cat "$run/fetch.txt")"
fi

# A killed program has no memory.
kill -9 $program_pid
wait $program_pid 2>>"$run/a.log"
exec 5>&-
await 30 tells "memory not supported: a VF does not tell this"
says process && fail "a killed program still has memory: $(cat "$run/nvml.txt")"

# A program computes while others look, and neither is disturbed.
await 60 is 0 state available; ctl vf reset 0; await 60 is 0 state available
resets=$(vf 0 resets)
"$tests/cuda/programs/cuda-sample" >"$run/b.txt" 2>"$run/b.log" &
program_pid=$!
await 60 tells "process $program_pid .*"
looks=0
while kill -0 "$program_pid" 2>/dev/null; do nvml; looks=$((looks + 1)); done
wait $program_pid || fail "a program that others look at fails: $(cat "$run/b.txt" "$run/b.log")"
[ "$looks" -gt 3 ] || fail "nobody has looked"
await 60 is 0 state available
[ "$(vf 0 resets)" = "$resets" ] || fail "looking has reset the VF"
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
