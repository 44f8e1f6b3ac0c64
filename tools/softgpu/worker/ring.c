/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "forbear.h"
#include "futex.h"
#include "map.h"
#include "module.h"
#include "packet.h"
#include "piece.h"
#include "ring.h"
#include "vfio/thread.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

/* The expected time of all pieces in flight, at most; and how long a stop waits for them. */
#define IN_FLIGHT_NS (300 * VGPU_USEC)
#define STOP_WAIT_NS (300 * VGPU_USEC)
/* How long the thread polls without sleeping after the last progress; the bounds of a sleep; and
 * for a piece whose time is not known, which part of the time that it has run the thread sleeps. */
#define SPIN_NS (20 * VGPU_USEC)
#define SLEEP_PART 32
#define SLEEP_LEAST (10 * VGPU_USEC)
#define SLEEP_MOST (100 * VGPU_USEC)

/* A piece in flight. Pieces that the worker executes itself do not use their slot of the device's
 * queue. */
struct entry {
	struct piece piece;
	bool launched; /* false: it waits until the gate opens, or until it is at the head */
	bool skipped;  /* some of its blocks have not run */
	vgpu_nsec at;  /* time of its launch, or of its arrival at the head, without PAUSED */
	uint64_t rptr; /* behind its packet: later packets may have been read since */
	struct source *source;
};

/* Where packets come from: the VF's ring, or that of a slot. What a guest writes to a slot is read
 * once, when the slot is opened, but for ASKED and WPTR. */
struct source {
	struct softgpu_slot *slot; /* in the window; NULL: the VF's ring */
	uint64_t asked;
	bool open; /* packets are taken: always for the VF's ring; of a slot, until one is wrong */
	uint64_t base, n, rptr;
	uint64_t fence; /* the value of its last FENCE that was executed */
	struct piece_job job;
	enum softgpu_error bad; /* error of the current packet; reported after earlier packets */
	uint32_t in_flight;
};

struct ring {
	struct ring_setup setup;
	struct packet_limits limits;
	struct piece_space space;
	struct map map;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;

	/* protected by the lock */
	bool quit, running;
	bool continues; /* a run that was stopped hard has been drained: the next RUN continues it
			 */
	struct worker_message ended;

	/* read without the lock; STOP, FROZEN and SHUT are written with it */
	_Atomic uint32_t frozen; /* the run was stopped hard; the thread sleeps on this futex */
	_Atomic uint32_t stop;	 /* the run must stop; the thread sleeps on this futex */
	_Atomic bool shut;	 /* the gate is shut */
	_Atomic int dma;	 /* 1: the DMA piece is in progress; 0 or negative: its result */

	/* owned by the thread while it runs */
	uint64_t fence_at;
	struct source sources[DEVICE_SOURCES]; /* the VF's ring, and slots */
	uint32_t n_sources, turn;	       /* whose turn it is */
	bool fresh;			       /* the VF has a new context, which has no slots */
	bool prepared; /* the entry behind those in flight holds the next piece already */
	struct module_table *modules;
	struct entry entries[DEVICE_SLOTS];
	uint32_t head, in_flight;
	uint64_t serial;
	vgpu_nsec began;	     /* EVENT packets count from here */
	vgpu_nsec cost[KERNELS + 2]; /* recent time of a piece, for each kind */
	enum softgpu_error error;    /* error of a failed run: nothing runs any more */
	/* The piece at the head has no gate; and, without PAUSED, when it came to the head, and how
	 * long those in flight take from then on, 0: not known. They may be of different pieces:
	 * the wait of a stop has a bound of its own. */
	_Atomic bool ungated;
	_Atomic vgpu_nsec head_at, head_cost;
	/* How long the device was stopped hard, in total; since when it is stopped, VGPU_NEVER: it
	 * is not. Written by the control thread. */
	_Atomic vgpu_nsec paused, frozen_at;

	/* of the control thread */
	struct forbear forbear;
	vgpu_nsec wait_most; /* for work that is about to end, before a hard stop */
};

/* Returns the time, ns, by a clock that stands still while the device is stopped hard. */
static vgpu_nsec run_time(const struct ring *r)
{
	vgpu_nsec at = vgpu_now(), frozen_at = atomic_load(&r->frozen_at);

	return (at < frozen_at ? at : frozen_at) - atomic_load(&r->paused);
}

/* Returns how long ago AT was, by that clock. Just when the device is continued, the clock may be
 * behind. */
static vgpu_nsec ran_since(const struct ring *r, vgpu_nsec at)
{
	vgpu_nsec now = run_time(r);

	return now > at ? now - at : 0;
}

static struct entry *entry_at(struct ring *r, uint32_t i)
{
	return &r->entries[(r->head + i) % DEVICE_SLOTS];
}

