/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "futex.h"
#include "module.h"
#include "packet.h"
#include "piece.h"
#include "ring.h"
#include "vgpu/clock.h"

/* What may be in flight, by what it is expected to take; and what a stop waits for it, at most. */
#define IN_FLIGHT_NS (300 * VGPU_USEC)
#define STOP_WAIT_NS (300 * VGPU_USEC)
/* How long a piece is looked for without sleeping; bounds of a sleep, and what part it is of the
 * time that a piece has run which nobody knows. */
#define SPIN_NS (20 * VGPU_USEC)
#define SLEEP_PART 32
#define SLEEP_LEAST (10 * VGPU_USEC)
#define SLEEP_MOST (100 * VGPU_USEC)

/* A piece on its way. Those that no device executes have no slot in its queue. */
struct entry {
	struct piece piece;
	bool launched; /* or waits for the gate to open, or for its turn */
	bool skipped;  /* some of its blocks have yet to run */
	vgpu_nsec at;
	uint64_t rptr; /* behind its packet: more have been taken in since */
};

struct ring {
	struct ring_setup setup;
	struct packet_limits limits;
	struct piece_space space;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;

	/* under the lock */
	bool quit, running;
	bool frozen; /* the run was stopped hard: its thread is in the middle of it */
	struct worker_message ended;

	/* The run is to stop (the thread sleeps on it); the gate is shut: set under the lock. */
	_Atomic uint32_t stop;
	_Atomic bool shut;
	_Atomic int dma; /* 1: on its way; 0 or negative: its result */

	/* the thread's, while it runs */
	uint64_t base, n, rptr, fence_at;
	struct piece_job job;
	bool prepared; /* the entry behind those in flight is the next piece */
	struct module_table *modules;
	struct entry entries[DEVICE_SLOTS];
	uint32_t head, in_flight;
	uint64_t serial;
	vgpu_nsec began;	     /* what events count from */
	vgpu_nsec cost[KERNELS + 2]; /* of a piece of a kind, as it was lately */
	enum softgpu_error bad;	     /* the packet at hand is: after what is before it */
	enum softgpu_error error;    /* a run has failed: nothing runs any more */
	_Atomic bool waited_for;     /* the head has no gate, and may take longer than a stop may */
};

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

/* A quarter of what was measured counts at once; what was stopped meanwhile says nothing. */
static void learn(struct ring *r, const struct entry *e)
{
	vgpu_nsec *cost = cost_of(r, &e->piece), took = vgpu_now() - e->at;

	if (r->shut)
		return;
	if (e->piece.kind == PIECE_FUNCTION)
		module_learn(r->modules, e->piece.function, took);
	if (cost)
		*cost = *cost ? (*cost * 3 + took) / 4 : took;
}

static void fence(struct ring *r, const struct piece *p)
{
	struct worker_message m = {.type = WORKER_FENCE};

	/* It was valid when the packet was taken in; but each run says where it is. */
	if (!packet_fence_is_valid(&r->limits, r->fence_at)) {
		r->error = SOFTGPU_OUT_OF_RANGE;
		return;
	}
	__atomic_store_n((uint64_t *)(r->setup.window + r->fence_at), p->value, __ATOMIC_RELEASE);
	if (p->flags & SOFTGPU_FENCE_INTERRUPT)
		r->setup.send(&m);
}

static void ask_for_dma(struct ring *r, const struct piece *p)
{
	struct worker_message m = {
		.type = WORKER_DMA,
		.dma = {.at = p->dst, .iova = p->src, .bytes = p->bytes, .out = p->flags},
	};

	atomic_store(&r->dma, 1);
	r->setup.send(&m);
}

/* Into the device's queue, or what is ours is done when its turn comes. */
static void launch(struct ring *r, struct entry *e)
{
	int x = 0;

	e->skipped = false;
	if (e->piece.kind < PIECE_DMA)
		x = r->setup.ops->launch(r->setup.device, slot_of(r, e), &e->piece);
	if (x == -EINVAL)
		r->bad = SOFTGPU_BAD_LAUNCH;
	else if (x < 0)
		r->error = SOFTGPU_FAULTED;
	e->launched = x == 0;
	e->at = vgpu_now();
}

/* Whether the first piece on its way has come to its end, and how. */
static enum device_state state_of_head(struct ring *r)
{
	struct entry *e = entry_at(r, 0);
	int dma;

