#!/bin/bash
# SPDX-License-Identifier: MIT
# Images that others make, in containers with a slice: Debian 11, the oldest Debian in its archive (glibc 2.31), whose Python loads our
# library, and computes from an attach to a detach; one with musl, as Alpine has it, which is refused; and this Debian with numba and
# hashcat, beside a hog in another container. All of it is fetched into the build, once.
# shellcheck disable=SC2046 # gpu prints several words
. "$(dirname "$0")/containers-lib.sh"
skip() { echo "skipped: $*"; exit 77; }
[ "$(. /etc/os-release && echo "$VERSION_CODENAME")" = bookworm ] || skip "numba and hashcat of Debian 12 are not for this machine"
fetch() { # DIR ARGS...
	"$here/../fetch" "$@" 2>"$run/fetch.txt"
	case $? in
	0) ;;
	77) skip "$(cat "$run/fetch.txt")" ;;
	*) fail "tests/fetch: $(cat "$run/fetch.txt")" ;;
	esac
}
cache=$VGPU_BUILD/containers-images root=$VGPU_BUILD/containers-images/others/root
mkdir -p "$cache"
vfs=2 more='grace_ms = 10000'
start_gpu() { LD_LIBRARY_PATH=$driver start_softgpu --engine cuda --vfs $vfs --vram 1920M --window 256M --module-memory 256M --kill-after 10000 --socket-user root; }

# An old glibc. Its Python asks libcuda what a program asks first.
. "$here/../vm/archive.sh"
if [ ! -e "$cache/old/etc/fetched" ]; then
	rm -rf --one-file-system "$cache/old"
	unshare --mount debootstrap --variant=minbase --include=python3-minimal,libpython3-stdlib bullseye "$cache/old" "$(archive)" >"$run/old.log" 2>&1 ||
		skip "Debian 11 cannot be fetched: $(tail -1 "$run/old.log")"
	touch "$cache/old/etc/fetched"
fi
cat >"$run/asks.py" <<'PY'
import ctypes
import os
cuda = ctypes.CDLL("libcuda.so.1")
n, free, total, context = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_void_p()
answers = [cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(n)), cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0),
           cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))]
print(os.confstr("CS_GNU_LIBC_VERSION"), answers, n.value, total.value > 0)
PY
# A program that runs before there is a VF, and goes on when there is none any more.
cat >"$run/waits.py" <<'PY'
import ctypes
import time
cuda = ctypes.CDLL("libcuda.so.1")
context, p, e = ctypes.c_void_p(), ctypes.c_uint64(), cuda.cuInit(0)
print("cuInit", e, flush=True)
while e == 100:
    time.sleep(0.05)
    e = cuda.cuInit(0)
answers = [e, cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0), cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(4096))]
print("later", answers, flush=True)
while e == 0:
    time.sleep(0.05)
    e = cuda.cuMemsetD8_v2(p, 1, ctypes.c_size_t(4096)) or cuda.cuCtxSynchronize()
print("in the end", e, cuda.cuInit(0), flush=True)
PY
# musl, where Alpine has it.
fetch "$run/musl" musl
mkdir -p "$run/musl.fs"/{bin,lib,proc,sys,dev,run,tmp,etc}
cp "$(command -v busybox)" "$run/musl.fs/bin/"
cp "$run/musl/root/lib/x86_64-linux-musl/libc.so" "$run/musl.fs/lib/ld-musl-x86_64.so.1" || fail "musl has no libc"
as_musl() { as_root "$@"; }
# This Debian, with what is fetched. Nothing of the machine is written to: its files are read-only there, and not below $run, which is removed.
if [ ! -e "$cache/others/fetched" ]; then
	fetch "$cache/others" --depends hashcat hashcat-data python3-numba
	fetch "$cache/others" libnvrtc11.2 libnvrtc-builtins11.8 libnvvm4
	touch "$cache/others/fetched"
fi
mount --bind -o ro / /media && ! touch /media/written 2>/dev/null || fail "the machine's files cannot be a container's"
in_files() { # FILES GPU OPTIONS... -- PROGRAM...: in a container of root's whose files stay as they are
	local files=$1 options=(--device "vgpud.dev/gpu=$2")
	shift 2
	while [ "$1" != -- ]; do options+=("$1"); shift; done
	as_root run "${plain[@]}" "${options[@]}" --rootfs "$files:O" "${@:2}"
}

