/* SPDX-License-Identifier: MIT */
/*
 * Contexts. The VF has one address space and executes everything in one order; a context owns the
 * objects that are made while it is current, and frees them when it ends.
 */
#include <pthread.h>
#include <stdlib.h>

#include "cuda_calls.h"
#include "event.h"

static struct context primary = {.primary = true};

/* Returns whether FLAGS are known; none of them changes what this library does. CU_CTX_SCHED_*,
 * MAP_HOST, LMEM_RESIZE_TO_MAX */
static bool flags_are_known(unsigned flags)
{
	return (flags & ~0x1fu) == 0;
}

static void end(struct context *c)
{
	handle_drop(HANDLE_CONTEXT, c->handle);
	module_end_all(c);
	stream_end_all(c);
	event_end_all(c);
	ipc_end_all(c);
	heap_give_all(c);
	link_settle();
	pinned_end_all(c);
	c->handle = NULL;
}

static uint64_t n_contexts;

/* A thread's contexts below its current one. Few threads have any. */
#define BELOW 63u
struct below {
	uint32_t n;
	void *handles[BELOW];
};

/* Returns the list of the calling thread, which is freed when the thread ends. NULL: the thread has
 * none, or with MAKE: out of memory. */
static struct below *below(bool make)
{
	static pthread_key_t key;
	static bool has_key;
	struct below *b;

	if (!has_key)
		has_key = pthread_key_create(&key, free) == 0;
	if (!has_key)
		return NULL;
	b = pthread_getspecific(key);
	if (b || !make)
		return b;
	b = calloc(1, sizeof(*b));
	if (b && pthread_setspecific(key, b) == 0)
		return b;
	free(b);
	return NULL;
}

static CUresult push(void *handle)
{
	struct below *b = call_context ? below(true) : NULL;

	if (call_context && (!b || b->n == BELOW))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (b)
		b->handles[b->n++] = call_context;
	call_context = handle;
	return CUDA_SUCCESS;
}

static void pop(void)
{
	struct below *b = below(false);

	call_context = b && b->n > 0 ? b->handles[--b->n] : NULL;
}

static CUresult begin_device(CUdevice device)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	return e == CUDA_SUCCESS && device != 0 ? CUDA_ERROR_INVALID_DEVICE : e;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
	CUresult e = begin_device(device);

	if (e == CUDA_SUCCESS)
		e = out ? link_lost() : CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && !primary.handle) {
		primary.handle = handle_make(HANDLE_CONTEXT, &primary);
		primary.number = ++n_contexts;
		e = primary.handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (e == CUDA_SUCCESS) {
		primary.retained++;
		*out = primary.handle;
	}
	return CALL_END(e);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CUresult e = begin_device(device);

	if (e == CUDA_SUCCESS && primary.retained == 0)
		e = CUDA_ERROR_INVALID_CONTEXT;
	if (e == CUDA_SUCCESS && --primary.retained == 0 && primary.handle)
		end(&primary);
	return CALL_END(e);
}
CALL_FIRST(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);

/* Resets the primary context; each call that has retained it still needs its release. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	CUresult e = begin_device(device);

	if (e == CUDA_SUCCESS && primary.handle)
		end(&primary);
	return CALL_END(e);
}
CALL_FIRST(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2);

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
	CUresult e = begin_device(device);

	if (e == CUDA_SUCCESS && !flags_are_known(flags))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		primary.flags = flags;
	return CALL_END(e);
}
CALL_FIRST(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2);

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
	CUresult e = begin_device(device);

	if (e == CUDA_SUCCESS && (!flags || !active))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS) {
		*flags = primary.flags;
		*active = primary.handle != NULL;
	}
	return CALL_END(e);
}

static CUresult create(CUcontext *out, unsigned flags)
{
	struct context *c;
	CUresult e = link_lost();

	if (e != CUDA_SUCCESS)
		return e;
	if (!out || !flags_are_known(flags))
		return CUDA_ERROR_INVALID_VALUE;
	c = calloc(1, sizeof(*c));
	if (c) {
		c->flags = flags;
		c->number = ++n_contexts;
		c->handle = handle_make(HANDLE_CONTEXT, c);
	}
	if (!c || !c->handle) {
		free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	e = push(c->handle);
	if (e != CUDA_SUCCESS) {
		handle_drop(HANDLE_CONTEXT, c->handle);
		free(c);
		return e;
	}
	*out = c->handle;
	return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice device)
{
	CUresult e = begin_device(device);

	return CALL_END(e == CUDA_SUCCESS ? create(out, flags) : e);
}
CALL_FIRST(cuCtxCreate, cuCtxCreate_v2);

/* Refuses affinities, because a VF has no SMs of its own to reserve. */
CUresult cuCtxCreate_v3(CUcontext *out, void *, int n, unsigned flags, CUdevice device)
{
	CUresult e = begin_device(device);

	if (e == CUDA_SUCCESS && n != 0)
		e = n < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
	return CALL_END(e == CUDA_SUCCESS ? create(out, flags) : e);
}

