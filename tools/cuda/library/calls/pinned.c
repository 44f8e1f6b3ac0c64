/* SPDX-License-Identifier: MIT */
/*
 * Host memory that the program allocates pinned, or registers. Allocated memory is a part of the
 * VF's window while that has room: the host has pinned it, and the VF copies from and to it without
 * staging. GPU kernels reach it, too, if the window has the same addresses in this process and in
 * the worker. If the window has no room, it is plain memory: its copies go through the window, and
 * the GPU has no address for it. Registered memory is plain, too, unless the program asks for a
 * mapping: then pages of the window replace its whole pages, its other bytes have a copy in the
 * window, and it has two addresses, the program's and the GPU's.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cuda_memory.h"

/* CU_MEMHOSTALLOC_*, CU_MEMHOSTREGISTER_*: portable, for the device, then write-combined or device
 * memory, read-only */
#define FLAG_DEVICE 2u
#define ALLOC_FLAGS 7u
#define REGISTER_FLAGS 11u
#define ALIGN 4096u
/* The part of the window that copies of other memory use at least: eight steps of 512 KiB
 * (copy.c). */
#define STAGE_KEPT (UINT64_C(4) << 20)

static struct pinned *all; /* by address; memory with two addresses has two entries */
static size_t n_all, room;
/* Functions that change the list, or map memory in it, hold this lock in addition, as briefly as
 * possible, because fork() and exit() wait for it. Signals are blocked meanwhile, because a handler
 * could call fork() or exit(). */
static pthread_mutex_t change = PTHREAD_MUTEX_INITIALIZER;
static sigset_t signals; /* the signals that the lock's owner had blocked before it took the lock */

static void begin_change(void)
{
	sigset_t every, before;

	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &before);
	pthread_mutex_lock(&change);
	signals = before;
}

