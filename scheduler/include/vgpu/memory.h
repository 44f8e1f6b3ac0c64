/* SPDX-License-Identifier: MIT */
/*
 * The table of a GPU's memory, or of any other numbered resource that is handed out in ranges
 * (doorbells, contexts): the owner and the state of each extent.
 *
 * The extents tile the whole: they are sorted, adjacent, and each has a state. A used extent goes
 * through SCRUBBING before it is FREE, and only FREE extents are given to an owner. Every operation
 * is done completely or not at all. The caller lends the memory for the table. Pure: no clock, no
 * device, no allocation. Any thread, one at a time.
 */
#pragma once

#include "vgpu/types.h"

enum vgpu_extent_state {
	VGPU_EXTENT_FREE = 0,  /* no owner, cleared */
	VGPU_EXTENT_SCRUBBING, /* no owner, not yet cleared */
	VGPU_EXTENT_OWNED,
	VGPU_EXTENT_MOVING, /* the owner's data is being copied here; the owner still has the old
			       extent */
	VGPU_EXTENT_STATES,
};
extern const char *const vgpu_extent_state_names[VGPU_EXTENT_STATES];

struct vgpu_memory_extent {
	uint64_t offset, size;
	uint32_t owner; /* in states OWNED and MOVING: a VF, or a number above VGPU_GPU_MAX_VFS */
	uint32_t generation; /* the table's generation when the owner got the extent */
	enum vgpu_extent_state state;
};

struct vgpu_memory {
	struct vgpu_memory_extent *extents;
	uint32_t n, capacity;
	uint64_t total, granule;
	uint64_t local;	     /* the GPU's part of TOTAL; the rest is host memory */
	uint32_t generation; /* counts changes of owner */
};

/* The rule for placing an extent. */
enum vgpu_placement {
	/* The smallest hole that is large enough; the extent starts at its beginning. */
	VGPU_PLACE_BEST_FIT = 0,
	/* Sizes are those of profiles 1/1, 1/2, 1/4 ... of SPAN, and offsets are multiples of the
	 * size, counted from BASE, so that equal sizes never fragment, as on NVIDIA's and AMD's
	 * GPUs. */
	VGPU_PLACE_PROFILE,
};

struct vgpu_memory_request {
	uint32_t owner;
	uint64_t size; /* rounded up to the granule, or to a profile's size */
	enum vgpu_placement placement;
	uint64_t base, span; /* PROFILE: where the first extent may begin, and the bytes for all */
};

/* Returns the size of profile 1/1 of SPAN bytes: up to a 32nd is left out, so that the size can be
 * halved often, down to a multiple of GRANULE. Without this, the PF's part of a GPU's memory would
 * leave an odd number of granules. */
uint64_t vgpu_memory_profile(uint64_t span, uint64_t granule);
/* Returns the smallest profile of at least SIZE bytes; 0: there is none. */
uint64_t vgpu_memory_profile_of(uint64_t span, uint64_t granule, uint64_t size);

/* Makes a table of one free extent of TOTAL bytes, rounded down to the granule. The caller lends
 * CAPACITY extents for the lifetime of the table: at least one for each owner, one between any two
 * owners, and two. */
void vgpu_memory_init(struct vgpu_memory *m, struct vgpu_memory_extent *extents, uint32_t capacity,
		      uint64_t total, uint64_t granule);

/* Adds SIZE bytes of host memory, rounded down to the granule, addressed after the GPU's own. The
 * GPU can copy to and from it; a VF whose partition lies there is swapped out. Only reserve,
 * replace_at and moves place extents there; alloc, replace, the plans and largest_free use the
 * GPU's memory only. At most once, after init. 0; -ENOMEM: the table is full. */
int vgpu_memory_extend(struct vgpu_memory *m, uint64_t size);
/* Returns the part of the table that is the GPU's own memory. It shares M's extents: read only. */
struct vgpu_memory vgpu_memory_local(const struct vgpu_memory *m);

/* Gives OWNER exactly that range, which must be free; used for firmware and the PF. Returns 0;
 * -EINVAL: not aligned; -EBUSY: not free; -ENOMEM: the table is full. */
