/* SPDX-License-Identifier: MIT */
/*
 * Queues: which operations the layer holds, and when it passes them to the GPU's driver. Each queue
 * is a FIFO. Its first operation is passed on when
 *
 * - a signal of each binary semaphore that it waits for has been passed on;
 * - each timeline semaphore that it waits for has the value, or a signal of that value has been
 *   passed on;
 * - and, if it has commands, the gate is open, and DEPTH and DEEP allow one more submission in
 *   flight. A slice that ends meanwhile ends late, by the rest of that submission.
 *
 * So the driver never holds an operation that depends on one that the layer still holds, and can
 * always complete what it has. The thread that appends an operation passes it on at once if these
 * conditions hold. Otherwise one of three threads does so later: the queue's own, the thread that
 * watches the gate, or the one that has passed on what the operation waited for.
 */
#include <stdlib.h>
#include <sys/prctl.h>

#include "layer.h"
#include "vgpu/clock.h"

/* The driver has one submission of a queue, and up to DEPTH while they are expected to take DEEP
 * together at most: short ones follow each other without a pause. */
#define DEPTH 4u
#define DEEP (2 * VGPU_MSEC)
/* How long an empty queue still counts as busy. Without this, a program that waits for each
 * submission would notify vgpud twice for each. */
#define LINGER (50 * VGPU_USEC)
/* The value of a timeline semaphore may come without a word to the layer: an operation that waits
 * for one is looked at this often. */
#define LOOK VGPU_MSEC
/* How long other waits are, so that the loss of the device is seen. */
#define SLICE (100 * VGPU_MSEC)
/* vkDestroyDevice waits so long for what is in flight. */
#define LAST_WAIT (10 * VGPU_SEC)

static struct timespec at(vgpu_nsec t)
{
	return (struct timespec){(time_t)(t / VGPU_SEC), (long)(t % VGPU_SEC)};
}

static void wait_for(struct queue *q, pthread_cond_t *cond, vgpu_nsec length)
{
	struct timespec until = at(vgpu_now() + length);

	pthread_cond_timedwait(cond, &q->lock, &until);
}

static bool has_gone_on(const struct dependency *d)
{
	return d->queue && atomic_load(&d->queue->gone_on) >= d->seq;
}

static bool is_reached(const struct queue *q, const struct timeline *t)
{
	struct device *d = q->device;
	uint64_t value;

	return d->GetSemaphoreCounterValue(d->handle, t->semaphore, &value) == VK_SUCCESS &&
	       value >= t->value;
}

static bool is_ready(const struct queue *q, const struct op *op)
{
	uint32_t i;

	for (i = 0; i < op->n_dependencies; i++)
		if (!has_gone_on(&op->dependencies[i]))
			return false;
	for (i = 0; i < op->n_timelines; i++)
		if (!has_gone_on(&op->timelines[i].signaller) && !is_reached(q, &op->timelines[i]))
			return false;
	return true;
}

/* Returns whether OP waits for a value whose signaller the layer does not know: nothing tells the
 * layer when it comes. */
static bool waits_unsaid(const struct queue *q, const struct op *op)
{
	uint32_t i;

	for (i = 0; i < op->n_timelines; i++)
		if (!op->timelines[i].signaller.queue && !is_reached(q, &op->timelines[i]))
			return true;
	return false;
}

static bool has_room(const struct queue *q)
{
	return q->n_flying == 0 ||
	       (q->n_flying < DEPTH && q->typical > 0 && (q->n_flying + 1) * q->typical <= DEEP);
}

static VkResult give(struct queue *q, struct op *op)
{
	struct device *d = q->device;

	if (op->done_value)
		*op->done_value = op->done;
	op->began = vgpu_now();
	return op->type == OP_SUBMIT ? d->QueueSubmit(q->handle, op->n, op->batches, op->fence)
				     : d->QueueSubmit2(q->handle, op->n, op->batches, op->fence);
}

static void fly(struct queue *q, struct op *op)
{
	op->next = NULL;
	*q->flying_end = op;
	q->flying_end = &op->next;
	q->n_flying++;
}

