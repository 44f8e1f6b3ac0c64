/* SPDX-License-Identifier: MIT */
/* Launches. Errors that only the host finds are returned by a later call that waits. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_work.h"

/* CU_LAUNCH_PARAM_*, in EXTRA */
enum { EXTRA_END = 0, EXTRA_BUFFER, EXTRA_SIZE };

/* CUfunction_attribute */
enum { FUNCTION_THREADS = 0, FUNCTION_SHARED = 1 };
/* CUdevice_attribute */
enum { MAX_THREADS = 1, MAX_BLOCK = 2, MAX_GRID = 5, MAX_SHARED = 97 };

uint64_t launch_threads(const struct work_launch *l)
{
	return (uint64_t)l->block[0] * l->block[1] * l->block[2];
}

/* The GPU's limits; UINT32_MAX: unknown. */
static struct {
	uint32_t grid[3], block[3], threads, shared;
} limits;

static uint32_t limit_of(int attribute)
{
	int32_t value = link_about.attributes[attribute];

	return value > 0 ? (uint32_t)value : UINT32_MAX;
}

void launch_reset(void)
{
	int i;

	for (i = 0; i < 3; i++) {
		limits.grid[i] = limit_of(MAX_GRID + i);
		limits.block[i] = limit_of(MAX_BLOCK + i);
	}
	limits.threads = limit_of(MAX_THREADS);
	limits.shared = limit_of(MAX_SHARED);
}

/* A VALUE of 0 becomes UINT32_MAX, which is not below any limit. */
static bool fits(const uint32_t value[3], const uint32_t limit[3])
{
	return value[0] - 1 < limit[0] && value[1] - 1 < limit[1] && value[2] - 1 < limit[2];
}

static bool shape_is_valid(const struct work_launch *l, const int32_t *function)
{
	return fits(l->grid, limits.grid) && fits(l->block, limits.block) &&
	       /* so that the next product does not exceed 2^64, whatever the GPU has */
	       (uint64_t)l->block[0] * l->block[1] <= UINT32_MAX &&
	       launch_threads(l) <= limits.threads &&
	       (l->shared == 0 ||
		(uint64_t)l->shared + (uint32_t)function[FUNCTION_SHARED] <= limits.shared);
}

static CUresult refusal(const struct function *f, const struct work_launch *w)
{
	int32_t threads;

	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!shape_is_valid(w, f->known.attributes))
		return CUDA_ERROR_INVALID_VALUE;
	threads = f->known.attributes[FUNCTION_THREADS]; /* the number of threads for which there
							  * are enough registers */
	return threads > 0 && launch_threads(w) > (uint32_t)threads
		       ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
		       : CUDA_SUCCESS;
}

/* Reads EXTRA: one *BUFFER of *SIZE bytes with all arguments. Returns whether EXTRA is valid. */
static bool read_extra(void **extra, uint8_t **buffer, size_t *size)
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

CUresult launch_take(struct work_launch *l, void **params, void **extra)
{
	l->params = params;
	l->in_buffer = extra;
	return extra && (params || !read_extra(extra, &l->args, &l->size))
		       ? CUDA_ERROR_INVALID_VALUE
		       : CUDA_SUCCESS;
}

/* Returns the list of pointers to the arguments: the program's own, or ROOM. Missing arguments are
 * NULL. */
static void *const *arguments(const struct work_launch *w, const struct softgpu_function *f,
			      void *room[SOFTGPU_MAX_LAUNCH_ARGS])
{
	uint32_t i;

	if (w->params)
		return w->params;
	for (i = 0; i < f->n_params; i++)
		room[i] = f->offset[i] <= w->size && f->size[i] <= w->size - f->offset[i]
				  ? w->args + f->offset[i]
				  : NULL;
	return room;
}

