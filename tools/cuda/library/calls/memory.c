/* SPDX-License-Identifier: MIT */
/* Allocations of the VF's device memory, which lies behind its window. The library allocates
 * without asking the host, because the VF has this memory permanently, and no other. */
#include <sys/mman.h>

#include "cuda_memory.h"

/* A range of this process's address space that is reserved so that no host memory gets the device's
 * addresses. */
struct kept {
	uint64_t at, bytes;
};
static struct kept memory, arena;

/* Reserves BYTES at AT in this process; with BYTES 0 (not known yet), nothing. Returns false if
 * that is impossible. */
static bool keep(struct kept *k, uint64_t at, uint64_t bytes)
{
	void *wanted = (void *)(uintptr_t)at, *got;

	if (k->at == at && k->bytes == bytes)
		return true;
	if (k->bytes)
		munmap((void *)(uintptr_t)k->at, k->bytes);
	*k = (struct kept){0};
	if (bytes == 0)
		return true;
	got = mmap(wanted, bytes, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (got != wanted && got != MAP_FAILED)
		munmap(got, bytes); /* a kernel before 4.17 has mapped them elsewhere */
	if (got == wanted)
		*k = (struct kept){at, bytes};
	return got == wanted;
}

bool memory_is_unified(void)
{
	return keep(&memory, link_about.memory_at, link_parts.memory_size) &&
	       keep(&arena, link_arena.at, link_arena.bytes);
}

bool memory_is_device(uint64_t at)
{
	return memory_is_unified() &&
	       (at - memory.at < memory.bytes || at - arena.at < arena.bytes);
}

bool memory_range(CUdeviceptr at, struct memory_range *r)
{
	uint64_t in = at - link_about.memory_at;

	if (arena_range(at, r))
		return true;
	if (at < link_about.memory_at || (!heap_find(in, r) && !ipc_find(in, r)))
		return false;
	r->at += link_about.memory_at;
	return true;
}

/* Finds the offset at which packets find BYTES of host memory at AT, if GPU kernels can access
 * them. */
static bool find_mapped(CUdeviceptr at, uint64_t bytes, uint64_t *offset)
{
	const void *p = (const void *)(uintptr_t)at;

	return pinned_is_mapped(pinned_find(p)) && pinned_at(p, bytes, offset);
}

bool memory_find(CUdeviceptr at, uint64_t bytes, uint64_t *offset)
{
	uint64_t in = at - link_about.memory_at;
	struct memory_range r;

	if (arena_find(at, bytes, offset) || find_mapped(at, bytes, offset))
		return true;
	if (at < link_about.memory_at || in >= link_parts.memory_size || !memory_range(at, &r) ||
	    bytes > r.bytes - (at - r.at))
		return false;
	*offset = link_parts.memory_at + in;
	return true;
}

unsigned memory_in_32_bits(uint64_t bytes)
{
	return bytes < UINT32_MAX ? (unsigned)bytes : UINT32_MAX;
}

/* Begins a call about free memory. OK: whether the call's other arguments are valid. */
static CUresult begin_info(bool ok)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);

	if (e == CUDA_SUCCESS && !ok)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		link_care();
	return e;
}

CUresult cuMemGetInfo_v2(size_t *left, size_t *all)
{
	CUresult e = begin_info(left && all);

	if (e == CUDA_SUCCESS) {
		*left = heap_left();
		*all = link_parts.memory_size;
	}
	return CALL_END(e);
}

CUresult cuMemGetInfo(unsigned *left, unsigned *all)
{
	CUresult e = begin_info(left && all);

	if (e == CUDA_SUCCESS) {
		*left = memory_in_32_bits(heap_left());
		*all = memory_in_32_bits(link_parts.memory_size);
	}
	return CALL_END(e);
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
	struct context *c;
	uint64_t offset;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	if (e == CUDA_SUCCESS && (!out || bytes == 0))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && !heap_take(bytes, c, &offset))
		e = CUDA_ERROR_OUT_OF_MEMORY;
	if (e == CUDA_SUCCESS)
		*out = link_about.memory_at + offset;
	return CALL_END(e);
}

CUresult cuMemFree_v2(CUdeviceptr at)
{
	CUresult e = call_begin(NEEDS_OWNER, NULL);

	if (e == CUDA_SUCCESS && at != 0 &&
	    (at < link_about.memory_at || !heap_give(at - link_about.memory_at)) &&
	    !pinned_give_managed(at))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		link_settle();
	return CALL_END(e);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr at)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);
	const struct pinned *p = pinned_find((const void *)(uintptr_t)at);
	const struct symbol *variable = symbol_at(at, 1);
	struct memory_range r;

	if (pinned_is_mapped(p))
		r = (struct memory_range){(uintptr_t)p->at, p->bytes, p->id};
	else if (variable)
		r = (struct memory_range){variable->known.at, variable->known.bytes, variable->id};
	else if (e == CUDA_SUCCESS && !memory_range(at, &r))
		e = CUDA_ERROR_NOT_FOUND;
	if (e == CUDA_SUCCESS && base)
		*base = r.at;
	if (e == CUDA_SUCCESS && bytes)
		*bytes = r.bytes;
	return CALL_END(e);
}

#define PITCH_ALIGN 512u

/* UNIT: size of the accesses that must be fast, bytes: 4, 8 or 16. */
CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t rows,
			    unsigned unit)
{
	struct context *c;
	uint64_t offset, row, all;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	if (e == CUDA_SUCCESS &&
	    (!out || !pitch || width == 0 || rows == 0 || (unit != 4 && unit != 8 && unit != 16)))
		e = CUDA_ERROR_INVALID_VALUE;
	row = width > UINT64_MAX - PITCH_ALIGN
		      ? UINT64_MAX
		      : (width + PITCH_ALIGN - 1) / PITCH_ALIGN * PITCH_ALIGN;
	if (e == CUDA_SUCCESS &&
	    (__builtin_mul_overflow(row, rows, &all) || !heap_take(all, c, &offset)))
		e = CUDA_ERROR_OUT_OF_MEMORY;
	if (e == CUDA_SUCCESS) {
		*pitch = row;
		*out = link_about.memory_at + offset;
	}
	return CALL_END(e);
}
