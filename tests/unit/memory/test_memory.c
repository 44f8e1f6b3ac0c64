/* SPDX-License-Identifier: MIT */
/*
 * The table of a GPU's memory, compared with a naive model that has a cell for each granule. After
 * each of a million random operations, valid and invalid ones, both agree; a refused operation
 * changes nothing; and memory is never given out before it is cleared.
 */
#include <errno.h>
#include <stdlib.h>

#include "suite.h"
#include "vgpu/memory.h"

#define GRANULE 16u
#define CELLS 96u
#define OWNERS 12u
#define CAPACITY 64u

static struct vgpu_memory_extent storage[CAPACITY];
static struct vgpu_memory m;
/* State and owner of each granule, and whose bytes it still holds. */
static struct cell {
	enum vgpu_extent_state state;
	uint32_t owner;
	uint32_t dirt; /* the last writer plus one; 0: clear */
} cells[CELLS];

static uint32_t local = CELLS; /* cells of the GPU; the host's follow */
static uint64_t seed = 1;

static uint32_t any(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % below;
}

/* An offset, usually that of an extent. */
static uint64_t some_offset(void)
{
	return any(20) == 0 ? any(CELLS * GRANULE + 40) : m.extents[any(m.n)].offset;
}

static void set(uint64_t offset, uint64_t size, enum vgpu_extent_state state, uint32_t owner)
{
	uint64_t i;

	for (i = offset / GRANULE; i < (offset + size) / GRANULE; i++) {
		cells[i].state = state;
		cells[i].owner = owner;
		if (state == VGPU_EXTENT_OWNED)
			cells[i].dirt = owner + 1;
		if (state == VGPU_EXTENT_FREE)
			cells[i].dirt = 0;
	}
}

static bool is_clear(uint64_t offset, uint64_t size)
{
	uint64_t i;

	for (i = offset / GRANULE; i < (offset + size) / GRANULE; i++)
		if (cells[i].dirt)
			return false;
	return true;
}

static bool agrees(void)
{
	uint64_t sums[VGPU_EXTENT_STATES] = {0}, run = 0, largest = 0;
	uint32_t i, c;

	if (vgpu_memory_check(&m))
		return false;
	for (i = 0; i < m.n; i++)
		for (c = 0; c < m.extents[i].size / GRANULE; c++) {
			const struct cell *cell = &cells[m.extents[i].offset / GRANULE + c];

			if (cell->state != m.extents[i].state ||
			    (cell->state >= VGPU_EXTENT_OWNED && cell->owner != m.extents[i].owner))
				return false;
		}
	for (c = 0; c < CELLS; c++) {
		sums[cells[c].state] += GRANULE;
		run = cells[c].state == VGPU_EXTENT_FREE && c < local ? run + GRANULE : 0;
		largest = run > largest ? run : largest;
	}
	for (i = 0; i < VGPU_EXTENT_STATES; i++)
		if (vgpu_memory_in(&m, (enum vgpu_extent_state)i) != sums[i])
			return false;
	return vgpu_memory_largest_free(&m) == largest;
}

/* Returns the length of the hole around OFFSET. */
static uint64_t hole_around(uint64_t offset)
{
	uint64_t from = offset / GRANULE, to = from;

	while (from > 0 && cells[from - 1].state == VGPU_EXTENT_FREE)
		from--;
	while (to < local && cells[to].state == VGPU_EXTENT_FREE)
		to++;
	return (to - from) * GRANULE;
}

/* Returns whether the place is in the smallest hole that is large enough, or where a profile may
 * lie. */
static bool well_placed(const struct vgpu_memory_request *r, uint64_t offset, uint64_t size)
{
	uint64_t at, hole = hole_around(offset);

	if (r->placement == VGPU_PLACE_PROFILE)
		return (offset - r->base) % size == 0 && offset + size <= r->base + r->span;
	if (offset + size > local * GRANULE)
		return false;
	for (at = 0; at < local * GRANULE; at += GRANULE)
		if (cells[at / GRANULE].state == VGPU_EXTENT_FREE && hole_around(at) >= size &&
		    hole_around(at) < hole)
			return false;
	return true;
}