static struct op *pop(struct op **first, struct op ***end)
{
	struct op *op = *first;

	*first = op->next;
	if (!*first)
		*end = first;
	return op;
}

/* Passes on what may go. Returns whether it passed anything on; *R is the result of the operation
 * OWN. The failure of an operation whose call has returned already counts as the loss of the
 * device. */
static bool pump(struct queue *q, const struct op *own, VkResult *r)
{
	bool any = false;
	struct op *op;
	VkResult result;

	while ((op = q->held) && !atomic_load(&q->device->lost) && !page_is_taken() &&
	       is_ready(q, op)) {
		if (op->works && !has_room(q))
			break;
		if (op->works && !page_enter()) {
			op->waited = true;
			break;
		}
		if (op->works)
			op->done = ++q->n_done;
		result = give(q, op);
		pop(&q->held, &q->held_end);
		atomic_fetch_sub(&q->device->n_held, 1);
		if (result != VK_SUCCESS) {
			if (op->works) {
				q->n_done--;
				page_leave();
			}
			if (op == own && result != VK_ERROR_DEVICE_LOST)
				*r = result;
			else
				atomic_store(&q->device->lost, true);
		}
		atomic_store(&q->gone_on, op->seq);
		any = true;
		if (op->works && result == VK_SUCCESS)
			fly(q, op);
		else
			free(op);
	}
	if (any) {
		pthread_cond_broadcast(&q->news);
		pthread_cond_signal(&q->wake); /* the keeper waits for what has gone on */
	}
	return any;
}

void queues_pump(struct device *device)
{
	bool any = true;
	struct queue *q;
	VkResult r;

	while (any && atomic_load(&device->n_held) > 0) {
		any = false;
		for (q = device->queues; q; q = q->next) {
			pthread_mutex_lock(&q->lock);
			any |= pump(q, NULL, &r);
			pthread_mutex_unlock(&q->lock);
		}
	}
}

/* Of a process whose VF is taken nothing is passed on any more, so what flies only gets less. */
static bool any_flies(struct device *device)
{
	bool any = false;
	struct queue *q;

	for (q = device->queues; q && !any; q = q->next) {
		pthread_mutex_lock(&q->lock);
		any = q->flying;
		pthread_mutex_unlock(&q->lock);
	}
	return any;
}

void queues_lose(struct device *device)
{
	struct queue *q;

	if (any_flies(device) || atomic_exchange(&device->lost, true))
		return;
	for (q = device->queues; q; q = q->next) {
		pthread_mutex_lock(&q->lock);
		pthread_cond_signal(&q->wake);
		pthread_cond_broadcast(&q->news);
		pthread_mutex_unlock(&q->lock);
	}
}

/* What was found while an operation was appended. */
struct finding {
	struct queue *q;
	struct op *op;
	bool failed;
};

static void find_wait(void *data, VkSemaphore semaphore, uint64_t value)
{
	struct finding *f = data;
	struct map_value *v = map_get(&f->q->device->semaphores, (uint64_t)semaphore);
	struct dependency d = {NULL, 0};

	if (!v)
		return; /* not one of this device's: the driver will say so */
	/* An earlier batch of the same submission signals it. */
	if (v->b == (uintptr_t)f->q && v->c == f->op->seq && (!v->a || v->d >= value)) {
		if (!v->a)
			v->b = 0;
		return;
	}
	if (v->b)
		d = (struct dependency){(struct queue *)(uintptr_t)v->b, v->c};
	if (v->a) {
		if (v->d < value)
			d.queue = NULL;
		f->op->timelines[f->op->n_timelines++] = (struct timeline){semaphore, value, d};
	} else if (d.queue) {
		f->op->dependencies[f->op->n_dependencies++] = d;
		v->b = 0; /* the wait takes the signal */
	}
}

static void find_signal(void *data, VkSemaphore semaphore, uint64_t value)
{
	struct finding *f = data;
	struct map_value *v = map_get(&f->q->device->semaphores, (uint64_t)semaphore);

	if (!v || semaphore == f->q->done)
		return;
	v->b = (uintptr_t)f->q;
	v->c = f->op->seq;
	v->d = value;
}

