#!/bin/bash
# SPDX-License-Identifier: MIT
# A guest whose modules take long to compile, one after the other and one that takes seconds, is not taken for one that has taken over its
# worker; and a worker that is told to end while it compiles ends.
. "$(dirname "$0")/lib.sh"
LD_LIBRARY_PATH=$VGPU_BUILD/tools/cuda/driver start_softgpu --engine cuda --vfs 2 --vram 256M --window 32M --kill-after 5000
config <<<$'vfs = 2\ngrace_ms = 10000'
start_vgpud
await 30 is 0 state available
# The engine is its neighbour's meanwhile.
start_guest neighbour 1 spin --us 2000 --depth 16 --seconds 600; neighbour=$guest_pid
await 30 is 1 state active
cat >"$run/compile.py" <<'PY'
import ctypes, sys, time
cuda = ctypes.CDLL(sys.argv[1])
def check(error):
    if error:
        sys.exit('error %d after %d modules' % (error, modules))
def ptx(functions):
    return b'.version 6.0\n.target sm_70\n.address_size 64\n' + b''.join(
        b'.visible .entry f%d(.param .u64 p)\n{\n\t.reg .b32 %%r<3>;\n%s\tret;\n}\n' % (i, b'\tadd.u32 %r1, %r1, %r2;\n' * 200)
        for i in range(functions)) + b'\0'
context, module, modules = ctypes.c_void_p(), ctypes.c_void_p(), 0
check(cuda.cuInit(0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
def load(functions):
    global modules
    began = time.monotonic()
    check(cuda.cuModuleLoadData(ctypes.byref(module), ptx(functions)))
    check(cuda.cuModuleUnload(module))
    modules += 1
    return time.monotonic() - began
functions, took = int(sys.argv[4]), 0
while took < float(sys.argv[2]):
    functions *= 2
    took = load(functions)
print('%d functions, %.2f s' % (functions, took), flush=True)
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    load(functions)
print('%d modules' % modules)
PY
worker() { process_of 0 softgpu-worker; }
# "${compile[@]}" SECONDS FOR FUNCTIONS: modules that take so long each, for so long; the first have twice FUNCTIONS, and so on.
compile=(env VGPU_CUDA_VF="$run/gpu/vf0.sock" /usr/bin/python3 "$run/compile.py" "$VGPU_BUILD/tools/cuda/library/libcuda.so.1")
for each in 0.1 1; do
	"${compile[@]}" $each 6 10 >>"$run/compile.txt" 2>&1 || fail "modules of $each s: $(tail -1 "$run/compile.txt")"
	tail -2 "$run/compile.txt"
	await 30 is 0 state available
done
# Its client ends it in the middle of a module that takes long.
"${compile[@]}" 3600 0 2000 >>"$run/compile.txt" 2>&1 & client=$!
compiler_runs() { awk '$19 >= 10 && $14 + $15 > 20 {found = 1} END {exit !found}' /proc/"$(worker)"/task/*/stat; }
await 120 compiler_runs
old=$(worker)
kill -9 $client; wait $client 2>/dev/null
worker_has_ended() { [ ! -e "/proc/$old" ]; }
await 60 worker_has_ended
await 60 is 0 state available
! grep -q "computes instead of ending" "$run/softgpu.log" || fail "a worker that compiles was taken for another when it was told to end"
! grep -q "more CPU time" "$run/softgpu.log" || fail "a guest that compiles was taken for another"
kill -INT $neighbour; wait_guest $neighbour neighbour
kill $vgpud_pid; wait $vgpud_pid || fail "vgpud ended with $?"