static uint32_t slot_of(const struct ring *r, const struct entry *e)
{
	return (uint32_t)(e - r->entries);
}

static vgpu_nsec *cost_of(struct ring *r, const struct piece *p)
{
	if (p->kind == PIECE_KERNEL && p->gated)
		return &r->cost[p->kernel];
	return p->kind == PIECE_TRANSFER ? &r->cost[KERNELS] : NULL;
}

/* Moves the cost of E's kind by a quarter of the difference to what E took. A piece during which
 * the gate was shut is left out: it took longer than its work. */
static void learn(struct ring *r, const struct entry *e)
{
	vgpu_nsec *cost = cost_of(r, &e->piece), took = ran_since(r, e->at);

	if (r->shut)
		return;
	if (e->piece.kind == PIECE_FUNCTION && e->launched)
		module_learn(r->modules, e->piece.function, took);
	if (cost)
		*cost = *cost ? (*cost * 3 + took) / 4 : took;
}

static void write_fence(struct ring *r, const struct entry *e)
{
	struct worker_message m = {.type = WORKER_FENCE};
	struct softgpu_slot *slot = e->source->slot;
	const struct piece *p = &e->piece;

	/* The fence was valid when the packet was fetched, but each RUN sets its place anew. */
	if (!slot && !packet_fence_is_valid(&r->limits, r->fence_at)) {
		r->error = SOFTGPU_OUT_OF_RANGE;
		return;
	}
	__atomic_store_n(slot ? &slot->fence : (uint64_t *)(r->setup.window + r->fence_at),
			 p->value, __ATOMIC_RELEASE);
	e->source->fence = p->value;
	atomic_fetch_add(&r->setup.shared->fences, 1);
	if (p->flags & SOFTGPU_FENCE_INTERRUPT)
		r->setup.send(&m);
}

static void send_dma(struct ring *r, const struct piece *p)
{
	struct worker_message m = {
		.type = WORKER_DMA,
		.dma = {.at = p->dst, .iova = p->src, .bytes = p->bytes, .out = p->flags},
	};

	atomic_store(&r->dma, 1);
	r->setup.send(&m);
}

/* Writes that a packet with the flag REPORT was wrong to AT, which the packet's check has found in
 * the window. */
static void report(struct ring *r, uint64_t at, enum softgpu_error error)
{
	__atomic_store_n((uint64_t *)(r->setup.window + at), (uint64_t)error, __ATOMIC_RELEASE);
}

/* Notes that the device has failed. Called for each piece in flight; the device's assertion message
 * is fetched only once. */
static void lose(struct ring *r, enum device_state state)
{
	struct worker_shared *shared = r->setup.shared;

	if (state == DEVICE_ASSERTED && r->error != SOFTGPU_ASSERTED)
		r->setup.ops->last_words(r->setup.device, shared->words, sizeof(shared->words));
	r->error = state == DEVICE_BAD_ADDRESS ? SOFTGPU_BAD_ADDRESS
		   : state == DEVICE_ASSERTED  ? SOFTGPU_ASSERTED
					       : SOFTGPU_FAULTED;
}

/* Puts a piece that the device executes into its queue. */
static void launch(struct ring *r, struct entry *e)
{
	int x = r->setup.ops->launch(r->setup.device, slot_of(r, e), &e->piece);

	e->skipped = false;
	if (x == -EINVAL && e->piece.kind == PIECE_FUNCTION && e->piece.report != UINT64_MAX)
		report(r, e->piece.report, SOFTGPU_BAD_LAUNCH);
	else if (x == -EINVAL)
		e->source->bad = SOFTGPU_BAD_LAUNCH;
	else if (x < 0)
		lose(r, x == -EFAULT	  ? DEVICE_BAD_ADDRESS
			: x == -ECANCELED ? DEVICE_ASSERTED
					  : DEVICE_LOST);
	e->launched = x == 0;
	e->at = run_time(r);
}

/* Executes the piece at the head if it is the worker's own. Returns the state of the piece. */
static enum device_state advance_head(struct ring *r)
{
	struct entry *e = entry_at(r, 0);
	int dma;

	switch (e->piece.kind) {
	case PIECE_FENCE:
		write_fence(r, e);
		return DEVICE_DONE;
	case PIECE_EVENT:
		__atomic_store_n((uint64_t *)(r->setup.window + e->piece.dst),
				 vgpu_now() - r->began, __ATOMIC_RELEASE);
		return DEVICE_DONE;
	case PIECE_DMA:
		if (!e->launched) {
			e->launched = true;
			send_dma(r, &e->piece);
		}
		dma = atomic_load(&r->dma);
		if (dma < 0 && e->source->slot) {
			e->source->bad = SOFTGPU_DMA_FAULT;
		} else if (dma < 0) {
			r->error = SOFTGPU_DMA_FAULT;
			e->source->rptr = e->rptr;
		}
		return dma == 1 ? DEVICE_RUNNING : DEVICE_DONE;
	default:
		if (e->skipped)
			return DEVICE_SKIPPED;
		return e->launched ? r->setup.ops->poll(r->setup.device, slot_of(r, e))
				   : DEVICE_DONE;
	}
}