/* Notes the operations on which OP depends, and that others may depend on OP. Returns false if out
 * of memory. */
static bool find(struct queue *q, struct op *op)
{
	struct finding f = {q, op, false};
	struct device *d = q->device;
	struct map_value v = {.b = (uintptr_t)q, .c = op->seq};
	uint32_t i;

	pthread_mutex_lock(&d->lock);
	for (i = 0; i < op->n; i++) {
		op_each(op, i, false, find_wait, &f);
		op_each(op, i, true, find_signal, &f);
	}
	if (op->fence)
		f.failed = !map_put(&d->fences, (uint64_t)op->fence, v);
	pthread_mutex_unlock(&d->lock);
	return !f.failed;
}

VkResult queue_append(struct queue *q, struct op *op)
{
	struct device *d = q->device;
	VkResult r = VK_SUCCESS;

	pthread_mutex_lock(&q->lock);
	op->seq = q->seq + 1;
	if (!find(q, op)) {
		pthread_mutex_unlock(&q->lock);
		free(op);
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	}
	q->seq++;
	op->next = NULL;
	*q->held_end = op;
	q->held_end = &op->next;
	atomic_fetch_add(&d->n_held, 1);
	if (op->works && !q->busy) {
		q->busy = true;
		page_work(true);
	}
	if (!pump(q, op, &r))
		pthread_cond_signal(&q->wake);
	pthread_mutex_unlock(&q->lock);
	if (atomic_load(&d->n_held) > 0)
		queues_pump(d);
	/* virglrenderer ends a program whose submission fails. It is told when it waits. */
	return !atomic_load(&d->lost) ? r : page_is_taken() ? VK_SUCCESS : VK_ERROR_DEVICE_LOST;
}

static void retire(struct queue *q, uint64_t value)
{
	vgpu_nsec now = vgpu_now(), from, took;
	struct op *op;

	while (q->flying && q->flying->done <= value) {
		op = pop(&q->flying, &q->flying_end);
		q->n_flying--;
		from = op->began > q->last_done ? op->began : q->last_done;
		took = now > from ? now - from : 0;
		q->typical = q->typical ? (3 * q->typical + took) / 4 : took;
		q->last_done = now;
		page_ended(took, op->waited);
		free(op);
	}
	pthread_cond_broadcast(&q->news);
}

/* Drops all held operations: the device is lost, or is being destroyed. */
static void drop(struct queue *q)
{
	while (q->flying) {
		free(pop(&q->flying, &q->flying_end));
		q->n_flying--;
		page_leave();
	}
	while (q->held) {
		free(pop(&q->held, &q->held_end));
		atomic_fetch_sub(&q->device->n_held, 1);
	}
	if (q->busy)
		page_work(false);
	q->busy = false;
	pthread_cond_broadcast(&q->news);
}

static VkResult wait_done(struct queue *q, uint64_t value, vgpu_nsec length)
{
	VkSemaphoreWaitInfo w = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
		.semaphoreCount = 1,
		.pSemaphores = &q->done,
		.pValues = &value,
	};

	return q->device->WaitSemaphores(q->device->handle, &w, length);
}

/* Waits, without the lock, for the oldest operation in flight. */
static void await_one(struct queue *q)
{
	uint64_t value = q->flying->done;
	vgpu_nsec length = q->held ? LOOK : SLICE;
	VkResult r;

	pthread_mutex_unlock(&q->lock);
	r = wait_done(q, value, length);
	pthread_mutex_lock(&q->lock);
	if (r == VK_SUCCESS)
		retire(q, value);
	else if (r != VK_TIMEOUT)
		atomic_store(&q->device->lost, true);
}

