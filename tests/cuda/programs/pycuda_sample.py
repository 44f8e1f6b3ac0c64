# SPDX-License-Identifier: MIT
# What a program of PyCUDA's does, but for compiling GPU kernels, which needs nvcc: it loads those of the file that it is given,
# sample.ptx. Each result is compared with numpy's. Ends with 1 if one is wrong.
import sys

import numpy as np
import pycuda.driver as cuda
from pycuda.tools import DeviceMemoryPool, PageLockedMemoryPool

N = 1000
GRID, BLOCK = ((N + 63) // 64, 1), (64, 1, 1)
wrong = 0


def check(name, found, wanted):
    global wrong
    right = np.allclose(found, wanted)
    wrong += not right
    print(name, "right" if right else "WRONG", flush=True)


cuda.init()
device = cuda.Device(0)
check("device", [cuda.Device.count(), device.compute_capability()[0]], [1, 7])
check("device by its address", cuda.Device(device.pci_bus_id()) == device, True)
context = device.make_context()
add = cuda.module_from_file(sys.argv[1]).get_function("vector_add")
random = np.random.default_rng(1)
x, y = (random.random(N, dtype=np.float32) for _ in range(2))
out = np.zeros_like(x)
check("function", [add.num_regs > 0, add.shared_size_bytes, add.max_threads_per_block > 0], [True, 0, True])

add(cuda.Out(out), cuda.In(x), cuda.In(y), np.uint32(N), grid=GRID, block=BLOCK)
check("launch", out, x + y)
on_device = [cuda.to_device(a) for a in (x, y, out)]
add.prepare("PPPI")
add.prepared_call(GRID, BLOCK, on_device[2], on_device[1], on_device[1], N)
check("prepared launch", cuda.from_device_like(on_device[2], x), y + y)

# Two streams, with events, and memory of the host that is pinned.
streams = [cuda.Stream() for _ in range(2)]
pinned = [cuda.pagelocked_empty(N, np.float32) for _ in range(2)]
began, ended = cuda.Event(), cuda.Event()
began.record(streams[0])
for stream, host, sign in zip(streams, pinned, (1, -1)):
    cuda.memcpy_htod_async(on_device[0], sign * x, stream)
    add.prepared_async_call(GRID, BLOCK, stream, on_device[2], on_device[0], on_device[1], N)
    cuda.memcpy_dtoh_async(host, on_device[2], stream)
ended.record(streams[1])
streams[0].wait_for_event(ended)
for stream in streams:
    stream.synchronize()
check("streams", np.concatenate(pinned), np.concatenate((x + y, y - x)))
check("events", [ended.query(), ended.time_since(began) >= 0], [True, True])


# Rows with space between them on the device, there and back.
def copy_rows(begin, end, rows, pitches):
    copy = cuda.Memcpy2D()
    begin(copy)
    end(copy)
    copy.width_in_bytes, copy.height = rows.shape[1] * 4, rows.shape[0]
    copy.src_pitch, copy.dst_pitch = pitches
    copy(aligned=True)


rows = random.random((20, 30), dtype=np.float32)
back = np.zeros_like(rows)
at, pitch = cuda.mem_alloc_pitch(120, 20, 4)
copy_rows(lambda c: c.set_src_host(rows), lambda c: c.set_dst_device(at), rows, (120, pitch))
copy_rows(lambda c: c.set_src_device(at), lambda c: c.set_dst_host(back), rows, (pitch, 120))
check("rows", back, rows)
cuda.memset_d32(on_device[2], 7, N)
check("set", cuda.from_device(on_device[2], N, np.uint32), np.full(N, 7))

# A pool gives memory again, and what it gives back is free.
before = cuda.mem_get_info()
pool, locked = DeviceMemoryPool(), PageLockedMemoryPool()
for _ in range(10):
    a, host = pool.allocate(1 << 20), locked.allocate((N,), np.float32)
    host[:] = x
    cuda.memcpy_htod(int(a), host)
    host[:] = 0
    cuda.memcpy_dtoh(host, int(a))
    wrong += not np.array_equal(host, x)
    del a, host
check("pools", [pool.held_blocks, pool.active_blocks], [1, 0])
pool.free_held()
locked.free_held()
check("free memory", cuda.mem_get_info(), before)
context.pop()
sys.exit(wrong > 0)