	switch (e->piece.kind) {
	case PIECE_FENCE:
		fence(r, &e->piece);
		return DEVICE_DONE;
	case PIECE_EVENT:
		__atomic_store_n((uint64_t *)(r->setup.window + e->piece.dst),
				 vgpu_now() - r->began, __ATOMIC_RELEASE);
		return DEVICE_DONE;
	case PIECE_DMA:
		if (!e->launched) {
			e->launched = true;
			ask_for_dma(r, &e->piece);
		}
		dma = atomic_load(&r->dma);
		if (dma < 0) {
			r->error = SOFTGPU_DMA_FAULT;
			r->rptr = e->rptr;
		}
		return dma == 1 ? DEVICE_RUNNING : DEVICE_DONE;
	default:
		if (e->skipped)
			return DEVICE_SKIPPED;
		return e->launched ? r->setup.ops->poll(r->setup.device, slot_of(r, e))
				   : DEVICE_DONE;
	}
}

/* Takes out what is done. What is left at the head runs, was skipped, or is lost. */
static enum device_state collect(struct ring *r)
{
	enum device_state state = DEVICE_DONE;

	while (r->in_flight > 0 && r->error == SOFTGPU_OK) {
		state = state_of_head(r);
		if (state != DEVICE_DONE)
			break;
		learn(r, entry_at(r, 0));
		r->head++;
		r->in_flight--;
		if (r->in_flight > 0)
			entry_at(r, 0)->at = vgpu_now(); /* it has had the device from here on */
	}
	return r->in_flight == 0 ? DEVICE_DONE : state;
}

/* After the first that was skipped nothing has run: the gate stays shut until all have been seen.
 */
static bool is_quiet(struct ring *r)
{
	struct entry *e;
	uint32_t i;

	for (i = 0; i < r->in_flight; i++) {
		e = entry_at(r, i);
		if (e->piece.kind >= PIECE_DMA || e->skipped)
			continue;
		switch (r->setup.ops->poll(r->setup.device, slot_of(r, e))) {
		case DEVICE_RUNNING:
			return false;
		case DEVICE_LOST:
			r->error = SOFTGPU_FAULTED;
			break;
		case DEVICE_SKIPPED:
			e->skipped = true;
			break;
		case DEVICE_DONE: /* just now: it is not to be launched again */
			break;
		}
	}
	return true;
}

/* The gate opens, unless it is to be shut again already; what was skipped goes on. */
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

static bool has_packet(struct ring *r)
{
	return r->rptr != atomic_load_explicit(&r->setup.shared->wptr, memory_order_acquire);
}

/* Takes the next packet in: copied first, then checked, so that the guest cannot change it. */
static void fetch(struct ring *r)
{
	uint64_t wptr = atomic_load(&r->setup.shared->wptr), slot;

	if (!packet_ring_is_valid(&r->limits, r->base, r->n) || wptr - r->rptr > r->n) {
		r->bad = SOFTGPU_BAD_RING;
		return;
	}
	slot = r->rptr & (r->n - 1);
	r->job = (struct piece_job){.active = true};
	memcpy(&r->job.packet, r->setup.window + r->base + slot * sizeof(r->job.packet),
	       sizeof(r->job.packet));
	r->rptr++;
	r->bad = packet_check(&r->limits, &r->job.packet);
	if (r->bad == SOFTGPU_OK && r->job.packet.opcode == SOFTGPU_FENCE &&
	    !packet_fence_is_valid(&r->limits, r->fence_at))
		r->bad = SOFTGPU_OUT_OF_RANGE;
}

/* Whether one more piece may follow what is on its way. Those with a gate and those without are not
 * mixed: one without would run before one that was skipped. */
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

enum next { NEXT_PIECE = 0, NEXT_NONE, NEXT_LATER };

/* The next piece of the packet at hand; that it has no more; or that there may be one later, when
 * the compiler is done, or what is on its way. */
static enum next next_piece(struct ring *r, struct piece *p)
{
	vgpu_nsec *cost;
	int x;

	if (r->job.packet.opcode < SOFTGPU_MODULE_LOAD || r->job.packet.opcode > SOFTGPU_LAUNCH) {
		if (!piece_next(&r->job, &r->space, p))
			return NEXT_NONE;
		cost = cost_of(r, p);
		p->cost = cost ? *cost : 0;
		return NEXT_PIECE;
	}
	if (r->in_flight > 0 && r->job.packet.opcode != SOFTGPU_LAUNCH)
		return NEXT_LATER;
	x = module_packet(r->modules, &r->job, &r->limits, &r->space, r->setup.window, p);
	if (x == MODULE_PIECE)
		return NEXT_PIECE;
	if (x < 0)
		r->bad = (enum softgpu_error)(-x);
	return x == MODULE_COMPILES ? NEXT_LATER : NEXT_NONE;
}

