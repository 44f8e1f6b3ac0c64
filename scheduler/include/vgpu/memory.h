/* SPDX-License-Identifier: MIT */
/*
 * A GPU's memory, or any other resource that is numbered and handed out in pieces (doorbells,
 * contexts): who has which extent, and what may be done with it.
 *
 * The table tiles the whole: extents are sorted, touch, and each has a state. What was used goes
 * through SCRUBBING before it is FREE, and only what is FREE is ever given out. Every operation is
 * done whole or not at all; memory for the table is lent by the caller. Pure: no clock, no device,
 * no allocation. Any thread, one at a time.
 */
#ifndef VGPU_MEMORY_H
#define VGPU_MEMORY_H

#include "vgpu/types.h"

enum vgpu_extent_state {
	VGPU_EXTENT_FREE = 0,  /* cleared, nobody's */
	VGPU_EXTENT_SCRUBBING, /* nobody's, and not yet cleared */
	VGPU_EXTENT_OWNED,
	VGPU_EXTENT_MOVING, /* the owner's data is being copied there; it still works elsewhere */
	VGPU_EXTENT_STATES,
};
extern const char *const vgpu_extent_state_names[VGPU_EXTENT_STATES];

struct vgpu_memory_extent {
	uint64_t offset, size;
	uint32_t owner;	     /* of OWNED and MOVING: a VF, or a number above VGPU_GPU_MAX_VFS */
	uint32_t generation; /* of the table, when it got its owner */
	enum vgpu_extent_state state;
};

struct vgpu_memory {
	struct vgpu_memory_extent *extents;
	uint32_t n, capacity;
	uint64_t total, granule;
	uint64_t local;	     /* of TOTAL; what lies beyond is the host's */
	uint32_t generation; /* counts hand-overs */
};

/* Where an extent is put. */
enum vgpu_placement {
	/* The smallest hole that is large enough, at its beginning. */
	VGPU_PLACE_BEST_FIT = 0,
	/* Sizes are the whole divided by 1, 2, 4, ..., and offsets multiples of the size, counted
	 * from the end of what is reserved: equal sizes never fragment, as with NVIDIA's and AMD's
	 * profiles. The whole is what BASE and SPAN of the request say. */
	VGPU_PLACE_PROFILE,
};

struct vgpu_memory_request {
	uint32_t owner;
	uint64_t size; /* rounded up to the granule, or to a profile's size */
	enum vgpu_placement placement;
	uint64_t base, span; /* of profiles: where the first lies, and the size of 1/1 */
};

/* One free extent of all TOTAL, rounded down to the granule. CAPACITY extents are lent, for as long
 * as the table lives: one for each owner, one between any two, and two. */
void vgpu_memory_init(struct vgpu_memory *m, struct vgpu_memory_extent *extents, uint32_t capacity,
		      uint64_t total, uint64_t granule);

/* Host memory that the GPU can copy to and from follows its own: SIZE bytes, rounded down to the
 * granule, with addresses from its end on. What lies there is swapped out. Nothing is placed there
 * but by reserve and moves; alloc, replace, plans and largest_free know the GPU's own memory alone.
 * Once, after init; -ENOMEM: the table is full. */
int vgpu_memory_extend(struct vgpu_memory *m, uint64_t size);
/* The table of the GPU's own memory alone, to be looked at. */
struct vgpu_memory vgpu_memory_local(const struct vgpu_memory *m);

/* Gives OWNER exactly that range, which has to be free: what firmware and the PF need. 0; -EINVAL:
 * not aligned; -EBUSY: it is not free; -ENOMEM: the table is full. */
int vgpu_memory_reserve(struct vgpu_memory *m, uint32_t owner, uint64_t offset, uint64_t size);
/* What a request takes, rounded up. 0; -EINVAL: no size; -ENOSPC: more than there is. */
int vgpu_memory_size(const struct vgpu_memory *m, const struct vgpu_memory_request *request,
		     uint64_t *size);
/* Finds a place. 0 and *OFFSET; -EINVAL: no size; -ENOSPC: no hole is large enough; -ENOMEM. */
int vgpu_memory_alloc(struct vgpu_memory *m, const struct vgpu_memory_request *request,
		      uint64_t *offset);
/* The owner has it no more: it is to be scrubbed. Here and below, -ENOENT: there is no such extent
 * at OFFSET in the state that this needs. */
int vgpu_memory_release(struct vgpu_memory *m, uint64_t offset);
/* The first SIZE bytes of what is to be scrubbed at OFFSET are clear, and free. -EINVAL: more than
 * there are, or not aligned. */
int vgpu_memory_scrubbed(struct vgpu_memory *m, uint64_t offset, uint64_t size);
/* All that is to be scrubbed is clear, and free: for plans, on a copy. How many bytes that are. */
uint64_t vgpu_memory_all_scrubbed(struct vgpu_memory *m);
/* Gives an owner, whose data need not be kept, more or less: where it is if that is possible, else
 * where it fits, what it has counted as free. What it has no more is to be scrubbed. 0 and *TO;
 * -EINVAL, -ENOSPC as above; -ENOMEM: the table has not room for three extents more. */
int vgpu_memory_replace(struct vgpu_memory *m, uint64_t offset,
			const struct vgpu_memory_request *request, uint64_t *to);

/* The same, but exactly there, in the GPU's memory or in the host's. -EBUSY: that is not free. */
int vgpu_memory_replace_at(struct vgpu_memory *m, uint64_t offset, uint64_t to, uint64_t size);

/* A move: the copy gets its place at TO, which has to be free. Then either the copy counts and what
 * was is to be scrubbed, or the copy is dropped; until then both are the owner's. */
int vgpu_memory_move_begin(struct vgpu_memory *m, uint64_t from, uint64_t to);
int vgpu_memory_move_end(struct vgpu_memory *m, uint64_t from, uint64_t to);
int vgpu_memory_move_abort(struct vgpu_memory *m, uint64_t to);

/* The next move on the way to a place for what is WANTED, if all that is being scrubbed were free,
 * and in the end the owner's own, too: of few bytes, if that leads there, else so that all slide
 * down. MOVABLE says whose extents may be moved; SCRATCH is lent, as many extents as the table has.
 * False: no way leads there, or none is needed. */
bool vgpu_memory_plan_move(const struct vgpu_memory *m, struct vgpu_memory_extent *scratch,
			   const struct vgpu_memory_request *wanted,
			   bool (*movable)(uint32_t owner, void *data), void *data, uint64_t *from,
			   uint64_t *to);
/* The largest hole that moves can make, placed as RULE has it (its placement, base and span), if
 * all that is being scrubbed were free, and the first of them; there is none if the largest hole,
 * scrubbed ones included, is that already. */
uint64_t vgpu_memory_plan_compaction(const struct vgpu_memory *m,
				     struct vgpu_memory_extent *scratch,
				     const struct vgpu_memory_request *rule,
				     bool (*movable)(uint32_t owner, void *data), void *data,
				     uint64_t *from, uint64_t *to);

/* Bytes in a state. */
uint64_t vgpu_memory_in(const struct vgpu_memory *m, enum vgpu_extent_state state);
uint64_t vgpu_memory_largest_free(const struct vgpu_memory *m);
/* The extent that begins at OFFSET, or NULL. */
const struct vgpu_memory_extent *vgpu_memory_at(const struct vgpu_memory *m, uint64_t offset);

/* What must always hold; the first that does not, or NULL. For tests and for damaged state. */
const char *vgpu_memory_check(const struct vgpu_memory *m);

#endif
