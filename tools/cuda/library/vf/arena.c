/* SPDX-License-Identifier: MIT */
/*
 * Addresses of the VF that the program reserves, and the memory of physical.c that is mapped there.
 * The host maps the memory when the program makes it accessible; before that, GPU kernels cannot
 * access it either. The host checks each packet by itself. The lists in this file only tell which
 * packets are needed.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda_memory.h"

enum { LOCATION_DEVICE = 1, ACCESS_NONE = 0, ACCESS_BOTH = 3 };

struct reservation {
	struct reservation *next; /* the next one, by address */
	uint64_t at, bytes;
};
struct mapping {
	uint64_t at, bytes, id;
	struct physical *physical;
	bool accessible; /* the program can access it, and the host has mapped it */
};

static struct reservation *reservations;
static struct mapping *mappings; /* by address */
static size_t n_mappings, room;

void arena_reset(void)
{
	struct reservation *next;

	for (; reservations; reservations = next) {
		next = reservations->next;
		free(reservations);
	}
	n_mappings = 0;
}

static CUresult begin_virtual(const char *name)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	return e == CUDA_SUCCESS ? physical_is_there(name) : e;
}

/* Returns whether BYTES at AT are whole granules of the arena. */
static bool are_granules(uint64_t at, uint64_t bytes)
{
	uint64_t in = at - link_arena.at;

	return bytes > 0 && (in | bytes) % link_arena.granule == 0 && in < link_arena.bytes &&
	       bytes <= link_arena.bytes - in;
}

/* addresses */

/* Returns the place in the list for a reservation of BYTES at AT; NULL: they are not whole
 * granules, or some are reserved already. */
static struct reservation **free_at(uint64_t at, uint64_t bytes)
{
	struct reservation **link = &reservations;

	if (!are_granules(at, bytes))
		return NULL;
	while (*link && (*link)->at + (*link)->bytes <= at)
		link = &(*link)->next;
	return !*link || (*link)->at >= at + bytes ? link : NULL;
}

/* Sets *AT to the lowest free BYTES at a multiple of ALIGN. Returns their place in the list, or
 * NULL. */
static struct reservation **free_anywhere(uint64_t bytes, uint64_t align, uint64_t *at)
{
	uint64_t from = link_arena.at, behind;
	struct reservation **link, *r;

	for (r = reservations;; r = r->next) {
		if (__builtin_add_overflow(from, align - 1, &behind))
			return NULL;
		*at = behind / align * align;
		link = free_at(*at, bytes);
		if (link || !r)
			return link;
		from = r->at + r->bytes;
	}
}

static CUresult reserve(CUdeviceptr *out, uint64_t bytes, uint64_t align, uint64_t wanted)
{
	struct reservation **link = wanted % align ? NULL : free_at(wanted, bytes), *r;
	uint64_t at = wanted;

	if (!link)
		link = free_anywhere(bytes, align, &at);
	r = link ? malloc(sizeof(*r)) : NULL;
	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*r = (struct reservation){*link, at, bytes};
	*link = r;
	*out = at;
	return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t align, CUdeviceptr wanted,
			     uint64_t flags)
{
	CUresult e = begin_virtual(__func__);

	if (e == CUDA_SUCCESS && (!out || flags || bytes == 0 || bytes % link_arena.granule ||
				  (align & (align - 1)) != 0))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && align < link_arena.granule)
		align = link_arena.granule;
	return CALL_END(e == CUDA_SUCCESS ? reserve(out, bytes, align, wanted) : e);
}

/* mappings */

/* Returns the number of mappings that begin at AT or before it. */
static size_t up_to(uint64_t at)
{
	size_t low = 0, high = n_mappings, middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (mappings[middle].at <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct mapping *find(uint64_t at)
{
	size_t i = up_to(at);

	return i > 0 && at - mappings[i - 1].at < mappings[i - 1].bytes ? &mappings[i - 1] : NULL;
}

/* Finds the mappings that together are exactly BYTES > 0 at AT: *FIRST is the first of them, *END
 * the one after the last. Returns false if there are none. */
static bool find_whole(uint64_t at, uint64_t bytes, size_t *first, size_t *end)
{
	size_t i = up_to(at);
	uint64_t done;

	if (!are_granules(at, bytes) || i == 0)
		return false;
	*first = i - 1;
	for (i--, done = 0; done < bytes && i < n_mappings && mappings[i].at == at + done; i++)
		done += mappings[i].bytes;
	*end = i;
	return done == bytes;
}

CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes)
{
	CUresult e = begin_virtual(__func__);
	struct reservation **link = &reservations, *r;
	size_t i;

	while (e == CUDA_SUCCESS && *link && (*link)->at != at)
		link = &(*link)->next;
	r = e == CUDA_SUCCESS ? *link : NULL;
	if (e == CUDA_SUCCESS && (!r || r->bytes != bytes))
		e = CUDA_ERROR_INVALID_VALUE;
	i = e == CUDA_SUCCESS ? up_to(at + bytes - 1) : 0;
	if (i > 0 && mappings[i - 1].at >= at) /* something is already mapped there */
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS) {
		*link = r->next;
		free(r);
	}
	return CALL_END(e);
}

