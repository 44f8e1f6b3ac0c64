/* SPDX-License-Identifier: MIT */
/* Memory of another process of the VF. All processes of a VF have one context on the GPU and the
 * same device addresses, so opening such memory maps nothing: this file checks who owns the memory,
 * and records it. */
#include <stdlib.h>
#include <string.h>

#include "cuda_memory.h"

#define MAGIC UINT64_C(0x636d6d7570677631)
#define OPEN_LAZILY 1u /* CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the only flag, which must be set */

/* The contents of struct cuda_ipc_memory. */
struct shown {
	uint64_t magic, at, bytes, owner;
};
_Static_assert(sizeof(struct shown) <= sizeof(struct cuda_ipc_memory), "CUipcMemHandle");

struct opened {
	struct opened *next;
	uint64_t at, bytes, id;
	const struct context *context;
	uint32_t times;
};
static struct opened *all;

static const struct opened *find(uint64_t offset)
{
	const struct opened *o = all;

	while (o && offset - o->at >= o->bytes)
		o = o->next;
	return o;
}

bool ipc_find(uint64_t offset, struct memory_range *r)
{
	const struct opened *o = find(offset);

	if (!o)
		return false;
	*r = (struct memory_range){o->at, o->bytes, o->id};
	return true;
}

const struct context *ipc_context(uint64_t offset)
{
	const struct opened *o = find(offset);

	return o ? o->context : NULL;
}

static void forget(struct opened **at)
{
	struct opened *o = *at;

	*at = o->next;
	free(o);
}

void ipc_end_all(const struct context *context)
{
	struct opened **at = &all;

	while (*at)
		if ((*at)->context == context)
			forget(at);
		else
			at = &(*at)->next;
}

bool ipc_can_show(uint64_t offset)
{
	return pieces_mine() != 0 && context_of(heap_owner(offset)) != NULL;
}

static CUresult show(struct cuda_ipc_memory *out, CUdeviceptr at)
{
	struct shown s = {.magic = MAGIC, .owner = pieces_mine()};
	struct memory_range r;
	uint64_t in = at - link_about.memory_at;

	if (s.owner == 0)
		return log_absent("cuIpcGetMemHandle of a VF that has one process");
	if (!out || at < link_about.memory_at || !ipc_can_show(in) || !heap_find(in, &r))
		return CUDA_ERROR_INVALID_VALUE;
	s.at = r.at;
	s.bytes = r.bytes;
	*out = (struct cuda_ipc_memory){{0}};
	memcpy(out, &s, sizeof(s));
	return CUDA_SUCCESS;
}

CUresult cuIpcGetMemHandle(struct cuda_ipc_memory *out, CUdeviceptr at)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);

	return CALL_END(e == CUDA_SUCCESS ? show(out, at) : e);
}

static CUresult open(CUdeviceptr *out, const struct shown *s, const struct context *context)
{
	struct opened *o = all;

	if (s->magic != MAGIC || s->owner == 0 || s->owner > SOFTGPU_MAX_SLOTS || s->bytes == 0 ||
	    s->bytes > link_parts.memory_size || s->at > link_parts.memory_size - s->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (s->owner == pieces_mine())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!pieces_are(s->at, s->bytes, s->owner))
		return CUDA_ERROR_MAP_FAILED;
	while (o && (o->at != s->at || o->bytes != s->bytes || o->context != context))
		o = o->next;
	if (!o) {
		o = malloc(sizeof(*o));
		if (!o)
			return CUDA_ERROR_OUT_OF_MEMORY;
		*o = (struct opened){all, s->at, s->bytes, handle_number(), context, 0};
		all = o;
	}
	o->times++;
	*out = link_about.memory_at + s->at;
	return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, struct cuda_ipc_memory memory, unsigned flags)
{
	struct context *c;
	struct shown s;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	if (e == CUDA_SUCCESS && pieces_mine() == 0)
		e = log_absent("cuIpcOpenMemHandle of a VF that has one process");
	if (e == CUDA_SUCCESS && (!out || flags != OPEN_LAZILY))
		e = CUDA_ERROR_INVALID_VALUE;
	memcpy(&s, &memory, sizeof(s));
	return CALL_END(e == CUDA_SUCCESS ? open(out, &s, c) : e);
}

/* The first version takes the same arguments. */
CUresult cuIpcOpenMemHandle(CUdeviceptr *out, struct cuda_ipc_memory memory, unsigned flags)
{
	return cuIpcOpenMemHandle_v2(out, memory, flags);
}

/* Closes the memory at AT. Waits for this process's packets, because afterwards the other process
 * may be told that the memory is closed. */
static CUresult shut(CUdeviceptr at)
{
	struct opened **o = &all;

	while (*o && link_about.memory_at + (*o)->at != at)
		o = &(*o)->next;
	if (!*o)
		return CUDA_ERROR_INVALID_VALUE;
	if (--(*o)->times == 0)
		forget(o);
	return link_wait();
}

CUresult cuIpcCloseMemHandle(CUdeviceptr at)
{
	CUresult e = call_begin(NEEDS_OWNER, NULL);

	return CALL_END(e == CUDA_SUCCESS ? shut(at) : e);
}