/* Returns whether there is a hole for a piece of SIZE, by searching everywhere. */
static bool fits(const struct vgpu_memory_request *r, uint64_t size)
{
	uint64_t at, i;

	for (at = 0; at + size <= local * GRANULE; at += GRANULE) {
		if (r->placement == VGPU_PLACE_PROFILE &&
		    (at < r->base || (at - r->base) % size || at + size > r->base + r->span))
			continue;
		for (i = 0; i < size && cells[(at + i) / GRANULE].state == VGPU_EXTENT_FREE;
		     i += GRANULE)
			;
		if (i >= size)
			return true;
	}
	return false;
}

static void try_alloc(void)
{
	struct vgpu_memory_request r = {
		.owner = any(OWNERS),
		.size = any(10) ? any(CELLS * GRANULE / 4) + 1 : any(CELLS * GRANULE * 2),
		.placement = any(2) ? VGPU_PLACE_PROFILE : VGPU_PLACE_BEST_FIT,
		.base = 2 * GRANULE,
		.span = 64 * GRANULE,
	};
	uint64_t size = (r.size + GRANULE - 1) / GRANULE * GRANULE, offset = 77;
	int result = vgpu_memory_alloc(&m, &r, &offset);

	if (r.placement == VGPU_PLACE_PROFILE)
		for (size = r.span; size / 2 >= r.size && size / 2 >= GRANULE; size /= 2)
			;
	if (result < 0) {
		CU_ASSERT(offset == 77);
		CU_ASSERT(result == -EINVAL ? r.size == 0
			  : result == -ENOMEM
				  ? m.n + 2 > m.capacity
				  : r.size > r.span || size > local * GRANULE || !fits(&r, size));
		return;
	}
	CU_ASSERT(is_clear(offset, size));
	CU_ASSERT(well_placed(&r, offset, size));
	set(offset, size, VGPU_EXTENT_OWNED, r.owner);
}

static const struct vgpu_memory_extent *in_state(uint64_t offset, enum vgpu_extent_state state)
{
	const struct vgpu_memory_extent *e = vgpu_memory_at(&m, offset);

	return e && e->state == state ? e : NULL;
}

static void try_reserve(void)
{
	uint64_t offset = some_offset(), size = (any(8) + 1) * GRANULE - (any(10) == 0);
	uint32_t owner = any(OWNERS);

	if (vgpu_memory_reserve(&m, owner, offset, size) < 0)
		return;
	CU_ASSERT(is_clear(offset, size));
	set(offset, size, VGPU_EXTENT_OWNED, owner);
}

static void try_release(void)
{
	uint64_t offset = some_offset();
	const struct vgpu_memory_extent *e = in_state(offset, VGPU_EXTENT_OWNED);
	uint64_t size = e ? e->size : 0;

	CU_ASSERT_EQUAL(vgpu_memory_release(&m, offset), e ? 0 : -ENOENT);
	set(offset, size, VGPU_EXTENT_SCRUBBING, 0);
}

static void try_scrub(void)
{
	uint64_t offset = some_offset(), size = any(4) ? (any(6) + 1) * GRANULE : any(99);
	const struct vgpu_memory_extent *e = in_state(offset, VGPU_EXTENT_SCRUBBING);
	bool right = e && size && size <= e->size && size % GRANULE == 0;
	int r = vgpu_memory_scrubbed(&m, offset, size);

	CU_ASSERT(!right || r == 0 || r == -ENOMEM);
	if (r == 0)
		set(offset, size, VGPU_EXTENT_FREE, 0);
}

