#!/bin/bash
# SPDX-License-Identifier: MIT
# cuda.sh [bench [shared]]: CUDA programs in a VM. Runs tests/vm/guest/cuda.sh in it, with the library, the check and the udev rule of
# the guests' package; or measures, and prints JSON: with a CPU for QEMU alone, as a VM has one where the GPU is hardware; or, shared,
# with all CPUs for QEMU and the GPU in software.
case "$*" in '' | bench | "bench shared") ;; *) echo "usage: cuda.sh [bench [shared]]" >&2; exit 2 ;; esac
udevd=/lib/systemd/systemd-udevd
[ -x $udevd ] || { echo "skipped: $udevd is missing"; exit 77; }
. "$(dirname "$0")/cuda-lib.sh"
# The driver in software clears the VF slowly when a program starts, so the VF is small.
script=cuda vram=64M
programs=("$VGPU_BUILD"/{tests/cuda/programs/cuda-sample,tests/cuda/nvml/nvml-{sample,hold},tools/cuda/library/vgpu-cuda-check,tools/cuda/library/libcuda.so.1,tools/cuda/nvml/libnvidia-ml.so.1} "$here/../../tools/cuda/library/60-vgpu-cuda.rules" $udevd /bin/udevadm)
cpus=shared machine=$(this_machine)
if [ "${1:-}" = bench ]; then
	if [ "${2:-}" != shared ]; then
		[ "$(nproc)" -ge 2 ] || { echo "skipped: QEMU and the GPU in software need a CPU each"; exit 77; }
		mapfile -t all < <(sed -n 's/Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr , '\n' |
			while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done)
		on=(taskset -c "${all[-1]}") cpus="one for QEMU alone"
		taskset -pc "$(IFS=,; echo "${all[*]::${#all[@]}-1}")" $$ >/dev/null
	fi
	script=cuda-bench vram=128M
	programs=("$VGPU_BUILD"/{tests/bench/bench-cuda,tools/cuda/library/libcuda.so.1} "$here/../cuda/programs/sample.ptx")
fi
make_image "${programs[@]}"
start_cuda_softgpu --vfs 1 --vram "$vram"
config <<-CONF
	vfs = 1
	grace_ms = 10000
CONF
start_vgpud
await 60 is 0 state available
vm vm 0 512 "$script"
until gone $qemu_pid || [ $SECONDS -ge 500 ]; do sleep 0.05; done
if [ "${1:-}" = bench ]; then
	said vm '^BENCH {' || fail "nothing was measured: $(console vm | tail -30)"
	console vm | sed -n 's/^BENCH //p' |
		jq --arg machine "$machine" --arg cpus "$cpus" '{bench: "cuda-vm", machine: $machine, driver: "in software", cpus: $cpus} + .' || fail "$(console vm | tail -30)"
	exit 0
fi
console vm
ends_well vm $qemu_pid
# The VM is gone, and its VF with it: nothing of it is left.
await 60 is 0 state available
stop_all