static void end_change(void)
{
	const sigset_t before = signals;

	pthread_mutex_unlock(&change);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Returns how many entries begin at AT or before it. */
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

/* Returns whether P is a view: memory of the program that has become part of the window, and keeps
 * its own address. */
static bool is_view(const struct pinned *p)
{
	return p->window && p->window != p->at;
}

/* Finds the whole pages of the view P, which are pages of the window. */
static struct pinned pages_of(const struct pinned *p)
{
	const uint64_t before = (ALIGN - (uintptr_t)p->at % ALIGN) % ALIGN;
	const uint64_t skip = before < p->bytes ? before : p->bytes;
	struct pinned pages = *p;

	pages.at += skip;
	pages.window += skip;
	pages.bytes = (p->bytes - skip) / ALIGN * ALIGN;
	return pages;
}

bool pinned_is_mapped(const struct pinned *p)
{
	return p && p->window == p->at && link_window_is_unified();
}

CUdeviceptr pinned_on_device(const struct pinned *p, uint64_t at)
{
	return p->window && link_window_is_unified() ? at - (uintptr_t)p->at + (uintptr_t)p->window
						     : 0;
}

bool pinned_at(const void *memory, uint64_t bytes, uint64_t *at)
{
	const struct pinned *p = pinned_find(memory);
	const struct link_area w = link_stage_all();
	uint64_t in;

	if (!p || !p->window)
		return false;
	in = (uint64_t)((const uint8_t *)memory - p->at);
	*at = w.at + (uint64_t)(p->window - w.memory) + in;
	return bytes <= p->bytes - in;
}

bool pinned_touches(const void *memory, uint64_t bytes)
{
	const uint8_t *first = memory;
	size_t i = up_to(first + bytes - 1);

	for (; i > 0 && first < all[i - 1].at + all[i - 1].bytes; i--)
		if (all[i - 1].window)
			return true;
	return false;
}

/* Makes room in the list for two more entries. Returns false if out of memory. */
static bool make_room(void)
{
	struct pinned *more;

	if (n_all + 2 <= room)
		return true;
	more = realloc(all, (2 * room + 16) * sizeof(*all));
	if (!more)
		return false;
	all = more;
	room = 2 * room + 16;
	return true;
}

static void insert(struct pinned p)
{
	size_t i = up_to(p.at);

	memmove(&all[i + 1], &all[i], (n_all - i) * sizeof(*all));
	all[i] = p;
	n_all++;
}

static bool add(struct pinned p)
{
	bool ok;

	p.id = handle_number();
	begin_change();
	ok = make_room();
	if (ok)
		insert(p);
	end_change();
	return ok;
}

/* Returns how many bytes of a window of SIZE bytes are reserved for copies of other memory and for
 * modules: a quarter, but at least 4 MiB, and at most half. */
static uint64_t kept_of(uint64_t size)
{
	uint64_t kept = size / 4 < STAGE_KEPT ? STAGE_KEPT : size / 4;

	return (kept < size / 2 ? kept : size / 2) / ALIGN * ALIGN;
}

/* Returns the last BYTES of the window that are free, in whole pages; NULL: there is no room. */
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

/* Gives link_stage() the part of the window before FIRST and before all pinned memory. */
static CUresult limit_stage(const uint8_t *first)
{
	const struct link_area w = link_stage_all();
	size_t i = up_to(w.memory);

	if (i < n_all && all[i].at < first)
		first = all[i].at;
	return link_stage_limit((uint64_t)(first - w.memory) / ALIGN * ALIGN);
}

/* Allocates BYTES of zeros for P, whose kind is set. */
static CUresult take(struct pinned *p)
{
	CUresult e = CUDA_SUCCESS;

	if (p->bytes > SIZE_MAX - ALIGN)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (p->kind == PINNED_PLAIN)
		p->at = aligned_alloc(ALIGN, (p->bytes + ALIGN - 1) / ALIGN * ALIGN);
	else
		p->at = find_room(p->bytes);
	p->host = p->at;
	p->window = p->kind == PINNED_PLAIN ? NULL : p->at;
	if (!p->at)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (p->window)
		e = limit_stage(p->at);
	if (e == CUDA_SUCCESS)
		memset(p->at, 0, p->bytes);
	return e;
}

/* Frees pinned memory that was removed from the list. Waits first, because packets in the ring may
 * still copy from or to it. */
static void settle(void)
{
	const struct link_area w = link_stage_all();

	if (link_drain() == CUDA_SUCCESS)
		limit_stage(w.memory + w.size);
}

/* Removes entry I from the list. Returns whether settle() must follow. */
static bool drop(size_t i)
{
	const struct pinned p = all[i];

	begin_change();
	n_all--;
	memmove(&all[i], &all[i + 1], (n_all - i) * sizeof(*all));
	end_change();
	if (p.kind == PINNED_PLAIN)
		free(p.at);
	return p.window == p.at;
}

/* Replaces the window's pages of the view P by private ones with the same contents. Returns false
 * if out of memory. */
static bool unmap(const struct pinned *p)
{
	const struct pinned pages = pages_of(p);
	uint8_t *copy = pages.bytes > 0 ? registered_copy(&pages) : NULL;

	return pages.bytes == 0 || (copy && registered_unmap(&pages, copy));
}

/* As unmap(), after all packets that use the window's pages have ended. */
static bool give_pages(const struct pinned *p)
{
	bool ok;

	link_drain();
	begin_change();
	ok = unmap(p);
	end_change();
	if (ok)
		edges_remove(p->at, p->bytes);
	return ok;
}

/* As give_pages(), for all views of CONTEXT. A view for which there is no memory stays, without a
 * context, until the program unregisters it. */
static void give_all_pages(const struct context *context)
{
	size_t i;

	for (i = 0; i < n_all; i++)
		if (all[i].context == context && is_view(&all[i]) && !give_pages(&all[i]))
			all[i].context = all[up_to(all[i].window) - 1].context = NULL;
}

void pinned_end_all(const struct context *context)
{
	bool settles = false;
	size_t i = 0;

	give_all_pages(context);
	while (i < n_all)
		if (all[i].context == context)
			settles |= drop(i);
		else
			i++;
	if (settles)
		settle();
}

/* Allocates memory for P, whose members except the addresses are set, and adds P to the list. */
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
	log_line("GPU kernels reach host memory only if it was allocated or registered for that "
		 "in the VF's window, and if that has the same addresses here and on the host");
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

/* Removes the entry like P that begins at AT. */
static bool end(const struct pinned *p, const void *at)
{
	if (!p || p->at != at)
		return false;
	if (drop((size_t)(p - all)))
		settle();
	return true;
}

/* Returns the entry of KIND that contains AT, or NULL. */
static const struct pinned *find_kind(const void *at, enum pinned_kind kind)
{
	const struct pinned *p = pinned_find(at);

	return p && p->kind == kind ? p : NULL;
}

/* Returns the memory of cuMemHostAlloc() that contains AT, or NULL. */
static const struct pinned *find_given(const void *at)
{
	const struct pinned *p = find_kind(at, PINNED_WINDOW);

	return p ? p : find_kind(at, PINNED_PLAIN);
}

CUresult cuMemFreeHost(void *at)
{
	CUresult e = call_begin(NEEDS_OWNER, NULL);

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
	const struct pinned *p = e == CUDA_SUCCESS ? pinned_find(at) : NULL;

	if (e == CUDA_SUCCESS && (!out || flags || !p || p->at != p->host))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && !pinned_on_device(p, (uintptr_t)at))
		e = not_mapped();
	if (e == CUDA_SUCCESS)
		*out = pinned_on_device(p, (uintptr_t)at);
	return CALL_END(e);
}

