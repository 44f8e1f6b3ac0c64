/* SPDX-License-Identifier: MIT */
/*
 * The table of a GPU's memory, compared with a map that has a cell for each granule. A refused
 * operation changes nothing; memory that had an owner is scrubbed before it is free; a planned move
 * can be made.
 */
#include <errno.h>
#include <stdbool.h>

#include "fuzz.h"
#include "vgpu/memory.h"

#define GRANULE 16u
#define CELLS 64u
#define HOST 16u
#define CAPACITY 40u
#define MAX_OPS 200u

struct cell {
	enum vgpu_extent_state state;
	uint32_t owner;
	uint64_t begin; /* start of the cell's extent; 0 for a cell without an owner */
};

static struct vgpu_memory_extent storage[CAPACITY], scratch[CAPACITY];
static struct vgpu_memory m;
static uint32_t cells_n;

/* Makes the map that the table describes. */
static void map_of(const struct vgpu_memory *t, struct cell *map)
{
	uint32_t i, c;

	memset(map, 0, (CELLS + HOST) * sizeof(*map));
	for (i = 0; i < t->n; i++) {
		const struct vgpu_memory_extent *e = &t->extents[i];
		bool owned = e->state == VGPU_EXTENT_OWNED || e->state == VGPU_EXTENT_MOVING;

		for (c = 0; c < e->size / GRANULE; c++)
			map[e->offset / GRANULE + c] = (struct cell){e->state, owned ? e->owner : 0,
								     owned ? e->offset : 0};
	}
}

/* Returns whether all cells of a range are in STATE. */
static bool all_are(const struct cell *map, uint64_t offset, uint64_t size,
		    enum vgpu_extent_state state)
{
	uint64_t c;

	if (offset % GRANULE || size % GRANULE || offset / GRANULE + size / GRANULE > cells_n)
		return false;
	for (c = offset / GRANULE; c < (offset + size) / GRANULE; c++)
		if (map[c].state != state)
			return false;
	return true;
}

static void set(struct cell *map, uint64_t offset, uint64_t size, struct cell to)
{
	uint64_t c;

	for (c = offset / GRANULE; c < (offset + size) / GRANULE; c++)
		map[c] = to;
}

static bool crosses(uint64_t offset, uint64_t size)
{
	return offset < CELLS * GRANULE && offset + size > CELLS * GRANULE;
}

/* An offset, usually that of an extent. */
static uint64_t some_offset(struct input *in)
{
	uint64_t v = input_number(in, 1);

	return v < 200 ? m.extents[v % m.n].offset : (v - 200) * GRANULE + input_number(in, 1) % 2;
}

/* The cells as they must be after an operation that succeeds. */
struct expected {
	struct cell map[CELLS + HOST];
};

static void release_in(struct expected *x, uint64_t offset, uint64_t size)
{
	set(x->map, offset, size, (struct cell){VGPU_EXTENT_SCRUBBING, 0, 0});
}

static void own_in(struct expected *x, uint64_t offset, uint64_t size, uint32_t owner,
		   enum vgpu_extent_state state)
{
	set(x->map, offset, size, (struct cell){state, owner, offset});
}

static struct vgpu_memory_request request_of(struct input *in)
{
	return (struct vgpu_memory_request){
		.owner = (uint32_t)input_number(in, 1) % 8,
		.size = input_number(in, 2) % (CELLS * GRANULE + 40),
		.placement = input_number(in, 1) & 1 ? VGPU_PLACE_PROFILE : VGPU_PLACE_BEST_FIT,
		.base = 4 * GRANULE,
		.span = (CELLS - 4) * GRANULE,
	};
}

static bool may_move(uint32_t owner, void *data)
{
	return *(uint32_t *)data >> owner & 1;
}

static int reserve(struct input *in, struct expected *x)
{
	uint64_t at = some_offset(in), size = input_number(in, 1) % 20 * GRANULE;
	uint32_t owner = (uint32_t)input_number(in, 1) % 8;
	int r = vgpu_memory_reserve(&m, owner, at, size);

	if (r == 0) {
		HOLDS(all_are(x->map, at, size, VGPU_EXTENT_FREE) && !crosses(at, size));
		own_in(x, at, size, owner, VGPU_EXTENT_OWNED);
	} else if (r == -EBUSY) {
		HOLDS(!all_are(x->map, at, size, VGPU_EXTENT_FREE) || crosses(at, size));
	}
	return r;
}

