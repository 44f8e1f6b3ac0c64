/* SPDX-License-Identifier: MIT */
/* Limits of a context, and preferences that have no effect here. */
#include "cuda_calls.h"

/* By CUlimit: what GPU kernels have, bytes. The worker requests these values from the host's
 * driver, or they are the driver's defaults. */
static const size_t limits[] = {
	[0] = 1024,    /* stack of a thread: NVIDIA's default, or what a kernel needs */
	[1] = 1 << 20, /* buffer of printf(): NVIDIA's default; an older softgpu has none */
	[2] = 0,       /* heap of malloc() */
};
#define LIMITS (sizeof(limits) / sizeof(limits[0]))
#define LIMITS_OF_CUDA 7 /* in CUDA 12.4 */

static CUresult begin_setting(bool ok, struct context **c)
{
	CUresult e = call_begin(NEEDS_CONTEXT, c);

	return e == CUDA_SUCCESS && !ok ? CUDA_ERROR_INVALID_VALUE : e;
}

static CUresult find_limit(int limit)
{
	return limit < (int)LIMITS ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
}

static size_t limit_of(int limit)
{
	return limit == 1 && !link_has_output() ? 0 : limits[limit];
}

static bool is_limit(int limit)
{
	return limit >= 0 && limit < LIMITS_OF_CUDA;
}

CUresult cuCtxGetLimit(size_t *value, int limit)
{
	struct context *c;
	CUresult e = begin_setting(value && is_limit(limit), &c);

	if (e == CUDA_SUCCESS)
		e = find_limit(limit);
	if (e == CUDA_SUCCESS)
		*value = limit_of(limit);
	return CALL_END(e);
}

/* Refuses larger limits, because their memory would be outside the VF's partition. Accepts smaller
 * ones but keeps the present value, because a driver may give more than is requested. */
CUresult cuCtxSetLimit(int limit, size_t value)
{
	struct context *c;
	CUresult e = begin_setting(is_limit(limit), &c);

	if (e == CUDA_SUCCESS)
		e = find_limit(limit);
	if (e == CUDA_SUCCESS && value > limit_of(limit))
		e = CUDA_ERROR_UNSUPPORTED_LIMIT;
	return CALL_END(e);
}

static CUresult get(int *value, enum setting which)
{
	struct context *c;
	CUresult e = begin_setting(value, &c);

	if (e == CUDA_SUCCESS)
		*value = c->settings[which];
	return e;
}

/* Stores a setting that has no effect. MOST: the largest value that CUDA defines for it. */
static CUresult set(int value, enum setting which, int most)
{
	struct context *c;
	CUresult e = begin_setting(value >= 0 && value <= most, &c);

	if (e == CUDA_SUCCESS)
		c->settings[which] = value;
	return e;
}

CUresult cuCtxGetCacheConfig(int *config)
{
	return CALL_END(get(config, SETTING_CACHE));
}

CUresult cuCtxSetCacheConfig(int config)
{
	return CALL_END(set(config, SETTING_CACHE, 3));
}

CUresult cuCtxGetSharedMemConfig(int *config)
{
	return CALL_END(get(config, SETTING_BANKS));
}

CUresult cuCtxSetSharedMemConfig(int config)
{
	return CALL_END(set(config, SETTING_BANKS, 2));
}

/* Does nothing, because a stream's L2 attributes have no effect here. */
CUresult cuCtxResetPersistingL2Cache(void)
{
	struct context *c;

	return CALL_END(begin_setting(true, &c));
}

/* Returns NOT_SUPPORTED, as NVIDIA's driver does from CUDA 12.0 on. */
CUresult cuProfilerInitialize(const char *, const char *, int)
{
	return log_absent(__func__);
}

/* Does nothing, because the library has no profiler. */
CUresult cuProfilerStart(void)
{
	struct context *c;

	return CALL_END(begin_setting(true, &c));
}

CUresult cuProfilerStop(void)
{
	struct context *c;

	return CALL_END(begin_setting(true, &c));
}
