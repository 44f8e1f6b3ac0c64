/* SPDX-License-Identifier: MIT */
/*
 * Changes of the memory's table. A change is planned to its end on a copy of the table before
 * anything is touched: it is possible as a whole, or refused. Then it waits for what has to be
 * cleared, and has what is in its way moved, one partition at a time.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine.h"

#define MIB(bytes) ((bytes) >> 20)
/* Where libvirt's hook may wait for it, less than the hook does; else an operator does. */
#define HOOK_PATIENCE (8 * VGPU_SEC)
#define PATIENCE (60 * VGPU_SEC)
#define ATTEMPTS 3u

__attribute__((format(printf, 3, 4))) static void answer(struct vram *v, int result,
							 const char *format, ...)
{
	struct engine_request *request = v->request;
	va_list args;

	if (result == 0 && request->memory.what == VRAM_SET && request->memory.usual)
		v->usual[request->memory.vf] = request->memory.size;
	v->request = NULL;
	request->result = result;
	va_start(args, format);
	vsnprintf(request->why, sizeof(request->why), format, args);
	va_end(args);
	v->reply(v->data, request);
}

/* The one that a change is for finds its place itself. */
static bool is_movable(uint32_t vf, void *data)
{
	const struct vram *v = data;
	const struct vram_request *want = &v->request->memory;

	if (vf == VRAM_PF || (want->what != VRAM_COMPACT && vf == want->vf))
		return false;
	return vram_can_move(vram_vf(v, vf).state);
}

static struct vgpu_memory_request request_of(const struct vram *v, const struct vram_request *want)
{
	return (struct vgpu_memory_request){
		.owner = want->vf,
		.size = want->size,
		.placement = v->placement,
		.base = v->partition.pf.size,
		.span = v->table.local - v->partition.pf.size,
	};
}

/* A VF that is swapped gets its new size at home; from there it comes in when it has work. */
static int apply_at_home(const struct vram *v, struct vgpu_memory *table,
			 const struct vram_request *want, uint64_t *offset)
{
	const struct vgpu_extent *old = &v->partition.vfs[want->vf];
	struct vgpu_memory_request request = request_of(v, want);
	struct vgpu_extent home;
	uint64_t size, largest;
	int r;

	if (vgpu_memory_size(table, &request, &size) < 0 || size > vram_most(v, want->vf) ||
	    !vram_find_home(v, want->vf, size, &home, &largest))
		return -ENOSPC;
	*offset = home.offset;
	r = old->size ? vgpu_memory_replace_at(table, old->offset, home.offset, size)
		      : vgpu_memory_reserve(table, want->vf, home.offset, size);
	return r == -EBUSY ? -ENOSPC : r;
}

/* The table after the change, if there is room now; else as it was, and -ENOSPC. */
static int apply(const struct vram *v, struct vgpu_memory *table, const struct vram_request *want,
		 uint64_t *offset)
{
	const struct vgpu_extent *old = &v->partition.vfs[want->vf];
	struct vgpu_memory_request request = request_of(v, want);

	*offset = 0;
	if (want->size == 0)
		return old->size ? vgpu_memory_release(table, old->offset) : 0;
	if (!vram_is_pinned(v, want->vf))
		return apply_at_home(v, table, want, offset);
	if (want->size > vram_most(v, want->vf))
		return -ENOSPC;
	return old->size ? vgpu_memory_replace(table, old->offset, &request, offset)
			 : vgpu_memory_alloc(table, &request, offset);
}

/* One that could be swapped out, one without work if there is any. */
static bool next_eviction(const struct vram *v, const struct vgpu_memory *table, uint32_t but,
			  uint64_t *from, uint64_t *to)
{
	struct vgpu_memory local = vgpu_memory_local(table);
	bool found = false;
	uint32_t i, vf;

	for (i = 0; i < local.n; i++) {
		const struct vgpu_memory_extent *e = &local.extents[i];

		vf = e->owner;
		if (e->state != VGPU_EXTENT_OWNED || vf == VRAM_PF || vf == but ||
		    !vram_can_leave(v, vf) || (found && vram_vf(v, vf).has_work))
			continue;
		found = true;
		*from = e->offset;
		*to = v->partition.homes[vf].offset;
		if (!vram_vf(v, vf).has_work)
			break;
	}
	return found;
}

