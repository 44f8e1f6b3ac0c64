/* SPDX-License-Identifier: MIT */
/* Memory without an address, for arena.c to map: granules of the VF's device memory, taken from the
 * same heap as all allocations. The granules need not be consecutive, so fragmentation never makes
 * an allocation fail. */
#include <errno.h>
#include <stdlib.h>

#include "cuda_memory.h"
#include "guest.h"
#include "record.h"

enum { TYPE_PINNED = 1, TYPE_DESCRIPTOR = 1, LOCATION_DEVICE = 1, GRANULARITY_RECOMMENDED = 1 };

CUresult physical_is_there(const char *name)
{
	return link_arena.bytes > 0 ? link_lost() : log_absent(name);
}

bool physical_is_shareable(void)
{
	return pieces_mine() != 0 && link_arena.bytes > 0 && guest_common_most(link_guest()) > 0;
}

static uint64_t shareable_unit(void)
{
	uint64_t piece = pieces_size();

	return piece > link_arena.granule ? piece : link_arena.granule;
}

/* Returns whether an allocation like WHAT can be made; if not, *E is the error. */
static bool is_possible(const struct cuda_allocation *what, CUresult *e)
{
	*e = CUDA_ERROR_INVALID_VALUE;
	if (!what || what->type != TYPE_PINNED || what->location.type != LOCATION_DEVICE ||
	    what->location.id != 0 || what->security)
		return false;
	/* GPUDirect RDMA is impossible, because no other device can access the memory. Compression
	 * is a hint. */
	*e = CUDA_ERROR_NOT_SUPPORTED;
	if (what->rdma || what->usage)
		return false;
	if (what->handles && (what->handles != TYPE_DESCRIPTOR || !physical_is_shareable()))
		return false;
	*e = CUDA_SUCCESS;
	return true;
}

static uint64_t unit_of(int handles)
{
	return handles ? shareable_unit() : link_arena.granule;
}

static void end_common(struct physical *p)
{
	if (p->made)
		record_used(-(int64_t)p->bytes);
	pieces_drop(p->common - 1);
}

static void end(struct physical *p)
{
	uint32_t i;

	if (p->common)
		end_common(p);
	for (i = 0; i < p->n && !p->common; i++)
		heap_give(p->parts[i].offset);
	handle_drop(HANDLE_PHYSICAL, p->handle);
	free(p->parts);
	free(p);
}

static bool add_part(struct physical *p, struct physical_part part)
{
	struct physical_part *more = realloc(p->parts, (p->n + 1u) * sizeof(*more));

	if (!more)
		return false;
	p->parts = more;
	p->parts[p->n++] = part;
	return true;
}

static bool take_part(struct physical *p, uint64_t bytes)
{
	struct physical_part part = {.bytes = bytes};

	if (!heap_take_at(bytes, unit_of(p->handles), p, &part.offset))
		return false;
	if (add_part(p, part))
		return true;
	heap_give(part.offset);
	return false;
}

/* Takes memory for P, in parts that are as large as possible. Returns false if there is not
 * enough. */
static bool take_all(struct physical *p)
{
	const uint64_t unit = unit_of(p->handles);
	uint64_t left, part = p->bytes;

	for (left = p->bytes; left > 0;) {
		part = part < left ? part : left;
		if (take_part(p, part))
			left -= part;
		else if (part > unit)
			part = (part / unit + 1) / 2 * unit;
		else
			return false;
	}
	return true;
}

/* Makes an allocation without memory. Returns NULL if this process is out of memory. */
static struct physical *make(int handles, uint32_t common)
{
	struct physical *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	*p = (struct physical){.handles = handles, .common = common, .held = 1};
	p->handle = handle_make(HANDLE_PHYSICAL, p);
	if (p->handle)
		return p;
	free(p);
	return NULL;
}

