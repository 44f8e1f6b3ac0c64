/* SPDX-License-Identifier: MIT */
#include "arena.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

/* Addresses that are free in ordinary programs, and under the sanitizers, which reserve large
 * areas. */
static const uint64_t usual_places[] = {0x4000000000, 0x200000000000};

static void *map_at(uint64_t address)
{
	void *at = mmap((void *)(uintptr_t)address, ARENA_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

void *arena_map(uint64_t address)
{
	static _Atomic uint32_t made; /* number of arenas in this process: one for each GPU */
	void *at = NULL;
	uint32_t i, n;

	if (address)
		return map_at(address);
	n = atomic_fetch_add(&made, 1);
	for (i = 0; i < sizeof(usual_places) / sizeof(usual_places[0]) && !at; i++)
		at = map_at(usual_places[i] + (uint64_t)n * 2 * ARENA_SIZE);
	return at;
}

uint32_t record_payload_size(const struct vgpu_event *event, uint32_t max_vfs)
{
	uint32_t row = VGPU_MAX_PARAMS * sizeof(int64_t);

	switch (event->type) {
	case VGPU_EV_ADD:
	case VGPU_EV_SET_VF:
	case VGPU_EV_SET_POLICY:
		return (uint32_t)sizeof(struct record_policy_payload) + row;
	case VGPU_EV_POLICY:
		return (uint32_t)sizeof(struct record_policy_payload) + row * (1 + max_vfs);
	default:
		return 0;
	}
}

uint64_t record_mix(uint64_t h, const void *data, size_t size)
{
	const uint8_t *p = data;
	uint64_t word;

#pragma GCC unroll 4
	for (; size; size -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		h = (h ^ word) * 0x100000001b3u;
		/* A factor carries bits upwards only. */
		h ^= h >> 32;
	}
	return h;
}

uint32_t record_hash(int result, const struct vgpu_output *out)
{
	uint64_t first = (uint64_t)(int64_t)result,
		 h = record_mix(RECORD_HASH_BEGIN, &first, sizeof(first));
	uint32_t i;

	for (i = 0; i < out->n_actions; i++) {
		const struct vgpu_action *a = &out->actions[i];
		uint64_t words[] = {(uint64_t)a->type << 32 | a->vf, a->code, a->planned};

		h = record_mix(h, words, sizeof(words));
	}
	return (uint32_t)record_mix(h, out->records, out->n_records * sizeof(out->records[0]));
}

uint32_t record_memory_hash(const struct vgpu_memory_output *out)
{
	uint64_t h = RECORD_HASH_BEGIN;
	uint32_t i;

	for (i = 0; i < out->n; i++) {
		const struct vgpu_memory_action *a = &out->actions[i];
		bool answers = a->type == VGPU_MA_ANSWER;
		uint64_t head[] = {(uint64_t)a->type << 32 | a->vf, a->code, (uint64_t)a->value};
		uint64_t place[] = {a->where.offset, a->where.size, a->from};
		uint64_t plan[] = {a->id,	 a->plan.size,	 a->plan.offset, a->plan.clear,
				   a->plan.move, a->plan.movers, a->plan.largest};

		h = record_mix(h, head, sizeof(head));
		h = record_mix(h, answers ? plan : place, answers ? sizeof(plan) : sizeof(place));
	}
	return (uint32_t)h;
}