/* Removes pieces that are done. Returns the state of the piece that is at the head then; DONE if
 * there is none. */
static enum device_state collect(struct ring *r)
{
	enum device_state state = DEVICE_DONE;

	while (r->in_flight > 0 && r->error == SOFTGPU_OK) {
		state = advance_head(r);
		if (state != DEVICE_DONE)
			break;
		learn(r, entry_at(r, 0));
		entry_at(r, 0)->source->in_flight--;
		r->head++;
		r->in_flight--;
		if (r->in_flight > 0)
			entry_at(r, 0)->at = run_time(r); /* the ring has the device from now on */
	}
	return r->in_flight == 0 ? DEVICE_DONE : state;
}

/* With the gate shut, or after an error: notes what has become of each piece in flight. Returns
 * false if one still runs. No piece has run after the first one that was skipped, so the gate must
 * stay shut until all states are noted. */
static bool note_states(struct ring *r)
{
	enum device_state state;
	struct entry *e;
	uint32_t i;

	for (i = 0; i < r->in_flight; i++) {
		e = entry_at(r, i);
		if (e->piece.kind >= PIECE_DMA || e->skipped)
			continue;
		state = r->setup.ops->poll(r->setup.device, slot_of(r, e));
		switch (state) {
		case DEVICE_RUNNING:
			return false;
		case DEVICE_LOST:
		case DEVICE_BAD_ADDRESS:
		case DEVICE_ASSERTED:
			lose(r, state);
			break;
		case DEVICE_SKIPPED:
			e->skipped = true;
			break;
		case DEVICE_DONE: /* not skipped, so it is not launched again */
			break;
		}
	}
	return true;
}

/* Opens the gate and launches skipped pieces again, unless another stop has come already. */
static void reopen(struct ring *r)
{
	uint32_t i;

	pthread_mutex_lock(&r->lock);
	if (!atomic_load(&r->stop)) {
		r->setup.ops->gate(r->setup.device, false);
		r->shut = false;
	}
	pthread_mutex_unlock(&r->lock);
	if (r->shut)
		return;
	for (i = 0; i < r->in_flight && r->error == SOFTGPU_OK; i++)
		if (entry_at(r, i)->skipped)
			launch(r, entry_at(r, i));
}

static uint64_t wptr_of(struct ring *r, const struct source *s)
{
	return s->slot ? __atomic_load_n(&s->slot->wptr, __ATOMIC_ACQUIRE)
		       : atomic_load(&r->setup.shared->wptr);
}

static uint32_t number_of(const struct ring *r, const struct source *s)
{
	return (uint32_t)(s - r->sources);
}

/* Returns what packets of S may access. What is mapped when they are fetched stays mapped
 * until they are done. */
static struct packet_limits limits_of(const struct ring *r, const struct source *s)
{
	struct packet_limits l = r->limits;

	map_limit(&r->map, number_of(r, s), &l);
	return l;
}

/* Returns the source for which an AWAIT waits. */
static const struct source *awaited(const struct ring *r, const struct source *s)
{
	return &r->sources[1 + s->job.packet.arg[0]];
}

/* Checks an AWAIT: it is refused in the VF's own ring, where it could block SLOTS for ever, and in
 * a slot that waits for itself. */
static enum softgpu_error check_await(const struct ring *r, const struct source *s)
{
	if (!s->slot)
		return SOFTGPU_BAD_OPCODE;
	return awaited(r, s) == s ? SOFTGPU_BAD_ARGUMENT : SOFTGPU_OK;
}

/* Returns whether S waits for another slot. What it compares is the worker's own: a guest can write
 * to a slot. */
static bool awaits(const struct ring *r, const struct source *s)
{
	const struct softgpu_packet *p = &s->job.packet;
	const struct source *other;

	if (!s->job.active || s->bad != SOFTGPU_OK || p->opcode != SOFTGPU_AWAIT)
		return false;
	other = awaited(r, s);
	return other->open && other->asked == p->arg[1] && other->fence < p->arg[2];
}

/* Takes the packet before WPTR: copies it first and checks the copy, so that the guest cannot
 * change it after the check. */
