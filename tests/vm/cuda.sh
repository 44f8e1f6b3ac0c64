#!/bin/bash
# SPDX-License-Identifier: MIT
# cuda.sh [bench [shared]]: CUDA programs in a VM: a Linux in QEMU with a VF of softgpu's CUDA engine as a vfio-user device. Runs
# tests/vm/guest/cuda.sh in it, with the library, the check and the udev rule of the guests' package; or measures, and prints JSON:
# with a CPU for QEMU alone, as a VM has one where the GPU is hardware; or, shared, with all CPUs for QEMU and the GPU in software.
# softgpu, vgpud and the worker run on this machine; the worker's own driver is the one in software (tests/unit/soft_cuda.c).
# VGPU_BUILD is the build, VGPU_LAB what tests/vm/setup has made.
case "$*" in '' | bench | "bench shared") ;; *) echo "usage: cuda.sh [bench [shared]]" >&2; exit 2 ;; esac
here=$(cd "$(dirname "$0")" && pwd)
qemu=${VGPU_QEMU:-$here/../../build/vm-vfio-user/qemu}
udevd=/lib/systemd/systemd-udevd
[ -x "$qemu" ] || { echo "skipped: no QEMU with vfio-user; tests/vm/setup-vfio-user fetches one"; exit 77; }
[ -x $udevd ] || { echo "skipped: $udevd is missing"; exit 77; }
. "$here/../system/lib.sh"
# The driver in software clears the VF slowly when a program starts, so the VF is small.
script=cuda vram=64M
programs=("$VGPU_BUILD"/{tests/cuda/cuda-sample,tests/nvml/nvml-{sample,hold},tools/cuda/vgpu-cuda-check,tools/cuda/libcuda.so.1,tools/nvml/libnvidia-ml.so.1} "$here/../../tools/cuda/60-vgpu-cuda.rules" $udevd /bin/udevadm)
on=() cpus=shared machine=$(this_machine) # on: where QEMU runs
if [ "${1:-}" = bench ]; then
	if [ "${2:-}" != shared ]; then
		[ "$(nproc)" -ge 2 ] || { echo "skipped: QEMU and the GPU in software need a CPU each"; exit 77; }
		mapfile -t all < <(sed -n 's/Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr , '\n' |
			while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done)
		on=(taskset -c "${all[-1]}") cpus="one for QEMU alone"
		taskset -pc "$(IFS=,; echo "${all[*]::${#all[@]}-1}")" $$ >/dev/null
	fi
	script=cuda-bench vram=128M
	programs=("$VGPU_BUILD"/{tests/bench/bench-cuda,tools/cuda/libcuda.so.1} "$here/../cuda/sample.ptx")
fi
"$here/image" "$VGPU_LAB" "$run/image.gz" "${programs[@]}" || fail "the image cannot be made"
LD_LIBRARY_PATH=$VGPU_BUILD/tests/unit/driver start_softgpu --engine cuda --vfs 1 --vram "$vram" --window 16M --kill-after 8000
config <<-CONF
	vfs = 1
	grace_ms = 10000
CONF
start_vgpud
await 60 is 0 state available
# The VM's memory is shared with softgpu, as vfio-user needs it.
"${on[@]}" "$qemu" -nodefaults -no-user-config -no-reboot -display none -monitor none -serial stdio \
	-machine q35,memory-backend=m -m 512 -object memory-backend-memfd,id=m,size=512M,share=on -accel tcg -cpu max -smp 1 \
	-kernel "$VGPU_LAB/vmlinuz" -initrd "$run/image.gz" -append "console=ttyS0 quiet panic=-1 lab.test=$script" \
	-device "{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"$run/gpu/vf0.sock\"}}" \
	</dev/null >"$run/console" 2>"$run/qemu.log" &
qemu_pid=$!
pids+=($!)
gone() { ! kill -0 $qemu_pid 2>/dev/null; }
until gone || [ $SECONDS -ge 500 ]; do sleep 0.05; done
if [ "${1:-}" = bench ]; then
	grep -qa '^BENCH {' "$run/console" || fail "nothing was measured: $(tail -30 "$run/console")"
	tr -d '\r' <"$run/console" | sed -n 's/^BENCH //p' |
		jq --arg machine "$machine" --arg cpus "$cpus" '{bench: "cuda-vm", machine: $machine, driver: "in software", cpus: $cpus} + .' || fail "$(tail -30 "$run/console")"
	exit 0
fi
tr -d '\r' <"$run/console"
grep -qa '^LAB-RESULT 0 ' "$run/console" || fail "the test failed in the VM"
# The VM is gone, and its VF with it: nothing of it is left.
gone || fail "the VM does not end"
wait $qemu_pid
await 60 is 0 state available
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
