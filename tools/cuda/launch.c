/* SPDX-License-Identifier: MIT */
/* Launches. What can be found wrong here is reported at once; what only the host finds is reported
 * by a later call that waits. */
#include <stdio.h>
#include <string.h>

#include "library.h"

/* CU_LAUNCH_PARAM_*, in EXTRA */
enum { EXTRA_END = 0, EXTRA_BUFFER, EXTRA_SIZE };

/* CUdevice_attribute */
enum { MAX_THREADS = 1, MAX_BLOCK = 2, MAX_GRID = 5, MAX_SHARED = 97 };

/* Whether VALUE is in 1 to the attribute, if that is known. */
static bool fits(uint64_t value, int attribute)
{
	int32_t most = link_about.attributes[attribute];

	return value > 0 && (most <= 0 || value <= (uint32_t)most);
}

static bool shape_is_valid(const struct softgpu_launch *l)
{
	bool ok = l->shared == 0 || fits(l->shared, MAX_SHARED);
	int i;

	for (i = 0; i < 3; i++)
		ok = ok && fits(l->grid[i], MAX_GRID + i) && fits(l->block[i], MAX_BLOCK + i);
	/* Each of them is at most 2^31, and at most 1024 by the GPU's attributes. */
	return ok && (uint64_t)l->block[0] * l->block[1] <= UINT32_MAX &&
	       fits((uint64_t)l->block[0] * l->block[1] * l->block[2], MAX_THREADS);
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
static const uint8_t *argument(const struct softgpu_function *f, uint32_t i, void **params,
			       const uint8_t *buffer, size_t size)
{
	if (params)
		return params[i];
	if (!buffer || f->offset[i] > size || f->size[i] > size - f->offset[i])
		return NULL;
	return buffer + f->offset[i];
}

static bool is_value(uint32_t size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

/* Writes the arguments behind L, at AT in the partition, and into it. */
static CUresult put_arguments(struct softgpu_launch *l, uint64_t at,
			      const struct softgpu_function *f, void **params, void **extra)
{
	uint64_t used = sizeof(*l);
	const uint8_t *buffer = NULL, *from;
	size_t size = 0;
	uint32_t i;

	if ((params && extra) || (extra && !read_extra(extra, &buffer, &size)))
		return CUDA_ERROR_INVALID_VALUE;
	l->n_args = f->n_params;
	for (i = 0; i < f->n_params; i++) {
		struct softgpu_launch_arg *a = &l->args[i];

		from = argument(f, i, params, buffer, size);
		if (!from || f->size[i] > LINK_LAUNCH_BYTES - used)
			return CUDA_ERROR_INVALID_VALUE;
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

static CUresult launch(const struct function *f, const struct softgpu_launch *shape, void **params,
		       void **extra)
{
	_Alignas(8) uint8_t whole[LINK_LAUNCH_BYTES];
	struct softgpu_launch *l = (struct softgpu_launch *)whole;
	uint8_t *memory;
	uint64_t at;
	CUresult e;

	if (!shape_is_valid(shape))
		return CUDA_ERROR_INVALID_VALUE;
	e = link_launch(&memory, &at);
	if (e != CUDA_SUCCESS)
		return e;
	memset(whole, 0, sizeof(whole));
	*l = *shape;
	memcpy(l->function, f->known.name, sizeof(l->function));
	e = put_arguments(l, at, &f->known, params, extra);
	if (e != CUDA_SUCCESS)
		return e;
	memcpy(memory, whole, sizeof(whole));
	e = link_put(SOFTGPU_LAUNCH, SOFTGPU_REPORT,
		     (uint64_t[7]){f->module->number, at, sizeof(*l), 0, 0, 0,
				   link_parts.launch_report_at});
	return e == CUDA_SUCCESS ? link_ring() : e;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
			void **extra)
{
	const struct softgpu_launch shape = {.grid = {gx, gy, gz},
					     .block = {bx, by, bz},
					     .shared = shared};
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);
	const struct function *f = handle_find(HANDLE_FUNCTION, function);
	struct stream *s;

	if (e == CUDA_SUCCESS && (!f || f->module->context != c))
		e = CUDA_ERROR_INVALID_HANDLE;
	s = e == CUDA_SUCCESS ? stream_find(stream, c) : NULL;
	if (e == CUDA_SUCCESS && !s)
		e = CUDA_ERROR_INVALID_HANDLE;
	if (e == CUDA_SUCCESS) {
		e = launch(f, &shape, params, extra);
		s->last = link_count();
	}
	return CALL_END(e);
}