static void fetch(struct ring *r, struct source *s, uint64_t wptr)
{
	const struct packet_limits limits = limits_of(r, s);
	uint64_t at;

	if (!packet_ring_is_valid(&r->limits, s->base, s->n) || wptr - s->rptr > s->n) {
		s->bad = SOFTGPU_BAD_RING;
		return;
	}
	at = s->rptr & (s->n - 1);
	s->job = (struct piece_job){.active = true};
	memcpy(&s->job.packet, r->setup.window + s->base + at * sizeof(s->job.packet),
	       sizeof(s->job.packet));
	s->rptr++;
	s->bad = packet_check(&limits, &s->job.packet);
	if (s->slot &&
	    (s->job.packet.opcode == SOFTGPU_SLOTS || s->job.packet.opcode == SOFTGPU_ENDLESS))
		s->bad = SOFTGPU_BAD_OPCODE;
	if (s->bad == SOFTGPU_OK && s->job.packet.opcode == SOFTGPU_AWAIT)
		s->bad = check_await(r, s);
	if (s->bad == SOFTGPU_OK && s->job.packet.opcode == SOFTGPU_FENCE && !s->slot &&
	    !packet_fence_is_valid(&r->limits, r->fence_at))
		s->bad = SOFTGPU_OUT_OF_RANGE;
}

static uint64_t asked_of(const struct source *s)
{
	return s->slot ? __atomic_load_n(&s->slot->asked, __ATOMIC_ACQUIRE) : s->asked;
}

/* Unmaps all that S has mapped. */
static void close_map(struct ring *r, const struct source *s)
{
	if (map_close(&r->map, number_of(r, s)) < 0)
		r->error = SOFTGPU_FAULTED;
}

/* Forgets all of a slot, while the device executes nothing. */
static void forget(struct ring *r, struct source *s)
{
	module_close(r->modules, number_of(r, s));
	close_map(r, s);
	*s = (struct source){.slot = s->slot};
}

/* Opens a slot whose guest has asked for it, or closes it. */
static void answer(struct ring *r, struct source *s)
{
	uint64_t asked = asked_of(s);
	bool valid;

	forget(r, s);
	s->asked = asked;
	s->base = __atomic_load_n(&s->slot->ring, __ATOMIC_RELAXED);
	s->n = __atomic_load_n(&s->slot->packets, __ATOMIC_RELAXED);
	valid = packet_ring_is_valid(&r->limits, s->base, s->n);
	s->open = asked && valid;
	__atomic_store_n(&s->slot->error, asked && !valid ? SOFTGPU_BAD_RING : SOFTGPU_OK,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&s->slot->fence, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&s->slot->awake, s->open, __ATOMIC_RELAXED);
	__atomic_store_n(&s->slot->answered, asked, __ATOMIC_RELEASE);
}

/* Makes N slots, all of them closed, of the table at AT. */
static void make_slots(struct ring *r, uint64_t at, uint64_t n)
{
	struct softgpu_slot *slots = (struct softgpu_slot *)(r->setup.window + at);
	uint32_t i;

	for (i = 1; i < DEVICE_SOURCES; i++) {
		forget(r, &r->sources[i]);
		r->sources[i].slot = i <= n ? slots + (i - 1) : NULL;
	}
	r->n_sources = 1 + (uint32_t)n;
	if (r->turn > 0)
		r->prepared = false;
	r->turn = 0;
	r->fresh = false;
}

/* Returns whether one more piece may follow those in flight. Pieces with a gate and pieces without
 * are never in flight together: one without a gate would run before one that was skipped. */
static bool fits(struct ring *r, const struct piece *p)
{
	vgpu_nsec sum = p->cost;
	uint32_t i;

	if (r->in_flight == 0)
		return true;
	for (i = 0; i < r->in_flight; i++) {
		const struct piece *q = &entry_at(r, i)->piece;

		if (q->kind == PIECE_DMA || p->kind == PIECE_DMA)
			return false;
		if (q->kind < PIECE_DMA && p->kind < PIECE_DMA && q->gated != p->gated)
			return false;
		if (q->kind < PIECE_DMA && (q->cost == 0 || p->cost == 0) && p->kind < PIECE_DMA)
			return false;
		sum += q->cost;
	}
	return sum <= IN_FLIGHT_NS;
}

enum next { NEXT_PIECE = 0, NEXT_NONE, NEXT_LATER, NEXT_AGAIN, NEXT_AWAITS };

/* Executes a part of a packet about the arena. */
static enum next next_mapping(struct ring *r, struct source *s)
{
	const struct softgpu_packet *p = &s->job.packet;
	int x;

	if (r->in_flight > 0)
		return NEXT_LATER;
	x = map_packet(&r->map, number_of(r, s), &s->job, r->setup.window);
	if (x == -SOFTGPU_FAULTED)
		r->error = SOFTGPU_FAULTED;
	else if (x < 0 && p->flags & SOFTGPU_REPORT)
		report(r, p->arg[6], (enum softgpu_error)(-x));
	else if (x < 0)
		s->bad = (enum softgpu_error)(-x);
	return x == MAP_MORE ? NEXT_AGAIN : NEXT_NONE;
}

