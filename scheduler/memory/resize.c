/* SPDX-License-Identifier: MIT */
/*
 * Changes of the memory table. A change is planned to its end on a copy of the table first, so that
 * it is refused unless it is possible as a whole. Then it waits for memory that must be cleared,
 * and moves what is in its way, one partition at a time.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "private.h"

/* Time-outs: for libvirt's hook, shorter than the hook's own; and for an operator. */
#define HOOK_TIMEOUT (8 * VGPU_SEC)
#define CHANGE_TIMEOUT (60 * VGPU_SEC)
#define ATTEMPTS 3u
/* How often a VF in use is reset for a change with `force`. */
#define RESETS 3u
/* Pause after the core has refused to keep a VF away. */
#define ASK_AGAIN (5 * VGPU_MSEC)

/* The inputs of a plan. */
struct planner {
	const struct vgpu_memory_state *m;
	const struct vgpu_memory_change *want;
};

static const int64_t results[] = {
	[VGPU_MEMORY_DONE] = 0,
	[VGPU_MEMORY_ANOTHER] = -EBUSY,
	[VGPU_MEMORY_IN_USE] = -EBUSY,
	[VGPU_MEMORY_NO_ROOM] = -ENOSPC,
	[VGPU_MEMORY_UNMOVED] = -ETIMEDOUT,
	[VGPU_MEMORY_LATE] = -ETIMEDOUT,
	[VGPU_MEMORY_NOT_TAKEN] = -EIO,
	[VGPU_MEMORY_INVALID] = -EINVAL,
};

static void answer(struct vgpu_memory_state *m, uint32_t id, enum vgpu_memory_reason reason,
		   const struct vgpu_memory_plan *plan)
{
	struct vgpu_memory_action *a = memory_act(m, VGPU_MA_ANSWER, VGPU_NO_VF, reason);

	a->value = results[reason];
	a->id = id;
	a->plan = *plan;
}

/* Ends the change under way, and answers it. */
static void end_change(struct vgpu_memory_state *m, enum vgpu_memory_reason reason)
{
	struct change *c = &m->change;

	c->active = false;
	m->counters.waited += m->now - c->began;
	if (reason == VGPU_MEMORY_DONE && c->want.what == VGPU_MEMORY_SET && c->want.usual)
		m->usual[c->want.vf] = c->want.size;
	answer(m, c->id, reason, &c->plan);
}

/* Returns whether a VF's partition may be moved for the change; never that of the changed VF
 * itself. */
static bool is_movable(uint32_t vf, void *data)
{
	const struct planner *p = data;

	if (vf == VGPU_MEMORY_PF || (p->want->what != VGPU_MEMORY_COMPACT && vf == p->want->vf))
		return false;
	return vgpu_memory_can_move(p->m->vfs[vf].state);
}

static struct vgpu_memory_request request_of(const struct planner *p)
{
	return (struct vgpu_memory_request){
		.owner = p->want->vf,
		.size = p->want->size,
		.placement = p->m->placement,
		.base = p->m->partition.pf.size,
		.span = p->m->table.local - p->m->partition.pf.size,
	};
}

/* A VF that may be swapped gets its new partition at home, and is swapped in when it has work. */
static int apply_at_home(const struct planner *p, struct vgpu_memory *table, uint64_t *offset)
{
	const struct vgpu_extent *old = &p->m->partition.vfs[p->want->vf];
	struct vgpu_memory_request request = request_of(p);
	struct vgpu_extent home;
	uint64_t size, largest;
	int r;

	if (vgpu_memory_size(table, &request, &size) < 0 || size > homes_most(p->m, p->want->vf) ||
	    !homes_find(p->m, p->want->vf, size, &home, &largest))
		return -ENOSPC;
	*offset = home.offset;
	r = old->size ? vgpu_memory_replace_at(table, old->offset, home.offset, size)
		      : vgpu_memory_reserve(table, p->want->vf, home.offset, size);
	return r == -EBUSY ? -ENOSPC : r;
}

/* Applies the change to TABLE if there is room now; else returns -ENOSPC, with TABLE unchanged. */
static int apply(const struct planner *p, struct vgpu_memory *table, uint64_t *offset)
{
	const struct vgpu_extent *old = &p->m->partition.vfs[p->want->vf];
	struct vgpu_memory_request request = request_of(p);

	*offset = 0;
	if (p->want->size == 0)
		return old->size ? vgpu_memory_release(table, old->offset) : 0;
	if (!homes_is_pinned(p->m, p->want->vf))
		return apply_at_home(p, table, offset);
	if (p->want->size > homes_most(p->m, p->want->vf))
		return -ENOSPC;
	return old->size ? vgpu_memory_replace(table, old->offset, &request, offset)
			 : vgpu_memory_alloc(table, &request, offset);
}