/* Makes private copies of the views' pages, because a child of fork() gets a copy of its parent's
 * other memory, too. */
static void before_fork(void)
{
	struct pinned pages;
	size_t i;

	pthread_mutex_lock(&change);
	for (i = 0; i < n_all; i++) {
		pages = pages_of(&all[i]);
		all[i].copy = is_view(&all[i]) && pages.bytes > 0 ? registered_copy(&pages) : NULL;
	}
}

static void in_parent(void)
{
	size_t i;

	for (i = 0; i < n_all; i++)
		if (all[i].copy)
			munmap(all[i].copy, pages_of(&all[i]).bytes);
	pthread_mutex_unlock(&change);
}

/* The child of fork() has no window. Where there was no memory for a copy, the range stays unmapped
 * in the child. */
static void in_child(void)
{
	struct pinned pages;
	size_t i;

	for (i = 0; i < n_all; i++) {
		pages = pages_of(&all[i]);
		if (is_view(&all[i]) && pages.bytes > 0 &&
		    !(all[i].copy && registered_unmap(&pages, all[i].copy)))
			munmap(pages.at, pages.bytes);
	}
	n_all = 0;
	pthread_mutex_unlock(&change);
}

static bool left; /* views have become private memory, because the program ends */

/* Must run before the library unmaps the window, which another process may get next. */
static void at_exit(void)
{
	size_t i;

	begin_change();
	for (i = 0; i < n_all && link_lost() == CUDA_SUCCESS; i++)
		if (is_view(&all[i]) && unmap(&all[i]))
			all[i].window = NULL; /* copies go through the window from now on */
	left = true;
	end_change();
	edges_end();
}

/* Registers the handlers that views need, before the first view. Returns whether they are
 * registered. */
static bool begin_views(void)
{
	static bool begun;

	if (!begun)
		begun = atexit(at_exit) == 0 &&
			pthread_atfork(before_fork, in_parent, in_child) == 0;
	return begun;
}

/* Adds the edges of the view P: its bytes before and after its whole PAGES, which have a copy in
 * the window. Returns false if out of memory. */
static bool add_edges(const struct pinned *p, const struct pinned *pages)
{
	const uint64_t before = pages->bytes > 0 ? (uint64_t)(pages->at - p->at) : p->bytes;
	const uint64_t behind = p->bytes - before - pages->bytes;
	uint8_t *last = pages->at + pages->bytes;

	return (before == 0 || edges_add(p->at, p->window, (uint32_t)before)) &&
	       (behind == 0 || edges_add(last, pages->window + pages->bytes, (uint32_t)behind));
}