/* Makes the next piece of the current packet of S. Returns NEXT_NONE: it has no more. NEXT_LATER:
 * try again when the compiler is done, or the pieces in flight are. NEXT_AGAIN: at once.
 * NEXT_AWAITS: when another slot has gone on. */
static enum next next_piece(struct ring *r, struct source *s, struct piece *p)
{
	const struct softgpu_packet *packet = &s->job.packet;
	const struct packet_limits limits = limits_of(r, s);
	vgpu_nsec *cost;
	int x;

	if (packet->opcode == SOFTGPU_SLOTS) {
		if (r->in_flight > 0)
			return NEXT_LATER;
		make_slots(r, packet->arg[0], packet->arg[1]);
		return NEXT_NONE;
	}
	if (packet->opcode == SOFTGPU_AWAIT)
		return awaits(r, s) ? NEXT_AWAITS : NEXT_NONE;
	if (map_executes(packet->opcode))
		return next_mapping(r, s);
	if (!module_executes(packet->opcode)) {
		if (!piece_next(&s->job, &r->space, p))
			return NEXT_NONE;
		cost = cost_of(r, p);
		p->cost = cost ? *cost : 0;
		return NEXT_PIECE;
	}
	if (r->in_flight > 0 && module_must_settle(r->modules, number_of(r, s), packet))
		return NEXT_LATER;
	x = module_packet(r->modules, number_of(r, s), &s->job, &limits, &r->space, r->setup.window,
			  p);
	if (x == MODULE_PIECE) {
		cost = cost_of(r, p);
		p->cost = cost ? *cost : p->cost;
		return NEXT_PIECE;
	}
	/* A negative result is of MODULE_LOAD, LAUNCH or SYMBOL_COPY only, whose place for a report
	 * has been checked. */
	if (x < 0 && packet->flags & SOFTGPU_REPORT)
		report(r, packet->arg[6], (enum softgpu_error)(-x));
	else if (x < 0)
		s->bad = (enum softgpu_error)(-x);
	return x == MODULE_COMPILES ? NEXT_LATER : NEXT_NONE;
}

enum step { STEP_MORE = 0, STEP_WAIT, STEP_END };

/* Ends S with an error: its current packet is wrong, and all before it are done. */
static enum step fail(struct ring *r, struct source *s)
{
	if (!s->slot) {
		r->error = s->bad;
		return STEP_END;
	}
	s->open = s->job.active = false;
	r->prepared = false; /* it would be a piece of this packet, or of one behind it */
	__atomic_store_n(&s->slot->error, (uint64_t)s->bad, __ATOMIC_RELEASE);
	s->bad = SOFTGPU_OK;
	return STEP_MORE;
}

/* Puts the next piece of the current packet of S into the queue if it fits. */
static enum step put_piece(struct ring *r, struct source *s)
{
	struct entry *e = entry_at(r, r->in_flight);

	if (r->in_flight == DEVICE_SLOTS)
		return STEP_WAIT;
	switch (r->prepared ? NEXT_PIECE : next_piece(r, s, &e->piece)) {
	case NEXT_PIECE:
		break;
	case NEXT_NONE:
		s->job.active = false;
		r->turn = (r->turn + 1) % r->n_sources;
		return STEP_MORE;
	case NEXT_LATER:
		return r->in_flight > 0 ? STEP_WAIT : STEP_END;
	case NEXT_AGAIN:
		return STEP_MORE;
	case NEXT_AWAITS:
		return STEP_END;
	}
	r->prepared = true;
	if (!fits(r, &e->piece))
		return STEP_WAIT;
	r->prepared = false;
	e->piece.serial = ++r->serial;
	e->rptr = s->rptr;
	e->source = s;
	e->skipped = false;
	e->launched = false;
	r->in_flight++;
	s->in_flight++;
	if (e->piece.kind < PIECE_DMA)
		launch(r, e);
	return STEP_MORE;
}

/* Takes the next packet of S, or puts its next piece into the queue. Returns STEP_MORE: call again;
 * STEP_WAIT: wait for pieces in flight; STEP_END: it has no work, or waits for the compiler or
 * another slot. */
static enum step feed_from(struct ring *r, struct source *s)
{
	uint64_t wptr;

	if (asked_of(s) != s->asked) {
		if (r->in_flight > 0)
			return STEP_WAIT;
		r->prepared = false;
		answer(r, s);
		r->turn = (r->turn + 1) % r->n_sources; /* one ring could ask again and again */
		return STEP_MORE;
	}
	if (!s->open)
		return STEP_END;
	if (s->bad != SOFTGPU_OK)
		return s->in_flight > 0 ? STEP_WAIT : fail(r, s);
	if (s->job.active)
		return put_piece(r, s);
	wptr = wptr_of(r, s);
	if (wptr == s->rptr)
		return STEP_END;
	fetch(r, s, wptr);
	return STEP_MORE;
}

