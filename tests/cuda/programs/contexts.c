/* SPDX-License-Identifier: MIT */
/* Checks of contexts that several parts of a program have, or that are not current. */
#include <fnmatch.h>
#include <pthread.h>
#include <string.h>

#include "check.h"

/* Those who have retained the primary context release it, though it was reset meanwhile. */
static bool reset_while_retained(void)
{
	CUcontext again;
	CUdeviceptr x;
	unsigned flags;
	int active;

	CHECK(sample_begin());
	OK(cuMemAlloc_v2(&x, 64));
	OK(cuDevicePrimaryCtxReset_v2(0));
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	CHECK(!active);
	OK(cuDevicePrimaryCtxReset_v2(0));
	/* another one begins anew; what it has stays when the first one releases */
	OK(cuDevicePrimaryCtxRetain(&again, 0));
	OK(cuCtxSetCurrent(again));
	OK(cuMemAlloc_v2(&x, 64));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	OK(cuMemsetD8_v2(x, 1, 64));
	OK(cuDevicePrimaryCtxReset_v2(0));
	OK(cuCtxSetCurrent(NULL));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	CHECK(cuDevicePrimaryCtxRelease_v2(0) == CUDA_ERROR_INVALID_CONTEXT);
	return true;
}

/* A stream is used while another context is current, but for launches. */
static bool streams_of_others(void)
{
	CUcontext mine, other, seen;
	CUgraphExec exec;
	CUmodule module;
	uint32_t back[16];
	CUfunction scale;
	CUstream s, own;
	CUevent e, f;
	CUdeviceptr x;
	CUgraph graph;
	void *params[] = {&x};

	CHECK(sample_begin());
	OK(cuCtxGetCurrent(&mine));
	OK(cuMemAlloc_v2(&x, 64));
	OK(cuStreamCreate(&s, 1));
	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuEventCreate(&e, 2));
	OK(cuStreamCreate(&own, 1));
	OK(cuStreamGetCtx(s, &seen));
	CHECK(seen == mine);
	OK(cuMemsetD32Async(x, 5, 16, s));
	OK(cuMemcpyDtoHAsync_v2(back, x, 64, s));
	CHECK(back[0] == 5 && back[15] == 5);
	OK(cuEventRecord(e, own));
	OK(cuStreamWaitEvent(s, e, 0));
	OK(cuStreamSynchronize(s));
	OK(cuStreamQuery(s));
	CHECK(cuEventRecord(e, s) == CUDA_ERROR_INVALID_HANDLE); /* they must be of one context */
	OK(cuModuleLoadData(&module, programs_ptx));
	OK(cuModuleGetFunction(&scale, module, "scale"));
	CHECK(cuLaunchKernel(scale, 1, 1, 1, 16, 1, 1, 0, s, params, NULL) ==
	      CUDA_ERROR_INVALID_HANDLE);
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK(cuGraphLaunch(exec, s) == CUDA_ERROR_INVALID_HANDLE);
	OK(cuGraphLaunch(exec, own));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuStreamDestroy_v2(s));
	OK(cuCtxDestroy_v2(other));
	OK(cuEventCreate(&f, 2));
	CHECK(cuEventRecord(f, own) == CUDA_ERROR_INVALID_HANDLE); /* gone with its context */
	return sample_end();
}

static void *destroy(void *context)
{
	CUresult e = cuCtxDestroy_v2(context);

	return (void *)(intptr_t)e;
}

