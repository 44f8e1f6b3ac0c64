# SPDX-License-Identifier: MIT
# Measures calls of a CUDA program in a VM (tests/bench/bench_cuda.c). Prints "BENCH" and its JSON.
. /tests/lib.sh
cp /bin/libcuda.so.1 /lib/x86_64-linux-gnu/
address=$(basename "$(dirname "$(grep -l 0x5348 $devices/*/device)")")
echo 1 >$devices/$address/enable
export VGPU_CUDA_LOG=1
bench-cuda /bin/sample.ptx 1000 >/run/bench.json 2>/run/bench.log || failed=1
echo "BENCH $(cat /run/bench.json)"
finish
