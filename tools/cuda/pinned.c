/* SPDX-License-Identifier: MIT */
/*
 * Host memory that the program announces. What it asks for is a part of the VF's window, while that
 * has room: the host has pinned it, and the VF copies from and to there itself. GPU kernels reach
 * it, too, if the window has the same addresses in this process and in the worker. If there is no
 * room, and for memory of the program's own, it is plain memory, whose copies go through the
 * window, and for which the GPU has no address.
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
/* What copies of other memory use: eight steps of 512 KiB (copy.c). */
#define STAGE_KEPT (UINT64_C(4) << 20)

static struct pinned *all; /* by address */
static size_t n_all, room;

/* How many begin at AT or before it. */
static size_t up_to(const void *at)
{
	size_t low = 0, high = n_all, middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (all[middle].at <= (const uint8_t *)at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct pinned *pinned_find(const void *at)
{
	size_t i = up_to(at);

	return i > 0 && (uint64_t)((const uint8_t *)at - all[i - 1].at) < all[i - 1].bytes
		       ? &all[i - 1]
		       : NULL;
}

static bool in_window(const struct pinned *p)
{
	return p->kind == PINNED_WINDOW || p->kind == PINNED_MANAGED;
}

bool pinned_is_mapped(const struct pinned *p)
{
	return p && in_window(p) && link_window_is_unified();
}

bool pinned_at(const void *memory, uint64_t bytes, uint64_t *at)
{
	const struct pinned *p = pinned_find(memory);
	const struct link_area w = link_stage_all();
	const uint8_t *begin = memory;

	if (!p || !in_window(p) || bytes > p->bytes - (uint64_t)(begin - p->at))
		return false;
	*at = w.at + (uint64_t)(begin - w.memory);
	return true;
}

static bool add(struct pinned p)
{
	size_t i = up_to(p.at);
	struct pinned *more;

	if (n_all == room) {
		more = realloc(all, (2 * room + 16) * sizeof(*all));
		if (!more)
			return false;
		all = more;
		room = 2 * room + 16;
	}
	p.id = memory_new_id();
	memmove(&all[i + 1], &all[i], (n_all - i) * sizeof(*all));
	all[i] = p;
	n_all++;
	return true;
}

/* What of the window copies of other memory, and modules, keep: a quarter, but 4 MiB if there are
 * so many, and no more than half. */
static uint64_t kept_of(uint64_t size)
{
	uint64_t kept = size / 4 < STAGE_KEPT ? STAGE_KEPT : size / 4;

	return (kept < size / 2 ? kept : size / 2) / ALIGN * ALIGN;
}

/* The last BYTES, in pages, that are free in the window; NULL: there is no room. */
static uint8_t *find_room(uint64_t bytes)
{
	const struct link_area w = link_stage_all();
	const uint64_t kept = kept_of(w.size);
	size_t i = up_to(w.memory + w.size - 1);
	uint64_t end = w.size;
	uint8_t *p;

	for (; end >= kept && bytes <= end - kept; i--) {
		p = w.memory + (end - bytes) / ALIGN * ALIGN;
		if (i == 0 || all[i - 1].at < w.memory || all[i - 1].at + all[i - 1].bytes <= p)
			return p;
		end = (uint64_t)(all[i - 1].at - w.memory);
	}
	return NULL;
}

/* Leaves to copies of other memory what is before FIRST and all that is pinned. */
static CUresult limit_stage(const uint8_t *first)
{
	const struct link_area w = link_stage_all();
	size_t i = up_to(w.memory);

	if (i < n_all && all[i].at < first)
		first = all[i].at;
	return link_stage_limit((uint64_t)(first - w.memory));
}

/* Memory of BYTES for P, which has a kind: zeros, as a kernel's pages are. */
static CUresult take(struct pinned *p)
{
	CUresult e = CUDA_SUCCESS;

	if (p->bytes > SIZE_MAX - ALIGN)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (p->kind == PINNED_PLAIN)
		p->at = aligned_alloc(ALIGN, (p->bytes + ALIGN - 1) / ALIGN * ALIGN);
	else
		p->at = find_room(p->bytes);
	if (!p->at)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (in_window(p))
		e = limit_stage(p->at);
	if (e == CUDA_SUCCESS)
		memset(p->at, 0, p->bytes);
	return e;
}

/* Makes what was pinned, and is in no list now, free: what was put may still copy from or to it. */
static void settle(void)
{
	const struct link_area w = link_stage_all();

	if (link_drain() == CUDA_SUCCESS)
		limit_stage(w.memory + w.size);
}

/* Forgets entry I. Whether settle() has to follow. */
static bool drop(size_t i)
{
	const struct pinned p = all[i];

	n_all--;
	memmove(&all[i], &all[i + 1], (n_all - i) * sizeof(*all));
	if (p.kind == PINNED_PLAIN)
		free(p.at);
	return in_window(&p);
}

void pinned_end_all(const struct context *context)
{
	bool settles = false;
	size_t i = 0;

	while (i < n_all)
		if (all[i].context == context)
			settles |= drop(i);
		else
			i++;
	if (settles)
		settle();
}

/* Takes memory for P and notes it. P is whole but for its address. */
static CUresult make(struct pinned *p)
{
	CUresult e = take(p);

	if (e != CUDA_SUCCESS || add(*p))
		return e;
	if (p->kind == PINNED_PLAIN)
		free(p->at);
	else
		settle();
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult not_mapped(void)
{
	call_log("host memory that the GPU reads and writes is carried only as the library's own, "
		 "and if the VF's window has the same addresses here and on the host");
	return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult allocate(void **out, size_t bytes, unsigned flags)
{
	struct pinned p = {.bytes = bytes, .flags = flags};
	const char *wanted = getenv("VGPU_CUDA_PLAIN");
	bool plain = !(flags & FLAG_DEVICE) && wanted && strcmp(wanted, "1") == 0;
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);

	if (e == CUDA_SUCCESS && (!out || bytes == 0 || flags & ~ALLOC_FLAGS))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && flags & FLAG_DEVICE && !link_window_is_unified())
		e = not_mapped();
	if (e != CUDA_SUCCESS)
		return e;
	p.context = call_current();
	if (!plain)
		e = make(&p);
	if (plain || (e == CUDA_ERROR_OUT_OF_MEMORY && !(flags & FLAG_DEVICE))) {
		p.kind = PINNED_PLAIN;
		e = make(&p);
	}
	if (e == CUDA_SUCCESS)
		*out = p.at;
	return e;
}

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
	return CALL_END(allocate(out, bytes, flags));
}

CUresult cuMemAllocHost_v2(void **out, size_t bytes)
{
	return CALL_END(allocate(out, bytes, 0));
}

CUresult cuMemAllocHost(void **out, unsigned bytes)
{
	return CALL_END(allocate(out, bytes, 0));
}

/* Removes the entry that begins at AT. */
static bool end(const struct pinned *p, const void *at)
{
	if (!p || p->at != at)
		return false;
	if (drop((size_t)(p - all)))
		settle();
	return true;
}

/* The entry of KIND that AT is in; NULL: there is none. */
static const struct pinned *find_kind(const void *at, enum pinned_kind kind)
{
	const struct pinned *p = pinned_find(at);

	return p && p->kind == kind ? p : NULL;
}

/* What cuMemHostAlloc() has given. */
static const struct pinned *find_given(const void *at)
{
	const struct pinned *p = find_kind(at, PINNED_WINDOW);

	return p ? p : find_kind(at, PINNED_PLAIN);
}

CUresult cuMemFreeHost(void *at)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);

	if (e == CUDA_SUCCESS && !end(find_given(at), at))
		e = CUDA_ERROR_INVALID_VALUE;
	return CALL_END(e);
}

