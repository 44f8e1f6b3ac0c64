# SPDX-License-Identifier: MIT
# GPU kernels that numba compiles, as a program of numba's would have them: each result is compared with numpy's. Ends with 1 if one is
# wrong.
import sys
import warnings

import numpy as np
from numba import cuda

warnings.simplefilter("ignore")  # small grids
N = 1000
GRID, BLOCK = (N + 63) // 64, 64


@cuda.jit
def saxpy(a, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


# Nine arrays are 63 parameters, and the function's name has more than 400 bytes.
@cuda.jit
def add_eight(a, b, c, d, e, f, g, h, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i] + c[i] + d[i] + e[i] + f[i] + g[i] + h[i]


@cuda.jit
def histogram(data, bins):
    i = cuda.grid(1)
    if i < data.size:
        cuda.atomic.add(bins, data[i], 1)


@cuda.jit
def multiply(a, b, c):
    left = cuda.shared.array((8, 8), dtype="float32")
    right = cuda.shared.array((8, 8), dtype="float32")
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = np.float32(0)
    for k in range(a.shape[1] // 8):
        left[tx, ty] = a[x, ty + k * 8]
        right[tx, ty] = b[tx + k * 8, y]
        cuda.syncthreads()
        for j in range(8):
            total += left[tx, j] * right[j, ty]
        cuda.syncthreads()
    c[x, y] = total


@cuda.reduce
def add(a, b):
    return a + b


failed = 0


def check(name, ok):
    global failed
    print(name, "right" if ok else "WRONG")
    failed |= not ok


draw = np.random.RandomState(1)
x = draw.randint(0, 100, N).astype(np.float32)
y = draw.randint(0, 100, N).astype(np.float32)
out = cuda.device_array(N, dtype=np.float32)
saxpy[GRID, BLOCK](np.float32(2), cuda.to_device(x), cuda.to_device(y), out)
check("saxpy", np.array_equal(out.copy_to_host(), 2 * x + y))
many = [draw.randint(0, 100, N).astype(np.float32) for i in range(8)]
add_eight[GRID, BLOCK](*[cuda.to_device(m) for m in many], out)
check("nine arrays", np.array_equal(out.copy_to_host(), sum(many)))
data = draw.randint(0, 16, N).astype(np.int32)
bins = cuda.to_device(np.zeros(16, dtype=np.int32))
histogram[GRID, BLOCK](cuda.to_device(data), bins)
check("histogram", np.array_equal(bins.copy_to_host(), np.bincount(data, minlength=16)))
a = draw.randint(0, 10, (32, 24)).astype(np.float32)
b = draw.randint(0, 10, (24, 40)).astype(np.float32)
c = cuda.device_array((32, 40), dtype=np.float32)
multiply[(4, 5), (8, 8)](cuda.to_device(a), cuda.to_device(b), c)
check("matrix product", np.array_equal(c.copy_to_host(), a @ b))
check("reduction", add(x) == x.sum())
stream, began, ended = cuda.stream(), cuda.event(), cuda.event()
pinned = cuda.pinned_array(N, dtype=np.float32)
pinned[:] = x
began.record(stream)
at = cuda.to_device(pinned, stream=stream)
saxpy[GRID, BLOCK, stream](np.float32(3), at, at, out)
ended.record(stream)
stream.synchronize()
check("stream", np.array_equal(out.copy_to_host(), 4 * x) and began.elapsed_time(ended) >= 0)
mapped = cuda.mapped_array(N, dtype=np.float32)
mapped[:] = x
saxpy[GRID, BLOCK](np.float32(1), mapped, mapped, mapped)
cuda.synchronize()
check("mapped memory", np.array_equal(np.asarray(mapped), 2 * x))
managed = cuda.managed_array(N, dtype=np.float32)
managed[:] = y
saxpy[GRID, BLOCK](np.float32(1), managed, managed, managed)
cuda.synchronize()
check("managed memory", np.array_equal(np.asarray(managed), 2 * y))
free, total = cuda.current_context().get_memory_info()
check("memory info", 0 < free < total)
sys.exit(failed)
