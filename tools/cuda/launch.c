/* SPDX-License-Identifier: MIT */
/* Launches. What only the host finds wrong is reported by a later call that waits. */
#include <stdio.h>
#include <string.h>

#include "library.h"

/* CU_LAUNCH_PARAM_*, in EXTRA */
enum { EXTRA_END = 0, EXTRA_BUFFER, EXTRA_SIZE };

/* CUfunction_attribute */
enum { FUNCTION_THREADS = 0, FUNCTION_SHARED = 1 };
/* CUdevice_attribute */
enum {
	MAX_THREADS = 1,
	MAX_BLOCK = 2,
	MAX_GRID = 5,
	PROCESSORS = 16,
	COOPERATIVE = 95,
	MAX_SHARED = 97
};

static uint64_t threads_of(const struct work_launch *l)
{
	return (uint64_t)l->block[0] * l->block[1] * l->block[2];
}

/* Whether VALUE is in 1 to the attribute, if that is known. */
static bool fits(uint64_t value, int attribute)
{
	int32_t most = link_about.attributes[attribute];

	return value > 0 && (most <= 0 || value <= (uint32_t)most);
}

static bool shape_is_valid(const struct work_launch *l, const int32_t *function)
{
	bool ok = l->shared == 0 ||
		  fits((uint64_t)l->shared + (uint32_t)function[FUNCTION_SHARED], MAX_SHARED);
	int i;

	for (i = 0; i < 3; i++)
		ok = ok && fits(l->grid[i], MAX_GRID + i) && fits(l->block[i], MAX_BLOCK + i);
	/* Each of them is at most 2^31, and at most 1024 by the GPU's attributes. */
	return ok && (uint64_t)l->block[0] * l->block[1] <= UINT32_MAX &&
	       fits(threads_of(l), MAX_THREADS);
}

static CUresult refusal(const struct function *f, const struct work_launch *w)
{
	int32_t most;

	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!shape_is_valid(w, f->known.attributes))
		return CUDA_ERROR_INVALID_VALUE;
	most = f->known.attributes[FUNCTION_THREADS]; /* for which there are registers */
	return most > 0 && threads_of(w) > (uint32_t)most ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
							  : CUDA_SUCCESS;
}

CUresult launch_check(const struct work_launch *w)
{
	return refusal(handle_find(HANDLE_FUNCTION, w->function), w);
}

/* Reads EXTRA: all arguments in one buffer of *SIZE bytes. Whether it is right. */
static bool read_extra(void **extra, const uint8_t **buffer, size_t *size)
{
	*buffer = NULL;
	*size = 0;
	while (*extra) {
		if (extra[0] == (void *)EXTRA_BUFFER)
			*buffer = extra[1];
		else if (extra[0] == (void *)EXTRA_SIZE && extra[1])
			*size = *(const size_t *)extra[1];
		else
			return false;
		extra += 2;
	}
	return *buffer || *size == 0;
}

/* Where argument I is; NULL: it is missing. */
static const uint8_t *argument(const struct function *f, uint32_t i, void **params,
			       const uint8_t *buffer, size_t size)
{
	uint32_t at = f->known.offset[i], n = f->known.size[i];

	if (params)
		return params[i];
	return buffer && at <= size && n <= size - at ? buffer + at : NULL;
}

CUresult launch_pack(const struct function *f, void **params, void **extra, uint8_t *args,
		     size_t *size)
{
	const uint8_t *buffer = NULL, *from;
	size_t given = 0;
	uint32_t i;

	*size = 0;
	if ((params && extra) || (extra && !read_extra(extra, &buffer, &given)))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < f->known.n_params; i++) {
		from = argument(f, i, params, buffer, given);
		if (!from || f->known.size[i] > SOFTGPU_MAX_LAUNCH_BYTES ||
		    f->known.offset[i] > SOFTGPU_MAX_LAUNCH_BYTES - f->known.size[i])
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(args + f->known.offset[i], from, f->known.size[i]);
		*size = f->known.offset[i] + f->known.size[i];
	}
	return CUDA_SUCCESS;
}