/* Goes on with the packet of the ring whose turn it is; when that is done, or cannot go on, with
 * the next ring's. STEP_END: no ring has work. */
static enum step feed(struct ring *r)
{
	enum step step = STEP_END;
	uint32_t i;

	if (r->fresh && r->in_flight > 0)
		return STEP_WAIT;
	if (r->fresh) {
		close_map(r, &r->sources[0]);
		module_forget_output(r->modules, 0);
		make_slots(r, 0, 0);
	}
	for (i = 0; i < r->n_sources && step == STEP_END && r->error == SOFTGPU_OK; i++) {
		step = feed_from(r, &r->sources[r->turn]);
		if (step == STEP_END)
			r->turn = (r->turn + 1) % r->n_sources;
	}
	return step == STEP_END && r->in_flight > 0 ? STEP_WAIT : step;
}

/* Returns whether S has work, a module that is being compiled included. A source that waits for
 * another slot has none; it continues when that slot does. */
static bool source_has_work(struct ring *r, const struct source *s)
{
	if (asked_of(s) != s->asked || s->in_flight > 0)
		return true;
	return s->open && !awaits(r, s) && (s->job.active || (s->slot && wptr_of(r, s) != s->rptr));
}

/* Returns whether a packet, or the opening of a slot, has come since S was looked at. */
static bool source_has_news(struct ring *r, const struct source *s)
{
	return asked_of(s) != s->asked || (s->open && !s->job.active && wptr_of(r, s) != s->rptr);
}

/* Returns whether IS returns true for one of the rings. */
static bool any_source(struct ring *r, bool (*is)(struct ring *r, const struct source *s))
{
	const struct source *s;

	for (s = r->sources; s < r->sources + r->n_sources; s++)
		if (is(r, s))
			return true;
	return false;
}

/* Tells guests whether their slots' WPTR are looked at. */
static void show_awake(struct ring *r, bool awake)
{
	const struct source *s;

	for (s = r->sources; s < r->sources + r->n_sources; s++)
		if (s->slot && s->open)
			__atomic_store_n(&s->slot->awake, awake, __ATOMIC_RELAXED);
}

/* Returns the expected time of the pieces from the head to the next one whose end must be reported
 * at once, or to the last in flight; 0: unknown. The end of other pieces may be noticed later: the
 * device continues. */
static vgpu_nsec expected(struct ring *r)
{
	const struct piece *p = &entry_at(r, 0)->piece;
	vgpu_nsec sum = p->cost;
	uint32_t i;

	for (i = 1; i < r->in_flight && sum > 0; i++) {
		p = &entry_at(r, i)->piece;
		if (p->kind >= PIECE_DMA && (p->kind != PIECE_FENCE || p->flags))
			break;
		if (p->kind < PIECE_DMA)
			sum = p->cost ? sum + p->cost : 0;
	}
	return sum;
}

/* Returns how long to sleep before the head is polled again, if it has run for RAN: half of the
 * time until there is something to do, COST after it began. If that is not known, or exceeded
 * twice, a part of RAN. */
static vgpu_nsec sleep_time(const struct ring *r, vgpu_nsec cost, vgpu_nsec ran)
{
	vgpu_nsec sleep = 0;

	if (cost == 0 || ran > 2 * cost)
		sleep = ran / SLEEP_PART;
	else if (ran < cost)
		sleep = (cost - ran) / 2;
	if (sleep < SLEEP_LEAST || r->shut)
		return SLEEP_LEAST;
	return sleep < SLEEP_MOST ? sleep : SLEEP_MOST;
}

/* Sleeps before the next poll. A stop, or the end of a DMA piece, ends the sleep. SINCE: when the
 * last progress was made. While the device is stopped hard there is nothing to poll: the next run
 * ends the sleep. */
static void wait_for_progress(struct ring *r, vgpu_nsec since)
{
	const struct entry *e = entry_at(r, 0);
	vgpu_nsec at = vgpu_now(), ran = ran_since(r, e->at), cost = expected(r);
	struct timespec t = {.tv_nsec = (long)sleep_time(r, cost, ran)};

	if (atomic_load(&r->frozen))
		futex(&r->frozen, FUTEX_WAIT, 1, NULL);
	else if (at - since > SPIN_NS || cost > ran + SPIN_NS)
		futex(&r->stop, FUTEX_WAIT, r->shut ? atomic_load(&r->stop) : 0, &t);
}

/* Called with the lock held. */
static void thaw(struct ring *r)
{
	if (atomic_load(&r->frozen))
		atomic_fetch_add(&r->paused, vgpu_now() - atomic_load(&r->frozen_at));
	atomic_store(&r->frozen_at, VGPU_NEVER);
	atomic_store(&r->frozen, 0);
	futex(&r->frozen, FUTEX_WAKE, 1, NULL);
}