static void *keep(void *arg)
{
	struct queue *q = arg;
	VkResult r;

	prctl(PR_SET_TIMERSLACK, 1L);
	pthread_mutex_lock(&q->lock);
	while (!q->ends) {
		if (atomic_load(&q->device->lost)) {
			drop(q);
			pthread_cond_wait(&q->wake, &q->lock);
		} else if (q->flying) {
			await_one(q);
		} else if (q->held) {
			wait_for(q, &q->wake, waits_unsaid(q, q->held) ? LOOK : SLICE);
		} else if (q->busy) {
			wait_for(q, &q->wake, LINGER);
			if (!q->held && !q->flying && q->busy) {
				q->busy = false;
				page_work(false);
			}
		} else {
			pthread_cond_wait(&q->wake, &q->lock);
		}
		pump(q, NULL, &r);
		if (atomic_load(&q->device->n_held) > 0 && !q->ends) {
			pthread_mutex_unlock(&q->lock);
			queues_pump(q->device);
			pthread_mutex_lock(&q->lock);
		}
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

static bool start(struct queue *q)
{
	pthread_condattr_t monotonic;
	sigset_t all, before;
	int r;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->wake, &monotonic);
	pthread_cond_init(&q->news, &monotonic);
	pthread_condattr_destroy(&monotonic);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&q->thread, NULL, keep, q);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r == 0)
		pthread_setname_np(q->thread, "vgpud-queue");
	return r == 0;
}

static struct queue *make(struct device *device, VkQueue handle)
{
	VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
					  .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
	VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
				      .pNext = &type};
	struct queue *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->device = device;
	q->handle = handle;
	q->held_end = &q->held;
	q->flying_end = &q->flying;
	if (device->CreateSemaphore(device->handle, &info, NULL, &q->done) != VK_SUCCESS) {
		free(q);
		return NULL;
	}
	if (!start(q)) {
		device->DestroySemaphore(device->handle, q->done, NULL);
		free(q);
		return NULL;
	}
	return q;
}

struct queue *queue_of(struct device *device, VkQueue handle)
{
	struct queue *q, *made;

	pthread_mutex_lock(&device->lock);
	for (q = device->queues; q && q->handle != handle; q = q->next)
		;
	if (!q && (made = make(device, handle))) {
		made->next = device->queues;
		device->queues = made;
		q = made;
	}
	pthread_mutex_unlock(&device->lock);
	return q;
}

VkResult queue_flush(struct queue *q, uint64_t seq)
{
	pthread_mutex_lock(&q->lock);
	if (seq > q->seq)
		seq = q->seq;
	while (atomic_load(&q->gone_on) < seq && !atomic_load(&q->device->lost))
		wait_for(q, &q->news, SLICE);
	return atomic_load(&q->device->lost) ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
}

bool queue_await(const struct dependency *what, vgpu_nsec timeout)
{
	struct queue *q = what->queue;

	if (has_gone_on(what))
		return true;
	pthread_mutex_lock(&q->lock);
	if (!has_gone_on(what) && timeout > 0 && !atomic_load(&q->device->lost))
		wait_for(q, &q->news, timeout);
	pthread_mutex_unlock(&q->lock);
	return has_gone_on(what);
}

VkResult queue_drain(struct queue *q)
{
	VkResult r = queue_flush(q, ALL);

	while (r == VK_SUCCESS && q->flying) {
		wait_for(q, &q->news, SLICE);
		if (atomic_load(&q->device->lost))
			r = VK_ERROR_DEVICE_LOST;
	}
	return r;
}

static void end(struct queue *q)
{
	struct op *op;

	for (op = q->flying; op && op->next; op = op->next)
		;
	if (op && !atomic_load(&q->device->lost))
		wait_done(q, op->done, LAST_WAIT);
	drop(q);
	q->device->DestroySemaphore(q->device->handle, q->done, NULL);
	pthread_mutex_destroy(&q->lock);
	pthread_cond_destroy(&q->wake);
	pthread_cond_destroy(&q->news);
	free(q);
}

void queues_end(struct device *device)
{
	struct queue *q, *next;

	for (q = device->queues; q; q = q->next) {
		pthread_mutex_lock(&q->lock);
		q->ends = true;
		pthread_cond_signal(&q->wake);
		pthread_mutex_unlock(&q->lock);
		pthread_join(q->thread, NULL);
	}
	for (q = device->queues; q; q = next) {
		next = q->next;
		end(q);
	}
	device->queues = NULL;
}