enum step { STEP_MORE = 0, STEP_WAIT, STEP_END };

/* Puts what fits into the queue. */
static enum step feed(struct ring *r)
{
	struct entry *e = entry_at(r, r->in_flight);

	if (r->bad != SOFTGPU_OK) {
		if (r->in_flight > 0)
			return STEP_WAIT;
		r->error = r->bad;
		return STEP_END;
	}
	if (!r->job.active) {
		if (!has_packet(r))
			return r->in_flight ? STEP_WAIT : STEP_END;
		fetch(r);
		return STEP_MORE;
	}
	if (r->in_flight == DEVICE_SLOTS)
		return STEP_WAIT;
	switch (r->prepared ? NEXT_PIECE : next_piece(r, &e->piece)) {
	case NEXT_PIECE:
		break;
	case NEXT_NONE:
		r->job.active = false;
		return STEP_MORE;
	case NEXT_LATER:
		return r->in_flight > 0 ? STEP_WAIT : STEP_END;
	}
	r->prepared = true;
	if (!fits(r, &e->piece))
		return STEP_WAIT;
	r->prepared = false;
	e->piece.serial = ++r->serial;
	e->rptr = r->rptr;
	e->skipped = false;
	e->launched = false;
	r->in_flight++;
	if (e->piece.kind < PIECE_DMA)
		launch(r, e);
	return STEP_MORE;
}

/* How long what is at the head may be left alone: until it is nearly as old as those like it have
 * become; if nobody knows, or it is much older, the longer the longer it has run. */
static vgpu_nsec patience(const struct ring *r, const struct piece *p, vgpu_nsec ran)
{
	vgpu_nsec sleep = 0;

	if (p->cost == 0 || ran > 2 * p->cost)
		sleep = ran / SLEEP_PART;
	else if (ran < p->cost)
		sleep = (p->cost - ran) / 2;
	if (sleep < SLEEP_LEAST || r->shut)
		return SLEEP_LEAST;
	return sleep < SLEEP_MOST ? sleep : SLEEP_MOST;
}

/* A stop, or the end of a transfer, ends the sleep. SINCE: when something was last done. */
static void wait_a_little(struct ring *r, vgpu_nsec since)
{
	const struct entry *e = entry_at(r, 0);
	vgpu_nsec at = vgpu_now();
	struct timespec t = {.tv_nsec = (long)patience(r, &e->piece, at - e->at)};

	if (at - since > SPIN_NS)
		futex(&r->stop, FUTEX_WAIT, r->shut ? atomic_load(&r->stop) : 0, &t);
}

static void wake_thread(struct ring *r)
{
	futex(&r->stop, FUTEX_WAKE, 1, NULL);
}

/* Whether a stop need not wait for what is on its way to end by itself. */
static void note_wait(struct ring *r)
{
	const struct piece *p = &entry_at(r, 0)->piece;

	atomic_store(&r->waited_for, r->in_flight > 0 && p->kind < PIECE_DMA && !p->gated &&
					     (p->cost == 0 || p->cost > STOP_WAIT_NS));
}

/* Executes until there is nothing to do, or the run is to stop, or cannot go on. */
static enum worker_end pump(struct ring *r)
{
	vgpu_nsec since = vgpu_now();
	enum device_state state;
	enum step step;

	for (;;) {
		uint32_t before = r->in_flight;

		state = collect(r);
		if (state == DEVICE_LOST)
			return WORKER_LOST;
		if (r->error != SOFTGPU_OK)
			return WORKER_FAILED;
		atomic_store(&r->setup.shared->rptr_begun, r->rptr);
		note_wait(r);
		if (r->in_flight != before)
			since = vgpu_now();
		if (r->shut) {
			if (!is_quiet(r)) {
				wait_a_little(r, since);
				continue;
			}
			collect(r); /* what has ended since is over */
			if (r->error != SOFTGPU_OK)
				return WORKER_FAILED;
			if (atomic_load(&r->stop))
				return WORKER_STOPPED;
			reopen(r);
			continue;
		}
		if (atomic_load(&r->stop))
			continue; /* the gate is about to be seen shut */
		step = feed(r);
		if (step == STEP_END && r->in_flight == 0)
			return r->error ? WORKER_FAILED : WORKER_IDLE;
		if (step != STEP_MORE)
			wait_a_little(r, since);
	}
}