CUresult launch_check(const struct work_launch *w)
{
	const struct function *f = handle_find(HANDLE_FUNCTION, w->function);
	void *room[SOFTGPU_MAX_LAUNCH_ARGS], *const *from;
	CUresult e = refusal(f, w);
	uint32_t i;

	if (e != CUDA_SUCCESS)
		return e;
	from = arguments(w, &f->known, room);
	for (i = 0; i < f->known.n_params; i++)
		if (!from[i])
			return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

bool launch_keep(struct work_launch *l)
{
	/* A graph copies kept arguments again, when the function's module may be gone. */
	const struct function *f = handle_find(HANDLE_FUNCTION, l->function);
	size_t size = f ? f->args_bytes : l->size;
	uint8_t *args = calloc(1, size + 1);
	uint32_t i;

	if (args && !l->params && size > 0)
		memcpy(args, l->args, size);
	for (i = 0; args && l->params && i < f->known.n_params; i++)
		memcpy(args + f->known.offset[i], l->params[i], f->known.size[i]);
	l->params = NULL;
	l->args = args;
	l->size = size;
	return args;
}

CUresult launch_list(struct work_launch *l, void ***out)
{
	void *const extra[] = {(void *)EXTRA_BUFFER, l->args, (void *)EXTRA_SIZE, &l->size,
			       (void *)EXTRA_END};
	const struct function *f = handle_find(HANDLE_FUNCTION, l->function);
	void **list;
	uint32_t i;

	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	list = malloc(sizeof(extra) + f->known.n_params * sizeof(*list));
	if (!list)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (l->in_buffer)
		memcpy(list, extra, sizeof(extra));
	for (i = 0; i < f->known.n_params && !l->in_buffer; i++)
		list[i] = l->args + f->known.offset[i];
	*out = list;
	return CUDA_SUCCESS;
}

bool launch_has_value(uint32_t bytes)
{
	return bytes <= sizeof(((struct softgpu_launch_arg *)NULL)->value);
}

/* Copies a name of N parts. Most names have one or two parts, which the compiler copies without a
 * call of memcpy(). */
static void put_name(char *to, const char *from, uint32_t n)
{
	for (; n > 0; n--, to += NAME_PART, from += NAME_PART)
		memcpy(to, from, NAME_PART);
}

/* Writes an argument of BYTES into A, or to BEHIND, which is at AT in the partition. Returns the
 * number of bytes used at BEHIND. */
static uint32_t put_argument(struct softgpu_launch_arg *a, uint8_t *behind, uint64_t at,
			     const uint8_t *from, uint32_t bytes)
{
	const bool fits = launch_has_value(bytes);

	*a = (struct softgpu_launch_arg){.kind = fits ? SOFTGPU_ARG_VALUE : SOFTGPU_ARG_BYTES,
					 .value = fits ? 0 : at,
					 .bytes = bytes};
	memcpy(fits ? (uint8_t *)&a->value : behind, from, bytes);
	return fits ? 0 : bytes;
}

/* Writes the arguments into L, which is at AT in the partition, and behind L. Returns false if one
 * is missing. Most arguments have 8 or 4 bytes, and are written here, where the compiler knows the
 * size. */
static bool put_arguments(struct softgpu_launch *l, uint64_t at, const struct softgpu_function *f,
			  const struct work_launch *w)
{
	const uint32_t n = f->n_params;
	uint64_t used = offsetof(struct softgpu_launch, args[n]);
	void *room[SOFTGPU_MAX_LAUNCH_ARGS];
	void *const *from = arguments(w, f, room);
	uint32_t i, half;

	l->n_args = n;
	for (i = 0; i < n && from[i]; i++) {
		struct softgpu_launch_arg *a = &l->args[i];
		const uint32_t bytes = f->size[i];

		if (bytes == 8) {
			*a = (struct softgpu_launch_arg){.bytes = 8};
			memcpy(&a->value, from[i], 8);
		} else if (bytes == 4) {
			memcpy(&half, from[i], 4);
			*a = (struct softgpu_launch_arg){.value = half, .bytes = 4};
		} else {
			used += put_argument(a, (uint8_t *)l + used, at + used, from[i], bytes);
		}
	}
	return i == n;
}

CUresult launch_run(const struct work_launch *w)
{
	const struct function *f = handle_find(HANDLE_FUNCTION, w->function);
	CUresult e = refusal(f, w);
	struct softgpu_launch *l;
	uint8_t *memory;
	uint64_t at;

	if (e == CUDA_SUCCESS)
		e = link_launch(f->launch_bytes, &memory, &at);
	if (e != CUDA_SUCCESS)
		return e;
	/* The bytes between the name and the arguments keep values of an earlier launch, because
	 * clearing them would take longer than the launch. */
	l = (struct softgpu_launch *)memory;
	memcpy(l->grid, w->grid, sizeof(l->grid));
	memcpy(l->block, w->block, sizeof(l->block));
	l->shared = w->shared;
	put_name(l->function, f->known.name, f->name_parts);
	if (!put_arguments(l, at, &f->known, w))
		return CUDA_ERROR_INVALID_VALUE;
	e = link_put(SOFTGPU_LAUNCH, SOFTGPU_REPORT | (w->together ? SOFTGPU_LAUNCH_TOGETHER : 0),
		     (uint64_t[7]){f->module->number, at, sizeof(*l), 0, 0, 0,
				   link_parts.launch_report_at});
	return e == CUDA_SUCCESS ? link_ring() : e;
}