static CUresult create(CUmemHandle *out, uint64_t bytes, int handles)
{
	struct physical *p;

	if (bytes > heap_left() && !(link_care() && bytes <= heap_left()))
		return CUDA_ERROR_OUT_OF_MEMORY;
	p = make(handles, 0);
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p->bytes = bytes;
	if (!take_all(p)) {
		end(p);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = (uintptr_t)p->handle;
	return CUDA_SUCCESS;
}

/* Adds PIECES to P. Any process of the VF can write the list, so the pieces may not be whole
 * granules. */
static int add_pieces(struct physical *p, const uint32_t *pieces, uint32_t n)
{
	struct physical_part *last;
	uint64_t at;
	uint32_t i;

	for (i = 0; i < n; i++) {
		at = pieces[i] * pieces_size();
		last = p->n ? &p->parts[p->n - 1] : NULL;
		if (last && last->offset + last->bytes == at)
			last->bytes += pieces_size();
		else if (!add_part(p, (struct physical_part){at, pieces_size()}))
			return -ENOMEM;
	}
	for (i = 0; i < p->n; i++)
		if ((p->parts[i].offset | p->parts[i].bytes) % link_arena.granule)
			return -EINVAL;
	p->bytes = n * pieces_size();
	return 0;
}

int physical_open(uint32_t number, const uint32_t *pieces, uint32_t n, struct physical **out)
{
	struct physical *p = make(TYPE_DESCRIPTOR, 1 + number);
	int r = p ? add_pieces(p, pieces, n) : -ENOMEM;

	if (r == 0)
		*out = p;
	else if (p)
		end(p);
	else
		pieces_drop(number);
	return r;
}

CUresult cuMemCreate(CUmemHandle *out, size_t bytes, const struct cuda_allocation *what,
		     uint64_t flags)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL), reason;

	if (e == CUDA_SUCCESS)
		e = physical_is_there(__func__);
	if (e == CUDA_SUCCESS && !is_possible(what, &reason))
		e = reason;
	if (e == CUDA_SUCCESS && (!out || flags || bytes == 0 || bytes % unit_of(what->handles)))
		e = CUDA_ERROR_INVALID_VALUE;
	return CALL_END(e == CUDA_SUCCESS ? create(out, bytes, what->handles) : e);
}

struct physical *physical_find(CUmemHandle handle)
{
	struct physical *p = handle_find(HANDLE_PHYSICAL, (const void *)(uintptr_t)handle);

	return p && p->held > 0 ? p : NULL;
}

static void end_if_unused(struct physical *p)
{
	if (p->held > 0 || p->mapped > 0)
		return;
	end(p);
	link_settle();
}

void physical_unmapped(struct physical *p)
{
	p->mapped--;
	end_if_unused(p);
}

void physical_reset(void)
{
	struct physical *p;
	uint32_t at = 0;

	while ((p = handle_next(HANDLE_PHYSICAL, &at)))
		end(p);
}

CUresult cuMemRelease(CUmemHandle handle)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);
	struct physical *p = e == CUDA_SUCCESS ? physical_find(handle) : NULL;

	if (e == CUDA_SUCCESS && !p)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS) {
		p->held--;
		end_if_unused(p);
	}
	return CALL_END(e);
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const struct cuda_allocation *what,
				       int option)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL), reason;

	if (e == CUDA_SUCCESS)
		e = physical_is_there(__func__);
	if (e == CUDA_SUCCESS && !is_possible(what, &reason))
		e = reason;
	if (e == CUDA_SUCCESS && (!bytes || option < 0 || option > GRANULARITY_RECOMMENDED))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*bytes = unit_of(what->handles);
	return CALL_END(e);
}

CUresult cuMemGetAllocationPropertiesFromHandle(struct cuda_allocation *out, CUmemHandle handle)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);
	const struct physical *p = e == CUDA_SUCCESS ? physical_find(handle) : NULL;

	if (e == CUDA_SUCCESS && (!out || !p))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*out = (struct cuda_allocation){.type = TYPE_PINNED,
						.handles = p->handles,
						.location = {LOCATION_DEVICE, 0}};
	return CALL_END(e);
}
