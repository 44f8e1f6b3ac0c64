/* SPDX-License-Identifier: MIT */
/* Calls that copy. */
#include "cuda_calls.h"

static CUresult put_copy(CUstream s, const struct work_copy *copy)
{
	const struct work w = {.kind = WORK_COPY, .copy = *copy};
	struct stream *stream;
	CUresult e = work_begin(s, &stream);

	return e == CUDA_SUCCESS ? put_work(stream, &w) : e;
}

/* Returns whether the program can access this memory while the VF copies. */
static bool side_is_pinned(const struct work_side *s)
{
	return pinned_find(s->host ? s->memory : (const void *)(uintptr_t)s->at);
}

/* Ends a call without a stream that copies: when it returns, the copy has ended, or has at least
 * read the program's data. Copies in a stream may access pinned memory later. */
static CUresult end_now(CUresult e, const struct work_copy *copy)
{
	return e == CUDA_SUCCESS && (side_is_pinned(&copy->to) || side_is_pinned(&copy->from))
		       ? link_wait()
		       : e;
}

static struct work_side on_device(CUdeviceptr at)
{
	return (struct work_side){.at = at};
}

static struct work_side on_host(const void *memory)
{
	return (struct work_side){.host = true, .memory = (uint8_t *)(uintptr_t)memory};
}

#define COPY(symbol, dst, to_side, src, from_side)                                                 \
	CUresult symbol##_v2(dst to, src from, size_t bytes)                                       \
	{                                                                                          \
		const struct work_copy w = {to_side(to), from_side(from), bytes, 1, 1, NULL};      \
                                                                                                   \
		return CALL_END(end_now(put_copy(NULL, &w), &w));                                  \
	}                                                                                          \
	CUresult symbol##Async_v2(dst to, src from, size_t bytes, CUstream s)                      \
	{                                                                                          \
		const struct work_copy w = {to_side(to), from_side(from), bytes, 1, 1, NULL};      \
                                                                                                   \
		return CALL_END(put_copy(s, &w));                                                  \
	}

COPY(cuMemcpyHtoD, CUdeviceptr, on_device, const void *, on_host)
COPY(cuMemcpyDtoH, void *, on_host, CUdeviceptr, on_device)
COPY(cuMemcpyDtoD, CUdeviceptr, on_device, CUdeviceptr, on_device)

/* Describes a side of a copy by an address that may be one of the device or of the host. */
static struct work_side on_either(CUdeviceptr at)
{
	return memory_is_device(at) ? on_device(at) : on_host((const void *)(uintptr_t)at);
}

/* Host memory may have the same addresses as variables, because the library does not reserve those
 * in the program. */
static bool is_variable(CUdeviceptr at)
{
	return !memory_is_device(at) && symbol_at(at, 1);
}

static CUresult copy_either(CUstream s, CUdeviceptr to, CUdeviceptr from, size_t bytes, bool now)
{
	struct work w = {.kind = WORK_COPY};
	struct stream *stream;
	CUresult e = work_begin(s, &stream);

	if (e == CUDA_SUCCESS && (!memory_is_unified() || is_variable(to) || is_variable(from)))
		e = CUDA_ERROR_NOT_SUPPORTED;
	if (e != CUDA_SUCCESS)
		return e;
	w.copy = (struct work_copy){on_either(to), on_either(from), bytes, 1, 1, NULL};
	e = put_work(stream, &w);
	return now ? end_now(e, &w.copy) : e;
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return CALL_END(copy_either(NULL, to, from, bytes, true));
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s)
{
	return CALL_END(copy_either(s, to, from, bytes, false));
}

/* CUmemorytype */
enum { MEMORY_HOST = 1, MEMORY_DEVICE, MEMORY_ARRAY, MEMORY_UNIFIED };

/* Describes in *OUT the side of a copy that begins SKIPPED rows and X bytes after the start of the
 * memory of TYPE. */
static CUresult find_side(unsigned type, const void *host, CUdeviceptr device, uint64_t pitch,
			  uint64_t height, uint64_t skipped, uint64_t x, struct work_side *out)
{
	uint64_t by;

	if (type == MEMORY_UNIFIED && memory_is_unified() && !is_variable(device))
		*out = on_either(device);
	else if (type == MEMORY_DEVICE)
		*out = on_device(device);
	else if (type == MEMORY_HOST)
		*out = on_host(host);
	else
		return type == MEMORY_ARRAY || type == MEMORY_UNIFIED ? CUDA_ERROR_NOT_SUPPORTED
								      : CUDA_ERROR_INVALID_VALUE;
	if (__builtin_mul_overflow(skipped, pitch, &by) || __builtin_add_overflow(by, x, &by))
		return CUDA_ERROR_INVALID_VALUE;
	if (out->host)
		out->memory += out->memory ? by : 0;
	else
		out->at += by;
	out->pitch = pitch;
	out->height = height;
	return CUDA_SUCCESS;
}