static bool next_move(struct vram *v, const struct vgpu_memory *table,
		      const struct vram_request *want, uint64_t *from, uint64_t *to)
{
	struct vgpu_memory_extent scratch[VRAM_EXTENTS];
	struct vgpu_memory_request request = request_of(v, want);

	if (want->what != VRAM_COMPACT && !vram_is_pinned(v, want->vf))
		return false; /* at home there is room, or there is none */
	if (want->what != VRAM_COMPACT)
		return vgpu_memory_plan_move(table, scratch, &request, is_movable, v, from, to) ||
		       (want->size <= vram_most(v, want->vf) &&
			next_eviction(v, table, want->vf, from, to));
	return vgpu_memory_plan_compaction(table, scratch, &request, is_movable, v, from, to) >
	       vgpu_memory_largest_free(table);
}

/* Plans to the end. 0, or -ENOSPC with plan.largest. */
static int plan(struct vram *v, struct vram_request *want)
{
	struct vgpu_memory_extent storage[VRAM_EXTENTS];
	struct vgpu_memory table = v->table;
	const struct vgpu_memory_extent *e;
	struct vgpu_extent home;
	uint64_t from, to;
	int r;

	memcpy(storage, v->extents, sizeof(storage));
	table.extents = storage;
	want->plan = (struct vram_plan){0};
	while ((r = apply(v, &table, want, &want->plan.offset)) == -ENOSPC) {
		uint64_t cleared = vgpu_memory_all_scrubbed(&table);

		want->plan.clear += cleared;
		if (cleared)
			continue;
		if (!next_move(v, &table, want, &from, &to) ||
		    vgpu_memory_move_begin(&table, from, to) < 0)
			break;
		e = vgpu_memory_at(&table, from);
		want->plan.move += e->size;
		want->plan.movers |= 1u << e->owner;
		vgpu_memory_move_end(&table, from, to);
	}
	if (r == -ENOSPC && v->partition.vfs[want->vf].size)
		vgpu_memory_release(&table, v->partition.vfs[want->vf].offset);
	vgpu_memory_all_scrubbed(&table);
	want->plan.largest = vgpu_memory_largest_free(&table);
	if (!vram_is_pinned(v, want->vf))
		vram_find_home(v, want->vf, 0, &home, &want->plan.largest);
	if (want->plan.largest > vram_most(v, want->vf))
		want->plan.largest = vram_most(v, want->vf);
	return r;
}

static void refuse_for_room(struct vram *v, const struct vram_request *want)
{
	answer(v, -ENOSPC,
	       "%" PRIu64 " MiB for VF %" PRIu32 ": at most %" PRIu64
	       " MiB can be had in one piece (vgpuctl memory show)",
	       MIB(want->size), want->vf, MIB(want->plan.largest));
}

/* Whether a VF's partition may be changed now. False: not yet, or refused and answered. */
static bool is_ready(struct vram *v, const struct vram_request *want, vgpu_nsec now)
{
	enum vgpu_vf_state state = vram_vf(v, want->vf).state;

	if (state == VGPU_VF_AVAIL || state == VGPU_VF_QUARANTINED)
		return true;
	if (state == VGPU_VF_SCRUBBING)
		return false;
	if (!want->force) {
		answer(v, -EBUSY,
		       "VF %" PRIu32
		       " is %s; its partition is changed when its guest has ended, or "
		       "by force, which resets it",
		       want->vf, vgpu_vf_state_names[state]);
	} else if (!v->reset_asked) {
		v->reset_asked = true;
		vram_tell(v, VGPU_EV_RESET_VF, want->vf, 0, now);
	}
	return false;
}

/* The home of a VF that has another partition. */
static void give_home(struct vram *v, uint32_t vf, struct vgpu_extent where)
{
	struct vgpu_extent *home = &v->partition.homes[vf];
	uint64_t largest;

	*home = where;
	if (where.size == 0 || where.offset >= v->table.local)
		return;
	/* It is pinned; but by a guarantee only, which may end. */
	if (v->pinned >> vf & 1 || !vram_find_home(v, vf, where.size, home, &largest))
		*home = (struct vgpu_extent){0, 0};
}