static bool is_reserved(uint64_t at, uint64_t bytes)
{
	const struct reservation *r = reservations;

	while (r && (at < r->at || at - r->at >= r->bytes))
		r = r->next;
	return r && bytes <= r->bytes - (at - r->at);
}

static CUresult map(uint64_t at, uint64_t bytes, struct physical *p)
{
	struct mapping *more;
	size_t i;

	if (!p || !are_granules(at, bytes) || bytes > p->bytes || !is_reserved(at, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	i = up_to(at + bytes - 1);
	if (i > 0 && mappings[i - 1].at + mappings[i - 1].bytes > at)
		return CUDA_ERROR_INVALID_VALUE;
	if (n_mappings == room) {
		more = realloc(mappings, (2 * room + 64) * sizeof(*mappings));
		if (!more)
			return CUDA_ERROR_OUT_OF_MEMORY;
		mappings = more;
		room = 2 * room + 64;
	}
	memmove(&mappings[i + 1], &mappings[i], (n_mappings - i) * sizeof(*mappings));
	mappings[i] = (struct mapping){at, bytes, handle_number(), p, false};
	n_mappings++;
	p->mapped++;
	return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemHandle handle, uint64_t flags)
{
	CUresult e = begin_virtual(__func__);

	if (e == CUDA_SUCCESS && (offset || flags))
		e = CUDA_ERROR_INVALID_VALUE;
	return CALL_END(e == CUDA_SUCCESS ? map(at, bytes, physical_find(handle)) : e);
}

/* Returns the offset at which packets find the arena's address AT. */
static uint64_t offset_of(uint64_t at)
{
	return link_arena.offset + (at - link_arena.at);
}

/* Puts a packet that lets the host unmap M. */
static CUresult put_unmap(struct mapping *m)
{
	const uint64_t arg[7] = {offset_of(m->at), m->bytes};
	CUresult e = m->accessible ? link_put(SOFTGPU_UNMAP, 0, arg) : CUDA_SUCCESS;

	m->accessible &= e != CUDA_SUCCESS;
	return e;
}

static CUresult take_access(size_t first, size_t end)
{
	CUresult e = CUDA_SUCCESS;
	size_t i;

	for (i = first; i < end && e == CUDA_SUCCESS; i++)
		e = put_unmap(&mappings[i]);
	return e == CUDA_SUCCESS ? link_ring() : e;
}

static CUresult unmap(uint64_t at, uint64_t bytes)
{
	size_t first, end, i;
	CUresult e;

	if (!find_whole(at, bytes, &first, &end))
		return CUDA_ERROR_INVALID_VALUE;
	e = take_access(first, end);
	if (e != CUDA_SUCCESS)
		return e;
	/* The memory may be allocated again at once: packets that use it then run after these
	 * packets. */
	for (i = first; i < end; i++)
		physical_unmapped(mappings[i].physical);
	memmove(&mappings[first], &mappings[end], (n_mappings - end) * sizeof(*mappings));
	n_mappings -= end - first;
	return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes)
{
	CUresult e = begin_virtual(__func__);

	return CALL_END(e == CUDA_SUCCESS ? unmap(at, bytes) : e);
}

/* access */

/* MAP packets in the ring, each with its own place for a report. The ring is empty when the first
 * one is put, so that no earlier launch can report an error in between, and the host's state is
 * known. */
struct batch {
	uint32_t n;
	uint64_t *reports, reports_at;
	struct {
		uint64_t at, bytes; /* AT: address in the arena */
	} maps[LINK_BATCH];
};

/* Waits until all packets of B have ended. Sets *REFUSED to whether the host has refused one; if
 * so, lets the host unmap the others again. */
static CUresult finish(struct batch *b, bool *refused)
{
	CUresult e = link_drain();
	uint32_t i;

	*refused = false;
	for (i = 0; i < b->n && e == CUDA_SUCCESS; i++)
		*refused |= b->reports[i] != SOFTGPU_OK;
	for (i = 0; *refused && i < b->n && e == CUDA_SUCCESS; i++)
		if (b->reports[i] == SOFTGPU_OK)
			e = link_put(SOFTGPU_UNMAP, 0,
				     (uint64_t[7]){offset_of(b->maps[i].at), b->maps[i].bytes});
	b->n = 0;
	return e;
}

/* Puts a packet that lets the host map BYTES of the device memory from OFFSET on at AT. */
static CUresult put_map(struct batch *b, uint64_t at, uint64_t offset, uint64_t bytes)
{
	uint64_t size = sizeof(b->reports[0]) * LINK_BATCH;
	uint8_t *memory;
	CUresult e = CUDA_SUCCESS;

	if (b->n == 0)
		e = link_drain();
	if (b->n == 0 && e == CUDA_SUCCESS)
		e = link_stage(&size, &memory, &b->reports_at);
	if (e != CUDA_SUCCESS)
		return e;
	if (b->n == 0)
		b->reports = (uint64_t *)memory;
	b->reports[b->n] = SOFTGPU_OK;
	b->maps[b->n].at = at;
	b->maps[b->n].bytes = bytes;
	return link_put(SOFTGPU_MAP, SOFTGPU_REPORT,
			(uint64_t[7]){offset_of(at), link_parts.memory_at + offset, bytes, 0, 0, 0,
				      b->reports_at + b->n++ * sizeof(b->reports[0])});
}

/* Lets the host map M, all of it or nothing. Sets *REFUSED to whether the host has no room for
 * it. */
static CUresult map_now(struct mapping *m, bool *refused)
{
	const struct physical *p = m->physical;
	uint64_t done = 0, mapped = 0, n;
	struct batch b = {.n = 0};
	CUresult e = CUDA_SUCCESS;
	uint32_t i;

	*refused = false;
	for (i = 0; done < m->bytes && e == CUDA_SUCCESS && !*refused; i++) {
		n = m->bytes - done < p->parts[i].bytes ? m->bytes - done : p->parts[i].bytes;
		e = put_map(&b, m->at + done, p->parts[i].offset, n);
		done += n;
		if (e != CUDA_SUCCESS || (b.n < LINK_BATCH && done < m->bytes))
			continue;
		e = finish(&b, refused);
		if (!*refused)
			mapped = done;
	}
	if (*refused && mapped > 0 && e == CUDA_SUCCESS)
		e = link_put(SOFTGPU_UNMAP, 0, (uint64_t[7]){offset_of(m->at), mapped});
	m->accessible = e == CUDA_SUCCESS && !*refused;
	return e;
}

/* Makes the mappings from FIRST to before END accessible; after an error only those that were
 * accessible before. */
static CUresult give_access(size_t first, size_t end)
{
	bool *was = calloc(end - first, sizeof(*was)), refused = false;
	CUresult e = was ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	size_t i;

	for (i = first; i < end && e == CUDA_SUCCESS && !refused; i++) {
		was[i - first] = mappings[i].accessible;
		if (!mappings[i].accessible)
			e = map_now(&mappings[i], &refused);
	}
	while (refused && i-- > first && e == CUDA_SUCCESS)
		if (!was[i - first])
			e = put_unmap(&mappings[i]);
	free(was);
	if (refused && e == CUDA_SUCCESS)
		e = link_ring();
	return refused && e == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : e;
}

/* Sets *FLAGS to the access that the list gives this device. Returns false if the list names
 * another device, or an unknown kind of access. */
static bool wanted_access(const struct cuda_access *access, size_t n, int *flags)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (access[i].location.type != LOCATION_DEVICE || access[i].location.id != 0)
			return false;
		*flags = access[i].flags;
	}
	return n > 0;
}