/* Makes P, whose memory in the window is allocated, a view of it. */
static CUresult make_view(struct pinned p)
{
	const struct pinned pages = pages_of(&p);
	CUresult e = CUDA_ERROR_OUT_OF_MEMORY;
	const uint8_t *at = p.at;

	p.id = handle_number();
	if (!add_edges(&p, &pages)) {
		edges_remove(at, p.bytes);
		return e;
	}
	begin_change();
	if (left)
		e = CUDA_ERROR_DEINITIALIZED;
	else if (make_room())
		e = pages.bytes > 0 ? registered_map(pages.at, pages.bytes, pages.window)
				    : CUDA_SUCCESS;
	if (e == CUDA_SUCCESS) {
		insert(p);
		p.at = p.window;
		insert(p);
	}
	end_change();
	if (e != CUDA_SUCCESS)
		edges_remove(at, p.bytes);
	return e;
}

/* Registers P with a mapping for GPU kernels. */
static CUresult map(struct pinned p)
{
	const struct link_area w = link_stage_all();
	const uint64_t in_page = (uintptr_t)p.at % ALIGN;
	CUresult e;

	if (!link_window_is_unified())
		return not_mapped();
	if (!registered_is_possible(p.at, p.bytes))
		return CUDA_ERROR_NOT_SUPPORTED;
	p.window = find_room(p.bytes + in_page);
	if (!p.window || !begin_views())
		return CUDA_ERROR_OUT_OF_MEMORY;
	p.window += in_page;
	e = limit_stage(p.window);
	if (e == CUDA_SUCCESS)
		e = make_view(p);
	if (e != CUDA_SUCCESS)
		limit_stage(w.memory + w.size);
	return e;
}

CUresult cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags)
{
	struct pinned p = {
		.at = at, .host = at, .bytes = bytes, .flags = flags, .kind = PINNED_REGISTERED};
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);
	size_t i;

	if (e == CUDA_SUCCESS &&
	    (!at || bytes == 0 || flags & ~REGISTER_FLAGS || bytes > UINTPTR_MAX - (uintptr_t)at))
		e = CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < n_all && e == CUDA_SUCCESS; i++)
		if (p.at < all[i].at + all[i].bytes && all[i].at < p.at + bytes)
			e = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (e == CUDA_SUCCESS) {
		p.context = c;
		if (flags & FLAG_DEVICE)
			e = map(p);
		else
			e = add(p) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CALL_END(e);
}
CALL_FIRST(cuMemHostRegister, cuMemHostRegister_v2);

static CUresult unregister(const void *at)
{
	const struct pinned *p = pinned_find(at);
	const uint8_t *window;

	if (!p || p->at != p->host) /* an entry with AT != HOST is the address for GPU kernels */
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	if (p->kind != PINNED_REGISTERED || p->host != at)
		return CUDA_ERROR_INVALID_VALUE;
	window = p->window;
	if (window && !give_pages(p))
		return CUDA_ERROR_OUT_OF_MEMORY;
	end(p, at);
	end(pinned_find(window), window);
	return CUDA_SUCCESS;
}

/* Also works after the VF was lost, so that the program gets its pages back. */
CUresult cuMemHostUnregister(void *at)
{
	CUresult e = call_begin(NEEDS_OWNER, NULL);

	if (e == CUDA_SUCCESS)
		e = unregister(at);
	else if (e == link_lost())
		unregister(at);
	return CALL_END(e);
}

CUresult cuMemHostGetFlags(unsigned *flags, void *at)
{
	const struct pinned *p;
	CUresult e = call_begin(NEEDS_OWNER, NULL);

	p = find_given(at);
	if (e == CUDA_SUCCESS && (!flags || !p))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*flags = p->flags;
	return CALL_END(e);
}
