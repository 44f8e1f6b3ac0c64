/* SPDX-License-Identifier: MIT */
/*
 * Events that several processes of a VF know. An event stands for a fence: that of the process
 * which has recorded it last. Each process writes words of its own, one at a time, so that one may
 * be killed between any two: there is no state in between that others could not read. What is read
 * may be anything that a process of the VF has written.
 */
#include <errno.h>
#include <stdatomic.h>

#include "guest_private.h"

/* Returns a word that no other event of this VF has ever: the number that a slot would be given
 * now, and its slot. */
static uint64_t new_owner(struct guest *g)
{
	return share_number(g) << 4 | (1 + g->share.own);
}

static struct shared_event *find(const struct guest *g, const struct guest_event *e)
{
	struct shared_event *s;

	if (e->number >= g->share.n_events)
		return NULL;
	s = &g->share.events[e->number];
	return atomic_load(&s->owner) == e->owner ? s : NULL;
}

int guest_event_make(struct guest *g, struct guest_event *out)
{
	const uint64_t owner = new_owner(g);
	struct shared_event *s;
	uint64_t i, none;
	uint32_t slot;

	for (i = 0; i < g->share.n_events; i++) {
		none = 0;
		s = &g->share.events[i];
		if (!atomic_compare_exchange_strong(&s->owner, &none, owner))
			continue;
		atomic_store(&s->last, 0);
		for (slot = 0; slot < SOFTGPU_MAX_SLOTS; slot++)
			atomic_store(&s->records[slot].fence, 0);
		*out = (struct guest_event){i, owner};
		return 0;
	}
	return -ENOSPC;
}

void guest_event_end(struct guest *g, const struct guest_event *e)
{
	struct shared_event *s = find(g, e);
	uint64_t owner = e->owner;

	if (s)
		atomic_compare_exchange_strong(&s->owner, &owner, 0);
}

bool guest_event_is(struct guest *g, const struct guest_event *e)
{
	return e->owner != 0 && find(g, e) != NULL;
}

bool guest_event_is_own(struct guest *g, const struct guest_event *e)
{
	return (e->owner & 15) == 1 + g->share.own;
}

void guest_event_record(struct guest *g, const struct guest_event *e, uint64_t fence)
{
	struct shared_event *s = find(g, e);

	if (!s)
		return;
	atomic_store(&s->records[g->share.own].fence, fence);
	atomic_store(&s->records[g->share.own].asked, g->share.opened);
	atomic_store(&s->last, 1 + g->share.own);
}

bool guest_event_last(struct guest *g, const struct guest_event *e, struct guest_fence *out)
{
	const struct shared_event *s = find(g, e);
	uint32_t last = s ? atomic_load(&s->last) : 0;

	if (last == 0 || last > SOFTGPU_MAX_SLOTS)
		return false;
	out->slot = last - 1;
	out->asked = atomic_load(&s->records[out->slot].asked);
	out->value = atomic_load(&s->records[out->slot].fence);
	return true;
}

void events_end_all(struct guest *g, uint32_t slot)
{
	uint64_t owner;
	uint32_t i;

	for (i = 0; i < g->share.n_events; i++) {
		owner = atomic_load(&g->share.events[i].owner);
		if ((owner & 15) == 1 + slot)
			atomic_compare_exchange_strong(&g->share.events[i].owner, &owner, 0);
	}
}