static CUresult set_access(uint64_t at, uint64_t bytes, const struct cuda_access *access, size_t n)
{
	size_t first, end;
	int flags;

	if (!access || !wanted_access(access, n, &flags) || !find_whole(at, bytes, &first, &end))
		return CUDA_ERROR_INVALID_VALUE;
	if (flags == ACCESS_BOTH)
		return give_access(first, end);
	return flags == ACCESS_NONE ? take_access(first, end) : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const struct cuda_access *access, size_t n)
{
	CUresult e = begin_virtual(__func__);

	return CALL_END(e == CUDA_SUCCESS ? set_access(at, bytes, access, n) : e);
}

CUresult cuMemGetAccess(uint64_t *flags, const struct cuda_location *location, CUdeviceptr at)
{
	CUresult e = begin_virtual(__func__);
	const struct mapping *m = e == CUDA_SUCCESS ? find(at) : NULL;

	if (e == CUDA_SUCCESS &&
	    (!flags || !location || !m || location->type != LOCATION_DEVICE || location->id != 0))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*flags = m->accessible ? ACCESS_BOTH : ACCESS_NONE;
	return CALL_END(e);
}

CUresult cuMemRetainAllocationHandle(CUmemHandle *out, void *at)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);
	struct physical *p = e == CUDA_SUCCESS ? arena_physical((uintptr_t)at) : NULL;

	if (e == CUDA_SUCCESS && (!out || !p))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS) {
		p->held++;
		*out = (uintptr_t)p->handle;
	}
	return CALL_END(e);
}

/* for other files */

bool arena_find(CUdeviceptr at, uint64_t bytes, uint64_t *offset)
{
	const struct mapping *m = find(at), *end = mappings + n_mappings;
	uint64_t next = at;

	if (!m)
		return false;
	for (; m < end && m->accessible && m->at <= next; m++) {
		next = m->at + m->bytes;
		if (bytes <= next - at) {
			*offset = offset_of(at);
			return true;
		}
	}
	return false;
}

bool arena_range(CUdeviceptr at, struct memory_range *r)
{
	const struct mapping *m = find(at);

	if (!m)
		return false;
	*r = (struct memory_range){m->at, m->bytes, m->id};
	return true;
}

struct physical *arena_physical(CUdeviceptr at)
{
	const struct mapping *m = find(at);

	return m ? m->physical : NULL;
}
