/* SPDX-License-Identifier: MIT */
/* The arena: one piece of memory that holds a core, its policies and the memory reducer; and its
 * parts. */
#ifndef RECORD_ARENA_H
#define RECORD_ARENA_H

#include "vgpu/record.h"

#define ARENA_CORE 0u
#define ARENA_CORE_MAX (256u << 10)
#define ARENA_FALLBACK ARENA_CORE_MAX
#define ARENA_SLOTS (ARENA_FALLBACK + RECORD_SLOT_SIZE)
#define ARENA_MEMORY (ARENA_SLOTS + RECORD_SLOTS * RECORD_SLOT_SIZE)
#define ARENA_MEMORY_MAX (64u << 10)
#define ARENA_SIZE (ARENA_MEMORY + ARENA_MEMORY_MAX)

/* The parts of an arena that are in use, in their order in an image. */
struct arena_part {
	uint64_t offset, size;
};

#define ARENA_PARTS (3u + RECORD_SLOTS)

static inline void arena_parts(const struct record_header *h, struct arena_part *parts)
{
	uint32_t i;

	parts[0] = (struct arena_part){ARENA_CORE, h->core_size};
	parts[1] = (struct arena_part){ARENA_FALLBACK, h->fallback_size};
	for (i = 0; i < RECORD_SLOTS; i++)
		parts[2 + i] =
			(struct arena_part){ARENA_SLOTS + i * RECORD_SLOT_SIZE, h->slot_sizes[i]};
	parts[2 + RECORD_SLOTS] = (struct arena_part){ARENA_MEMORY, h->memory_size};
}

static inline uint64_t arena_image_size(const struct record_header *h)
{
	struct arena_part parts[ARENA_PARTS];
	uint64_t size = 0;
	uint32_t i;

	arena_parts(h, parts);
	for (i = 0; i < ARENA_PARTS; i++)
		size += parts[i].size;
	return size;
}

/* Maps an arena at ADDRESS, or at one of the usual addresses if ADDRESS is 0; NULL if that is in
 * use. munmap() of ARENA_SIZE frees it. */
void *arena_map(uint64_t address);

/* Returns the bytes of parameters that an event carries: its own, then a row for each VF. */
uint32_t record_payload_size(const struct vgpu_event *event, uint32_t max_vfs);
/* Return the hash of everything that a step put out. */
uint32_t record_hash(int result, const struct vgpu_output *out);
uint32_t record_memory_hash(const struct vgpu_memory_output *out);

/* Recorded before the parameters of an event: the policy that they are for ("": none), and the slot
 * of a new policy. */
struct record_policy_payload {
	char name[32];
	uint32_t slot, pad;
};

#define RECORD_MAGIC "vgpurec"
#define RECORD_VERSION 5u

#endif
