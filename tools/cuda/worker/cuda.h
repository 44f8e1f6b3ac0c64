/* SPDX-License-Identifier: MIT */
/*
 * The part of the CUDA Driver API that softgpu uses, declared here so that softgpu can be built
 * without a toolkit, and run on the CPU without a driver. Values and signatures are those of CUDA
 * 12.4's public interface, and have been compared with CUDA 13.0's cuda.h and cudaTypedefs.h. The
 * number of each entry is the first CUDA version with this signature.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "vgpu/types.h"

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr, CUhandle;
typedef void *CUcontext, *CUmodule, *CUfunction, *CUstream, *CUevent, *CUlink;

#define CUDA_LIBRARY "libcuda.so.1"
#define CUDA_WANTED 12040 /* has cuFuncGetParamInfo; driver R550 */

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_ILLEGAL_ADDRESS = 700,
	CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
	CUDA_ERROR_ASSERT = 710,
	CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_SYSTEM_NOT_READY = 802,
	CUDA_ERROR_DRIVER_MISMATCH = 803,
	CUDA_ERROR_COMPAT_UNSUPPORTED = 804,
	CUDA_ERROR_UNKNOWN = 999,
};
enum {
	CU_ATTRIBUTE_MAX_GRID_X = 5, /* y, z follow */
	CU_ATTRIBUTE_PROCESSORS = 16,
	CU_ATTRIBUTE_KERNEL_TIMEOUT = 17,
	CU_ATTRIBUTE_COMPUTE_MODE = 20,
	CU_ATTRIBUTE_THREADS_PER_PROCESSOR = 39,
	CU_ATTRIBUTE_MAJOR = 75,
	CU_ATTRIBUTE_MINOR = 76,
	CU_ATTRIBUTE_MAX_SHARED_OPTIN = 97,
	CU_ATTRIBUTE_VIRTUAL_MEMORY = 102,
};
enum { CU_COMPUTE_DEFAULT = 0 };
enum {
	CU_CTX_BLOCKING_SYNC = 4,
	CU_CTX_LMEM_RESIZE_TO_MAX = 0x10,
	CU_STREAM_NON_BLOCKING = 1,
	CU_EVENT_DISABLE_TIMING = 2,
	CU_HOST_PORTABLE = 1,
	CU_HOST_DEVICEMAP = 2,
	CU_LIMIT_STACK_SIZE = 0,
	CU_LIMIT_PRINTF_FIFO_SIZE = 1,
	CU_LIMIT_MALLOC_HEAP_SIZE = 2,
	CU_FUNC_MAX_THREADS_PER_BLOCK = 0,
	CU_FUNC_SHARED_SIZE_BYTES = 1,
	CU_FUNC_LOCAL_SIZE_BYTES = 3,
	CU_FUNC_MAX_DYNAMIC_SHARED = 8,
	CU_JIT_ERROR_LOG = 5,
	CU_JIT_ERROR_LOG_SIZE = 6,
	CU_JIT_INPUT_CUBIN = 0,
	CU_JIT_INPUT_PTX = 1,
	CU_LAUNCH_COOPERATIVE = 2,
};

struct cu_location {
	int type, id; /* type 1: a device */
};
struct cu_allocation {
	int type, handle_types; /* type 1: pinned */
	struct cu_location location;
	void *reserved;
	uint8_t flags[8];
};
struct cu_access {
	struct cu_location location;
	int flags; /* 3: read and write */
};
struct cu_launch_attribute {
	int id, pad;
	union {
		int cooperative;
		uint64_t all[8];
	};
};
struct cu_launch {
	unsigned grid[3], block[3], shared;
	CUstream stream;
	struct cu_launch_attribute *attributes;
	unsigned n_attributes;
};
_Static_assert(sizeof(struct cu_allocation) == 32 && sizeof(struct cu_access) == 12 &&
		       sizeof(struct cu_launch_attribute) == 72 && sizeof(struct cu_launch) == 56,
	       "the driver's layout");

