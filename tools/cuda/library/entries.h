/* SPDX-License-Identifier: MIT */
/*
 * The calls of the CUDA Driver API that this libcuda.so.1 carries out: symbol, name for
 * cuGetProcAddress, the CUDA version that has this signature, signature. Values and signatures are
 * those of CUDA 12.4's public interface. The library's exports and cuGetProcAddress come from this
 * table.
 */
#pragma once

#include "entries_first.h"
#include "entries_function.h"
#include "entries_graph.h"
#include "entries_memory.h"
#include "error_table.h"
#include "structures.h"

/* The version of the interface that the library shows. */
#define CUDA_SHOWN 12040
/* NVIDIA's driver that first had it: R550. Programs compare its number. */
#define DRIVER_SHOWN "550.0"

#define CUDA_BASIC_ENTRIES(X)                                                                      \
	X(cuInit, "cuInit", 2000, (unsigned flags))                                                \
	X(cuDriverGetVersion, "cuDriverGetVersion", 2020, (int *version))                          \
	X(cuGetProcAddress, "cuGetProcAddress", 11030,                                             \
	  (const char *name, void **entry, int version, uint64_t flags))                           \
	X(cuGetProcAddress_v2, "cuGetProcAddress", 12000,                                          \
	  (const char *name, void **entry, int version, uint64_t flags, int *status))              \
	X(cuGetErrorName, "cuGetErrorName", 6000, (CUresult code, const char **name))              \
	X(cuGetErrorString, "cuGetErrorString", 6000, (CUresult code, const char **text))          \
	X(cuDeviceGetCount, "cuDeviceGetCount", 2000, (int *n))                                    \
	X(cuDeviceGet, "cuDeviceGet", 2000, (CUdevice * out, int index))                           \
	X(cuDeviceGetName, "cuDeviceGetName", 2000, (char *name, int size, CUdevice device))       \
	X(cuDeviceGetUuid, "cuDeviceGetUuid", 9020, (void *uuid, CUdevice device))                 \
	X(cuDeviceGetUuid_v2, "cuDeviceGetUuid", 11040, (void *uuid, CUdevice device))             \
	X(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, (size_t * bytes, CUdevice device))        \
	X(cuDeviceGetAttribute, "cuDeviceGetAttribute", 2000,                                      \
	  (int *value, int which, CUdevice device))                                                \
	X(cuDeviceGetProperties, "cuDeviceGetProperties", 2000,                                    \
	  (struct cuda_properties * out, CUdevice device))                                         \
	X(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", 4010,                                        \
	  (char *address, int size, CUdevice device))                                              \
	X(cuDeviceGetByPCIBusId, "cuDeviceGetByPCIBusId", 4010,                                    \
	  (CUdevice * out, const char *address))                                                   \
	X(cuGetExportTable, "cuGetExportTable", 3000, (const void **table, const void *uuid))      \
	X(cuDeviceComputeCapability, "cuDeviceComputeCapability", 2000,                            \
	  (int *major, int *minor, CUdevice device))                                               \
	X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000,                              \
	  (CUcontext * out, CUdevice device))                                                      \
	X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, (CUdevice device))     \
	X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, (CUdevice device))         \
	X(cuDevicePrimaryCtxSetFlags_v2, "cuDevicePrimaryCtxSetFlags", 11000,                      \
	  (CUdevice device, unsigned flags))                                                       \
	X(cuDevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", 7000,                          \
	  (CUdevice device, unsigned *flags, int *active))                                         \
	X(cuCtxCreate_v2, "cuCtxCreate", 3020, (CUcontext * out, unsigned flags, CUdevice device)) \
	X(cuCtxDestroy_v2, "cuCtxDestroy", 4000, (CUcontext context))                              \
	X(cuCtxPushCurrent_v2, "cuCtxPushCurrent", 4000, (CUcontext context))                      \
	X(cuCtxPopCurrent_v2, "cuCtxPopCurrent", 4000, (CUcontext * out))                          \
	X(cuCtxSetCurrent, "cuCtxSetCurrent", 4000, (CUcontext context))                           \
	X(cuCtxGetCurrent, "cuCtxGetCurrent", 4000, (CUcontext * out))                             \
	X(cuCtxGetDevice, "cuCtxGetDevice", 2000, (CUdevice * out))                                \
	X(cuCtxGetFlags, "cuCtxGetFlags", 7000, (unsigned *flags))                                 \
	X(cuCtxGetApiVersion, "cuCtxGetApiVersion", 3020, (CUcontext context, unsigned *version))  \
	X(cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", 5050,                        \
	  (int *least, int *greatest))                                                             \
	X(cuCtxGetLimit, "cuCtxGetLimit", 3010, (size_t * value, int limit))                       \
	X(cuCtxSetLimit, "cuCtxSetLimit", 3010, (int limit, size_t value))                         \
	X(cuCtxGetCacheConfig, "cuCtxGetCacheConfig", 3020, (int *config))                         \
	X(cuCtxSetCacheConfig, "cuCtxSetCacheConfig", 3020, (int config))                          \
	X(cuCtxGetSharedMemConfig, "cuCtxGetSharedMemConfig", 4020, (int *config))                 \
	X(cuCtxSetSharedMemConfig, "cuCtxSetSharedMemConfig", 4020, (int config))                  \
	X(cuCtxResetPersistingL2Cache, "cuCtxResetPersistingL2Cache", 11000, (void))               \
	X(cuProfilerInitialize, "cuProfilerInitialize", 4000,                                      \
	  (const char *config, const char *output, int mode))                                      \
	X(cuProfilerStart, "cuProfilerStart", 4000, (void))                                        \
	X(cuProfilerStop, "cuProfilerStop", 4000, (void))                                          \
	X(cuCtxSynchronize, "cuCtxSynchronize", 2000, (void))                                      \
	X(cuModuleLoad, "cuModuleLoad", 2000, (CUmodule * out, const char *path))                  \
	X(cuModuleLoadData, "cuModuleLoadData", 2000, (CUmodule * out, const void *image))         \
	X(cuModuleLoadDataEx, "cuModuleLoadDataEx", 2010,                                          \
	  (CUmodule * out, const void *image, unsigned n, int *options, void **values))            \
	X(cuModuleLoadFatBinary, "cuModuleLoadFatBinary", 2000,                                    \
	  (CUmodule * out, const void *image))                                                     \
	X(cuModuleUnload, "cuModuleUnload", 2000, (CUmodule module))                               \
	X(cuModuleGetFunction, "cuModuleGetFunction", 2000,                                        \
	  (CUfunction * out, CUmodule module, const char *name))                                   \
	X(cuLaunchKernel, "cuLaunchKernel", 4000,                                                  \
	  (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,   \
	   unsigned bz, unsigned shared, CUstream stream, void **params, void **extra))            \
	X(cuMemGetInfo_v2, "cuMemGetInfo", 3020, (size_t * left, size_t * all))                    \
	X(cuMemAlloc_v2, "cuMemAlloc", 3020, (CUdeviceptr * out, size_t bytes))                    \
	X(cuMemFree_v2, "cuMemFree", 3020, (CUdeviceptr at))                                       \
	X(cuMemGetAddressRange_v2, "cuMemGetAddressRange", 3020,                                   \
	  (CUdeviceptr * base, size_t * bytes, CUdeviceptr at))                                    \
	X(cuMemcpyHtoD_v2, "cuMemcpyHtoD", 3020, (CUdeviceptr dst, const void *src, size_t bytes)) \
	X(cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020, (void *dst, CUdeviceptr src, size_t bytes))       \
	X(cuMemcpyDtoD_v2, "cuMemcpyDtoD", 3020, (CUdeviceptr dst, CUdeviceptr src, size_t bytes)) \
	X(cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", 3020,                                         \
	  (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream))                       \
	X(cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", 3020,                                         \
	  (void *dst, CUdeviceptr src, size_t bytes, CUstream stream))                             \
	X(cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", 3020,                                         \
	  (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream))                       \
	X(cuMemsetD8_v2, "cuMemsetD8", 3020, (CUdeviceptr dst, unsigned char value, size_t n))     \
	X(cuMemsetD16_v2, "cuMemsetD16", 3020, (CUdeviceptr dst, unsigned short value, size_t n))  \
	X(cuMemsetD32_v2, "cuMemsetD32", 3020, (CUdeviceptr dst, unsigned value, size_t n))        \
	X(cuMemsetD8Async, "cuMemsetD8Async", 3020,                                                \
	  (CUdeviceptr dst, unsigned char value, size_t n, CUstream stream))                       \
	X(cuMemsetD16Async, "cuMemsetD16Async", 3020,                                              \
	  (CUdeviceptr dst, unsigned short value, size_t n, CUstream stream))                      \
	X(cuMemsetD32Async, "cuMemsetD32Async", 3020,                                              \
	  (CUdeviceptr dst, unsigned value, size_t n, CUstream stream))                            \
	X(cuStreamCreate, "cuStreamCreate", 2000, (CUstream * out, unsigned flags))                \
	X(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", 5050,                          \
	  (CUstream * out, unsigned flags, int priority))                                          \
	X(cuStreamDestroy_v2, "cuStreamDestroy", 4000, (CUstream stream))                          \
	X(cuStreamQuery, "cuStreamQuery", 2000, (CUstream stream))                                 \
	X(cuStreamSynchronize, "cuStreamSynchronize", 2000, (CUstream stream))                     \
	X(cuStreamWaitEvent, "cuStreamWaitEvent", 3020,                                            \
	  (CUstream stream, CUevent event, unsigned flags))                                        \
	X(cuEventCreate, "cuEventCreate", 2000, (CUevent * out, unsigned flags))                   \
	X(cuEventDestroy_v2, "cuEventDestroy", 4000, (CUevent event))                              \
	X(cuEventRecord, "cuEventRecord", 2000, (CUevent event, CUstream stream))                  \
	X(cuEventQuery, "cuEventQuery", 2000, (CUevent event))                                     \
	X(cuEventSynchronize, "cuEventSynchronize", 2000, (CUevent event))                         \
	X(cuEventElapsedTime, "cuEventElapsedTime", 2000,                                          \
	  (float *milliseconds, CUevent start, CUevent end))

#define CUDA_ENTRIES(X)                                                                            \
	CUDA_BASIC_ENTRIES(X)                                                                      \
	CUDA_FIRST_ENTRIES(X)                                                                      \
	CUDA_FUNCTION_ENTRIES(X)                                                                   \
	CUDA_MEMORY_ENTRIES(X)                                                                     \
	CUDA_GRAPH_ENTRIES(X)

#define CUDA_DECLARE(symbol, name, since, signature)                                               \
	__attribute__((visibility("default"))) CUresult symbol signature;
CUDA_ENTRIES(CUDA_DECLARE)
#undef CUDA_DECLARE
