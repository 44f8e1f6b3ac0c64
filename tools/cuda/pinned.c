/* SPDX-License-Identifier: MIT */
/* Host memory that the program announces. It is plain memory: copies go through the window whatever
 * memory they read, so nothing is pinned, and the GPU has no address for it. */
#include <stdlib.h>
#include <string.h>

#include "library.h"

/* CU_MEMHOSTALLOC_*, CU_MEMHOSTREGISTER_*: portable, for the device, then write-combined or device
 * memory, read-only */
#define FLAG_DEVICE 2u
#define ALLOC_FLAGS 7u
#define REGISTER_FLAGS 11u
#define ALIGN 4096u

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

/* Forgets entry I; frees its memory if it is the library's. */
static void drop(size_t i)
{
	if (!all[i].registered)
		free(all[i].at);
	all[i] = all[--n_all];
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
	if (bytes <= SIZE_MAX - ALIGN)
		p.at = aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);
	if (!p.at || !add(p)) {
		free(p.at);
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
	if (!p || p->at != at || p->registered != registered)
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
	struct pinned p = {.at = at, .bytes = bytes, .flags = flags, .registered = true};
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
	if (e == CUDA_SUCCESS && (!flags || !p || p->registered))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*flags = p->flags;
	return CALL_END(e);
}