CUresult pinned_take_managed(CUdeviceptr *out, uint64_t bytes, const struct context *context)
{
	struct pinned p = {.bytes = bytes, .kind = PINNED_MANAGED, .context = context};
	CUresult e = make(&p);

	if (e == CUDA_SUCCESS)
		*out = (uintptr_t)p.at;
	return e;
}

bool pinned_give_managed(CUdeviceptr at)
{
	const void *p = (const void *)(uintptr_t)at;

	return end(find_kind(p, PINNED_MANAGED), p);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *at, unsigned flags)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);

	if (e == CUDA_SUCCESS && (!out || flags || !pinned_find(at)))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && !pinned_is_mapped(pinned_find(at)))
		e = not_mapped();
	if (e == CUDA_SUCCESS)
		*out = (uintptr_t)at;
	return CALL_END(e);
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
	if (e == CUDA_SUCCESS && flags & FLAG_DEVICE)
		e = not_mapped();
	for (i = 0; i < n_all && e == CUDA_SUCCESS; i++)
		if (p.at < all[i].at + all[i].bytes && all[i].at < p.at + bytes)
			e = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (e == CUDA_SUCCESS) {
		p.context = c;
		e = add(p) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CALL_END(e);
}
CALL_FIRST(cuMemHostRegister, cuMemHostRegister_v2);

CUresult cuMemHostUnregister(void *at)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);

	if (e == CUDA_SUCCESS && !end(find_kind(at, PINNED_REGISTERED), at))
		e = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	return CALL_END(e);
}

CUresult cuMemHostGetFlags(unsigned *flags, void *at)
{
	const struct pinned *p;
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);

	p = find_given(at);
	if (e == CUDA_SUCCESS && (!flags || !p))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*flags = p->flags;
	return CALL_END(e);
}