static void wake_thread(struct ring *r)
{
	futex(&r->stop, FUTEX_WAKE, 1, NULL);
}

/* Tells ring_stop() how long the pieces in flight take. */
static void note_head(struct ring *r)
{
	const struct entry *e = entry_at(r, 0);
	vgpu_nsec cost = e->piece.cost;
	uint32_t i;

	for (i = 1; i < r->in_flight && cost > 0; i++)
		cost += entry_at(r, i)->piece.cost;
	atomic_store(&r->head_at, e->at);
	atomic_store(&r->head_cost, cost);
	atomic_store(&r->ungated, r->in_flight > 0 && e->piece.kind < PIECE_DMA && !e->piece.gated);
}

/* Executes packets until there are none, the run must stop, or a packet or the device has failed. A
 * run whose packet was wrong ends when the device is done with those of other rings: what still ran
 * after its end would run in other VFs' slices. */
static enum worker_end pump(struct ring *r)
{
	vgpu_nsec since = vgpu_now();
	enum device_state state;
	enum step step;

	module_go_on(r->modules);
	for (;;) {
		uint32_t before = r->in_flight;

		state = collect(r);
		if (state >= DEVICE_LOST) {
			lose(r, state);
			return WORKER_LOST;
		}
		atomic_store(&r->setup.shared->rptr_begun, r->sources[0].rptr);
		note_head(r);
		if (r->in_flight != before)
			since = vgpu_now();
		if (r->shut || r->error != SOFTGPU_OK) {
			if (!note_states(r)) {
				wait_for_progress(r, since);
				continue;
			}
			if (r->error != SOFTGPU_OK)
				return WORKER_FAILED;
			collect(r); /* some may have ended since */
			if (r->error != SOFTGPU_OK)
				continue;
			if (atomic_load(&r->stop))
				return WORKER_STOPPED;
			reopen(r);
			continue;
		}
		if (atomic_load(&r->stop))
			continue; /* ring_stop() is shutting the gate */
		step = feed(r);
		if (r->error != SOFTGPU_OK)
			continue;
		if (step == STEP_END) {
			if (!module_wait(r->modules) && vgpu_now() - since < r->setup.linger)
				continue;
			return WORKER_IDLE;
		}
		if (step == STEP_WAIT)
			wait_for_progress(r, since);
	}
}

/* Returns whether the run was stopped between blocks of a piece. */
static bool has_skipped(struct ring *r)
{
	uint32_t i;

	for (i = 0; i < r->in_flight; i++)
		if (entry_at(r, i)->skipped)
			return true;
	return false;
}

void ring_execute(struct ring *r)
{
	enum worker_end end;

	show_awake(r, true);
	end = pump(r);
	show_awake(r, false);
	/* Either this thread sees the packets that a guest has written, or the guest sees that it
	 * must ring. */
	atomic_thread_fence(memory_order_seq_cst);
	pthread_mutex_lock(&r->lock);
	r->running = false;
	r->ended.ended.heard = atomic_load(&r->setup.shared->bell);
	r->ended.type = WORKER_ENDED;
	r->ended.ended.end = end;
	r->ended.ended.error = r->error;
	r->ended.ended.level = has_skipped(r) ? SOFTGPU_PREEMPT_BLOCK : SOFTGPU_PREEMPT_TILE;
	r->ended.ended.active = any_source(r, source_has_work);
	if (any_source(r, source_has_news))
		module_go_on(r->modules); /* the VF does not wait for the compiler alone */
	r->ended.ended.rptr = r->sources[0].rptr;
	vgpu_eventfd_signal(r->setup.event_fd);
	pthread_mutex_unlock(&r->lock);
}

