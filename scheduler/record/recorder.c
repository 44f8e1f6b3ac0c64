/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "arena.h"

/* One segment being written, KEPT before it, and the next one: small, so that a crash report is
 * small. */
#define KEPT 4u
#define SEGMENTS (KEPT + 2)
#define ENTRIES 2048u
#define PAYLOAD (128u << 10)
#define PAGE 4096u /* smallest page size of any machine */

struct segment {
	_Atomic uint64_t generation; /* a seqlock: odd while the segment is being begun */
	_Atomic uint32_t n;
	struct record_header header;
	uint8_t *image;
	struct record_entry *entries;
	uint8_t *payload;
	_Atomic uint32_t payload_used;
};

struct recorder {
	uint8_t *arena;
	uint32_t max_vfs;
	uint64_t slot_sizes[RECORD_SLOTS];
	bool begun;
	_Atomic uint32_t current;
	_Atomic uint64_t begun_ever; /* segments begun since the last restart */
	struct segment segments[SEGMENTS];
};

/* Faults pages in now, not on the engine thread. A plain memset after malloc would not do:
 * compilers turn the two into calloc, which touches no page. */
static void fault_in(void *memory, size_t size)
{
	volatile uint8_t *p = memory;
	size_t at;

	for (at = 0; at < size; at += PAGE)
		p[at] = 0;
}

struct recorder *recorder_new(uint32_t max_vfs, struct vgpu_error *err)
{
	struct recorder *r = calloc(1, sizeof(*r));
	bool ok = r != NULL;
	uint32_t i;

	assert(vgpu_core_size(max_vfs) <= ARENA_CORE_MAX);
	assert(vgpu_governor_size() <= ARENA_CORE_MAX);
	assert(vgpu_memory_state_size() <= ARENA_MEMORY_MAX);
	if (ok)
		r->arena = arena_map(0);
	ok = ok && r->arena;
	for (i = 0; i < SEGMENTS && ok; i++) {
		struct segment *s = &r->segments[i];

		s->image = malloc(ARENA_SIZE);
		s->entries = malloc(ENTRIES * sizeof(*s->entries));
		s->payload = malloc(PAYLOAD);
		ok = s->image && s->entries && s->payload;
		if (!ok)
			break;
		/* The part of every image. Policies add some pages, and payloads are rare. */
		fault_in(s->image, vgpu_core_size(max_vfs) + vgpu_memory_state_size());
		fault_in(s->entries, ENTRIES * sizeof(*s->entries));
	}
	if (!ok) {
		vgpu_error_set(
			err, -ENOMEM,
			"out of memory, or no address is free, for the core and its recording");
		recorder_free(r);
		return NULL;
	}
	r->max_vfs = max_vfs;
	return r;
}

void recorder_free(struct recorder *r)
{
	uint32_t i;

	if (!r)
		return;
	for (i = 0; i < SEGMENTS; i++) {
		free(r->segments[i].image);
		free(r->segments[i].entries);
		free(r->segments[i].payload);
	}
	if (r->arena)
		munmap(r->arena, ARENA_SIZE);
	free(r);
}

void *recorder_core_memory(struct recorder *r)
{
	return r->arena + ARENA_CORE;
}

void *recorder_governor_memory(struct recorder *r)
{
	return r->arena + ARENA_CORE;
}

void *recorder_fallback_memory(struct recorder *r)
{
	return r->arena + ARENA_FALLBACK;
}

void *recorder_slot_memory(struct recorder *r, uint32_t slot)
{
	return r->arena + ARENA_SLOTS + slot * RECORD_SLOT_SIZE;
}

void *recorder_state_memory(struct recorder *r)
{
	return r->arena + ARENA_MEMORY;
}

uint32_t recorder_slot_of(const struct recorder *r, const void *memory)
{
	uint32_t i;

	for (i = 0; i < RECORD_SLOTS; i++)
		if (memory == r->arena + ARENA_SLOTS + i * RECORD_SLOT_SIZE)
			return i;
	return RECORD_SLOTS;
}

void recorder_restart(struct recorder *r)
{
	r->begun = false;
	r->slot_sizes[0] = r->slot_sizes[1] = 0;
}

/* The owner of the arena's state: one of the two is NULL. */
struct decider {
	const struct vgpu_core *core;
	const struct vgpu_governor *governor;
};

static void name(char *to, const struct vgpu_policy_ops *policy)
{
	if (policy)
		memcpy(to, policy->name, sizeof(policy->name));
}

static void describe_core(const struct vgpu_core *core, struct record_header *h)
{
	struct vgpu_core_view view;

	vgpu_core_view(core, &view);
	h->core_size = vgpu_core_size(h->max_vfs);
	h->fallback_size = view.fallback->memory(h->max_vfs);
	name(h->policy, view.policy);
	name(h->fallback, view.fallback);
	name(h->next_policy, view.next_policy);
}

