/* SPDX-License-Identifier: MIT */
/* Rows of entries.h: memory. */
#pragma once

#define CUDA_MEMORY_ENTRIES(X)                                                                     \
	X(cuMemcpy, "cuMemcpy", 4000, (CUdeviceptr to, CUdeviceptr from, size_t bytes))            \
	X(cuMemcpyAsync, "cuMemcpyAsync", 4000,                                                    \
	  (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s))                            \
	X(cuMemcpy2D_v2, "cuMemcpy2D", 3020, (const struct cuda_copy_2d *c))                       \
	X(cuMemcpy2DUnaligned_v2, "cuMemcpy2DUnaligned", 3020, (const struct cuda_copy_2d *c))     \
	X(cuMemcpy2DAsync_v2, "cuMemcpy2DAsync", 3020, (const struct cuda_copy_2d *c, CUstream s)) \
	X(cuMemcpy3D_v2, "cuMemcpy3D", 3020, (const struct cuda_copy_3d *c))                       \
	X(cuMemcpy3DAsync_v2, "cuMemcpy3DAsync", 3020, (const struct cuda_copy_3d *c, CUstream s)) \
	X(cuMemsetD2D8_v2, "cuMemsetD2D8", 3020,                                                   \
	  (CUdeviceptr dst, size_t pitch, unsigned char value, size_t n, size_t rows))             \
	X(cuMemsetD2D16_v2, "cuMemsetD2D16", 3020,                                                 \
	  (CUdeviceptr dst, size_t pitch, unsigned short value, size_t n, size_t rows))            \
	X(cuMemsetD2D32_v2, "cuMemsetD2D32", 3020,                                                 \
	  (CUdeviceptr dst, size_t pitch, unsigned value, size_t n, size_t rows))                  \
	X(cuMemsetD2D8Async, "cuMemsetD2D8Async", 3020,                                            \
	  (CUdeviceptr dst, size_t pitch, unsigned char value, size_t n, size_t rows, CUstream s)) \
	X(cuMemsetD2D16Async, "cuMemsetD2D16Async", 3020,                                          \
	  (CUdeviceptr dst, size_t pitch, unsigned short value, size_t n, size_t rows,             \
	   CUstream s))                                                                            \
	X(cuMemsetD2D32Async, "cuMemsetD2D32Async", 3020,                                          \
	  (CUdeviceptr dst, size_t pitch, unsigned value, size_t n, size_t rows, CUstream s))      \
	X(cuStreamWriteValue32_v2, "cuStreamWriteValue32", 11070,                                  \
	  (CUstream s, CUdeviceptr at, uint32_t value, unsigned flags))                            \
	X(cuStreamWriteValue64_v2, "cuStreamWriteValue64", 11070,                                  \
	  (CUstream s, CUdeviceptr at, uint64_t value, unsigned flags))                            \
	X(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020,                                             \
	  (CUdeviceptr * out, size_t * pitch, size_t width, size_t rows, unsigned unit))           \
	X(cuMemHostAlloc, "cuMemHostAlloc", 2020, (void **out, size_t bytes, unsigned flags))      \
	X(cuMemAllocHost_v2, "cuMemAllocHost", 3020, (void **out, size_t bytes))                   \
	X(cuMemFreeHost, "cuMemFreeHost", 2000, (void *at))                                        \
	X(cuMemHostRegister_v2, "cuMemHostRegister", 6050,                                         \
	  (void *at, size_t bytes, unsigned flags))                                                \
	X(cuMemHostUnregister, "cuMemHostUnregister", 4000, (void *at))                            \
	X(cuMemHostGetFlags, "cuMemHostGetFlags", 2030, (unsigned *flags, void *at))               \
	X(cuMemHostGetDevicePointer_v2, "cuMemHostGetDevicePointer", 3020,                         \
	  (CUdeviceptr * out, void *at, unsigned flags))                                           \
	X(cuMemAllocManaged, "cuMemAllocManaged", 6000,                                            \
	  (CUdeviceptr * out, size_t bytes, unsigned flags))                                       \
	X(cuStreamAttachMemAsync, "cuStreamAttachMemAsync", 6000,                                  \
	  (CUstream s, CUdeviceptr at, size_t bytes, unsigned flags))                              \
	X(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", 11020,                           \
	  (CUmemoryPool * out, CUdevice device))                                                   \
	X(cuDeviceGetMemPool, "cuDeviceGetMemPool", 11020, (CUmemoryPool * out, CUdevice device))  \
	X(cuDeviceSetMemPool, "cuDeviceSetMemPool", 11020, (CUdevice device, CUmemoryPool pool))   \
	X(cuMemPoolCreate, "cuMemPoolCreate", 11020,                                               \
	  (CUmemoryPool * out, const struct cuda_pool_props *props))                               \
	X(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, (CUmemoryPool pool))                        \
	X(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", 11020,                                   \
	  (CUmemoryPool pool, int which, void *value))                                             \
	X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020,                                   \
	  (CUmemoryPool pool, int which, void *value))                                             \
	X(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, (CUmemoryPool pool, size_t least))            \
	X(cuMemPoolGetAccess, "cuMemPoolGetAccess", 11020,                                         \
	  (int *flags, CUmemoryPool pool, struct cuda_location *location))                         \
	X(cuMemPoolSetAccess, "cuMemPoolSetAccess", 11020,                                         \
	  (CUmemoryPool pool, const struct cuda_access *access, size_t n))                         \
	X(cuMemAllocAsync, "cuMemAllocAsync", 11020,                                               \
	  (CUdeviceptr * out, size_t bytes, CUstream s))                                           \
	X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020,                               \
	  (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream s))                        \
	X(cuMemFreeAsync, "cuMemFreeAsync", 11020, (CUdeviceptr at, CUstream s))                   \
	X(cuIpcGetMemHandle, "cuIpcGetMemHandle", 4010,                                            \
	  (struct cuda_ipc_memory * out, CUdeviceptr at))                                          \
	X(cuIpcOpenMemHandle, "cuIpcOpenMemHandle", 4010,                                          \
	  (CUdeviceptr * out, struct cuda_ipc_memory memory, unsigned flags))                      \
	X(cuIpcOpenMemHandle_v2, "cuIpcOpenMemHandle", 11000,                                      \
	  (CUdeviceptr * out, struct cuda_ipc_memory memory, unsigned flags))                      \
	X(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", 4010, (CUdeviceptr at))                      \
	X(cuIpcGetEventHandle, "cuIpcGetEventHandle", 4010,                                        \
	  (struct cuda_ipc_event * out, CUevent event))                                            \
	X(cuIpcOpenEventHandle, "cuIpcOpenEventHandle", 4010,                                      \
	  (CUevent * out, struct cuda_ipc_event shown))                                            \
	X(cuPointerGetAttribute, "cuPointerGetAttribute", 4000,                                    \
	  (void *data, int which, CUdeviceptr at))                                                 \
	X(cuPointerGetAttributes, "cuPointerGetAttributes", 7000,                                  \
	  (unsigned n, int *which, void **data, CUdeviceptr at))                                   \
	X(cuPointerSetAttribute, "cuPointerSetAttribute", 6000,                                    \
	  (const void *value, int which, CUdeviceptr at))                                          \
	X(cuMemAddressReserve, "cuMemAddressReserve", 10020,                                       \
	  (CUdeviceptr * out, size_t bytes, size_t align, CUdeviceptr wanted, uint64_t flags))     \
	X(cuMemAddressFree, "cuMemAddressFree", 10020, (CUdeviceptr at, size_t bytes))             \
	X(cuMemCreate, "cuMemCreate", 10020,                                                       \
	  (CUmemHandle * out, size_t bytes, const struct cuda_allocation *what, uint64_t flags))   \
	X(cuMemRelease, "cuMemRelease", 10020, (CUmemHandle handle))                               \
	X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000,                       \
	  (CUmemHandle * out, void *at))                                                           \
	X(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", 10020,                   \
	  (size_t * bytes, const struct cuda_allocation *what, int option))                        \
	X(cuMemGetAllocationPropertiesFromHandle, "cuMemGetAllocationPropertiesFromHandle", 10020, \
	  (struct cuda_allocation * out, CUmemHandle handle))                                      \
	X(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", 10020,                     \
	  (void *out, CUmemHandle handle, int type, uint64_t flags))                               \
	X(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", 10020,                 \
	  (CUmemHandle * out, void *shown, int type))                                              \
	X(cuMemMap, "cuMemMap", 10020,                                                             \
	  (CUdeviceptr at, size_t bytes, size_t offset, CUmemHandle handle, uint64_t flags))       \
	X(cuMemUnmap, "cuMemUnmap", 10020, (CUdeviceptr at, size_t bytes))                         \
	X(cuMemSetAccess, "cuMemSetAccess", 10020,                                                 \
	  (CUdeviceptr at, size_t bytes, const struct cuda_access *access, size_t n))              \
	X(cuMemGetAccess, "cuMemGetAccess", 10020,                                                 \
	  (uint64_t * flags, const struct cuda_location *location, CUdeviceptr at))