/* Calls of a thread whose context is gone say so; it can go on with another one. */
static bool destroyed(void)
{
	CUcontext context;
	pthread_t thread;
	CUdeviceptr x;
	void *result;

	OK(cuCtxCreate_v2(&context, 0, 0));
	OK(cuMemAlloc_v2(&x, 64));
	CHECK(pthread_create(&thread, NULL, destroy, context) == 0);
	CHECK(pthread_join(thread, &result) == 0 && !result);
	CHECK(cuMemAlloc_v2(&x, 64) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	CHECK(cuCtxSynchronize() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	OK(cuCtxSetCurrent(NULL));
	CHECK(cuMemAlloc_v2(&x, 64) == CUDA_ERROR_INVALID_CONTEXT);
	CHECK(sample_begin());
	OK(cuMemAlloc_v2(&x, 64));
	return sample_end();
}

#define NESTED 64

/* A thread has 64 contexts one above the other, the one above is its current one, and what it ends
 * with is not lost (LeakSanitizer looks). NULL: all is right. */
static void *nest(void *arg)
{
	const CUcontext *c = arg;
	CUcontext seen;
	int i;

	for (i = 0; i < NESTED; i++)
		if (cuCtxPushCurrent_v2(c[i % 3]) != CUDA_SUCCESS)
			return arg;
	if (cuCtxPushCurrent_v2(c[0]) != CUDA_ERROR_OUT_OF_MEMORY)
		return arg;
	for (i = NESTED - 1; i >= 0; i--)
		if (cuCtxGetCurrent(&seen) != CUDA_SUCCESS || seen != c[i % 3] ||
		    cuCtxPopCurrent_v2(&seen) != CUDA_SUCCESS || seen != c[i % 3])
			return arg;
	if (cuCtxPopCurrent_v2(&seen) != CUDA_ERROR_INVALID_CONTEXT)
		return arg;
	for (i = 0; i < 3; i++)
		if (cuCtxPushCurrent_v2(c[i]) != CUDA_SUCCESS)
			return arg;
	return NULL;
}

static bool nested(void)
{
	CUcontext c[3];
	pthread_t thread;
	void *result;
	int i;

	for (i = 0; i < 3; i++)
		OK(cuCtxCreate_v2(&c[i], 0, 0));
	for (i = 0; i < 2; i++) {
		CHECK(pthread_create(&thread, NULL, nest, c) == 0);
		CHECK(pthread_join(thread, &result) == 0 && !result);
	}
	for (i = 2; i >= 0; i--)
		OK(cuCtxDestroy_v2(c[i]));
	return true;
}

/* Kernels have no heap and no buffer for printf(), and no stack beyond what they need. */
static bool limits(void)
{
	size_t value;
	int i;

	CHECK(sample_begin());
	OK(cuCtxGetLimit(&value, 0));
	CHECK(value >= 1024);
	OK(cuCtxSetLimit(0, value));
	CHECK(cuCtxSetLimit(0, value + 1) == CUDA_ERROR_UNSUPPORTED_LIMIT);
	for (i = 1; i < 3; i++) {
		const size_t has = i == 1 ? 1 << 20 : 0; /* for printf(); the heap */

		value = 1;
		OK(cuCtxGetLimit(&value, i));
		CHECK(value == has);
		OK(cuCtxSetLimit(i, 0));
		CHECK(cuCtxSetLimit(i, has + 1) == CUDA_ERROR_UNSUPPORTED_LIMIT);
	}
	for (i = 3; i < 7; i++) {
		CHECK(cuCtxGetLimit(&value, i) == CUDA_ERROR_UNSUPPORTED_LIMIT);
		CHECK(cuCtxSetLimit(i, 0) == CUDA_ERROR_UNSUPPORTED_LIMIT);
	}
	CHECK(cuCtxGetLimit(&value, 7) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuCtxGetLimit(&value, -1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuCtxGetLimit(NULL, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuCtxSetLimit(7, 0) == CUDA_ERROR_INVALID_VALUE);
	return sample_end();
}

/* Each context has its own. */
static bool preferences(void)
{
	CUcontext other;
	int value = 9;

	CHECK(sample_begin());
	OK(cuCtxSetCacheConfig(2));
	OK(cuCtxSetSharedMemConfig(1));
	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuCtxGetCacheConfig(&value));
	CHECK(value == 0);
	OK(cuCtxDestroy_v2(other));
	OK(cuCtxGetCacheConfig(&value));
	CHECK(value == 2);
	OK(cuCtxGetSharedMemConfig(&value));
	CHECK(value == 1);
	CHECK(cuCtxSetCacheConfig(4) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuCtxSetCacheConfig(-1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuCtxSetSharedMemConfig(3) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuCtxGetCacheConfig(NULL) == CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxGetCacheConfig(&value));
	CHECK(value == 2);
	OK(cuCtxResetPersistingL2Cache());
	CHECK(cuProfilerInitialize("a", "b", 0) == CUDA_ERROR_NOT_SUPPORTED);
	OK(cuProfilerStart());
	OK(cuProfilerStop());
	CHECK(sample_end());
	CHECK(cuProfilerStart() == CUDA_ERROR_INVALID_CONTEXT);
	CHECK(cuCtxResetPersistingL2Cache() == CUDA_ERROR_INVALID_CONTEXT);
	CHECK(cuCtxGetLimit(&(size_t){0}, 0) == CUDA_ERROR_INVALID_CONTEXT);
	return true;
}

/* The device is found by the address that it tells, in whatever form. */
static bool address(void)
{
	int domain, bus, device, priorities;
	char text[32], other[32];
	CUdevice found = 7;

	CHECK(sample_begin());
	OK(cuDeviceGetAttribute(&domain, 50, 0));
	OK(cuDeviceGetAttribute(&bus, 33, 0));
	OK(cuDeviceGetAttribute(&device, 34, 0));
	OK(cuDeviceGetPCIBusId(text, sizeof(text), 0));
	snprintf(other, sizeof(other), "%04x:%02x:%02x.", (unsigned)domain, bus, device);
	CHECK(strncmp(text, other, strlen(other)) == 0);
	OK(cuDeviceGetByPCIBusId(&found, text));
	CHECK(found == 0);
	snprintf(other, sizeof(other), "%08x:%02x:%02x%s", (unsigned)domain, bus, device,
		 strchr(text, '.'));
	OK(cuDeviceGetByPCIBusId(&found, other));
	snprintf(other, sizeof(other), "%04x:%02x:%02x.0", (unsigned)domain, bus + 1, device);
	CHECK(cuDeviceGetByPCIBusId(&found, other) == CUDA_ERROR_INVALID_DEVICE);
	CHECK(cuDeviceGetByPCIBusId(&found, "") == CUDA_ERROR_INVALID_DEVICE);
	CHECK(cuDeviceGetByPCIBusId(&found, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuDeviceGetPCIBusId(text, 0, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuDeviceGetPCIBusId(text, 32, 1) == CUDA_ERROR_INVALID_DEVICE);
	OK(cuDeviceGetPCIBusId(text, 3, 0));
	CHECK(strlen(text) == 2);
	/* there is one priority, so they are not supported */
	OK(cuDeviceGetAttribute(&priorities, 78, 0));
	CHECK(priorities == 0);
	return sample_end();
}

/* Programs that look for names by themselves ask for first versions of some. */
static bool first_versions(void)
{
	CUcontext c, other;
	CUstream s;
	CUevent e;
	CUgraph graph;
	CUgraphExec exec;
	uint32_t back = 0;
	unsigned some = 1, free_now = 1, all_now = 1;
	CUdeviceptr x;
	void *pinned;
	size_t all, left;

	CHECK(sample_begin());
	OK(cuDeviceTotalMem_v2(&all, 0));
	OK(cuDeviceTotalMem(&some, 0));
	CHECK(some == (all < UINT32_MAX ? all : UINT32_MAX));
	OK(cuMemAlloc_v2(&x, 4 << 20));
	OK(cuMemGetInfo_v2(&left, &all));
	OK(cuMemGetInfo(&free_now, &all_now));
	CHECK(left < all && all_now == some);
	CHECK(free_now == (left < UINT32_MAX ? left : UINT32_MAX));
	CHECK(cuMemGetInfo(NULL, &all_now) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemGetInfo(&free_now, NULL) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(x));
	OK(cuMemAllocHost(&pinned, 4096));
	memset(pinned, 1, 4096);
	OK(cuMemFreeHost(pinned));
	OK(cuDevicePrimaryCtxRetain(&c, 0));
	OK(cuDevicePrimaryCtxSetFlags(0, 4));
	OK(cuDevicePrimaryCtxRelease(0));
	OK(cuCtxCreate(&other, 0, 0));
	OK(cuCtxPopCurrent(&c));
	CHECK(c == other);
	OK(cuCtxPushCurrent(other));
	OK(cuStreamCreate(&s, 1));
	OK(cuEventCreate(&e, 0));
	OK(cuMemAlloc_v2(&x, 8));
	OK(cuStreamBeginCapture(s));
	OK(cuMemsetD32Async(x, 77, 1, s));
	OK(cuStreamEndCapture(s, &graph));
	OK(cuGraphInstantiate(&exec, graph, NULL, NULL, 0));
	OK(cuGraphLaunch(exec, s));
	OK(cuMemcpyDtoH_v2(&back, x, 4));
	CHECK(back == 77);
	OK(cuStreamWriteValue32(s, x, 5, 0));
	OK(cuMemcpyDtoH_v2(&back, x, 4));
	CHECK(back == 5);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuEventDestroy(e));
	OK(cuStreamDestroy(s));
	OK(cuCtxDestroy(other));
	return sample_end();
}

/* A context ends when the last one detaches that made it or attached. */
static bool attached(void)
{
	CUcontext c, again, primary;
	CUdeviceptr x;

	CHECK(sample_begin());
	OK(cuCtxGetCurrent(&primary));
	CHECK(cuCtxDetach(primary) == CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxCreate_v2(&c, 0, 0));
	CHECK(cuCtxAttach(&again, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuCtxAttach(NULL, 0) == CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxAttach(&again, 0));
	OK(cuCtxAttach(&again, 0));
	CHECK(again == c);
	CHECK(cuCtxDetach(primary) == CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxDetach(c));
	OK(cuMemAlloc_v2(&x, 64));
	OK(cuCtxDetach(c));
	OK(cuMemFree_v2(x));
	OK(cuCtxDetach(c));
	OK(cuCtxGetCurrent(&again));
	CHECK(again == primary);
	CHECK(cuCtxPushCurrent_v2(c) == CUDA_ERROR_INVALID_CONTEXT);
	return sample_end();
}

/* A handle or an address says whose something is: calls about it need no current context, as with
 * NVIDIA's driver. What makes something, and the default streams, need one. */
static bool none_current(void)
{
	CUdeviceptr x, y, base, global;
	CUcontext mine, seen;
	uint32_t back[16];
	CUfunction scale;
	CUmodule module;
	CUlinkState link;
	CUevent e;
	CUstream s;
	uint8_t *pinned, registered[64];
	size_t bytes, left, all, before;
	unsigned flags;
	float ms;

	CHECK(sample_begin());
	OK(cuMemGetInfo_v2(&before, &all));
	OK(cuMemAlloc_v2(&x, 64));
	OK(cuMemHostAlloc((void **)&pinned, 64, 0));
	OK(cuMemHostRegister_v2(registered, sizeof(registered), 0));
	OK(cuModuleLoadData(&module, programs_ptx));
	OK(cuStreamCreate(&s, 1));
	OK(cuEventCreate(&e, 0));
	OK(cuLinkCreate_v2(0, NULL, NULL, &link));
	OK(cuCtxPopCurrent_v2(&mine));
	OK(cuCtxGetCurrent(&seen));
	CHECK(!seen);
	OK(cuMemsetD32Async(x, 5, 16, s));
	OK(cuMemcpyDtoHAsync_v2(back, x, 64, s));
	OK(cuEventRecord(e, s));
	OK(cuStreamWaitEvent(s, e, 0));
	OK(cuStreamQuery(s) == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : cuStreamQuery(s));
	OK(cuStreamSynchronize(s));
	OK(cuEventSynchronize(e));
	OK(cuEventQuery(e));
	OK(cuEventElapsedTime(&ms, e, e));
	CHECK(back[0] == 5 && back[15] == 5);
	OK(cuStreamGetCtx(s, &seen));
	CHECK(seen == mine);
	OK(cuPointerGetAttribute(&seen, 1, x));
	CHECK(seen == mine);
	OK(cuMemHostGetFlags(&flags, pinned));
	OK(cuModuleGetFunction(&scale, module, "scale"));
	OK(cuModuleGetGlobal_v2(&global, &bytes, module, "factor"));
	CHECK(cuMemAlloc_v2(&y, 64) == CUDA_ERROR_INVALID_CONTEXT);
	CHECK(cuMemGetAddressRange_v2(&base, &bytes, x) == CUDA_ERROR_INVALID_CONTEXT);
	CHECK(cuStreamSynchronize(NULL) == CUDA_ERROR_INVALID_CONTEXT);
	CHECK(cuEventRecord(e, NULL) == CUDA_ERROR_INVALID_CONTEXT);
	CHECK(cuMemsetD32_v2(x, 1, 16) == CUDA_ERROR_INVALID_CONTEXT);
	CHECK(cuMemFree_v2(x + 1) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(x));
	CHECK(cuMemFree_v2(x) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFreeHost(pinned));
	OK(cuMemHostUnregister(registered));
	OK(cuModuleUnload(module));
	OK(cuStreamDestroy_v2(s));
	OK(cuEventDestroy_v2(e));
	OK(cuLinkDestroy(link));
	OK(cuCtxPushCurrent_v2(mine));
	OK(cuMemGetInfo_v2(&left, &all));
	CHECK(left == before);
	return sample_end();
}

/* Without a current context, these calls return CUDA_ERROR_INVALID_CONTEXT if all arguments are
 * zeros, so that streams are the default one: what docs/cuda.md says needs a context, and what
 * has a context, or a reference to the primary one, as its argument. */
static const char *const need[] = {
	"cuCtx*",
	"cuDevicePrimaryCtxRelease*",
	"cuEventCreate",
	"cuEventRecord*",
	"cuFuncSetBlockShape",
	"cuFuncSetSharedSize",
	"cuGraphAddMem*",
	"cuGraphInstantiate*",
	"cuGraphLaunch",
	"cuGraphUpload",
	"cuIpcGet*",
	"cuIpcOpen*",
	"cuLaunch*",
	"cuLibraryGetGlobal",
	"cuLinkCreate*",
	"cuMemAlloc*",
	"cuMemFreeAsync",
	"cuMemGetAddressRange*",
	"cuMemGetInfo*",
	"cuMemHostAlloc",
	"cuMemHostGetDevicePointer*",
	"cuMemHostRegister*",
	"cuMemcpy*",
	"cuMemset*",
	"cuModuleLoad*",
	"cuOccupancy*",
	"cuParam*",
	"cuPointerSetAttribute",
	"cuProfilerSt*",
	"cuStream*",
};
/* Of those, what does not: the last two miss their structures first. */
static const char *const need_not[] = {"cuCtxCreate*", "cuCtxGetCurrent", "cuCtxSetCurrent",
				       "cuGraphInstantiateWithParams", "cuLaunchKernelEx"};

static bool is_among(const char *const *patterns, size_t n, const char *symbol)
{
	while (n-- > 0)
		if (fnmatch(patterns[n], symbol, 0) == 0)
			return true;
	return false;
}

/* Every call of the library. */
static bool zeros(void)
{
	typedef CUresult any(long, long, long, long, long, long, long, long, long, long, long,
			     long);
	static const struct {
		const char *symbol;
		any *call;
	} rows[] = {
#define ROW(symbol, name, since, signature) {#symbol, (any *)(void (*)(void))symbol},
		CUDA_ENTRIES(ROW)
#undef ROW
	};
	CUcontext seen;
	bool needs;
	CUresult e;
	size_t i;

	OK(cuCtxGetCurrent(&seen));
	CHECK(!seen);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		needs = is_among(need, sizeof(need) / sizeof(need[0]), rows[i].symbol) &&
			!is_among(need_not, sizeof(need_not) / sizeof(need_not[0]), rows[i].symbol);
		e = rows[i].call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
		if ((e == CUDA_ERROR_INVALID_CONTEXT) != needs) {
			fprintf(stderr, "%s: error %d\n", rows[i].symbol, (int)e);
			return false;
		}
	}
	return true;
}

const struct sample_check contexts_checks[] = {
	{"every call, without a current context", zeros},
	{"no current context", none_current},
	{"a primary context that was reset", reset_while_retained},
	{"streams of other contexts", streams_of_others},
	{"a context that another thread has destroyed", destroyed},
	{"contexts one above the other", nested},
	{"contexts that are attached to", attached},
	{"limits of a context", limits},
	{"preferences of a context", preferences},
	{"the device's address", address},
	{"first versions of calls", first_versions},
	{NULL, NULL},
};
