/* SPDX-License-Identifier: MIT */
/*
 * Rows of entries.h: first versions of calls that have later ones. Most have the same signature;
 * cuStreamBeginCapture() had no mode, cuGraphExecUpdate() no structure, and sizes had 32 bits.
 * Programs that look up symbols by name still use some of them. Where addresses on the device had
 * 32 bits (cuMemAlloc()), the first version is absent. Attaching to contexts, and launches in
 * several calls, have no later version.
 */
#pragma once

#define CUDA_FIRST_ENTRIES(X)                                                                      \
	X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000, (CUdevice device))         \
	X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, (CUdevice device))             \
	X(cuDevicePrimaryCtxSetFlags, "cuDevicePrimaryCtxSetFlags", 7000,                          \
	  (CUdevice device, unsigned flags))                                                       \
	X(cuDeviceTotalMem, "cuDeviceTotalMem", 2000, (unsigned *bytes, CUdevice device))          \
	X(cuMemGetInfo, "cuMemGetInfo", 2000, (unsigned *left, unsigned *all))                     \
	X(cuMemAllocHost, "cuMemAllocHost", 2000, (void **out, unsigned bytes))                    \
	X(cuCtxCreate, "cuCtxCreate", 2000, (CUcontext * out, unsigned flags, CUdevice device))    \
	X(cuCtxDestroy, "cuCtxDestroy", 2000, (CUcontext context))                                 \
	X(cuCtxAttach, "cuCtxAttach", 2000, (CUcontext * out, unsigned flags))                     \
	X(cuCtxDetach, "cuCtxDetach", 2000, (CUcontext context))                                   \
	X(cuCtxPushCurrent, "cuCtxPushCurrent", 2000, (CUcontext context))                         \
	X(cuCtxPopCurrent, "cuCtxPopCurrent", 2000, (CUcontext * out))                             \
	X(cuFuncSetBlockShape, "cuFuncSetBlockShape", 2000,                                        \
	  (CUfunction function, int x, int y, int z))                                              \
	X(cuFuncSetSharedSize, "cuFuncSetSharedSize", 2000, (CUfunction function, unsigned bytes)) \
	X(cuParamSetSize, "cuParamSetSize", 2000, (CUfunction function, unsigned bytes))           \
	X(cuParamSeti, "cuParamSeti", 2000, (CUfunction function, int at, unsigned value))         \
	X(cuParamSetf, "cuParamSetf", 2000, (CUfunction function, int at, float value))            \
	X(cuParamSetv, "cuParamSetv", 2000,                                                        \
	  (CUfunction function, int at, void *from, unsigned bytes))                               \
	X(cuLaunch, "cuLaunch", 2000, (CUfunction function))                                       \
	X(cuLaunchGrid, "cuLaunchGrid", 2000, (CUfunction function, int x, int y))                 \
	X(cuLaunchGridAsync, "cuLaunchGridAsync", 2000,                                            \
	  (CUfunction function, int x, int y, CUstream s))                                         \
	X(cuStreamDestroy, "cuStreamDestroy", 2000, (CUstream stream))                             \
	X(cuEventDestroy, "cuEventDestroy", 2000, (CUevent event))                                 \
	X(cuLinkCreate, "cuLinkCreate", 5050,                                                      \
	  (unsigned n, int *options, void **values, CUlinkState *out))                             \
	X(cuLinkAddData, "cuLinkAddData", 5050,                                                    \
	  (CUlinkState h, int type, void *data, size_t bytes, const char *name, unsigned n,        \
	   int *options, void **values))                                                           \
	X(cuLinkAddFile, "cuLinkAddFile", 5050,                                                    \
	  (CUlinkState h, int type, const char *path, unsigned n, int *options, void **values))    \
	X(cuMemHostRegister, "cuMemHostRegister", 4000, (void *at, size_t bytes, unsigned flags))  \
	X(cuStreamWriteValue32, "cuStreamWriteValue32", 8000,                                      \
	  (CUstream s, CUdeviceptr at, uint32_t value, unsigned flags))                            \
	X(cuStreamWriteValue64, "cuStreamWriteValue64", 9000,                                      \
	  (CUstream s, CUdeviceptr at, uint64_t value, unsigned flags))                            \
	X(cuStreamBeginCapture, "cuStreamBeginCapture", 10000, (CUstream h))                       \
	X(cuGraphInstantiate, "cuGraphInstantiate", 10000,                                         \
	  (CUgraphExec * out, CUgraph graph, CUgraphNode * wrong, char *log, size_t log_size))     \
	X(cuGraphExecUpdate, "cuGraphExecUpdate", 10020,                                           \
	  (CUgraphExec h, CUgraph graph, CUgraphNode * wrong, int *result))