int vgpu_memory_reserve(struct vgpu_memory *m, uint32_t owner, uint64_t offset, uint64_t size);
/* Writes the rounded size of a request. 0; -EINVAL: its size is 0; -ENOSPC: larger than the
 * memory. */
int vgpu_memory_size(const struct vgpu_memory *m, const struct vgpu_memory_request *request,
		     uint64_t *size);
/* Gives the owner of a request an extent, and writes its place. 0; -EINVAL: its size is 0; -ENOSPC:
 * no hole is large enough; -ENOMEM: the table is full. */
int vgpu_memory_alloc(struct vgpu_memory *m, const struct vgpu_memory_request *request,
		      uint64_t *offset);
/* Takes the extent at OFFSET from its owner, to be scrubbed. Here and below, -ENOENT: no extent
 * begins at OFFSET in the state that the function needs. */
int vgpu_memory_release(struct vgpu_memory *m, uint64_t offset);
/* Marks the first SIZE bytes of the SCRUBBING extent at OFFSET as free. -EINVAL: SIZE is larger
 * than the extent, or not aligned. */
int vgpu_memory_scrubbed(struct vgpu_memory *m, uint64_t offset, uint64_t size);
/* Marks all SCRUBBING extents as free, for plans on a copy. Returns their size in bytes. */
uint64_t vgpu_memory_all_scrubbed(struct vgpu_memory *m);
/* Gives the owner of the extent at OFFSET another size, without keeping its data: in place if
 * possible, else where it fits, with the old extent counted as free. The memory that the owner
 * loses becomes SCRUBBING. 0 and *TO; -EINVAL, -ENOSPC as for alloc; -ENOMEM: the table lacks room
 * for three more extents. */
int vgpu_memory_replace(struct vgpu_memory *m, uint64_t offset,
			const struct vgpu_memory_request *request, uint64_t *to);

/* As vgpu_memory_replace, but exactly at TO, in the GPU's memory or the host's. -EBUSY: TO is not
 * free. */
int vgpu_memory_replace_at(struct vgpu_memory *m, uint64_t offset, uint64_t to, uint64_t size);

/* Move an extent in two steps. begin reserves TO, which must be free, for the copy; the owner then
 * has both extents. end gives the owner the copy, and the old extent becomes SCRUBBING; abort drops
 * the copy, which becomes SCRUBBING. */
int vgpu_memory_move_begin(struct vgpu_memory *m, uint64_t from, uint64_t to);
int vgpu_memory_move_end(struct vgpu_memory *m, uint64_t from, uint64_t to);
int vgpu_memory_move_abort(struct vgpu_memory *m, uint64_t to);

/* Finds the next move towards a hole for WANTED. Counts as free all SCRUBBING extents and, at the
 * end, the owner's own extent. Prefers a plan that moves few bytes; otherwise slides all extents
 * down. MOVABLE says whose extents may be moved; SCRATCH is lent, as many extents as the table has.
 * Returns false if no move is needed or none helps. */
bool vgpu_memory_plan_move(const struct vgpu_memory *m, struct vgpu_memory_extent *scratch,
			   const struct vgpu_memory_request *wanted,
			   bool (*movable)(uint32_t owner, void *data), void *data, uint64_t *from,
			   uint64_t *to);
/* Returns the size of the largest hole that moves can make, by RULE's placement, base and span,
 * counting all SCRUBBING extents as free. Writes the first of these moves to *FROM and *TO, which
 * are equal if that hole exists already. */
uint64_t vgpu_memory_plan_compaction(const struct vgpu_memory *m,
				     struct vgpu_memory_extent *scratch,
				     const struct vgpu_memory_request *rule,
				     bool (*movable)(uint32_t owner, void *data), void *data,
				     uint64_t *from, uint64_t *to);

/* Return bytes: of all extents in STATE; of the largest free extent. */
uint64_t vgpu_memory_in(const struct vgpu_memory *m, enum vgpu_extent_state state);
uint64_t vgpu_memory_largest_free(const struct vgpu_memory *m);
/* Returns the extent that begins at OFFSET, or NULL. */
const struct vgpu_memory_extent *vgpu_memory_at(const struct vgpu_memory *m, uint64_t offset);

/* Returns the first invariant of the table that does not hold, or NULL. For tests, and for state
 * that may be damaged. */
const char *vgpu_memory_check(const struct vgpu_memory *m);
