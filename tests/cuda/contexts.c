/* SPDX-License-Identifier: MIT */
/* Checks of contexts that several parts of a program have, or that are not current. */
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

const struct sample_check contexts_checks[] = {
	{"a primary context that was reset", reset_while_retained},
	{NULL, NULL},
};
