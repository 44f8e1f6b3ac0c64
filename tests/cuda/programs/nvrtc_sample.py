# SPDX-License-Identifier: MIT
# CUDA C++ that NVIDIA's compiler for programs that run, NVRTC, compiles to PTX: what frameworks do that make their GPU kernels
# themselves. PyCUDA loads and launches them. Each result is compared with numpy's. Ends with 1 if one is wrong.
import ctypes
import sys

import numpy as np
import pycuda.driver as cuda

N = 1000
SOURCE = rb'''
template <typename T, int WIDTH> __global__ void mirror(T *x, T by, unsigned n)
{
	__shared__ T tile[WIDTH];
	unsigned i = blockIdx.x * WIDTH + threadIdx.x;

	tile[threadIdx.x] = i < n ? x[i] : T(0);
	__syncthreads();
	if (i < n)
		x[i] = tile[WIDTH - 1 - threadIdx.x] * by;
}

__constant__ unsigned steps[4] = {1, 2, 3, 4};
__device__ unsigned long long counter;

extern "C" __global__ void collatz(const unsigned *from, unsigned *to, unsigned n)
{
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
		unsigned long long v = from[i];
		unsigned k = 0;

		while (v != 1) {
			v = v & 1 ? 3 * v + 1 : v / 2;
			k++;
		}
		to[i] = k + steps[i % 4];
		atomicAdd(&counter, (unsigned long long)k);
	}
}

extern "C" __global__ void norms(const float4 *v, float *out, double *sum, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	float s = 0;

	if (i < n) {
		float4 a = v[i];
		s = sqrtf(a.x * a.x + a.y * a.y + a.z * a.z + a.w * a.w);
		out[i] = s;
	}
	for (int o = 16; o; o >>= 1)
		s += __shfl_down_sync(~0u, s, o);
	if (threadIdx.x % 32 == 0)
		atomicAdd(sum, (double)s);
}

extern "C" __global__ void waves(float *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] = sinf(i * 0.01f) + expf(-i * 0.001f) + logf(1.f + i) + powf(1 + i * 0.001f, 2.5f);
}

struct particle {
	double at[3], speed[3];
	int alive;
};

extern "C" __global__ void fly(particle *p, double dt, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= n || !p[i].alive)
		return;
	for (int k = 0; k < 3; k++)
		p[i].at[k] += p[i].speed[k] * dt;
	p[i].alive = p[i].at[0] < 50;
}
'''
NAMES = [b"mirror<float, 64>", b"mirror<double, 32>"]
nvrtc = ctypes.CDLL("libnvrtc.so.11.2")
wrong = 0


def check(name, found, wanted):
    global wrong
    found, wanted = np.asarray(found), np.asarray(wanted)
    right = np.allclose(found, wanted, rtol=1e-5) if found.dtype.kind == "f" else np.array_equal(found, wanted)
    wrong += not right
    print(name, "right" if right else "WRONG", flush=True)


def call(name, *args):
    result = getattr(nvrtc, "nvrtc" + name)(*args)
    if result != 0:
        sys.exit(f"nvrtc{name}: {result}")


def text_of(program, what):
    size = ctypes.c_size_t()
    call(f"Get{what}Size", program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    call(f"Get{what}", program, text)
    return text.value


# Compiles SOURCE. Returns the PTX, and the names that the instances of its templates have there.
def compiled(major, minor):
    program = ctypes.c_void_p()
    options = [f"--gpu-architecture=compute_{major}{minor}".encode(), b"--std=c++17", b"--generate-line-info"]
    call("CreateProgram", ctypes.byref(program), SOURCE, b"sample.cu", 0, None, None)
    for name in NAMES:
        call("AddNameExpression", program, name)
    result = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    if result != 0:
        sys.exit(text_of(program, "ProgramLog").decode())
    lowered = []
    for name in NAMES:
        at = ctypes.c_char_p()
        call("GetLoweredName", program, name, ctypes.byref(at))
        lowered.append(at.value.decode())
    return text_of(program, "PTX"), lowered


cuda.init()
device = cuda.Device(0)
context = device.make_context()
ptx, names = compiled(*device.compute_capability())
module = cuda.module_from_buffer(ptx)
random = np.random.default_rng(1)

for name, kind, width in zip(names, (np.float32, np.float64), (64, 32)):
    x = random.random(960).astype(kind)
    out = x.copy()
    module.get_function(name)(cuda.InOut(out), kind(3), np.uint32(960), grid=(960 // width, 1), block=(width, 1, 1))
    check(f"template of {kind.__name__}", out, 3 * x.reshape(-1, width)[:, ::-1].ravel())


def steps_of(v):
    n = 0
    while v != 1:
        v = 3 * v + 1 if v & 1 else v // 2
        n += 1
    return n


start = random.integers(1, 1 << 20, N, dtype=np.uint32)
found = np.zeros(N, np.uint32)
module.get_function("collatz")(cuda.In(start), cuda.Out(found), np.uint32(N), grid=(4, 1), block=(96, 1, 1))
wanted = np.array([steps_of(int(v)) for v in start])
check("loops", found, wanted + 1 + np.arange(N) % 4)
counter, size = module.get_global("counter")
check("counter", [int(cuda.from_device(counter, 1, np.uint64)[0]), size], [wanted.sum(), 8])

vectors = random.random((N, 4), dtype=np.float32)
length, total = np.zeros(N, np.float32), np.zeros(1)
module.get_function("norms")(cuda.In(vectors), cuda.Out(length), cuda.InOut(total), np.int32(N), grid=(8, 1), block=(128, 1, 1))
check("vectors", length, np.linalg.norm(vectors, axis=1))
check("sum of warps", total, np.linalg.norm(vectors, axis=1).sum())

found = np.zeros(N, np.float32)
module.get_function("waves")(cuda.Out(found), np.int32(N), grid=(8, 1), block=(128, 1, 1))
i = np.arange(N)
check("functions", found, np.sin(i * 0.01) + np.exp(-i * 0.001) + np.log(1.0 + i) + (1 + i * 0.001) ** 2.5)

particles = np.zeros(N, np.dtype([("at", "f8", 3), ("speed", "f8", 3), ("alive", "i4")], align=True))
particles["at"], particles["speed"] = random.random((N, 3)) * 60, random.random((N, 3))
particles["alive"] = i % 3 > 0
found = particles.copy()
module.get_function("fly")(cuda.InOut(found), np.float64(10), np.int32(N), grid=(8, 1), block=(128, 1, 1))
alive = particles["alive"] > 0
at = particles["at"] + particles["speed"] * 10 * alive[:, None]
check("structures", found["at"], at)
check("their integers", found["alive"], alive & (at[:, 0] < 50))
context.pop()
sys.exit(wrong > 0)