/* name, version of the signature, signature */
#define CUDA_ENTRIES(X)                                                                            \
	X(cuInit, 2000, (unsigned))                                                                \
	X(cuDeviceGetCount, 2000, (int *))                                                         \
	X(cuDeviceGet, 2000, (CUdevice *, int))                                                    \
	X(cuDeviceGetName, 2000, (char *, int, CUdevice))                                          \
	X(cuDeviceGetAttribute, 2000, (int *, int, CUdevice))                                      \
	X(cuDevicePrimaryCtxRetain, 7000, (CUcontext *, CUdevice))                                 \
	X(cuDevicePrimaryCtxSetFlags, 11000, (CUdevice, unsigned))                                 \
	X(cuCtxSetCurrent, 4000, (CUcontext))                                                      \
	X(cuCtxSetLimit, 3010, (int, size_t))                                                      \
	X(cuCtxGetLimit, 3010, (size_t *, int))                                                    \
	X(cuStreamCreate, 2000, (CUstream *, unsigned))                                            \
	X(cuStreamSynchronize, 2000, (CUstream))                                                   \
	X(cuEventCreate, 2000, (CUevent *, unsigned))                                              \
	X(cuEventRecord, 2000, (CUevent, CUstream))                                                \
	X(cuEventQuery, 2000, (CUevent))                                                           \
	X(cuMemGetInfo, 3020, (size_t *, size_t *))                                                \
	X(cuMemGetAllocationGranularity, 10020, (size_t *, const struct cu_allocation *, int))     \
	X(cuMemCreate, 10020, (CUhandle *, size_t, const struct cu_allocation *, uint64_t))        \
	X(cuMemRelease, 10020, (CUhandle))                                                         \
	X(cuMemAddressReserve, 10020, (CUdeviceptr *, size_t, size_t, CUdeviceptr, uint64_t))      \
	X(cuMemMap, 10020, (CUdeviceptr, size_t, size_t, CUhandle, uint64_t))                      \
	X(cuMemUnmap, 10020, (CUdeviceptr, size_t))                                                \
	X(cuMemSetAccess, 10020, (CUdeviceptr, size_t, const struct cu_access *, size_t))          \
	X(cuMemHostRegister, 6050, (void *, size_t, unsigned))                                     \
	X(cuMemHostAlloc, 2020, (void **, size_t, unsigned))                                       \
	X(cuMemHostGetDevicePointer, 3020, (CUdeviceptr *, void *, unsigned))                      \
	X(cuMemAlloc, 3020, (CUdeviceptr *, size_t))                                               \
	X(cuMemsetD8Async, 3020, (CUdeviceptr, unsigned char, size_t, CUstream))                   \
	X(cuMemcpyAsync, 4000, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                       \
	X(cuModuleLoadDataEx, 2010, (CUmodule *, const void *, unsigned, int *, void **))          \
	X(cuModuleUnload, 2000, (CUmodule))                                                        \
	X(cuModuleGetFunction, 2000, (CUfunction *, CUmodule, const char *))                       \
	X(cuModuleGetGlobal, 3020, (CUdeviceptr *, size_t *, CUmodule, const char *))              \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, (int *, CUfunction, int, size_t))     \
	X(cuFuncGetAttribute, 2020, (int *, int, CUfunction))                                      \
	X(cuFuncSetAttribute, 9000, (CUfunction, int, int))                                        \
	X(cuFuncGetParamInfo, 12040, (CUfunction, size_t, size_t *, size_t *))                     \
	X(cuLaunchKernel, 4000,                                                                    \
	  (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,       \
	   CUstream, void **, void **))                                                            \
	X(cuLaunchKernelEx, 11060, (const struct cu_launch *, CUfunction, void **, void **))       \
	X(cuLinkCreate, 6050, (unsigned, int *, void **, CUlink *))                                \
	X(cuLinkAddData, 6050,                                                                     \
	  (CUlink, int, void *, size_t, const char *, unsigned, int *, void **))                   \
	X(cuLinkComplete, 5050, (CUlink, void **, size_t *))                                       \
	X(cuLinkDestroy, 5050, (CUlink))                                                           \
	X(cuGetErrorName, 6000, (CUresult, const char **))

struct cuda_api {
	int version; /* of the driver, 1000 x major + 10 x minor */
#define CUDA_MEMBER(name, since, signature) CUresult(*name) signature;
	CUDA_ENTRIES(CUDA_MEMBER)
#undef CUDA_MEMBER
};

/* Loads LIBRARY and finds all entries; does not initialise CUDA. Any thread. Returns 0; or -ENODEV
 * or -EOPNOTSUPP with one sentence that says what is missing, and what to do. */
int cuda_load(const char *library, struct cuda_api *api, struct vgpu_error *err);
