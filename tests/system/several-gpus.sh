#!/bin/bash
# SPDX-License-Identifier: MIT
# softgpu on a host with several NVIDIA GPUs: its workers see the one that it was started for and no other, and softgpu holds that
# GPU's file open, so that the GPU stays initialised while there is no worker. The driver is the one in software; what NVIDIA's kernel
# module shows of the GPUs is files in a mount namespace of the test's.
[ -n "${VGPU_NAMESPACE:-}" ] || VGPU_NAMESPACE=yes exec unshare --mount --propagation private "$0" "$@"
. "$(dirname "$0")/lib.sh"
driver=$VGPU_BUILD/tools/cuda/driver
[ -e "$driver/libcuda.so.1" ] || fail "$driver/libcuda.so.1 is missing: build it first"
# By PCI address; the numbers of their files are in another order.
gpus=(GPU-aaaa GPU-bbbb GPU-cccc)
minors=(4 2 9)
mkdir "$run/over"
mount -t tmpfs tmpfs "$run/over"
mkdir "$run/over/upper" "$run/over/work"
mount -t overlay overlay -o "lowerdir=/dev,upperdir=$run/over/upper,workdir=$run/over/work" /dev || { echo "skipped: no overlay here"; exit 77; }
umount --lazy "$run/over"
mount -t tmpfs tmpfs /proc/driver || fail "nothing can be mounted on /proc/driver"
for i in 0 1 2; do
	mkdir -p "/proc/driver/nvidia/gpus/0000:0$((i + 1)):00.0"
	printf 'Model: \t\t A GPU\nGPU UUID: \t %s\nDevice Minor: \t %s\n' "${gpus[i]}" "${minors[i]}" >"/proc/driver/nvidia/gpus/0000:0$((i + 1)):00.0/information"
	touch "/dev/nvidia${minors[i]}"
done
export SOFT_CUDA_GPUS="${gpus[*]}" LD_LIBRARY_PATH=$driver
holds() { readlink "/proc/$softgpu_pid/fd/"* | grep -qx "$1"; }
begin() { # options
	: >"$run/softgpu.log"
	start_softgpu --engine cuda --vfs 1 --kill-after 5000 "$@"
	await 90 grep -q 'softgpu: ready' "$run/softgpu.log"
}
end() {
	kill "$softgpu_pid"
	wait "$softgpu_pid"
	rm -rf "$run/gpu"
}
for i in 0 1 2; do
	begin --gpu "$i"
	grep -q "on software, ${gpus[i]}, CUDA" "$run/softgpu.log" || fail "--gpu $i is not on ${gpus[i]} alone"
	holds "/dev/nvidia${minors[i]}" || fail "softgpu does not hold /dev/nvidia${minors[i]} open: $(readlink "/proc/$softgpu_pid/fd/"*)"
	[ "$(readlink "/proc/$softgpu_pid/fd/"* | grep -c /dev/nvidia)" = 1 ] || fail "softgpu holds another GPU open, too"
	end
done
# What the operator shows to CUDA's programs is what --gpu counts.
CUDA_VISIBLE_DEVICES=${gpus[1]} begin --gpu 0
grep -q "on software, ${gpus[1]}, CUDA" "$run/softgpu.log" || fail "CUDA_VISIBLE_DEVICES is not heeded"
end
# Without the file it works, and says what is lost.
rm "/dev/nvidia${minors[2]}"
begin --gpu 2
grep -q "on software, ${gpus[2]}, CUDA" "$run/softgpu.log" || fail "--gpu 2 is not on ${gpus[2]} alone"
grep -q "/dev/nvidia${minors[2]}: .*without nvidia-persistenced" "$run/softgpu.log" || fail "softgpu does not say that the GPU is not held"
end
# A GPU whose UUID is not known yet is found by its number.
sed -i 's/^GPU UUID.*/GPU UUID: \t GPU-????????-????-????-????-????????????/' /proc/driver/nvidia/gpus/0000:02:00.0/information
begin --gpu 1
grep -q "on software, ${gpus[1]}, beside others, CUDA" "$run/softgpu.log" || fail "--gpu 1 without a UUID is another GPU"
end
echo "three GPUs: each was seen alone, and held"