/* The entry in the GPU's table, and ours. -ENOSPC: there is no room as yet. */
static int carry_out(struct vram *v, const struct vram_request *want)
{
	struct vgpu_memory_extent storage[VRAM_EXTENTS];
	struct vgpu_memory table = v->table;
	const struct vgpu_memory_extent *e;
	struct vgpu_extent where = {0, 0};
	int r;

	memcpy(storage, v->extents, sizeof(storage));
	table.extents = storage;
	r = apply(v, &table, want, &where.offset);
	if (r < 0)
		return r;
	e = want->size ? vgpu_memory_at(&table, where.offset) : NULL;
	where.size = e ? e->size : 0;
	r = v->ops->place(v->driver, want->vf, where);
	if (r < 0)
		return r;
	memcpy(v->extents, storage, sizeof(storage));
	table.extents = v->extents;
	v->table = table;
	v->partition.vfs[want->vf] = where;
	give_home(v, want->vf, where);
	return 0;
}

/* Whether the VF is away, which one that is swapped has to be before it gets its memory at home. */
static bool is_away(struct vram *v, const struct vram_request *want, vgpu_nsec now)
{
	if (want->size == 0 || vram_is_pinned(v, want->vf) || vram_vf(v, want->vf).away)
		return true;
	vram_tell(v, VGPU_EV_AWAY, want->vf, 1, now);
	return false;
}

/* Goes on with the change that is asked for. */
static void advance_change(struct vram *v, vgpu_nsec now)
{
	struct vram_request *want = &v->request->memory;
	uint64_t from, to;
	int r;

	v->counters.waited += now - v->since;
	v->since = now;
	if (want->what == VRAM_SET &&
	    (!is_ready(v, want, now) || (v->request && !is_away(v, want, now))) && v->request &&
	    now < v->until)
		return;
	if (!v->request)
		return;
	if (now >= v->until || v->attempts == ATTEMPTS) {
		answer(v, -ETIMEDOUT, "%s; no partition has another size",
		       v->attempts == ATTEMPTS ? "a VF in the way could not be moved"
					       : "what is needed did not become free in time");
		return;
	}
	r = want->what == VRAM_SET ? carry_out(v, want) : -ENOSPC;
	if (r == -EIO)
		answer(v, r, "the GPU does not take the partition of VF %" PRIu32, want->vf);
	else if (r != -ENOSPC)
		answer(v, r, "%s", r < 0 ? strerror(-r) : "");
	if (r != -ENOSPC || vgpu_memory_in(&v->table, VGPU_EXTENT_SCRUBBING) > 0)
		return;
	if (next_move(v, &v->table, want, &from, &to))
		vram_begin_move(v, from, to, now);
	else if (want->what == VRAM_COMPACT)
		answer(v, 0, "%s", "");
	else
		refuse_for_room(v, want);
}

void vram_advance(struct vram *v, vgpu_nsec now)
{
	if (v->move.active)
		vram_advance_move(v, now);
	else if (v->request)
		advance_change(v, now);
	if (!v->request && !v->move.active)
		vram_swap(v, now);
}

void vram_begin(struct vram *v, struct engine_request *request, vgpu_nsec now)
{
	struct vram_request *want = &request->memory;
	struct engine_request *other = v->request;
	bool compacts = want->what == VRAM_COMPACT;

	if (want->size == VRAM_USUAL)
		want->size = v->usual[want->vf];
	/* Once it is answered, it is the sender's. */
	v->request = request;
	if (other && want->what != VRAM_PLAN) {
		answer(v, -EBUSY, "another change of this GPU's memory is under way; try again");
	} else if (!compacts && want->size == v->partition.vfs[want->vf].size) {
		want->plan = (struct vram_plan){.offset = v->partition.vfs[want->vf].offset};
		answer(v, 0, "%s", "");
	} else if (!compacts && plan(v, want) < 0) {
		refuse_for_room(v, want);
	} else if (want->what == VRAM_PLAN) {
		answer(v, 0, "%s", "");
	}
	if (!v->request) {
		v->request = other;
		return;
	}
	v->reset_asked = false;
	v->attempts = 0;
	v->since = now;
	v->until = now + (compacts || want->usual ? PATIENCE : HOOK_PATIENCE);
	if (v->piece.kind != VRAM_PROBE)
		vram_advance(v, now);
}

void vram_close(struct vram *v)
{
	v->driver = NULL;
	v->move.active = false;
	v->piece.kind = VRAM_NOTHING;
	if (v->request)
		answer(v, -ENODEV, "the GPU was lost meanwhile");
}