static void try_replace(void)
{
	uint64_t offset = some_offset(), to = 77, size, old, behind = 0;
	const struct vgpu_memory_extent *e = in_state(offset, VGPU_EXTENT_OWNED);
	struct vgpu_memory_request r = {
		.owner = e ? e->owner : 0,
		.size = any(12) * GRANULE + any(2),
		.placement = any(3) ? VGPU_PLACE_BEST_FIT : VGPU_PLACE_PROFILE,
		.base = 2 * GRANULE,
		.span = 64 * GRANULE,
	};
	static struct cell before[CELLS];
	bool stays;
	int result;

	old = e ? e->size : 0;
	memcpy(before, cells, sizeof(cells));
	set(offset, old, VGPU_EXTENT_FREE, 0); /* its own memory counts as free */
	size = (r.size + GRANULE - 1) / GRANULE * GRANULE;
	if (r.placement == VGPU_PLACE_PROFILE)
		for (size = r.span; size / 2 >= r.size && size / 2 >= GRANULE; size /= 2)
			;
	while (e && offset + behind < local * GRANULE &&
	       cells[(offset + behind) / GRANULE].state == VGPU_EXTENT_FREE)
		behind += GRANULE;
	result = vgpu_memory_replace(&m, offset, &r, &to);
	if (result < 0) {
		CU_ASSERT(to == 77);
		CU_ASSERT(result == -ENOENT   ? !e
			  : result == -EINVAL ? r.size == 0
			  : result == -ENOMEM ? m.n + 3 > m.capacity
					      : !fits(&r, size));
		memcpy(cells, before, sizeof(cells));
		return;
	}
	CU_ASSERT_FATAL(e != NULL);
	CU_ASSERT(is_clear(to, size));
	stays = behind >= size && (r.placement == VGPU_PLACE_BEST_FIT ||
				   (offset >= r.base && (offset - r.base) % size == 0 &&
				    offset + size <= r.base + r.span));
	CU_ASSERT(stays ? to == offset : well_placed(&r, to, size));
	memcpy(cells, before, sizeof(cells));
	set(offset, old, VGPU_EXTENT_SCRUBBING, 0);
	set(to, size, VGPU_EXTENT_OWNED, r.owner);
}

/* The extent moves exactly to the requested place, or stays where it is. */
static void try_replace_at(void)
{
	uint64_t offset = some_offset(), to = some_offset() / GRANULE * GRANULE, i;
	const struct vgpu_memory_extent *e = in_state(offset, VGPU_EXTENT_OWNED);
	uint64_t size = (any(8) + 1) * GRANULE, old = e ? e->size : 0;
	static struct cell before[CELLS];
	uint32_t owner = e ? e->owner : 0;
	bool right = e && to + size <= CELLS * GRANULE;
	int r;

	memcpy(before, cells, sizeof(cells));
	set(offset, old, VGPU_EXTENT_FREE, 0); /* its own memory counts as free */
	for (i = to; right && i < to + size; i += GRANULE)
		right = cells[i / GRANULE].state == VGPU_EXTENT_FREE &&
			(i < local * GRANULE) == (to < local * GRANULE);
	memcpy(cells, before, sizeof(cells));
	r = vgpu_memory_replace_at(&m, offset, to, size);
	CU_ASSERT(r == 0 ? right : !right || r == -ENOMEM);
	if (r < 0)
		return;
	set(offset, old, VGPU_EXTENT_SCRUBBING, 0);
	set(to, size, VGPU_EXTENT_OWNED, owner);
}

/* One move at a time, as the caller does it. */
static uint64_t moving_from, moving_to = UINT64_MAX;

static void try_move(void)
{
	uint64_t from = some_offset(), to = some_offset();
	const struct vgpu_memory_extent *e = in_state(from, VGPU_EXTENT_OWNED);
	uint64_t size = e ? e->size : 0;
	uint32_t owner = e ? e->owner : 0;

	if (moving_to != UINT64_MAX || vgpu_memory_move_begin(&m, from, to) < 0)
		return;
	CU_ASSERT(is_clear(to, size));
	set(to, size, VGPU_EXTENT_OWNED, owner);
	set(to, size, VGPU_EXTENT_MOVING, owner);
	moving_from = from;
	moving_to = to;
}

