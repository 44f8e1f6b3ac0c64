/* SPDX-License-Identifier: MIT */
/* Rows of entries.h: functions, launches, streams, contexts. */
#pragma once

#define CUDA_FUNCTION_ENTRIES(X)                                                                   \
	X(cuLibraryLoadData, "cuLibraryLoadData", 12000,                                           \
	  (CUlibrary * out, const void *image, int *options, void **values, unsigned n,            \
	   int *library_options, void **library_values, unsigned n_library))                       \
	X(cuLibraryLoadFromFile, "cuLibraryLoadFromFile", 12000,                                   \
	  (CUlibrary * out, const char *path, int *options, void **values, unsigned n,             \
	   int *library_options, void **library_values, unsigned n_library))                       \
	X(cuLibraryUnload, "cuLibraryUnload", 12000, (CUlibrary library))                          \
	X(cuLibraryGetKernel, "cuLibraryGetKernel", 12000,                                         \
	  (CUkernel * out, CUlibrary library, const char *name))                                   \
	X(cuLibraryGetModule, "cuLibraryGetModule", 12000, (CUmodule * out, CUlibrary library))    \
	X(cuLibraryGetManaged, "cuLibraryGetManaged", 12000,                                       \
	  (CUdeviceptr * out, size_t * bytes, CUlibrary library, const char *name))                \
	X(cuLibraryGetUnifiedFunction, "cuLibraryGetUnifiedFunction", 12000,                       \
	  (void **out, CUlibrary library, const char *name))                                       \
	X(cuKernelGetLibrary, "cuKernelGetLibrary", 12050, (CUlibrary * out, CUkernel kernel))     \
	X(cuKernelGetFunction, "cuKernelGetFunction", 12000, (CUfunction * out, CUkernel kernel))  \
	X(cuFuncGetModule, "cuFuncGetModule", 11000, (CUmodule * out, CUfunction function))        \
	X(cuFuncGetName, "cuFuncGetName", 12030, (const char **name, CUfunction function))         \
	X(cuKernelGetName, "cuKernelGetName", 12030, (const char **name, CUkernel kernel))         \
	X(cuFuncGetParamInfo, "cuFuncGetParamInfo", 12040,                                         \
	  (CUfunction function, size_t i, size_t * offset, size_t * size))                         \
	X(cuKernelGetParamInfo, "cuKernelGetParamInfo", 12040,                                     \
	  (CUkernel kernel, size_t i, size_t * offset, size_t * size))                             \
	X(cuFuncGetAttribute, "cuFuncGetAttribute", 2020,                                          \
	  (int *value, int which, CUfunction function))                                            \
	X(cuFuncSetAttribute, "cuFuncSetAttribute", 9000,                                          \
	  (CUfunction function, int which, int value))                                             \
	X(cuKernelGetAttribute, "cuKernelGetAttribute", 12000,                                     \
	  (int *value, int which, CUkernel kernel, CUdevice device))                               \
	X(cuKernelSetAttribute, "cuKernelSetAttribute", 12000,                                     \
	  (int which, int value, CUkernel kernel, CUdevice device))                                \
	X(cuFuncSetCacheConfig, "cuFuncSetCacheConfig", 3000, (CUfunction function, int config))   \
	X(cuFuncSetSharedMemConfig, "cuFuncSetSharedMemConfig", 4020,                              \
	  (CUfunction function, int config))                                                       \
	X(cuKernelSetCacheConfig, "cuKernelSetCacheConfig", 12000,                                 \
	  (CUkernel kernel, int config, CUdevice device))                                          \
	X(cuFuncLoad, "cuFuncLoad", 12040, (CUfunction function))                                  \
	X(cuFuncIsLoaded, "cuFuncIsLoaded", 12040, (int *state, CUfunction function))              \
	X(cuModuleGetLoadingMode, "cuModuleGetLoadingMode", 11070, (int *mode))                    \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                             \
	  "cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050,                                     \
	  (int *blocks, CUfunction function, int threads, size_t shared))                          \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,                                    \
	  "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 7000,                            \
	  (int *blocks, CUfunction function, int threads, size_t shared, unsigned flags))          \
	X(cuOccupancyMaxPotentialBlockSize, "cuOccupancyMaxPotentialBlockSize", 6050,              \
	  (int *grid, int *block, CUfunction function, size_t (*shared_of)(int), size_t shared,    \
	   int limit))                                                                             \
	X(cuOccupancyMaxPotentialBlockSizeWithFlags, "cuOccupancyMaxPotentialBlockSizeWithFlags",  \
	  7000,                                                                                    \
	  (int *grid, int *block, CUfunction function, size_t (*shared_of)(int), size_t shared,    \
	   int limit, unsigned flags))                                                             \
	X(cuOccupancyAvailableDynamicSMemPerBlock, "cuOccupancyAvailableDynamicSMemPerBlock",      \
	  10020, (size_t * bytes, CUfunction function, int blocks, int threads))                   \
	X(cuOccupancyMaxActiveClusters, "cuOccupancyMaxActiveClusters", 11070,                     \
	  (int *n, CUfunction function, const struct cuda_launch_config *c))                       \
	X(cuOccupancyMaxPotentialClusterSize, "cuOccupancyMaxPotentialClusterSize", 11070,         \
	  (int *size, CUfunction function, const struct cuda_launch_config *c))                    \
	X(cuLaunchKernelEx, "cuLaunchKernelEx", 11060,                                             \
	  (const struct cuda_launch_config *c, CUfunction function, void **params, void **extra))  \
	X(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 9000,                            \
	  (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,   \
	   unsigned bz, unsigned shared, CUstream s, void **params))                               \
	X(cuModuleGetGlobal_v2, "cuModuleGetGlobal", 3020,                                         \
	  (CUdeviceptr * out, size_t * bytes, CUmodule module, const char *name))                  \
	X(cuLibraryGetGlobal, "cuLibraryGetGlobal", 12000,                                         \
	  (CUdeviceptr * out, size_t * bytes, CUlibrary library, const char *name))                \
	X(cuLinkCreate_v2, "cuLinkCreate", 6050,                                                   \
	  (unsigned n, int *options, void **values, CUlinkState *out))                             \
	X(cuLinkAddData_v2, "cuLinkAddData", 6050,                                                 \
	  (CUlinkState h, int type, void *data, size_t bytes, const char *name, unsigned n,        \
	   int *options, void **values))                                                           \
	X(cuLinkAddFile_v2, "cuLinkAddFile", 6050,                                                 \
	  (CUlinkState h, int type, const char *path, unsigned n, int *options, void **values))    \
	X(cuLinkComplete, "cuLinkComplete", 5050, (CUlinkState h, void **out, size_t *bytes))      \
	X(cuLinkDestroy, "cuLinkDestroy", 5050, (CUlinkState h))                                   \
	X(cuLaunchHostFunc, "cuLaunchHostFunc", 10000,                                             \
	  (CUstream s, void (*run)(void *), void *data))                                           \
	X(cuStreamAddCallback, "cuStreamAddCallback", 5000,                                        \
	  (CUstream s, void (*run)(CUstream, CUresult, void *), void *data, unsigned flags))       \
	X(cuStreamGetPriority, "cuStreamGetPriority", 5050, (CUstream s, int *priority))           \
	X(cuStreamGetFlags, "cuStreamGetFlags", 5050, (CUstream s, unsigned *flags))               \
	X(cuStreamGetId, "cuStreamGetId", 12000, (CUstream s, uint64_t * id))                      \
	X(cuStreamGetCtx, "cuStreamGetCtx", 9020, (CUstream s, CUcontext * out))                   \
	X(cuStreamGetAttribute, "cuStreamGetAttribute", 11000,                                     \
	  (CUstream s, int which, union cuda_value *value))                                        \
	X(cuStreamSetAttribute, "cuStreamSetAttribute", 11000,                                     \
	  (CUstream s, int which, const union cuda_value *value))                                  \
	X(cuStreamCopyAttributes, "cuStreamCopyAttributes", 11000, (CUstream s, CUstream from))    \
	X(cuEventRecordWithFlags, "cuEventRecordWithFlags", 11010,                                 \
	  (CUevent h, CUstream s, unsigned flags))                                                 \
	X(cuCtxCreate_v3, "cuCtxCreate", 11040,                                                    \
	  (CUcontext * out, void *affinity, int n, unsigned flags, CUdevice device))               \
	X(cuCtxSetFlags, "cuCtxSetFlags", 12010, (unsigned flags))                                 \
	X(cuCtxGetId, "cuCtxGetId", 12000, (CUcontext context, uint64_t * id))                     \
	X(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", 4000,                                    \
	  (int *can, CUdevice device, CUdevice peer))
