/* SPDX-License-Identifier: MIT */
/*
 * Host memory that the program announces. What it asks for is a part of the VF's window, while that
 * has room: the host has pinned it, and the VF copies from and to there at once. If there is no
 * room, and for memory of the program's own, it is plain memory, whose copies go through the
 * window. The GPU has no address for either.
 */
#include <stdlib.h>
#include <string.h>

#include "library.h"

/* CU_MEMHOSTALLOC_*, CU_MEMHOSTREGISTER_*: portable, for the device, then write-combined or device
 * memory, read-only */
#define FLAG_DEVICE 2u
#define ALLOC_FLAGS 7u
#define REGISTER_FLAGS 11u
#define ALIGN 4096u
/* Of the window, copies of other memory keep at least this, or half: as much as they use. */
#define STAGE_KEPT (UINT64_C(4) << 20)

static struct pinned *all;
static size_t n_all, room;

const struct pinned *pinned_find(const void *at)
{
	const uint8_t *p = at;
	size_t i;

	for (i = 0; i < n_all; i++)
		if (p >= all[i].at && (uint64_t)(p - all[i].at) < all[i].bytes)
			return &all[i];
	return NULL;
}

bool pinned_at(const void *memory, uint64_t bytes, uint64_t *at)
{
	const struct pinned *p = pinned_find(memory);
	const uint8_t *begin = memory;
	uint8_t *window;

	if (!p || p->kind != PINNED_WINDOW || bytes > p->bytes - (uint64_t)(begin - p->at))
		return false;
	link_stage_all(&window, at);
	*at += (uint64_t)(begin - window);
	return true;
}

static bool add(struct pinned p)
{
	struct pinned *more;

	if (n_all == room) {
		more = realloc(all, (2 * room + 16) * sizeof(*all));
		if (!more)
			return false;
		all = more;
		room = 2 * room + 16;
	}
	p.id = memory_new_id();
	all[n_all++] = p;
	return true;
}

/* One that has any of BYTES at AT in the window; NULL: they are free. */
static const struct pinned *in_the_way(const uint8_t *at, uint64_t bytes)
{
	size_t i;

	for (i = 0; i < n_all; i++)
		if (all[i].kind == PINNED_WINDOW && all[i].at < at + bytes &&
		    at < all[i].at + all[i].bytes)
			return &all[i];
	return NULL;
}

/* The last BYTES, in pages, that are free in the window; NULL: there is no room. */
static uint8_t *find_room(uint64_t bytes)
{
	const struct pinned *other;
	uint8_t *window, *p;
	uint64_t at, size = link_stage_all(&window, &at), left;
	uint64_t kept = size / 2 < STAGE_KEPT ? size / 2 / ALIGN * ALIGN : STAGE_KEPT;

	for (left = size; bytes <= left - kept; left = (uint64_t)(other->at - window)) {
		p = window + (left - bytes) / ALIGN * ALIGN;
		other = in_the_way(p, bytes);
		if (!other)
			return p;
	}
	return NULL;
}

/* Leaves to copies of other memory what is before the first that is pinned. */
static CUresult limit_stage(const uint8_t *first)
{
	uint8_t *window;
	uint64_t at, size = link_stage_all(&window, &at);
	size_t i;

	if (!first)
		first = window + size;
	for (i = 0; i < n_all; i++)
		if (all[i].kind == PINNED_WINDOW && all[i].at < first)
			first = all[i].at;
	return link_stage_limit((uint64_t)(first - window) / ALIGN * ALIGN);
}

/* Memory of BYTES for *P, of the window or plain: zeros, as a kernel's pages are. Whether there is
 * any. */
static bool take(struct pinned *p, uint64_t bytes)
{
	if (bytes > SIZE_MAX - ALIGN)
		return false;
	p->kind = PINNED_WINDOW;
	p->at = find_room(bytes);
	if (!p->at || limit_stage(p->at) != CUDA_SUCCESS) {
		p->kind = PINNED_PLAIN;
		p->at = aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);
	}
	if (p->at)
		memset(p->at, 0, bytes);
	return p->at;
}

/* Frees memory that is the library's, and in no list. What was put may still copy from or to the
 * window. */
static void give(const struct pinned *p)
{
	if (p->kind == PINNED_PLAIN)
		free(p->at);
	if (p->kind == PINNED_WINDOW && link_drain() == CUDA_SUCCESS)
		limit_stage(NULL);
}

/* Forgets entry I. */
static void drop(size_t i)
{
	const struct pinned p = all[i];

	all[i] = all[--n_all];
	give(&p);
}

void pinned_end_all(const struct context *context)
{
	size_t i = 0;

	while (i < n_all)
		if (all[i].context == context)
			drop(i);
		else
			i++;
}

static CUresult refuse_device(unsigned flags)
{
	if (!(flags & FLAG_DEVICE))
		return CUDA_SUCCESS;
	call_log("host memory that the GPU reads and writes is not carried");
	return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult allocate(void **out, size_t bytes, unsigned flags)
{
	struct pinned p = {.bytes = bytes, .flags = flags};
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	if (e == CUDA_SUCCESS && (!out || bytes == 0 || flags & ~ALLOC_FLAGS))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		e = refuse_device(flags);
	if (e != CUDA_SUCCESS)
		return e;
	p.context = c;
	if (!take(&p, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!add(p)) {
		give(&p);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = p.at;
	return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
	return CALL_END(allocate(out, bytes, flags));
}

CUresult cuMemAllocHost_v2(void **out, size_t bytes)
{
	return CALL_END(allocate(out, bytes, 0));
}

/* Removes the entry that begins at AT. */
static CUresult end(const void *at, bool registered, CUresult otherwise)
{
	const struct pinned *p;
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);

	if (e != CUDA_SUCCESS)
		return e;
	p = pinned_find(at);
	if (!p || p->at != at || (p->kind == PINNED_REGISTERED) != registered)
		return otherwise;
	drop((size_t)(p - all));
	return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *at)
{
	return CALL_END(end(at, false, CUDA_ERROR_INVALID_VALUE));
}

CUresult cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags)
{
	struct pinned p = {.at = at, .bytes = bytes, .flags = flags, .kind = PINNED_REGISTERED};
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);
	size_t i;

	if (e == CUDA_SUCCESS &&
	    (!at || bytes == 0 || flags & ~REGISTER_FLAGS || bytes > UINTPTR_MAX - (uintptr_t)at))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		e = refuse_device(flags);
	for (i = 0; i < n_all && e == CUDA_SUCCESS; i++)
		if (p.at < all[i].at + all[i].bytes && all[i].at < p.at + bytes)
			e = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (e == CUDA_SUCCESS) {
		p.context = c;
		e = add(p) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CALL_END(e);
}

CUresult cuMemHostUnregister(void *at)
{
	return CALL_END(end(at, true, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED));
}

CUresult cuMemHostGetFlags(unsigned *flags, void *at)
{
	const struct pinned *p;
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);

	p = pinned_find(at);
	if (e == CUDA_SUCCESS && (!flags || !p || p->kind == PINNED_REGISTERED))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*flags = p->flags;
	return CALL_END(e);
}