static void try_end_move(void)
{
	const struct vgpu_memory_extent *copy = vgpu_memory_at(&m, moving_to);
	const struct vgpu_memory_extent *old = in_state(moving_from, VGPU_EXTENT_OWNED);
	uint64_t size;
	uint32_t owner;
	bool right;

	if (moving_to == UINT64_MAX)
		return;
	CU_ASSERT_FATAL(copy && copy->state == VGPU_EXTENT_MOVING);
	size = copy->size;
	owner = copy->owner;
	/* The owner may have released its extent meanwhile, or changed its size. */
	right = old && old->owner == owner && old->size == size;
	if (any(2)) {
		CU_ASSERT_EQUAL(vgpu_memory_move_end(&m, moving_from, moving_to),
				right ? 0 : -ENOENT);
		if (!right)
			return;
		set(moving_from, size, VGPU_EXTENT_SCRUBBING, 0);
		set(moving_to, size, VGPU_EXTENT_OWNED, owner);
	} else {
		CU_ASSERT_EQUAL(vgpu_memory_move_abort(&m, moving_to), 0);
		set(moving_to, size, VGPU_EXTENT_SCRUBBING, 0);
	}
	moving_to = UINT64_MAX;
}

static uint32_t run(uint32_t capacity, uint32_t operations_to_do)
{
	static void (*const operations[])(
		void) = {try_alloc, try_alloc,	 try_reserve,	 try_release, try_scrub,
			 try_scrub, try_replace, try_replace_at, try_move,    try_end_move};
	static const struct vgpu_memory_extent untouched = {.offset = 4711};
	uint32_t i, wrong = 0;

	for (i = capacity; i < CAPACITY; i++)
		storage[i] = untouched;
	memset(cells, 0, sizeof(cells));
	moving_to = UINT64_MAX;
	vgpu_memory_init(&m, storage, capacity, local * GRANULE + 5, GRANULE);
	CU_ASSERT_EQUAL(vgpu_memory_extend(&m, (CELLS - local) * GRANULE + 3), 0);
	CU_ASSERT_EQUAL(m.total, CELLS * GRANULE);
	/* Stops at the first failure: recording a million failures would take hours. */
	for (i = 0; i < operations_to_do && wrong == 0; i++) {
		operations[any(sizeof(operations) / sizeof(operations[0]))]();
		wrong += !agrees() + CU_get_number_of_failure_records();
		wrong += capacity < CAPACITY &&
			 memcmp(&storage[capacity], &untouched, sizeof(untouched)) != 0;
	}
	return wrong;
}

TEST(million, "a million operations agree with a model")
{
	CU_ASSERT_EQUAL(run(CAPACITY, 800000), 0);
	/* With tables that are almost always full. */
	CU_ASSERT_EQUAL(run(12, 200000), 0);
	CU_ASSERT_EQUAL(run(5, 100000), 0);
	/* With host memory. */
	local = 70;
	CU_ASSERT_EQUAL(run(CAPACITY, 400000), 0);
	CU_ASSERT_EQUAL(run(12, 100000), 0);
	local = CELLS;
}

/* A full table refuses, and stays unchanged. */
TEST(full, "a full table refuses and stays unchanged")
{
	struct vgpu_memory_extent few[3], before[3];
	struct vgpu_memory t;
	uint64_t offset;
	struct vgpu_memory_request r = {.size = 1};

	vgpu_memory_init(&t, few, 3, 10 * GRANULE, GRANULE);
	CU_ASSERT_EQUAL(vgpu_memory_alloc(&t, &r, &offset), 0);
	CU_ASSERT_EQUAL(vgpu_memory_alloc(&t, &r, &offset), 0);
	memcpy(before, few, sizeof(few));
	CU_ASSERT_EQUAL(vgpu_memory_alloc(&t, &r, &offset), -ENOMEM);
	CU_ASSERT_EQUAL(vgpu_memory_reserve(&t, 1, 5 * GRANULE, GRANULE), -ENOMEM);
	CU_ASSERT(memcmp(before, few, sizeof(few)) == 0);
	CU_ASSERT_PTR_NULL(vgpu_memory_check(&t));
}

