/* SPDX-License-Identifier: MIT */
/* The one piece of memory in which a core, its policies and the state of a GPU's memory live, and
 * its parts. */
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

/* What of an arena is in use, in the order in which it lies in an image. */
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

/* Maps an arena at ADDRESS, or if that is 0 at one of the usual places; NULL if it is taken. */
void *arena_map(uint64_t address);

/* How many bytes of parameters an event carries: its own, then a row for each VF. */
uint32_t record_payload_size(const struct vgpu_event *event, uint32_t max_vfs);
/* Of everything that a step said and did. */
uint32_t record_hash(int result, const struct vgpu_output *out);
uint32_t record_memory_hash(const struct vgpu_memory_output *out);

/* What goes before the parameters of an event as they are recorded: the policy that they are for
 * ("": none), and of a new one its slot. */
struct record_policy_payload {
	char name[32];
	uint32_t slot, pad;
};

#define RECORD_MAGIC "vgpurec"
#define RECORD_VERSION 3u

#endif