static void describe_governor(const struct vgpu_governor *governor, struct record_header *h)
{
	struct vgpu_governor_view view;

	vgpu_governor_view(governor, &view);
	h->governor_size = vgpu_governor_size();
	name(h->policy, view.policy);
}

/* Begins a segment with an image of the arena. */
static void begin_segment(struct recorder *r, struct decider of)
{
	uint32_t index = (atomic_load(&r->current) + 1) % SEGMENTS, i;
	struct segment *s = &r->segments[index];
	struct arena_part parts[ARENA_PARTS];
	uint8_t *to = s->image;
	uint64_t generation = atomic_load_explicit(&s->generation, memory_order_relaxed);

	/* The generation is odd before anything of the old segment is overwritten, as every CPU
	 * sees it: without the fence a later store may become visible before an atomic one,
	 * whatever the latter's order. */
	atomic_store_explicit(&s->generation, generation + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store(&s->n, 0);
	atomic_store(&s->payload_used, 0);
	s->header = (struct record_header){
		.magic = RECORD_MAGIC,
		.version = RECORD_VERSION,
		.max_vfs = r->max_vfs,
		.address = (uint64_t)(uintptr_t)r->arena,
		.memory_size = vgpu_memory_state_size(),
		.slot_sizes = {r->slot_sizes[0], r->slot_sizes[1]},
	};
	if (of.core)
		describe_core(of.core, &s->header);
	else
		describe_governor(of.governor, &s->header);
	arena_parts(&s->header, parts);
	for (i = 0; i < ARENA_PARTS; i++) {
		memcpy(to, r->arena + parts[i].offset, parts[i].size);
		to += parts[i].size;
	}
	atomic_store_explicit(&s->generation, generation + 2, memory_order_release);
	atomic_store(&r->current, index);
	atomic_store(&r->begun_ever, r->begun ? atomic_load(&r->begun_ever) + 1 : 1);
	r->begun = true;
}

/* SIZE: record_payload_size(), above 0. Returns its place in the segment, plus 1. */
static uint32_t put_payload(struct recorder *r, struct segment *s, const struct vgpu_event *event,
			    uint32_t size)
{
	uint32_t at = atomic_load(&s->payload_used);
	uint32_t row = VGPU_MAX_PARAMS * sizeof(int64_t);
	uint8_t *to = s->payload + at;
	struct record_policy_payload p = {.slot = RECORD_SLOTS};

	if (event->policy)
		memcpy(p.name, event->policy->name, sizeof(p.name));
	if (event->type == VGPU_EV_POLICY) {
		p.slot = recorder_slot_of(r, event->memory);
		memcpy(to + sizeof(p) + row, event->vf_params, (size_t)row * r->max_vfs);
	}
	memcpy(to, &p, sizeof(p));
	memcpy(to + sizeof(p), event->params, row);
	atomic_store(&s->payload_used, at + size);
	return at + 1;
}

/* Returns the segment that has room for one more entry and SIZE bytes of payload; begins one if
 * necessary. */
static struct segment *segment_for(struct recorder *r, struct decider of, uint32_t size)
{
	const struct segment *s = &r->segments[atomic_load(&r->current)];

	if (!r->begun || atomic_load(&s->n) == ENTRIES ||
	    atomic_load(&s->payload_used) + size > PAYLOAD)
		begin_segment(r, of);
	return &r->segments[atomic_load(&r->current)];
}

int recorder_step(struct recorder *r, struct vgpu_core *core, const struct vgpu_event *event,
		  struct vgpu_output *out)
{
	uint32_t size = record_payload_size(event, r->max_vfs);
	struct segment *s = segment_for(r, (struct decider){.core = core}, size);
	uint32_t n = atomic_load(&s->n), i, slot;
	struct record_entry *e = &s->entries[n];
	int result;

	*e = (struct record_entry){
		.now = event->now,
		.value = event->value,
		.type = event->type,
		.vf = event->vf,
		.code = event->code,
		.payload = size ? put_payload(r, s, event, size) : 0,
	};
	slot = event->type == VGPU_EV_POLICY ? recorder_slot_of(r, event->memory) : RECORD_SLOTS;
	if (slot < RECORD_SLOTS)
		r->slot_sizes[slot] = event->policy->memory(r->max_vfs);
	result = vgpu_core_step(core, event, out);
	for (i = 0; i < out->n_actions; i++)
		if (out->actions[i].type == VGPU_AC_RETIRE &&
		    recorder_slot_of(r, out->actions[i].memory) < RECORD_SLOTS)
			r->slot_sizes[recorder_slot_of(r, out->actions[i].memory)] = 0;
	if (slot < RECORD_SLOTS && result < 0)
		r->slot_sizes[slot] = 0;
	e->result = result;
	e->hash = record_hash(result, out);
	atomic_store_explicit(&s->n, n + 1, memory_order_release);
	return result;
}

int recorder_governor_step(struct recorder *r, struct vgpu_governor *g,
			   const struct vgpu_governor_event *event,
			   struct vgpu_governor_output *out)
{
	uint32_t size = record_governor_size(event, r->max_vfs);
	struct segment *s = segment_for(r, (struct decider){.governor = g}, size);
	uint32_t n = atomic_load(&s->n), used = atomic_load(&s->payload_used), slot, retired;
	struct record_entry *e = &s->entries[n];
	int result;

	*e = (struct record_entry){
		.now = event->now,
		.value = event->type == VGPU_GOVERNOR_BRING ? (int64_t)event->owed : event->error,
		.type = RECORD_OF_GOVERNOR + event->type,
		.vf = event->vf,
		.payload = size ? used + 1 : 0,
	};
	slot = event->type == VGPU_GOVERNOR_POLICY ? recorder_slot_of(r, event->memory)
						   : RECORD_SLOTS;
	record_governor_put(event, slot, r->max_vfs, s->payload + used);
	atomic_store(&s->payload_used, used + size);
	result = vgpu_governor_step(g, event, out);
	retired = recorder_slot_of(r, out->retired);
	if (retired < RECORD_SLOTS)
		r->slot_sizes[retired] = 0;
	if (slot < RECORD_SLOTS && result == 0)
		r->slot_sizes[slot] = event->policy->memory(r->max_vfs);
	e->result = result;
	e->hash = record_governor_hash(result, g, r->max_vfs, out);
	atomic_store_explicit(&s->n, n + 1, memory_order_release);
	return result;
}

/* Bytes of payload of a memory reducer's event. */
static uint32_t memory_payload_size(const struct vgpu_memory_event *event)
{
	return event->type == VGPU_ME_VF || event->type == VGPU_ME_CHANGE ? (uint32_t)sizeof(*event)
									  : 0;
}

void recorder_memory_step(struct recorder *r, const struct vgpu_core *core,
			  const struct vgpu_memory_event *event, struct vgpu_memory_output *out)
{
	uint32_t size = memory_payload_size(event);
	struct segment *s = segment_for(r, (struct decider){.core = core}, size);
	uint32_t n = atomic_load(&s->n), used = atomic_load(&s->payload_used);
	struct record_entry *e = &s->entries[n];

	*e = (struct record_entry){
		.now = event->now,
		.value = event->value,
		.type = RECORD_OF_MEMORY + event->type,
		.vf = event->vf,
		.code = event->code,
		.payload = size ? used + 1 : 0,
	};
	memcpy(s->payload + used, event, size);
	atomic_store(&s->payload_used, used + size);
	vgpu_memory_step((struct vgpu_memory_state *)recorder_state_memory(r), event, out);
	e->hash = record_memory_hash(out);
	atomic_store_explicit(&s->n, n + 1, memory_order_release);
}

/* Copies a segment; false if the engine thread began to overwrite it meanwhile. */
static bool copy_segment(const struct segment *s, bool image, struct recording *out)
{
	uint64_t generation = atomic_load_explicit(&s->generation, memory_order_acquire);
	uint32_t n = atomic_load(&s->n), payload = atomic_load(&s->payload_used), i;
	uint64_t had = out->header.n_entries, shift = out->header.payload_size;

	if (generation % 2)
		return false;
	if (image) {
		out->header = s->header;
		memcpy(out->image, s->image, arena_image_size(&s->header));
	}
	memcpy(out->entries + had, s->entries, n * sizeof(*s->entries));
	memcpy(out->payload + shift, s->payload, payload);
	for (i = 0; i < n; i++)
		if (out->entries[had + i].payload)
			out->entries[had + i].payload += (uint32_t)shift;
	out->header.n_entries = had + n;
	out->header.payload_size = shift + payload;
	/* The fence ensures that all of it is read before the generation is read again. */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&s->generation, memory_order_relaxed) == generation;
}

int recorder_copy(struct recorder *r, struct recording *out)
{
	/* In this order: the current segment is the last of these, or a later one. */
	uint64_t ever = atomic_load(&r->begun_ever);
	uint32_t current = atomic_load(&r->current);
	uint32_t kept = ever > KEPT ? KEPT : (uint32_t)ever - 1, i;
	bool ok = true;

	if (ever == 0)
		return -ENODATA;
	*out = (struct recording){
		.image = malloc(ARENA_SIZE),
		.entries = malloc((KEPT + 1) * ENTRIES * sizeof(struct record_entry)),
		.payload = malloc((KEPT + 1) * PAYLOAD),
		.text = calloc(1, 1),
	};
	if (!out->image || !out->entries || !out->payload || !out->text) {
		recording_free(out);
		return -ENOMEM;
	}
	for (i = 0; ok && i <= kept; i++)
		ok = copy_segment(&r->segments[(current + SEGMENTS - kept + i) % SEGMENTS], i == 0,
				  out);
	/* One more segment may have begun meanwhile; with two, the oldest may be a new one. */
	if (!ok || atomic_load(&r->begun_ever) - ever > 1) {
		recording_free(out);
		return -EAGAIN;
	}
	return 0;
}