/* A generation number tells the present owner of a place from an earlier one. */
TEST(generations, "generations tell owners apart")
{
	struct vgpu_memory_extent few[4];
	struct vgpu_memory t;
	uint32_t first;

	vgpu_memory_init(&t, few, 4, 10 * GRANULE, GRANULE);
	CU_ASSERT_EQUAL(vgpu_memory_reserve(&t, 1, 0, GRANULE), 0);
	first = vgpu_memory_at(&t, 0)->generation;
	CU_ASSERT_EQUAL(vgpu_memory_release(&t, 0), 0);
	CU_ASSERT_EQUAL(vgpu_memory_at(&t, 0)->generation, 0);
	CU_ASSERT_EQUAL(vgpu_memory_scrubbed(&t, 0, GRANULE), 0);
	CU_ASSERT_EQUAL(vgpu_memory_reserve(&t, 1, 0, GRANULE), 0);
	CU_ASSERT(vgpu_memory_at(&t, 0)->generation > first);
}

static bool all_but(uint32_t owner, void *data)
{
	return owner != *(uint32_t *)data;
}

/* Carries out one move and scrubs what it leaves; the fixed owner must not be moved. */
static void move(uint64_t from, uint64_t to, uint32_t fixed)
{
	const struct vgpu_memory_extent *e = vgpu_memory_at(&m, from);
	uint64_t size;

	CU_ASSERT_FATAL(e && e->owner != fixed);
	size = e->size;
	CU_ASSERT_EQUAL_FATAL(vgpu_memory_move_begin(&m, from, to), 0);
	CU_ASSERT_EQUAL_FATAL(vgpu_memory_move_end(&m, from, to), 0);
	while (vgpu_memory_in(&m, VGPU_EXTENT_SCRUBBING) > 0)
		CU_ASSERT_EQUAL_FATAL(vgpu_memory_scrubbed(&m, from, size), 0);
	CU_ASSERT_PTR_NULL_FATAL(vgpu_memory_check(&m));
}

static const struct vgpu_memory_extent *owned(uint32_t owner)
{
	uint32_t i;

	for (i = 0; i < m.n; i++)
		if (m.extents[i].state == VGPU_EXTENT_OWNED && m.extents[i].owner == owner)
			return &m.extents[i];
	return NULL;
}

/* Planned moves lead all the way to the requested place, or the plan names none. */
TEST(compaction, "planned moves make room, or there are none")
{
	static struct vgpu_memory_extent scratch[CAPACITY];
	uint32_t round, i, fixed, made = 0, steps, largest = 0;
	struct vgpu_memory_request want = {.owner = OWNERS};
	uint64_t from, to, nobodys;
	bool own;
	int r;

	for (round = 0; round < 20000; round++) {
		vgpu_memory_init(&m, storage, CAPACITY, CELLS * GRANULE, GRANULE);
		fixed = any(OWNERS);
		for (i = 0; i < OWNERS; i++)
			vgpu_memory_reserve(&m, i, any(CELLS) * (uint64_t)GRANULE,
					    (any(8) + 1) * (uint64_t)GRANULE);
		nobodys = vgpu_memory_in(&m, VGPU_EXTENT_FREE);
		want.owner = any(2) ? OWNERS : any(OWNERS);
		own = owned(want.owner);
		want.size = vgpu_memory_largest_free(&m) + (any(20) + 1) * GRANULE;
		for (steps = 0;
		     vgpu_memory_plan_move(&m, scratch, &want, all_but, &fixed, &from, &to);
		     steps++) {
			CU_ASSERT_FATAL(steps < 1000);
			move(from, to, fixed);
		}
		CU_ASSERT_EQUAL(vgpu_memory_in(&m, VGPU_EXTENT_FREE), nobodys);
		r = own ? vgpu_memory_replace(&m, owned(want.owner)->offset, &want, &to)
			: vgpu_memory_alloc(&m, &want, &to);
		CU_ASSERT(r == 0 || steps == 0);
		CU_ASSERT(r == 0 || r == -ENOSPC);
		made += steps > 0;
		largest = steps > largest ? steps : largest;
	}
	CU_ASSERT(made > round / 3 && largest > 4);
}

static bool all(uint32_t owner, void *data)
{
	(void)owner, (void)data;
	return true;
}

/* For an owner that grows, its own memory counts as free. The layout: 2 granules free, 2 of owner
 * 0, 4 of owner 1, 2 free. */