/* Checks that a place is large enough, aligned, and where its rule puts it. */
static void check_place(const struct vgpu_memory_request *q, uint64_t at, uint64_t size)
{
	HOLDS(size >= q->size && size % GRANULE == 0 && at + size <= CELLS * GRANULE);
	if (q->placement == VGPU_PLACE_PROFILE)
		HOLDS(at >= q->base && (at - q->base) % size == 0 &&
		      at + size <= q->base + q->span);
	else
		HOLDS(size < q->size + GRANULE);
}

/* Returns whether any place in the map is free for the request. */
static bool has_place(const struct cell *map, const struct vgpu_memory_request *q, uint64_t size)
{
	uint64_t at, step = q->placement == VGPU_PLACE_PROFILE ? size : GRANULE;
	uint64_t from = q->placement == VGPU_PLACE_PROFILE ? q->base : 0;
	uint64_t end = q->placement == VGPU_PLACE_PROFILE ? q->base + q->span : CELLS * GRANULE;

	for (at = from; at + size <= end; at += step)
		if (all_are(map, at, size, VGPU_EXTENT_FREE))
			return true;
	return false;
}

static int alloc(struct input *in, struct expected *x)
{
	struct vgpu_memory_request q = request_of(in);
	uint64_t at = 0, size;
	int r = vgpu_memory_alloc(&m, &q, &at);

	if (r == 0) {
		HOLDS(vgpu_memory_size(&m, &q, &size) == 0);
		check_place(&q, at, size);
		HOLDS(all_are(x->map, at, size, VGPU_EXTENT_FREE));
		own_in(x, at, size, q.owner, VGPU_EXTENT_OWNED);
	} else if (r == -ENOSPC && vgpu_memory_size(&m, &q, &size) == 0) {
		HOLDS(!has_place(x->map, &q, size));
	}
	return r;
}

static int release(struct input *in, struct expected *x)
{
	uint64_t at = some_offset(in);
	const struct vgpu_memory_extent *e = vgpu_memory_at(&m, at);
	bool owned = e && e->state == VGPU_EXTENT_OWNED;
	uint64_t size = e ? e->size : 0;
	int r = vgpu_memory_release(&m, at);

	HOLDS((r == 0) == owned);
	if (r == 0)
		release_in(x, at, size);
	return r;
}

static int scrubbed(struct input *in, struct expected *x)
{
	uint64_t at = some_offset(in), size = input_number(in, 1) % 20 * GRANULE;
	int r = vgpu_memory_scrubbed(&m, at, size);

	if (r == 0) {
		HOLDS(size > 0 && all_are(x->map, at, size, VGPU_EXTENT_SCRUBBING));
		set(x->map, at, size, (struct cell){VGPU_EXTENT_FREE, 0, 0});
	}
	return r;
}

static int all_scrubbed(struct input *, struct expected *x)
{
	uint64_t bytes = 0;
	uint32_t c;

	for (c = 0; c < cells_n; c++) {
		if (x->map[c].state != VGPU_EXTENT_SCRUBBING)
			continue;
		bytes += GRANULE;
		x->map[c] = (struct cell){VGPU_EXTENT_FREE, 0, 0};
	}
	HOLDS(vgpu_memory_all_scrubbed(&m) == bytes);
	return 0;
}

/* Updates X for the extent OLD, whose owner now has [TO, TO + SIZE) instead. */
static void replaced(struct expected *x, const struct vgpu_memory_extent *old, uint64_t to,
		     uint64_t size)
{
	struct expected free_old = *x;

	set(free_old.map, old->offset, old->size, (struct cell){VGPU_EXTENT_FREE, 0, 0});
	HOLDS(all_are(free_old.map, to, size, VGPU_EXTENT_FREE) && !crosses(to, size));
	release_in(x, old->offset, old->size);
	own_in(x, to, size, old->owner, VGPU_EXTENT_OWNED);
}

static int replace(struct input *in, struct expected *x)
{
	uint64_t at = some_offset(in), to = 0, size;
	const struct vgpu_memory_extent *e = vgpu_memory_at(&m, at);
	struct vgpu_memory_request q = request_of(in);
	struct vgpu_memory_extent old = {.size = 0};
	int r;

	if (e) {
		old = *e;
		q.owner = old.owner;
	}
	r = vgpu_memory_replace(&m, at, &q, &to);
	if (r == 0) {
		HOLDS(old.size && vgpu_memory_size(&m, &q, &size) == 0);
		check_place(&q, to, size);
		replaced(x, &old, to, size);
	}
	return r;
}

/* A copy of the extent at AT, which the operation may change; size 0: there is none. */
static struct vgpu_memory_extent copy_at(uint64_t at)
{
	const struct vgpu_memory_extent *e = vgpu_memory_at(&m, at);

