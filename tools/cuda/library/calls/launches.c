/* SPDX-License-Identifier: MIT */
/* Calls that launch. */
#include <string.h>

#include "cuda_calls.h"

/* CUdevice_attribute */
enum { PROCESSORS = 16, COOPERATIVE = 95 };

/* Returns CUDA_SUCCESS if the GPU can execute all blocks of L at a time, or an error. The host
 * checks this again. */
static CUresult fits_together(const struct function *f, const struct work_launch *l)
{
	uint64_t most;
	int blocks = 0;
	CUresult e = launch_check(l);

	if (e == CUDA_SUCCESS && link_about.attributes[COOPERATIVE] <= 0)
		e = CUDA_ERROR_NOT_SUPPORTED;
	if (e == CUDA_SUCCESS)
		e = occupancy_ask(f, (uint32_t)launch_threads(l), l->shared, &blocks);
	if (e != CUDA_SUCCESS)
		return e;
	most = (uint64_t)blocks * (uint64_t)link_about.attributes[PROCESSORS];
	/* A product that exceeds MOST, which is below 2^32, is not multiplied further. */
	return (uint64_t)l->grid[0] * l->grid[1] > most ||
			       (uint64_t)l->grid[0] * l->grid[1] * l->grid[2] > most
		       ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
		       : CUDA_SUCCESS;
}

/* Begins a call that launches W in S, or adds it to the graph that S captures. */
static CUresult put_launch(struct work *w, CUstream s, void **params, void **extra)
{
	struct context *current = NULL;
	CUresult e = call_begin(NEEDS_CONTEXT, &current);
	const struct function *f = handle_find(HANDLE_FUNCTION, w->launch.function);
	struct stream *stream = stream_find(s);

	if (e == CUDA_SUCCESS && !(stream && stream_is_in(stream, current)))
		e = CUDA_ERROR_INVALID_HANDLE;
	if (e == CUDA_SUCCESS && (!f || (f->module->context && f->module->context != current)))
		e = CUDA_ERROR_INVALID_HANDLE;
	if (e == CUDA_SUCCESS)
		e = launch_take(&w->launch, params, extra);
	if (e == CUDA_SUCCESS && w->launch.together)
		e = fits_together(f, &w->launch);
	return e == CUDA_SUCCESS ? put_work(stream, w) : e;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
			void **extra)
{
	struct work w = {.kind = WORK_LAUNCH,
			 .launch = {.function = function,
				    .grid = {gx, gy, gz},
				    .block = {bx, by, bz},
				    .shared = shared}};

	return CALL_END(put_launch(&w, stream, params, extra));
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
				   unsigned bx, unsigned by, unsigned bz, unsigned shared,
				   CUstream s, void **params)
{
	struct work w = {.kind = WORK_LAUNCH,
			 .launch = {.function = function,
				    .grid = {gx, gy, gz},
				    .block = {bx, by, bz},
				    .shared = shared,
				    .together = true}};

	return CALL_END(put_launch(&w, s, params, NULL));
}

/* CUlaunchAttributeID */
enum {
	LAUNCH_IGNORE = 0,
	LAUNCH_ACCESS_POLICY = 1,
	LAUNCH_COOPERATIVE = 2,
	LAUNCH_SYNCHRONIZATION = 3,
	LAUNCH_CLUSTER_POLICY = 5,
	LAUNCH_PROGRAMMATIC = 6,
	LAUNCH_PRIORITY = 8,
	LAUNCH_DOMAIN_MAP = 9,
	LAUNCH_DOMAIN = 10,
	LAUNCH_CARVEOUT = 14,
};

/* Returns whether a launch can have the attribute A. Most attributes are hints, or permit an
 * overlap that is not required. */
static bool is_honoured(const struct cuda_attribute *a)
{
	switch (a->id) {
	case LAUNCH_IGNORE:
	case LAUNCH_ACCESS_POLICY:
	case LAUNCH_COOPERATIVE:
	case LAUNCH_SYNCHRONIZATION:
	case LAUNCH_CLUSTER_POLICY:
	case LAUNCH_PROGRAMMATIC:
	case LAUNCH_PRIORITY:
	case LAUNCH_DOMAIN_MAP:
	case LAUNCH_DOMAIN:
	case LAUNCH_CARVEOUT:
		return true;
	case LAUNCH_CLUSTER:
		return occupancy_cluster(a) == 1;
	default:
		return false;
	}
}

CUresult cuLaunchKernelEx(const struct cuda_launch_config *c, CUfunction function, void **params,
			  void **extra)
{
	struct work w = {.kind = WORK_LAUNCH, .launch.function = function};
	struct work_launch *l = &w.launch;
	unsigned i;

	if (!c || (c->n_attributes && !c->attributes))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < c->n_attributes; i++) {
		if (!is_honoured(&c->attributes[i])) {
			log_line("cuLaunchKernelEx: attribute %d is not supported with this value",
				 c->attributes[i].id);
			return CUDA_ERROR_NOT_SUPPORTED;
		}
		if (c->attributes[i].id == LAUNCH_COOPERATIVE)
			l->together = c->attributes[i].of.value;
	}
	memcpy(l->grid, c->grid, sizeof(l->grid));
	memcpy(l->block, c->block, sizeof(l->block));
	l->shared = c->shared;
	return CALL_END(put_launch(&w, c->stream, params, extra));
}