static void *work(void *arg)
{
	struct ring *r = arg;

	pthread_mutex_lock(&r->lock);
	while (!r->quit) {
		if (!r->running) {
			pthread_cond_wait(&r->cond, &r->lock);
			continue;
		}
		pthread_mutex_unlock(&r->lock);
		ring_execute(r);
		pthread_mutex_lock(&r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

struct ring *ring_create(const struct ring_setup *setup)
{
	struct ring *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->setup = *setup;
	r->began = vgpu_now();
	r->frozen_at = VGPU_NEVER;
	r->sources[0].open = true;
	r->n_sources = 1;
	r->limits = (struct packet_limits){.window = setup->window_size,
					   .size = setup->size,
					   .modules = setup->modules};
	map_init(&r->map, setup->ops, setup->device, setup->window_size);
	r->space = (struct piece_space){
		.window_at = setup->ops->address(setup->device, 0),
		.window_size = setup->window_size,
		.scratch = setup->ops->scratch(setup->device),
	};
	if (setup->size > setup->window_size)
		r->space.memory_at = setup->ops->address(setup->device, setup->window_size);
	if (r->map.arena)
		r->space.arena_at = r->map.arena->at;
	r->modules = module_table_create(setup->ops, setup->device, setup->shared, setup->wake);
	vfio_mutex_init(&r->lock); /* ring_stop() must not wait for a thread that has no CPU */
	pthread_cond_init(&r->cond, NULL);
	if (!r->modules || (!setup->no_thread && pthread_create(&r->thread, NULL, work, r) != 0)) {
		module_table_destroy(r->modules);
		free(r);
		return NULL;
	}
	return r;
}

void ring_destroy(struct ring *r)
{
	uint32_t i;

	pthread_mutex_lock(&r->lock);
	r->quit = true;
	r->setup.ops->gate(r->setup.device, true);
	r->shut = true;
	atomic_store(&r->stop, true);
	atomic_store(&r->dma, 0);
	thaw(r);
	pthread_cond_signal(&r->cond);
	pthread_mutex_unlock(&r->lock);
	wake_thread(r);
	if (!r->setup.no_thread)
		pthread_join(r->thread, NULL);
	for (i = 0; i < DEVICE_SOURCES && r->in_flight == 0; i++)
		map_close(&r->map, i);
	module_table_destroy(r->modules);
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->cond);
	free(r);
}

void ring_run(struct ring *r, const struct worker_message *m)
{
	bool continues;

	pthread_mutex_lock(&r->lock);
	continues = atomic_load(&r->frozen) || r->continues;
	r->continues = false;
	r->wait_most = 2 * VGPU_USEC * m->run.stop_us;
	if (r->wait_most < STOP_WAIT_NS)
		r->wait_most = STOP_WAIT_NS;
	r->ended.serial = m->serial;
	atomic_store(&r->stop, false);
	thaw(r);
	if (continues && !r->running && r->ended.ended.end >= WORKER_FAILED) {
		/* The run has failed while it was stopped: it is over now. */
		vgpu_eventfd_signal(r->setup.event_fd);
	} else if (!r->running) {
		struct source *own = &r->sources[0];

		own->base = m->run.ring_base;
		own->n = m->run.ring_size;
		/* The thread of a run that was stopped hard may have gone on to fetch a packet:
		 * then it knows better than ring_freeze() did how far it is. */
		if (!continues)
			own->rptr = m->run.rptr;
		r->fresh = !continues && m->run.rptr == 0;
		r->fence_at = m->run.fence_at;
		r->running = true;
		pthread_cond_signal(&r->cond);
	}
	pthread_mutex_unlock(&r->lock);
}

bool ring_compiles(const struct ring *r)
{
	return module_compiles(r->modules);
}

vgpu_nsec ring_stop(struct ring *r)
{
	vgpu_nsec ran;

	pthread_mutex_lock(&r->lock);
	atomic_store(&r->stop, true);
	r->setup.ops->gate(r->setup.device, true);
	r->shut = true;
	pthread_mutex_unlock(&r->lock);
	wake_thread(r);
	if (!atomic_load(&r->ungated))
		return STOP_WAIT_NS;
	ran = ran_since(r, atomic_load(&r->head_at));
	return forbear_wait(&r->forbear, forbear_rest(atomic_load(&r->head_cost), ran),
			    r->wait_most);
}

bool ring_end(struct ring *r, struct worker_message *m)
{
	bool over;

	pthread_mutex_lock(&r->lock);
	over = !r->running && !atomic_load(&r->frozen);
	*m = r->ended;
	pthread_mutex_unlock(&r->lock);
	if (over)
		forbear_over(&r->forbear, true);
	return over;
}

bool ring_freeze(struct ring *r, enum softgpu_preempt level, struct worker_message *m)
{
	bool frozen;

	pthread_mutex_lock(&r->lock);
	frozen = r->running;
	atomic_store(&r->frozen, frozen);
	*m = r->ended;
	if (frozen)
		m->ended = (struct worker_ended){
			.end = WORKER_STOPPED,
			.level = level,
			.active = true,
			.rptr = atomic_load(&r->setup.shared->rptr_begun),
		};
	m->type = WORKER_ENDED;
	if (frozen)
		atomic_store(&r->frozen_at, vgpu_now());
	pthread_mutex_unlock(&r->lock);
	forbear_over(&r->forbear, !frozen);
	return frozen;
}

void ring_drain(struct ring *r)
{
	pthread_mutex_lock(&r->lock);
	r->continues = true;
	thaw(r);
	pthread_mutex_unlock(&r->lock);
}

bool ring_is_still(struct ring *r)
{
	bool still;

	pthread_mutex_lock(&r->lock);
	still = !r->running;
	pthread_mutex_unlock(&r->lock);
	return still;
}

void ring_dma_done(struct ring *r, int result)
{
	atomic_store(&r->dma, result);
	wake_thread(r);
}
