#!/bin/bash
# SPDX-License-Identifier: MIT
# CUDA programs that others have written, unmodified, on a VF: ffmpeg, whose filter's GPU kernel clang has compiled, numba, which
# compiles Python with NVIDIA's NVVM, PyCUDA, also with CUDA C++ that NVIDIA's NVRTC compiles, OpenACC as GCC compiles it, and the part of
# LLVM's OpenMP that finds GPUs. They are those of Debian 12, and are fetched.
. "$(dirname "$0")/lib.sh"
skip() { echo "skipped: $*"; exit 77; }
[ "$(. /etc/os-release && echo "$VERSION_CODENAME")" = bookworm ] || skip "ffmpeg and numba of Debian 12 are not for this machine"
get() { # ARGS...: of tests/fetch
	"$(dirname "$0")/../fetch" "$run/fetched" "$@" 2>"$run/fetch.txt"
	case $? in
	0) ;;
	77) skip "$(cat "$run/fetch.txt")" ;;
	*) fail "tests/fetch: $(cat "$run/fetch.txt")" ;;
	esac
}
get --depends ffmpeg python3-numba libnvvm4 libomp-14-dev
get gcc-12-offload-nvptx libgomp-plugin-nvptx1 nvptx-tools
# PyCUDA's package depends on NVIDIA's toolkit, of which it needs a library to start, and a compiler that is not used here.
get python3-pycuda python3-pytools python3-decorator python3-appdirs python3-platformdirs python3-mako python3-markupsafe libboost-python1.74.0 \
	libboost-thread1.74.0 libcurand10 libnvrtc11.2 libnvrtc-builtins11.8
root=$run/fetched/root
LD_LIBRARY_PATH=$VGPU_BUILD/tools/cuda/driver start_softgpu --engine cuda --vfs 1 --window 32M --kill-after 2000
config <<-CONF
	vfs = 1
	grace_ms = 10000
CONF
start_vgpud
await 60 is 0 state available
export VGPU_CUDA_VF=$run/gpu/vf0.sock VGPU_CUDA_LOG=1
libraries=$VGPU_BUILD/tools/cuda/library:$(find "$root" -name '*.so*' -printf '%h\n' | sort -u | tr '\n' ':')

# ffmpeg: one video over another, on the GPU and by its own filter on the CPU. Frames go there and back.
one="-f lavfi -i testsrc2=size=320x240:rate=10:duration=2"
other="-f lavfi -i testsrc=size=96x64:rate=10:duration=2"
# shellcheck disable=SC2086
frames() { # FILTER OPTIONS...: prints the checksums of the frames
	LD_LIBRARY_PATH=$libraries "$root/usr/bin/ffmpeg" -hide_banner -nostdin -v error "${@:2}" $one $other -filter_complex "$1" -f framemd5 - | grep -v '^#'
}
on_gpu=$(frames "[0]format=yuv420p,hwupload_cuda[a];[1]format=yuv420p,hwupload_cuda[b];[a][b]overlay_cuda=x=32:y=20,hwdownload,format=yuv420p" \
	-init_hw_device cuda=cu -filter_hw_device cu) || fail "ffmpeg ended with $?"
# The same with the device's primary context, for which ffmpeg asks by names of CUDA 7.
on_primary=$(frames "[0]format=yuv420p,hwupload_cuda[a];[1]format=yuv420p,hwupload_cuda[b];[a][b]overlay_cuda=x=32:y=20,hwdownload,format=yuv420p" \
	-init_hw_device cuda=cu,primary_ctx=1 -filter_hw_device cu) || fail "ffmpeg ended with $? with the primary context"
on_cpu=$(frames "[0]format=yuv420p[a];[1]format=yuv420p[b];[a][b]overlay=x=32:y=20,format=yuv420p") || fail "ffmpeg ended with $?"
[ "$(wc -l <<<"$on_gpu")" = 20 ] || fail "ffmpeg has not made 20 frames: $on_gpu"
[ "$on_primary" = "$on_gpu" ] || fail "the GPU's frames differ with the primary context: $on_primary; $on_gpu"
[ "$on_gpu" = "$on_cpu" ] || fail "the GPU's frames differ: $on_gpu; the CPU's: $on_cpu"