start_host 0
start_mount
in_files "$cache/old" gpu0 -v "$run/asks.py:/asks.py:ro" -- python3 /asks.py >"$run/out.txt" 2>&1
grep -qx 'glibc 2.31 \[0, 0, 0, 0\] 1 True' "$run/out.txt" || fail "Debian 11: $(cat "$run/out.txt")"
cat "$run/out.txt"
id=$(in_files "$cache/old" later -d -v "$run/waits.py:/waits.py:ro" -- python3 /waits.py) || fail "no container with an empty slot"
says() { as_root logs "$id" >"$run/out.txt" 2>&1; grep -qx "$1" "$run/out.txt"; }
await 60 says "cuInit 100" || fail "without a VF: $(cat "$run/out.txt")"
by root container attach "$id" --gpu gpu0 2>"$run/out.txt" || fail "attach: $(cat "$run/out.txt" "$run/mount.log")"
await 60 says 'later \[0, 0, 0\]' || fail "after attach: $(cat "$run/out.txt")"
by root container detach "${id:0:12}" 2>"$run/out.txt" || fail "detach: $(cat "$run/out.txt" "$run/mount.log")"
await 60 says "in the end 719 719" || fail "after detach: $(cat "$run/out.txt")"
cat "$run/out.txt"
end root "$id"
start musl $(gpu) -- /bin/busybox true >"$run/out.txt" 2>&1 && fail "an image with musl starts with a VF"
ctl container explain last | tee "$run/out.txt"
grep -q "the image's C library is musl: libcuda.so.1 of vgpud needs glibc" "$run/out.txt" || fail "musl: $(cat "$run/out.txt")"

# The hog has work without end. Both others find the library where the loader of their image looks.
hog=$(in_files /media gpu0 -d -- env VGPU_CUDA_LOG=1 "$VGPU_BUILD/tests/cuda/programs/cuda-sample" loop) || fail "no hog"
hog_vf=$(running .vf)
await 120 at_least "$hog_vf" dispatches 20
mkdir -p "$run/cuda/nvvm/lib64" "$run/cuda/nvvm/libdevice" "$run/work"
ln -s "$root"/usr/lib/*-linux-gnu/libnvvm.so.4 "$run/cuda/nvvm/lib64/libnvvm.so"
clang --target=nvptx64-nvidia-cuda -x ir -c -emit-llvm -o "$run/cuda/nvvm/libdevice/libdevice.10.bc" /dev/null 2>/dev/null || fail "clang makes no empty library"
libraries=$(find "$root" -name '*.so*' -printf '%h\n' | grep -v python3 | sort -u | tr '\n' ':')
in_files /media gpu0 -e CUDA_HOME="$run/cuda" -e NUMBA_FORCE_CUDA_CC=7.0 -e NUMBA_CACHE_DIR=/tmp/numba -e LD_LIBRARY_PATH="$run/cuda/nvvm/lib64:$libraries" \
	-e PYTHONPATH="$root/usr/lib/python3/dist-packages" -e PYTHONDONTWRITEBYTECODE=1 -- \
	/usr/bin/python3 "$here/../cuda/programs/numba_sample.py" >"$run/numba.txt" 2>"$run/numba.log" || fail "numba ended with $?: $(cat "$run/numba.txt"; tail -5 "$run/numba.log")"
[ "$(grep -c " right$" "$run/numba.txt")" = 9 ] || fail "numba's results: $(cat "$run/numba.txt")"
cat "$run/numba.txt"
in_files /media gpu0 -e LIBRARIES="$libraries" -e WITHIN="$here/../cuda/suites/within" -- "$here/../cuda/suites/hashcat.sh" "$root" "$run/work" 0 >"$run/hashcat.txt" 2>"$run/hashcat.log" || fail "hashcat: $(cat "$run/hashcat.log")"
grep -qx $'0\tpassed' "$run/hashcat.txt" || fail "hashcat: $(cat "$run/hashcat.txt" "$run/hashcat.log")"
echo "hashcat has found the password"
[ "$(running .vf)" = "$hog_vf" ] || fail "the hog's container has ended: $(as_root logs "$hog")"
for n in 0 1; do [ "$(vf $n hangs)" = 0 ] || fail "VF $n has had a hang"; done
