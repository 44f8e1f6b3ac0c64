/* SPDX-License-Identifier: MIT */
/* Attributes of addresses: of device memory, of variables, and of host memory that the program has
 * allocated pinned, or registered. */
#include <string.h>

#include "cuda_calls.h"

/* CUpointer_attribute */
enum {
	POINTER_CONTEXT = 1,
	POINTER_MEMORY_TYPE,
	POINTER_DEVICE,
	POINTER_HOST,
	POINTER_P2P_TOKENS,
	POINTER_SYNC,
	POINTER_BUFFER_ID,
	POINTER_IS_MANAGED,
	POINTER_ORDINAL,
	POINTER_IS_IPC,
	POINTER_RANGE_START,
	POINTER_RANGE_SIZE,
	POINTER_MAPPED,
	POINTER_HANDLE_TYPES,
	POINTER_IS_RDMA,
	POINTER_ACCESS,
	POINTER_POOL,
};
enum { MEMORY_HOST = 1, MEMORY_DEVICE = 2, ACCESS_BOTH = 3 };

struct about {
	uint64_t device, host; /* its addresses on the device and in the program; 0: none */
	bool managed;
	bool can_show; /* other processes can open it */
	struct memory_range range;
	const struct context *context;
	int handles; /* the kinds of handles with which its memory can be exported */
};

static bool look_up(CUdeviceptr at, struct about *a)
{
	const struct pinned *pinned = pinned_find((const void *)(uintptr_t)at);
	const struct symbol *symbol = symbol_at(at, 1);
	const struct physical *physical = arena_physical(at);
	uint64_t in = at - link_about.memory_at;

	*a = (struct about){.device = at, .handles = physical ? physical->handles : 0};
	if (memory_range(at, &a->range)) {
		a->can_show = ipc_can_show(in);
		a->context = ipc_context(in);
		if (!a->context)
			a->context = context_of(heap_owner(in));
		return true;
	}
	if (symbol) {
		a->range = (struct memory_range){symbol->known.at, symbol->known.bytes, symbol->id};
		a->context = symbol->module->context;
		return true;
	}
	if (!pinned)
		return false;
	*a = (struct about){.device = pinned_on_device(pinned, at),
			    .host = at - (uintptr_t)pinned->at + (uintptr_t)pinned->host,
			    .managed = pinned->kind == PINNED_MANAGED,
			    .range = {(uintptr_t)pinned->at, pinned->bytes, pinned->id},
			    .context = pinned->context};
	return true;
}

static CUresult write(void *data, const void *value, size_t bytes)
{
	memcpy(data, value, bytes);
	return CUDA_SUCCESS;
}

static CUresult write_int(void *data, int value)
{
	return write(data, &value, sizeof(value));
}

static CUresult write_64(void *data, uint64_t value)
{
	return write(data, &value, sizeof(value));
}

/* Writes VALUE in one byte, as CUDA's boolean attributes have it. */
static CUresult write_bool(void *data, bool value)
{
	return write(data, &value, 1);
}

static CUresult tell(void *data, int which, const struct about *a)
{
	switch (which) {
	case POINTER_CONTEXT:
		return write_64(data, a->context ? (uintptr_t)a->context->handle : 0);
	case POINTER_MEMORY_TYPE:
		return write_int(data, a->host && !a->managed ? MEMORY_HOST : MEMORY_DEVICE);
	case POINTER_DEVICE:
		return a->device ? write_64(data, a->device) : CUDA_ERROR_INVALID_VALUE;
	case POINTER_HOST:
		return a->host ? write_64(data, a->host) : CUDA_ERROR_INVALID_VALUE;
	case POINTER_BUFFER_ID:
		return write_64(data, a->range.id);
	case POINTER_ORDINAL:
		return write_int(data, 0);
	case POINTER_RANGE_START:
		return write_64(data, a->range.at);
	case POINTER_RANGE_SIZE:
		return write_64(data, a->range.bytes);
	case POINTER_MAPPED:
		return write_bool(data, true);
	case POINTER_IS_MANAGED:
		return write_bool(data, a->managed);
	case POINTER_SYNC:
	case POINTER_IS_RDMA:
		return write_bool(data, false);
	case POINTER_IS_IPC:
		return write_bool(data, a->can_show);
	case POINTER_HANDLE_TYPES:
		return write_64(data, (uint64_t)a->handles);
	case POINTER_ACCESS:
		return a->device ? write_int(data, ACCESS_BOTH) : CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

static bool is_known(int which)
{
	return which >= POINTER_CONTEXT && which <= POINTER_POOL;
}

CUresult cuPointerGetAttribute(void *data, int which, CUdeviceptr at)
{
	CUresult e = call_begin(NEEDS_OWNER, NULL);
	struct about a;

	if (e == CUDA_SUCCESS && (!data || !is_known(which) || !look_up(at, &a)))
		e = CUDA_ERROR_INVALID_VALUE;
	return CALL_END(e == CUDA_SUCCESS ? tell(data, which, &a) : e);
}

/* Returns the bytes of attribute WHICH of an unknown address, which CUDA clears. */
static size_t size_of(int which)
{
	switch (which) {
	case POINTER_MEMORY_TYPE:
	case POINTER_ORDINAL:
	case POINTER_ACCESS:
		return sizeof(int);
	case POINTER_SYNC:
	case POINTER_IS_MANAGED:
	case POINTER_IS_IPC:
	case POINTER_IS_RDMA:
	case POINTER_MAPPED:
		return 1;
	default:
		return sizeof(uint64_t);
	}
}

/* An unknown address counts as ordinary host memory: its attributes are 0. */
CUresult cuPointerGetAttributes(unsigned n, int *which, void **data, CUdeviceptr at)
{
	CUresult e = call_begin(NEEDS_OWNER, NULL);
	struct about a;
	bool known;
	unsigned i;

	if (e == CUDA_SUCCESS && (!which || !data || n == 0))
		e = CUDA_ERROR_INVALID_VALUE;
	known = e == CUDA_SUCCESS && look_up(at, &a);
	for (i = 0; i < n && e == CUDA_SUCCESS; i++) {
		if (!is_known(which[i]) || !data[i]) {
			e = CUDA_ERROR_INVALID_VALUE;
			break;
		}
		memset(data[i], 0, size_of(which[i]));
		if (which[i] == POINTER_ORDINAL && !known)
			write_int(data[i], -2);
		if (known && tell(data[i], which[i], &a) == CUDA_ERROR_NOT_SUPPORTED)
			e = CUDA_ERROR_NOT_SUPPORTED;
	}
	return CALL_END(e);
}

/* Accepts that copies of this memory are synchronous: those that are not asynchronous already
 * are. */
CUresult cuPointerSetAttribute(const void *value, int which, CUdeviceptr at)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);
	struct about a;

	if (e == CUDA_SUCCESS && (!value || which != POINTER_SYNC || !look_up(at, &a) || !a.device))
		e = CUDA_ERROR_INVALID_VALUE;
	return CALL_END(e);
}
