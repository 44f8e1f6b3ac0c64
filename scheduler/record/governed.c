/* SPDX-License-Identifier: MIT */
/*
 * The events of a governor in a recording: the data kept beside an entry, the event restored from
 * it, and the hash of a step's outcome. Programs and counters are kept as whole words, so that a
 * file has no padding.
 */
#include <string.h>

#include "arena.h"

#define ROW (VGPU_MAX_PARAMS * (uint32_t)sizeof(int64_t))

/* The data of an event. */
static bool has_policy(const struct vgpu_governor_event *event)
{
	return event->type == VGPU_GOVERNOR_POLICY;
}

static bool has_params(const struct vgpu_governor_event *event)
{
	return has_policy(event) || event->type == VGPU_GOVERNOR_SET_POLICY ||
	       event->type == VGPU_GOVERNOR_SET_VF;
}

static bool has_counters(const struct vgpu_governor_event *event)
{
	return event->type == VGPU_GOVERNOR_USAGE && event->error == 0;
}

static bool has_program(const struct vgpu_governor_event *event)
{
	return event->type == VGPU_GOVERNOR_PROGRAMMED && event->error == 0;
}

uint32_t record_governor_size(const struct vgpu_governor_event *event, uint32_t max_vfs)
{
	if (has_policy(event))
		return (uint32_t)sizeof(struct record_policy_payload) + ROW * (1 + max_vfs);
	if (has_params(event))
		return ROW;
	if (has_counters(event))
		return max_vfs * (uint32_t)sizeof(uint64_t);
	return has_program(event) ? (1 + 2 * max_vfs) * (uint32_t)sizeof(uint64_t) : 0;
}

static void put_program(const struct vgpu_program *p, uint32_t max_vfs, uint64_t *words)
{
	uint32_t i;

	words[0] = p->keep_turns;
	for (i = 0; i < max_vfs; i++) {
		words[1 + 2 * i] = p->vfs[i].quantum;
		words[2 + 2 * i] = p->vfs[i].timeout;
	}
}

void record_governor_put(const struct vgpu_governor_event *event, uint32_t slot, uint32_t max_vfs,
			 uint8_t *to)
{
	struct record_policy_payload p = {.slot = slot};
	uint64_t words[RECORD_PROGRAM_WORDS];

	if (has_policy(event)) {
		memcpy(p.name, event->policy->name, sizeof(p.name));
		memcpy(to, &p, sizeof(p));
		to += sizeof(p);
		memcpy(to + ROW, event->vf_params, (size_t)ROW * max_vfs);
	}
	if (has_params(event))
		memcpy(to, event->params, ROW);
	if (has_counters(event))
		memcpy(to, event->active, max_vfs * sizeof(*event->active));
	if (has_program(event)) {
		put_program(event->applied, max_vfs, words);
		memcpy(to, words, (1 + 2 * max_vfs) * sizeof(*words));
	}
}

static bool get_policy(const uint8_t **from, uint32_t max_vfs, uint8_t *arena,
		       const struct vgpu_policy_ops *(*find)(const char *name),
		       struct record_governor_event *out)
{
	struct record_policy_payload p;

	memcpy(&p, *from, sizeof(p));
	*from += sizeof(p);
	p.name[sizeof(p.name) - 1] = '\0';
	out->event.policy = find(p.name);
	if (!out->event.policy || p.slot >= RECORD_SLOTS ||
	    out->event.policy->memory(max_vfs) > RECORD_SLOT_SIZE)
		return false;
	out->event.memory = arena + ARENA_SLOTS + p.slot * RECORD_SLOT_SIZE;
	memset(out->event.memory, 0, RECORD_SLOT_SIZE);
	memcpy(out->rows, *from + ROW, (size_t)ROW * max_vfs);
	out->event.vf_params = out->rows;
	return true;
}

static void get_program(const uint8_t *from, uint32_t max_vfs, struct vgpu_program *p)
{
	uint64_t words[RECORD_PROGRAM_WORDS];
	uint32_t i;

	memcpy(words, from, (1 + 2 * max_vfs) * sizeof(*words));
	*p = (struct vgpu_program){.keep_turns = words[0] != 0};
	for (i = 0; i < max_vfs; i++) {
		p->vfs[i].quantum = words[1 + 2 * i];
		p->vfs[i].timeout = words[2 + 2 * i];
	}
}

bool record_governor_get(const struct recording *r, const struct record_entry *e, uint8_t *arena,
			 const struct vgpu_policy_ops *(*find)(const char *name),
			 struct record_governor_event *out)
{
	struct vgpu_governor_event *event = &out->event;
	uint32_t n = r->header.max_vfs, size;
	const uint8_t *from;

	if (e->type < RECORD_OF_GOVERNOR ||
	    e->type - RECORD_OF_GOVERNOR >= VGPU_GOVERNOR_EVENT_COUNT)
		return false;
	*event = (struct vgpu_governor_event){
		.now = e->now,
		.type = (enum vgpu_governor_event_type)(e->type - RECORD_OF_GOVERNOR),
		.vf = e->vf,
		.owed = (vgpu_nsec)e->value,
		.error = (int)e->value,
	};
	size = record_governor_size(event, n);
	if (size == 0)
		return true;
	if (e->payload == 0 || (uint64_t)e->payload - 1 + size > r->header.payload_size)
		return false;
	from = r->payload + e->payload - 1;
	if (has_policy(event) && !get_policy(&from, n, arena, find, out))
		return false;
	if (has_params(event)) {
		memcpy(out->params, from, ROW);
		event->params = out->params;
	}
	if (has_counters(event)) {
		memcpy(out->active, from, size);
		event->active = out->active;
	}
	if (has_program(event)) {
		get_program(from, n, &out->applied);
		event->applied = &out->applied;
	}
	return true;
}

uint32_t record_governor_hash(int result, const struct vgpu_governor *g, uint32_t max_vfs,
			      const struct vgpu_governor_output *out)
{
	uint64_t head[] = {(uint64_t)(int64_t)result,
			   (uint64_t)out->read | (uint64_t)out->program << 1 |
				   (uint64_t)out->closed << 2 |
				   (uint64_t)(out->retired != NULL) << 3 |
				   (uint64_t)(out->says != NULL) << 4};
	uint64_t plan[RECORD_PROGRAM_WORDS], h = record_mix(RECORD_HASH_BEGIN, head, sizeof(head));
	struct vgpu_governed_epoch e;
	uint32_t i;

	if (out->program) {
		put_program(&out->plan, max_vfs, plan);
		h = record_mix(h, plan, (1 + 2 * max_vfs) * sizeof(*plan));
	}
	for (i = 0; i < max_vfs && out->closed; i++) {
		vgpu_governor_epoch(g, i, &e);
		uint64_t words[] = {e.state,
				    e.served,
				    e.late,
				    (uint64_t)e.owed,
				    e.ledger.charged,
				    (uint64_t)e.ledger.carry,
				    (uint64_t)e.ledger.lapsed};

		h = record_mix(h, words, sizeof(words));
	}
	return (uint32_t)h;
}