/* Returns VALUE, or OTHER if VALUE is 0: a pitch of 0 means rows without space between them. */
static uint64_t or_else(uint64_t value, uint64_t other)
{
	return value ? value : other;
}

/* Reads C into *W, without checking it. */
CUresult copies_rows(const struct cuda_copy_3d *c, struct work_copy *w)
{
	uint64_t skip_to, skip_from, pitch_to, pitch_from, height_to, height_from;
	CUresult e;

	if (!c || c->from.reserved || c->to.reserved || c->from.lod || c->to.lod)
		return CUDA_ERROR_INVALID_VALUE;
	pitch_from = or_else(c->from.pitch, c->width + c->from.x);
	pitch_to = or_else(c->to.pitch, c->width + c->to.x);
	height_from = or_else(c->from.height, c->rows + c->from.y);
	height_to = or_else(c->to.height, c->rows + c->to.y);
	if (c->from.x > pitch_from || c->width > pitch_from - c->from.x || c->to.x > pitch_to ||
	    c->width > pitch_to - c->to.x ||
	    __builtin_mul_overflow(c->from.z, height_from, &skip_from) ||
	    __builtin_mul_overflow(c->to.z, height_to, &skip_to) ||
	    __builtin_add_overflow(skip_from, c->from.y, &skip_from) ||
	    __builtin_add_overflow(skip_to, c->to.y, &skip_to))
		return CUDA_ERROR_INVALID_VALUE;
	*w = (struct work_copy){.width = c->width, .rows = c->rows, .layers = c->layers, .said = c};
	e = find_side(c->from.type, c->from.host, c->from.device, pitch_from, height_from,
		      skip_from, c->from.x, &w->from);
	if (e == CUDA_SUCCESS)
		e = find_side(c->to.type, c->to.host, c->to.device, pitch_to, height_to, skip_to,
			      c->to.x, &w->to);
	return e;
}

static struct cuda_copy_side_3d said(const struct work_side *s)
{
	return (struct cuda_copy_side_3d){.type = s->host ? MEMORY_HOST : MEMORY_DEVICE,
					  .host = s->host ? s->memory : NULL,
					  .device = s->host ? 0 : s->at};
}

struct cuda_copy_3d copies_said(const struct work_copy *w)
{
	if (w->said)
		return *w->said;
	return (struct cuda_copy_3d){said(&w->from), said(&w->to), w->width, 1, 1};
}

static CUresult put_rows(CUstream s, const struct cuda_copy_3d *c, bool now)
{
	struct work w = {.kind = WORK_COPY};
	struct stream *stream;
	CUresult e = work_begin(s, &stream);

	if (e == CUDA_SUCCESS)
		e = copies_rows(c, &w.copy);
	if (e == CUDA_SUCCESS)
		e = put_work(stream, &w);
	return now ? end_now(e, &w.copy) : e;
}

static struct cuda_copy_side_3d widened(const struct cuda_copy_side_2d *s)
{
	return (struct cuda_copy_side_3d){.x = s->x,
					  .y = s->y,
					  .type = s->type,
					  .host = s->host,
					  .device = s->device,
					  .array = s->array,
					  .pitch = s->pitch};
}

static CUresult put_2d(CUstream s, const struct cuda_copy_2d *c, bool now)
{
	struct cuda_copy_3d all;

	if (!c)
		return put_rows(s, NULL, now);
	all = (struct cuda_copy_3d){widened(&c->from), widened(&c->to), c->width, c->rows, 1};
	return put_rows(s, &all, now);
}

CUresult cuMemcpy2D_v2(const struct cuda_copy_2d *c)
{
	return CALL_END(put_2d(NULL, c, true));
}

CUresult cuMemcpy2DUnaligned_v2(const struct cuda_copy_2d *c)
{
	return CALL_END(put_2d(NULL, c, true));
}

CUresult cuMemcpy2DAsync_v2(const struct cuda_copy_2d *c, CUstream s)
{
	return CALL_END(put_2d(s, c, false));
}

CUresult cuMemcpy3D_v2(const struct cuda_copy_3d *c)
{
	return CALL_END(put_rows(NULL, c, true));
}

CUresult cuMemcpy3DAsync_v2(const struct cuda_copy_3d *c, CUstream s)
{
	return CALL_END(put_rows(s, c, false));
}