/* Finds a VF that could be swapped out; one without work if there is one. */
static bool next_eviction(const struct planner *p, const struct vgpu_memory *table, uint64_t *from,
			  uint64_t *to)
{
	struct vgpu_memory local = vgpu_memory_local(table);
	bool found = false;
	uint32_t i, vf;

	for (i = 0; i < local.n; i++) {
		const struct vgpu_memory_extent *e = &local.extents[i];

		vf = e->owner;
		if (e->state != VGPU_EXTENT_OWNED || vf == VGPU_MEMORY_PF || vf == p->want->vf ||
		    !homes_can_leave(p->m, vf) || (found && p->m->vfs[vf].has_work))
			continue;
		found = true;
		*from = e->offset;
		*to = p->m->partition.homes[vf].offset;
		if (!p->m->vfs[vf].has_work)
			break;
	}
	return found;
}

static bool next_move(const struct planner *p, const struct vgpu_memory *table, uint64_t *from,
		      uint64_t *to)
{
	struct vgpu_memory_extent scratch[VGPU_MEMORY_EXTENTS];
	struct vgpu_memory_request request = request_of(p);
	struct planner data = *p;

	if (p->want->what == VGPU_MEMORY_COMPACT)
		return vgpu_memory_plan_compaction(table, scratch, &request, is_movable, &data,
						   from, to) > vgpu_memory_largest_free(table);
	if (!homes_is_pinned(p->m, p->want->vf))
		return false; /* moves cannot make room in host memory */
	return vgpu_memory_plan_move(table, scratch, &request, is_movable, &data, from, to) ||
	       (p->want->size <= homes_most(p->m, p->want->vf) &&
		next_eviction(p, table, from, to));
}

/* Plans the whole change. 0; or -ENOSPC, with the largest possible size in PLAN. */
static int plan_all(const struct planner *p, struct vgpu_memory_plan *plan)
{
	const struct vgpu_memory_change *want = p->want;
	const struct vgpu_extent *old = &p->m->partition.vfs[want->vf];
	struct vgpu_memory_extent storage[VGPU_MEMORY_EXTENTS];
	struct vgpu_memory table = p->m->table;
	const struct vgpu_memory_extent *e;
	struct vgpu_extent home;
	uint64_t from, to, cleared;
	int r;

	memcpy(storage, p->m->extents, sizeof(storage));
	table.extents = storage;
	while ((r = apply(p, &table, &plan->offset)) == -ENOSPC) {
		cleared = vgpu_memory_all_scrubbed(&table);
		plan->clear += cleared;
		if (cleared)
			continue;
		if (!next_move(p, &table, &from, &to) ||
		    vgpu_memory_move_begin(&table, from, to) < 0)
			break;
		e = vgpu_memory_at(&table, from);
		plan->move += e->size;
		plan->movers |= VGPU_VF_BIT(e->owner);
		vgpu_memory_move_end(&table, from, to);
	}
	if (r == -ENOSPC && old->size)
		vgpu_memory_release(&table, old->offset);
	vgpu_memory_all_scrubbed(&table);
	plan->largest = vgpu_memory_largest_free(&table);
	if (!homes_is_pinned(p->m, want->vf))
		homes_find(p->m, want->vf, 0, &home, &plan->largest);
	if (plan->largest > homes_most(p->m, want->vf))
		plan->largest = homes_most(p->m, want->vf);
	return r;
}

/* Returns whether no guest uses the VF, so that its partition may be changed. */
static bool is_unused(const struct vgpu_memory_state *m)
{
	enum vgpu_vf_state state = m->vfs[m->change.want.vf].state;

	return state == VGPU_VF_AVAIL || state == VGPU_VF_QUARANTINED;
}

/* Returns whether the VF is away from the engine: one that may be swapped must be, before its
 * memory is placed at home. */
static bool is_away(const struct vgpu_memory_state *m)
{
	const struct vgpu_memory_change *want = &m->change.want;

	return want->size == 0 || homes_is_pinned(m, want->vf) || m->vfs[want->vf].away;
}

/* Resets the VF, which a guest uses, or refuses the change. */
static void take_from_user(struct vgpu_memory_state *m)
{
	const struct vgpu_memory_change *want = &m->change.want;

	if (m->vfs[want->vf].state == VGPU_VF_SCRUBBING)
		return; /* its reset is under way */
	/* The guest's driver may start again before the change continues: hence several resets. */
	if (!want->force || m->change.resets == RESETS)
		end_change(m, VGPU_MEMORY_IN_USE);
	else
		memory_act_on_vf(m, VGPU_MA_RESET, want->vf, 0);
	m->change.resets++;
}

/* Asks for the VF to be kept away from the engine. */
static void ask_to_keep_away(struct vgpu_memory_state *m)
{
	if (m->now >= m->change.ask_at) {
		memory_act_on_vf(m, VGPU_MA_HOLD, m->change.want.vf, VGPU_KEEP_AWAY);
		m->change.ask_at = m->now + ASK_AGAIN;
	}
	memory_wake_by(m, m->change.ask_at);
}

