/* SPDX-License-Identifier: MIT */
/* Checks of contexts that several parts of a program have, or that are not current. */
#include <pthread.h>

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

const struct sample_check contexts_checks[] = {
	{"a primary context that was reset", reset_while_retained},
	{"streams of other contexts", streams_of_others},
	{"a context that another thread has destroyed", destroyed},
	{"contexts one above the other", nested},
	{NULL, NULL},
};