static bool level_is_block(struct ring *r)
{
	uint32_t i;

	for (i = 0; i < r->in_flight; i++)
		if (entry_at(r, i)->skipped)
			return true;
	return false;
}

static void *work(void *arg)
{
	const uint64_t one = 1;
	struct ring *r = arg;
	enum worker_end end;

	pthread_mutex_lock(&r->lock);
	while (!r->quit) {
		if (!r->running) {
			pthread_cond_wait(&r->cond, &r->lock);
			continue;
		}
		pthread_mutex_unlock(&r->lock);
		end = pump(r);
		pthread_mutex_lock(&r->lock);
		r->running = false;
		r->ended.type = WORKER_ENDED;
		r->ended.ended.end = end;
		r->ended.ended.error = r->error;
		r->ended.ended.level =
			level_is_block(r) ? SOFTGPU_PREEMPT_BLOCK : SOFTGPU_PREEMPT_TILE;
		r->ended.ended.active = r->job.active || r->in_flight > 0;
		r->ended.ended.rptr = r->rptr;
		if (write(r->setup.event_fd, &one, sizeof(one)) < 0)
			abort(); /* it holds a count of 2^64: this cannot be */
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
	r->limits = (struct packet_limits){setup->window_size, setup->size, setup->modules};
	r->space = (struct piece_space){
		.window_at = setup->ops->address(setup->device, 0),
		.window_size = setup->window_size,
		.scratch = setup->ops->scratch(setup->device),
	};
	if (setup->size > setup->window_size)
		r->space.memory_at = setup->ops->address(setup->device, setup->window_size);
	r->modules = module_table_create(setup->ops, setup->device, setup->shared, setup->wake);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->cond, NULL);
	if (!r->modules || pthread_create(&r->thread, NULL, work, r) != 0) {
		module_table_destroy(r->modules);
		free(r);
		return NULL;
	}
	return r;
}

void ring_destroy(struct ring *r)
{
	pthread_mutex_lock(&r->lock);
	r->quit = true;
	r->setup.ops->gate(r->setup.device, true);
	r->shut = true;
	atomic_store(&r->stop, true);
	atomic_store(&r->dma, 0);
	pthread_cond_signal(&r->cond);
	pthread_mutex_unlock(&r->lock);
	wake_thread(r);
	pthread_join(r->thread, NULL);
	module_table_destroy(r->modules);
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->cond);
	free(r);
}

void ring_run(struct ring *r, const struct worker_message *m)
{
	const uint64_t one = 1;
	bool was_frozen;

	pthread_mutex_lock(&r->lock);
	was_frozen = r->frozen;
	r->frozen = false;
	r->ended.serial = m->serial;
	atomic_store(&r->stop, false);
	if (was_frozen && !r->running && r->ended.ended.end >= WORKER_FAILED) {
		/* It has failed since, which is to be said now. */
		if (write(r->setup.event_fd, &one, sizeof(one)) < 0)
			abort();
	} else if (!r->running) {
		r->base = m->run.ring_base;
		r->n = m->run.ring_size;
		r->rptr = m->run.rptr;
		r->fence_at = m->run.fence_at;
		r->running = true;
		pthread_cond_signal(&r->cond);
	}
	pthread_mutex_unlock(&r->lock);
}

vgpu_nsec ring_stop(struct ring *r)
{
	pthread_mutex_lock(&r->lock);
	atomic_store(&r->stop, true);
	r->setup.ops->gate(r->setup.device, true);
	r->shut = true;
	pthread_mutex_unlock(&r->lock);
	wake_thread(r);
	return atomic_load(&r->waited_for) ? 0 : STOP_WAIT_NS;
}

bool ring_end(struct ring *r, struct worker_message *m)
{
	bool over;

	pthread_mutex_lock(&r->lock);
	over = !r->running && !r->frozen;
	*m = r->ended;
	pthread_mutex_unlock(&r->lock);
	return over;
}

bool ring_freeze(struct ring *r, struct worker_message *m)
{
	bool frozen;

	pthread_mutex_lock(&r->lock);
	frozen = r->frozen = r->running;
	*m = r->ended;
	if (frozen)
		m->ended = (struct worker_ended){
			.end = WORKER_STOPPED,
			.level = SOFTGPU_PREEMPT_HARD,
			.active = true,
			.rptr = atomic_load(&r->setup.shared->rptr_begun),
		};
	m->type = WORKER_ENDED;
	pthread_mutex_unlock(&r->lock);
	return frozen;
}

void ring_dma_done(struct ring *r, int result)
{
	atomic_store(&r->dma, result);
	wake_thread(r);
}
