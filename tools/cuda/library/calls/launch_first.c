/* SPDX-License-Identifier: MIT */
/* Launches by the calls of CUDA's first versions: the function stores the size of blocks and the
 * arguments, and the launch names only the grid. */
#include <stdlib.h>
#include <string.h>

#include "cuda_calls.h"

struct launch_setup {
	unsigned block[3], shared;
	size_t size; /* bytes of the arguments */
	uint8_t args[SOFTGPU_MAX_LAUNCH_BYTES];
};

/* Begins a call that changes the setup of the function H, and finds it. OK: whether the call's
 * other arguments are valid. */
static CUresult begin_setup(CUfunction h, bool ok, struct launch_setup **out)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);
	struct function *f = handle_find(HANDLE_FUNCTION, h);

	if (e == CUDA_SUCCESS && !f)
		e = CUDA_ERROR_INVALID_HANDLE;
	if (e == CUDA_SUCCESS && !ok)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && !f->setup)
		f->setup = calloc(1, sizeof(*f->setup));
	if (e == CUDA_SUCCESS && !f->setup)
		e = CUDA_ERROR_OUT_OF_MEMORY;
	*out = e == CUDA_SUCCESS ? f->setup : NULL;
	return e;
}

CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z)
{
	struct launch_setup *s;
	CUresult e = begin_setup(function, x > 0 && y > 0 && z > 0, &s);

	if (s) {
		s->block[0] = (unsigned)x;
		s->block[1] = (unsigned)y;
		s->block[2] = (unsigned)z;
	}
	return CALL_END(e);
}

CUresult cuFuncSetSharedSize(CUfunction function, unsigned bytes)
{
	struct launch_setup *s;
	CUresult e = begin_setup(function, true, &s);

	if (s)
		s->shared = bytes;
	return CALL_END(e);
}

CUresult cuParamSetSize(CUfunction function, unsigned bytes)
{
	struct launch_setup *s;
	CUresult e = begin_setup(function, bytes <= sizeof(s->args), &s);

	if (s)
		s->size = bytes;
	return CALL_END(e);
}

static CUresult set_argument(CUfunction function, int at, const void *from, unsigned bytes)
{
	struct launch_setup *s;
	bool fits = at >= 0 && (unsigned)at <= sizeof(s->args) &&
		    bytes <= sizeof(s->args) - (unsigned)at;
	CUresult e = begin_setup(function, fits && (from || bytes == 0), &s);

	if (s && bytes > 0)
		memcpy(s->args + at, from, bytes);
	return e;
}

CUresult cuParamSeti(CUfunction function, int at, unsigned value)
{
	return CALL_END(set_argument(function, at, &value, sizeof(value)));
}

CUresult cuParamSetf(CUfunction function, int at, float value)
{
	return CALL_END(set_argument(function, at, &value, sizeof(value)));
}

CUresult cuParamSetv(CUfunction function, int at, void *from, unsigned bytes)
{
	return CALL_END(set_argument(function, at, from, bytes));
}

CUresult cuLaunchGridAsync(CUfunction function, int x, int y, CUstream s)
{
	struct launch_setup *setup, now = {.size = 0};
	CUresult e = begin_setup(function, x > 0 && y > 0, &setup);
	void *extra[] = {(void *)1, now.args, (void *)2, &now.size, NULL};

	if (setup)
		now = *setup;
	if (CALL_END(e) != CUDA_SUCCESS)
		return e;
	return cuLaunchKernel(function, (unsigned)x, (unsigned)y, 1, now.block[0], now.block[1],
			      now.block[2], now.shared, s, NULL, now.size > 0 ? extra : NULL);
}

CUresult cuLaunchGrid(CUfunction function, int x, int y)
{
	return cuLaunchGridAsync(function, x, y, NULL);
}

CUresult cuLaunch(CUfunction function)
{
	return cuLaunchGridAsync(function, 1, 1, NULL);
}