static bool is_value(uint32_t size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

/* Writes the arguments into L, which is at AT in the partition, and behind it. */
static CUresult put_arguments(struct softgpu_launch *l, uint64_t at,
			      const struct softgpu_function *f, const struct work_launch *w)
{
	uint64_t used = sizeof(*l);
	const uint8_t *from;
	uint32_t i;

	l->n_args = f->n_params;
	for (i = 0; i < f->n_params; i++) {
		struct softgpu_launch_arg *a = &l->args[i];

		if (f->offset[i] > w->size || f->size[i] > w->size - f->offset[i] ||
		    f->size[i] > LINK_LAUNCH_BYTES - used)
			return CUDA_ERROR_INVALID_VALUE;
		from = w->args + f->offset[i];
		*a = (struct softgpu_launch_arg){.bytes = f->size[i]};
		if (is_value(f->size[i])) {
			memcpy(&a->value, from, f->size[i]);
			continue;
		}
		a->kind = SOFTGPU_ARG_BYTES;
		a->value = at + used;
		memcpy((uint8_t *)l + used, from, f->size[i]);
		used += f->size[i];
	}
	return CUDA_SUCCESS;
}

CUresult launch_run(const struct work_launch *w)
{
	const struct function *f = handle_find(HANDLE_FUNCTION, w->function);
	CUresult e = refusal(f, w);
	struct softgpu_launch *l;
	uint8_t *memory;
	uint64_t at;

	if (e == CUDA_SUCCESS)
		e = link_launch(&memory, &at);
	if (e != CUDA_SUCCESS)
		return e;
	/* Behind the name and the arguments is what an earlier launch has left: clearing it would
	 * cost more than the launch. */
	l = (struct softgpu_launch *)memory;
	memcpy(l->grid, w->grid, sizeof(l->grid));
	memcpy(l->block, w->block, sizeof(l->block));
	l->shared = w->shared;
	memcpy(l->function, f->known.name, strlen(f->known.name) + 1);
	e = put_arguments(l, at, &f->known, w);
	if (e != CUDA_SUCCESS)
		return e;
	e = link_put(SOFTGPU_LAUNCH, SOFTGPU_REPORT | (w->together ? SOFTGPU_LAUNCH_TOGETHER : 0),
		     (uint64_t[7]){f->module->number, at, sizeof(*l), 0, 0, 0,
				   link_parts.launch_report_at});
	return e == CUDA_SUCCESS ? link_ring() : e;
}

/* Whether the GPU executes all blocks of L at a time. The host checks it again. */
static CUresult fits_together(const struct function *f, const struct work_launch *l)
{
	uint64_t most;
	int blocks = 0;
	CUresult e = launch_check(l);

	if (e == CUDA_SUCCESS && link_about.attributes[COOPERATIVE] <= 0)
		e = CUDA_ERROR_NOT_SUPPORTED;
	if (e == CUDA_SUCCESS)
		e = occupancy_ask(f, (uint32_t)threads_of(l), l->shared, &blocks);
	if (e != CUDA_SUCCESS)
		return e;
	most = (uint64_t)blocks * (uint64_t)link_about.attributes[PROCESSORS];
	/* A product that exceeds the most, which is below 2^32, is not multiplied further. */
	return (uint64_t)l->grid[0] * l->grid[1] > most ||
			       (uint64_t)l->grid[0] * l->grid[1] * l->grid[2] > most
		       ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
		       : CUDA_SUCCESS;
}

static CUresult put(CUfunction function, struct work_launch *l, CUstream s, void **params,
		    void **extra)
{
	uint8_t args[SOFTGPU_MAX_LAUNCH_BYTES];
	struct work w = {.kind = WORK_LAUNCH};
	const struct function *f;
	struct stream *stream;
	CUresult e = work_begin(s, &stream);

	f = handle_find(HANDLE_FUNCTION, function);
	if (e == CUDA_SUCCESS)
		e = work_in_current(stream);
	if (e == CUDA_SUCCESS &&
	    (!f || (f->module->context && f->module->context != call_current())))
		e = CUDA_ERROR_INVALID_HANDLE;
	if (e != CUDA_SUCCESS)
		return e;
	l->function = function;
	l->args = args;
	e = launch_pack(f, params, extra, args, &l->size);
	if (e == CUDA_SUCCESS && l->together)
		e = fits_together(f, l);
	w.launch = *l;
	return e == CUDA_SUCCESS ? work_put(stream, &w) : e;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
			void **extra)
{
	struct work_launch l = {.grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared};

	return CALL_END(put(function, &l, stream, params, extra));
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
				   unsigned bx, unsigned by, unsigned bz, unsigned shared,
				   CUstream s, void **params)
{
	struct work_launch l = {.grid = {gx, gy, gz},
				.block = {bx, by, bz},
				.shared = shared,
				.together = true};

	return CALL_END(put(function, &l, s, params, NULL));
}

/* CUlaunchAttributeID */
enum {
	LAUNCH_IGNORE = 0,
	LAUNCH_ACCESS_POLICY = 1,
	LAUNCH_COOPERATIVE = 2,
	LAUNCH_SYNCHRONIZATION = 3,
	LAUNCH_CLUSTER = 4,
	LAUNCH_CLUSTER_POLICY = 5,
	LAUNCH_PROGRAMMATIC = 6,
	LAUNCH_PRIORITY = 8,
	LAUNCH_DOMAIN_MAP = 9,
	LAUNCH_DOMAIN = 10,
	LAUNCH_CARVEOUT = 14,
};

/* Whether the launch can be as A says. Most are hints, or allow an overlap that need not be. */
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
		return a->cluster[0] == 1 && a->cluster[1] == 1 && a->cluster[2] == 1;
	default:
		return false;
	}
}

CUresult cuLaunchKernelEx(const struct cuda_launch_config *c, CUfunction function, void **params,
			  void **extra)
{
	struct work_launch l;
	bool together = false;
	unsigned i;

	if (!c || (c->n_attributes && !c->attributes))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < c->n_attributes; i++) {
		if (!is_honoured(&c->attributes[i])) {
			call_log("cuLaunchKernelEx: attribute %d is not carried with this value",
				 c->attributes[i].id);
			return CUDA_ERROR_NOT_SUPPORTED;
		}
		if (c->attributes[i].id == LAUNCH_COOPERATIVE)
			together = c->attributes[i].value;
	}
	l = (struct work_launch){.shared = c->shared, .together = together};
	memcpy(l.grid, c->grid, sizeof(l.grid));
	memcpy(l.block, c->block, sizeof(l.block));
	return CALL_END(put(function, &l, c->stream, params, extra));
}