# numba: the part of CUDA's toolkit that it needs is NVVM, and a library of functions for GPU kernels, of which there are none here.
mkdir -p "$run/cuda/nvvm/lib64" "$run/cuda/nvvm/libdevice"
ln -s "$root"/usr/lib/*-linux-gnu/libnvvm.so.4 "$run/cuda/nvvm/lib64/libnvvm.so"
clang --target=nvptx64-nvidia-cuda -x ir -c -emit-llvm -o "$run/cuda/nvvm/libdevice/libdevice.10.bc" /dev/null 2>/dev/null || fail "clang makes no empty library"
CUDA_HOME=$run/cuda NUMBA_FORCE_CUDA_CC=7.0 NUMBA_CACHE_DIR=$run/numba LD_LIBRARY_PATH=$run/cuda/nvvm/lib64:$libraries PYTHONPATH=$root/usr/lib/python3/dist-packages PYTHONDONTWRITEBYTECODE=1 \
	/usr/bin/python3 "$(dirname "$0")/../cuda/programs/numba_sample.py" >"$run/numba.txt" 2>"$run/numba.log" || fail "numba ended with $?: $(cat "$run/numba.txt"; tail -5 "$run/numba.log")"
[ "$(grep -c " right$" "$run/numba.txt")" = 9 ] || fail "numba's results: $(cat "$run/numba.txt")"
cat "$run/numba.txt"

pycuda() { # NAME RESULTS ARGS...: runs the sample of this name, which prints so many
	LD_LIBRARY_PATH=$libraries PYTHONPATH=$root/usr/lib/python3/dist-packages PYTHONDONTWRITEBYTECODE=1 \
		/usr/bin/python3 "$(dirname "$0")/../cuda/programs/$1_sample.py" "${@:3}" >"$run/$1.txt" 2>"$run/$1.log" ||
		fail "$1 ended with $?: $(cat "$run/$1.txt"; tail -5 "$run/$1.log")"
	[ "$(grep -c " right$" "$run/$1.txt")" = "$2" ] || fail "the results of $1: $(cat "$run/$1.txt")"
	cat "$run/$1.txt"
}
pycuda pycuda 11 "$(dirname "$0")/../cuda/programs/sample.ptx"
pycuda nvrtc 9

# OpenACC: GCC's compiler for GPUs makes PTX, and its library runs that. Its assembler would ask a ptxas that the machine may have.
offload=$(echo "$root"/usr/lib/gcc/*/12)
for o in 0 1 2 3 s; do
	PATH=$root/usr/bin:/usr/bin:/bin gcc -O$o -fopenacc -foffload=nvptx-none -B"$offload/" -o "$run/openacc" \
		"$(dirname "$0")/../cuda/programs/openacc_sample.c" 2>"$run/gcc.log" || fail "gcc compiles no OpenACC with -O$o"
	ACC_DEVICE_TYPE=nvidia LD_LIBRARY_PATH=$libraries "$run/openacc" >"$run/openacc.txt" 2>"$run/openacc.log" ||
		fail "OpenACC with -O$o ended with $?: $(cat "$run/openacc.txt")"
	[ "$(grep -c " right$" "$run/openacc.txt")" = 8 ] || fail "OpenACC's results with -O$o: $(cat "$run/openacc.txt")"
done
cat "$run/openacc.txt"

# What clang compiles for OpenMP are cubins, which no driver in software executes: this asks the device about itself.
LD_LIBRARY_PATH=$libraries "$root/usr/lib/llvm-14/bin/llvm-omp-device-info" >"$run/openmp.txt" 2>"$run/openmp.log" || fail "llvm-omp-device-info ended with $?"
grep -q "Device Name:.*in software" "$run/openmp.txt" && grep -q "Compute Capabilities:[[:space:]]*70" "$run/openmp.txt" || fail "OpenMP finds no GPU: $(cat "$run/openmp.txt")"
! grep -q "CUDA error" "$run/openmp.txt" "$run/openmp.log" || fail "OpenMP: $(cat "$run/openmp.txt" "$run/openmp.log")"
await 60 is 0 state available
[ "$(vf 0 hangs)" = 0 ] || fail "a GPU kernel had to be stopped"
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
kill $softgpu_pid; wait $softgpu_pid || fail "softgpu ended with $?"