/* Makes the VF ready for a change of its partition; returns whether it is ready. */
static bool prepare_vf(struct vgpu_memory_state *m)
{
	if (!is_unused(m))
		take_from_user(m);
	else if (!is_away(m))
		ask_to_keep_away(m);
	else
		return true;
	return false;
}

/* Begins to write the entry in the GPU's table. -ENOSPC: there is no room yet. */
static int place(struct vgpu_memory_state *m, const struct planner *p)
{
	struct vgpu_memory_extent storage[VGPU_MEMORY_EXTENTS];
	struct vgpu_memory table = m->table;
	struct vgpu_extent where = {0, 0};
	int r;

	memcpy(storage, m->extents, sizeof(storage));
	table.extents = storage;
	r = apply(p, &table, &where.offset);
	if (r < 0)
		return r;
	where.size = p->want->size ? vgpu_memory_at(&table, where.offset)->size : 0;
	m->placing = (struct placing){.active = true, .where = where};
	memory_act(m, VGPU_MA_PLACE, p->want->vf, 0)->where = where;
	return 0;
}

/* The GPU has the entry: update our table. This cannot fail: it was tried on a copy, and nothing
 * else takes memory meanwhile. */
void resize_placed(struct vgpu_memory_state *m, bool good)
{
	const struct vgpu_extent where = m->placing.where;
	uint32_t vf = m->change.want.vf;
	const struct vgpu_extent *old = &m->partition.vfs[vf];
	int r = 0;

	if (!good) {
		end_change(m, VGPU_MEMORY_NOT_TAKEN);
		return;
	}
	if (where.size == 0)
		r = old->size ? vgpu_memory_release(&m->table, old->offset) : 0;
	else if (old->size)
		r = vgpu_memory_replace_at(&m->table, old->offset, where.offset, where.size);
	else
		r = vgpu_memory_reserve(&m->table, vf, where.offset, where.size);
	assert(r == 0);
	m->partition.vfs[vf] = where;
	homes_give(m, vf, where);
	end_change(m, VGPU_MEMORY_DONE);
}

void resize_advance(struct vgpu_memory_state *m)
{
	struct change *c = &m->change;
	const struct vgpu_memory_change *want = &c->want;
	const struct planner p = {m, want};
	bool sets = want->what == VGPU_MEMORY_SET, ready = !sets;
	uint64_t from, to;
	int r = -ENOSPC;

	if (sets && !(m->telling >> want->vf & 1))
		ready = prepare_vf(m);
	if (!c->active)
		return;
	if (m->now >= c->until || c->attempts >= ATTEMPTS) {
		end_change(m, c->attempts >= ATTEMPTS ? VGPU_MEMORY_UNMOVED : VGPU_MEMORY_LATE);
		return;
	}
	if (!ready)
		return;
	if (sets)
		r = place(m, &p);
	if (r < 0 && r != -ENOSPC)
		end_change(m, VGPU_MEMORY_INVALID);
	if (r != -ENOSPC || vgpu_memory_in(&m->table, VGPU_EXTENT_SCRUBBING) > 0)
		return;
	if (next_move(&p, &m->table, &from, &to))
		move_begin(m, from, to);
	else
		end_change(m, sets ? VGPU_MEMORY_NO_ROOM : VGPU_MEMORY_DONE);
}

void resize_begin(struct vgpu_memory_state *m, uint32_t id, const struct vgpu_memory_change *asked)
{
	bool compacts = asked->what == VGPU_MEMORY_COMPACT;
	struct vgpu_memory_change want = *asked;
	const struct planner p = {m, &want};
	struct vgpu_memory_plan plan = {0};

	if (want.vf >= m->n_vfs || want.what > VGPU_MEMORY_COMPACT) {
		answer(m, id, VGPU_MEMORY_INVALID, &plan);
		return;
	}
	if (want.size == VGPU_MEMORY_USUAL)
		want.size = m->usual[want.vf];
	plan.size = want.size;
	if (m->change.active && want.what != VGPU_MEMORY_PLAN) {
		answer(m, id, VGPU_MEMORY_ANOTHER, &plan);
	} else if (!compacts && want.size == m->partition.vfs[want.vf].size) {
		plan.offset = m->partition.vfs[want.vf].offset;
		if (want.what == VGPU_MEMORY_SET && want.usual)
			m->usual[want.vf] = want.size;
		answer(m, id, VGPU_MEMORY_DONE, &plan);
	} else if (!compacts && plan_all(&p, &plan) < 0) {
		answer(m, id, VGPU_MEMORY_NO_ROOM, &plan);
	} else if (want.what == VGPU_MEMORY_PLAN) {
		answer(m, id, VGPU_MEMORY_DONE, &plan);
	} else {
		m->change = (struct change){
			.active = true,
			.id = id,
			.want = want,
			.plan = plan,
			.began = m->now,
			.until = m->now + (compacts || want.usual ? CHANGE_TIMEOUT : HOOK_TIMEOUT),
		};
	}
}