TEST(own_place, "an owner's own memory counts as free when it grows")
{
	static struct vgpu_memory_extent scratch[CAPACITY];
	struct vgpu_memory_request want = {.owner = 1, .size = 8 * GRANULE};
	uint64_t from = 77, to = 77;

	vgpu_memory_init(&m, storage, CAPACITY, 10 * GRANULE, GRANULE);
	CU_ASSERT_EQUAL(vgpu_memory_reserve(&m, 0, 2 * GRANULE, 2 * GRANULE), 0);
	CU_ASSERT_EQUAL(vgpu_memory_reserve(&m, 1, 4 * GRANULE, 4 * GRANULE), 0);
	CU_ASSERT_FATAL(vgpu_memory_plan_move(&m, scratch, &want, all, NULL, &from, &to));
	CU_ASSERT_EQUAL(from, 2 * GRANULE);
	move(from, to, 1);
	CU_ASSERT(!vgpu_memory_plan_move(&m, scratch, &want, all, NULL, &from, &to));
	CU_ASSERT_EQUAL(vgpu_memory_replace(&m, 4 * GRANULE, &want, &to), 0);
	want.owner = 2; /* an owner without memory */
	CU_ASSERT(!vgpu_memory_plan_move(&m, scratch, &want, all, NULL, &from, &to));
}

/* Compaction ends with a hole at least as large as promised, and often with one hole. */
TEST(one_hole, "compaction keeps its promise")
{
	static struct vgpu_memory_extent scratch[CAPACITY];
	static const struct vgpu_memory_request anywhere = {.placement = VGPU_PLACE_BEST_FIT};
	uint32_t round, i, steps, fixed, one = 0;
	uint64_t from, to, promised, best;

	for (round = 0; round < 5000; round++) {
		fixed = any(2) ? OWNERS : any(OWNERS);
		vgpu_memory_init(&m, storage, CAPACITY, CELLS * GRANULE, GRANULE);
		for (i = 0; i < OWNERS; i++)
			vgpu_memory_reserve(&m, i, any(CELLS) * (uint64_t)GRANULE,
					    (any(6) + 1) * (uint64_t)GRANULE);
		promised = 0;
		for (steps = 0;; steps++) {
			best = vgpu_memory_plan_compaction(&m, scratch, &anywhere, all_but, &fixed,
							   &from, &to);
			CU_ASSERT_FATAL(steps < 1000 && best >= promised);
			promised = best;
			if (best <= vgpu_memory_largest_free(&m))
				break;
			move(from, to, fixed);
		}
		CU_ASSERT_EQUAL(vgpu_memory_largest_free(&m), promised);
		one += promised == vgpu_memory_in(&m, VGPU_EXTENT_FREE);
	}
	CU_ASSERT(one > round / 3);
}

/* Equal profiles fill all memory, in any order of arrival and departure. */
TEST(equal_profiles, "equal profiles fill all memory")
{
	struct vgpu_memory_request r = {.placement = VGPU_PLACE_PROFILE,
					.base = GRANULE,
					.span = 64 * GRANULE,
					.size = 8 * GRANULE};
	uint64_t at[8], offset;
	uint32_t i, round;

	vgpu_memory_init(&m, storage, CAPACITY, 65 * GRANULE, GRANULE);
	CU_ASSERT_EQUAL(vgpu_memory_reserve(&m, 99, 0, GRANULE), 0);
	for (i = 0; i < 8; i++)
		CU_ASSERT_EQUAL(vgpu_memory_alloc(&m, &r, &at[i]), 0);
	CU_ASSERT_EQUAL(vgpu_memory_alloc(&m, &r, &offset), -ENOSPC);
	for (round = 0; round < 1000; round++) {
		i = any(8);
		CU_ASSERT_EQUAL(vgpu_memory_release(&m, at[i]), 0);
		CU_ASSERT_EQUAL(vgpu_memory_alloc(&m, &r, &offset), -ENOSPC);
		CU_ASSERT_EQUAL(vgpu_memory_scrubbed(&m, at[i], 8 * GRANULE), 0);
		CU_ASSERT_EQUAL(vgpu_memory_alloc(&m, &r, &at[i]), 0);
	}
}