	return e ? *e : (struct vgpu_memory_extent){.size = 0};
}

static int replace_at(struct input *in, struct expected *x)
{
	uint64_t at = some_offset(in), to = some_offset(in);
	uint64_t size = input_number(in, 1) % 20 * GRANULE;
	struct vgpu_memory_extent old = copy_at(at);
	int r;

	r = vgpu_memory_replace_at(&m, at, to, size);
	if (r == 0) {
		HOLDS(old.size && old.state == VGPU_EXTENT_OWNED);
		replaced(x, &old, to, size);
	}
	return r;
}

static int move_begin(struct input *in, struct expected *x)
{
	uint64_t from = some_offset(in), to = some_offset(in);
	struct vgpu_memory_extent old = copy_at(from);
	int r;

	r = vgpu_memory_move_begin(&m, from, to);
	if (r == 0) {
		HOLDS(old.state == VGPU_EXTENT_OWNED);
		HOLDS(all_are(x->map, to, old.size, VGPU_EXTENT_FREE) && !crosses(to, old.size));
		own_in(x, to, old.size, old.owner, VGPU_EXTENT_MOVING);
	}
	return r;
}

static int move_end(struct input *in, struct expected *x)
{
	uint64_t from = some_offset(in), to = some_offset(in);
	struct vgpu_memory_extent old = copy_at(from);
	int r;

	r = vgpu_memory_move_end(&m, from, to);
	if (r == 0) {
		HOLDS(x->map[to / GRANULE].state == VGPU_EXTENT_MOVING);
		release_in(x, from, old.size);
		own_in(x, to, old.size, old.owner, VGPU_EXTENT_OWNED);
	}
	return r;
}

static int move_abort(struct input *in, struct expected *x)
{
	uint64_t to = some_offset(in);
	const struct vgpu_memory_extent *e = vgpu_memory_at(&m, to);
	uint64_t size = e ? e->size : 0;
	bool moving = e && e->state == VGPU_EXTENT_MOVING;
	int r = vgpu_memory_move_abort(&m, to);

	HOLDS((r == 0) == moving);
	if (r == 0)
		release_in(x, to, size);
	return r;
}

/* A plan changes nothing, and names a move that is possible once all memory is scrubbed. */
static int plan(struct input *in, struct expected *)
{
	struct vgpu_memory_request q = request_of(in);
	uint32_t movable = (uint32_t)input_number(in, 1);
	struct vgpu_memory_extent copy[CAPACITY];
	struct vgpu_memory then = m;
	uint64_t from = 0, to = 0;
	bool moves;

	if (input_number(in, 1) & 1)
		moves = vgpu_memory_plan_move(&m, scratch, &q, may_move, &movable, &from, &to);
	else
		moves = vgpu_memory_plan_compaction(&m, scratch, &q, may_move, &movable, &from,
						    &to) > 0 &&
			from != to;
	if (!moves)
		return -ENOSPC;
	memcpy(copy, m.extents, sizeof(copy));
	then.extents = copy;
	vgpu_memory_all_scrubbed(&then);
	HOLDS(vgpu_memory_at(&then, from) &&
	      may_move(vgpu_memory_at(&then, from)->owner, &movable));
	if (then.n + 2 <= then.capacity && vgpu_memory_move_begin(&then, from, to) < 0)
		HOLDS(from > to); /* it moves down over part of itself: by a copy */
	return -ENOSPC;
}

static int (*const operations[])(struct input *in, struct expected *x) = {
	reserve,    alloc,	release,  scrubbed,   all_scrubbed, replace,
	replace_at, move_begin, move_end, move_abort, plan,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct expected before, expected;
	struct cell now[CELLS + HOST];
	uint32_t i, op;
	int r;

	memset(storage, 0, sizeof(storage));
	vgpu_memory_init(&m, storage, CAPACITY, CELLS * GRANULE + 5, GRANULE);
	cells_n = CELLS;
	if (input_number(&in, 1) & 1) {
		HOLDS(vgpu_memory_extend(&m, HOST * GRANULE) == 0);
		cells_n += HOST;
	}
	for (i = 0; i < MAX_OPS && in.left > 0; i++) {
		map_of(&m, before.map);
		expected = before;
		op = (uint32_t)input_number(&in, 1) % (sizeof(operations) / sizeof(operations[0]));
		r = operations[op](&in, &expected);
		HOLDS(vgpu_memory_check(&m) == NULL);
		map_of(&m, now);
		HOLDS(memcmp(now, r == 0 ? expected.map : before.map, sizeof(now)) == 0);
	}
	return 0;
}