static void destroy(struct context *c)
{
	if (call_context == c->handle)
		pop();
	end(c);
	free(c);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);
	struct context *c = handle_find(HANDLE_CONTEXT, context);

	if (e == CUDA_SUCCESS && (!c || c->primary))
		e = CUDA_ERROR_INVALID_CONTEXT;
	if (e == CUDA_SUCCESS)
		destroy(c);
	return CALL_END(e);
}
CALL_FIRST(cuCtxDestroy, cuCtxDestroy_v2);

/* CUDA's first way to end a context, for the calling thread's current one: each creation and each
 * attach need a detach, and the last detach ends the context. */
CUresult cuCtxAttach(CUcontext *out, unsigned flags)
{
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	if (e == CUDA_SUCCESS && (!out || flags))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS) {
		c->attached++;
		*out = c->handle;
	}
	return CALL_END(e);
}

CUresult cuCtxDetach(CUcontext context)
{
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	if (e == CUDA_SUCCESS && (c->handle != context || (c->primary && c->attached == 0)))
		e = CUDA_ERROR_INVALID_CONTEXT;
	if (e != CUDA_SUCCESS)
		return CALL_END(e);
	if (c->attached > 0)
		c->attached--;
	else
		destroy(c);
	return CALL_END(e);
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	if (e == CUDA_SUCCESS && !handle_find(HANDLE_CONTEXT, context))
		e = CUDA_ERROR_INVALID_CONTEXT;
	return CALL_END(e == CUDA_SUCCESS ? push(context) : e);
}
CALL_FIRST(cuCtxPushCurrent, cuCtxPushCurrent_v2);

CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	if (e == CUDA_SUCCESS && !call_context)
		e = CUDA_ERROR_INVALID_CONTEXT;
	if (e == CUDA_SUCCESS && out)
		*out = call_context;
	if (e == CUDA_SUCCESS)
		pop();
	return CALL_END(e);
}
CALL_FIRST(cuCtxPopCurrent, cuCtxPopCurrent_v2);

CUresult cuCtxSetCurrent(CUcontext context)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	if (e == CUDA_SUCCESS && context && !handle_find(HANDLE_CONTEXT, context))
		e = CUDA_ERROR_INVALID_CONTEXT;
	if (e == CUDA_SUCCESS && call_context)
		pop();
	if (e == CUDA_SUCCESS && context)
		e = push(context);
	return CALL_END(e);
}

CUresult cuCtxGetCurrent(CUcontext *out)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	if (e == CUDA_SUCCESS && !out)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*out = call_context;
	return CALL_END(e);
}

CUresult cuCtxGetDevice(CUdevice *out)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);

	if (e == CUDA_SUCCESS && !out)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*out = 0;
	return CALL_END(e);
}

CUresult cuCtxGetFlags(unsigned *flags)
{
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	if (e == CUDA_SUCCESS && !flags)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*flags = c->flags;
	return CALL_END(e);
}

CUresult cuCtxSetFlags(unsigned flags)
{
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	if (e == CUDA_SUCCESS && !flags_are_known(flags))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		c->flags = flags;
	return CALL_END(e);
}

CUresult cuCtxGetId(CUcontext context, uint64_t *id)
{
	struct context *c;
	CUresult e = call_begin(context ? NEEDS_DEVICE : NEEDS_CONTEXT, &c);

	if (e == CUDA_SUCCESS && context)
		c = handle_find(HANDLE_CONTEXT, context);
	if (e == CUDA_SUCCESS && !c)
		e = CUDA_ERROR_INVALID_CONTEXT;
	if (e == CUDA_SUCCESS && !id)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*id = c->number;
	return CALL_END(e);
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version)
{
	CUresult e = call_begin(context ? NEEDS_DEVICE : NEEDS_CONTEXT, NULL);

	if (e == CUDA_SUCCESS && context && !handle_find(HANDLE_CONTEXT, context))
		e = CUDA_ERROR_INVALID_CONTEXT;
	if (e == CUDA_SUCCESS && !version)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*version = 3020;
	return CALL_END(e);
}

/* The library has one priority. */
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);

	if (e == CUDA_SUCCESS && least)
		*least = 0;
	if (e == CUDA_SUCCESS && greatest)
		*greatest = 0;
	return CALL_END(e);
}

CUresult cuCtxSynchronize(void)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);

	return CALL_END(e == CUDA_SUCCESS ? link_wait() : e);
}
