/* SPDX-License-Identifier: MIT */
/* The arena: one block of memory that holds a core or a governor, its policies and the memory
 * reducer; and its parts. Shared by recorder.c and recording.c. */
#pragma once

#include "vgpu/record.h"

#define ARENA_CORE 0u /* or the governor */
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

	parts[0] = (struct arena_part){ARENA_CORE, h->core_size + h->governor_size};
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
/* 64-bit FNV-1a (Fowler, Noll, Vo), by words: byte by byte it took a quarter of the instructions of
 * a switch. SIZE is a multiple of a word. */
#define RECORD_HASH_BEGIN 0xcbf29ce484222325u
uint64_t record_mix(uint64_t hash, const void *data, size_t size);
/* Return the hash of a step's whole output. */
uint32_t record_hash(int result, const struct vgpu_output *out);
uint32_t record_memory_hash(const struct vgpu_memory_output *out);

/* Recorded before the parameters of an event: the policy that they are for ("": none), and the slot
 * of a new policy. */
struct record_policy_payload {
	char name[32];
	uint32_t slot, pad;
};

#define RECORD_PROGRAM_WORDS (1 + 2 * VGPU_GPU_MAX_VFS)

/* An event of a governor, and the data that it points to. */
struct record_governor_event {
	struct vgpu_governor_event event;
	int64_t params[VGPU_MAX_PARAMS], rows[VGPU_GPU_MAX_VFS * VGPU_MAX_PARAMS];
	vgpu_nsec active[VGPU_GPU_MAX_VFS];
	struct vgpu_program applied;
};

/* Returns the size of a governor's event without its entry; writes that data, SLOT being that of
 * its policy; restores the event of an entry: false if the entry is damaged. */
uint32_t record_governor_size(const struct vgpu_governor_event *event, uint32_t max_vfs);
void record_governor_put(const struct vgpu_governor_event *event, uint32_t slot, uint32_t max_vfs,
			 uint8_t *to);
bool record_governor_get(const struct recording *r, const struct record_entry *e, uint8_t *arena,
			 const struct vgpu_policy_ops *(*find)(const char *name),
			 struct record_governor_event *out);
/* Returns the hash of the output of a step of G and, if an epoch has ended, of its results. */
uint32_t record_governor_hash(int result, const struct vgpu_governor *g, uint32_t max_vfs,
			      const struct vgpu_governor_output *out);