/* What a PF leaves of a GPU is an odd number of granules. Nearly all of it is in profiles, which
 * can be halved often, and as many as the numbers say fit. */
TEST(profiles_of_the_rest, "profiles of what a PF leaves")
{
	static struct vgpu_memory_extent room[1024];
	struct vgpu_memory_request r = {.placement = VGPU_PLACE_PROFILE, .base = GRANULE};
	uint64_t n, all, size, halves, i, offset;

	for (n = 1; n < 6000; n++) {
		r.span = n * GRANULE + any(GRANULE);
		all = vgpu_memory_profile(r.span, GRANULE);
		CU_ASSERT(all > 0 && all % GRANULE == 0 && all <= r.span);
		CU_ASSERT(n * GRANULE - all < (n * GRANULE + 31) / 32);
		CU_ASSERT_EQUAL(vgpu_memory_profile_of(r.span, GRANULE, all + 1), 0);
		size = vgpu_memory_profile_of(r.span, GRANULE, 1);
		for (halves = 0; size << halves < all; halves++)
			CU_ASSERT_EQUAL(vgpu_memory_profile_of(r.span, GRANULE, size << halves),
					size << halves);
		CU_ASSERT_EQUAL(size << halves, all);
		CU_ASSERT(size < 64 * GRANULE && n >> halves < 64);
	}
	/* 16 GiB in granules of 16 MiB, of which the PF has one: 16 profiles of 1008 MiB. */
	r.span = 1023 * GRANULE;
	r.size = 60 * GRANULE;
	vgpu_memory_init(&m, room, 1024, 1024 * GRANULE, GRANULE);
	CU_ASSERT_EQUAL(vgpu_memory_reserve(&m, 99, 0, GRANULE), 0);
	for (i = 0; i < 16; i++) {
		r.owner = (uint32_t)i;
		CU_ASSERT_EQUAL(vgpu_memory_alloc(&m, &r, &offset), 0);
		CU_ASSERT_EQUAL(offset, GRANULE + i * 63 * GRANULE);
	}
	CU_ASSERT_EQUAL(vgpu_memory_alloc(&m, &r, &offset), -ENOSPC);
}

/* Moved profiles again lie at multiples of their size, and make room for a larger one. */
TEST(moved_profiles, "moved profiles stay aligned and make room")
{
	static struct vgpu_memory_extent scratch[CAPACITY];
	struct vgpu_memory_request r = {.placement = VGPU_PLACE_PROFILE,
					.base = GRANULE,
					.span = 64 * GRANULE};
	uint32_t round, i, steps, made = 0, could = 0, none = OWNERS;
	uint64_t from, to, size;

	for (round = 0; round < 5000; round++) {
		vgpu_memory_init(&m, storage, CAPACITY, 65 * GRANULE, GRANULE);
		vgpu_memory_reserve(&m, 99, 0, GRANULE);
		for (i = 0; i < OWNERS; i++) {
			r.owner = i;
			r.size = GRANULE << any(5);
			vgpu_memory_alloc(&m, &r, &to);
		}
		for (i = 0; i < OWNERS / 2; i++) {
			const struct vgpu_memory_extent *e = owned(any(OWNERS));

			if (e)
				vgpu_memory_release(&m, e->offset);
		}
		vgpu_memory_all_scrubbed(&m);
		r.owner = OWNERS;
		r.size = GRANULE << (1 + any(5));
		could += vgpu_memory_in(&m, VGPU_EXTENT_FREE) >= r.size &&
			 vgpu_memory_alloc(&m, &r, &to) == -ENOSPC;
		if (owned(OWNERS))
			continue;
		for (steps = 0; vgpu_memory_plan_move(&m, scratch, &r, all_but, &none, &from, &to);
		     steps++) {
			size = vgpu_memory_at(&m, from)->size;
			CU_ASSERT_FATAL(steps < 1000 && (to - GRANULE) % size == 0);
			move(from, to, none);
		}
		CU_ASSERT(steps == 0 || vgpu_memory_alloc(&m, &r, &to) == 0);
		made += steps > 0;
	}
	CU_ASSERT(made > could / 2 && made > 100);
}

SUITE_MAIN("memory")
