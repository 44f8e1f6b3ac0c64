/* SPDX-License-Identifier: MIT */
/*
 * Whether work on this device can be stopped, and how soon: nothing is believed of a GPU or a
 * driver that was not seen. One worker counts a word up; it is stopped, must stand still while a
 * second one computes, and go on where it was; again and again, and in the end the count must be
 * right.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"
#include "workers.h"
#include "vgpu/clock.h"

#define WINDOW (UINT64_C(4) << 20)
#define PARTITION (UINT64_C(8) << 20)
#define LIMIT (UINT64_C(8) << 30) /* more than any context takes */
#define RING_PACKETS 64u
#define FENCE_AT 8192u
#define COUNTER_AT 12288u
#define RESULT_AT 16384u
#define RESULT_WORDS 4096u

#define ROUNDS 25u
#define COUNTS 200000u /* of 2 us: longer than all rounds together run */
#define STAND_STILL (2 * VGPU_MSEC)
#define FIRST_STAND_STILL (20 * VGPU_MSEC)
#define START_MS 30000 /* a CUDA context takes up to a second or two, on a cold driver longer */
#define DEADLINE (2 * VGPU_SEC)
#define BOUND (20 * VGPU_MSEC) /* a stop that takes longer is none */
#define MOST_LATE 2u	       /* a machine may stand still, but not always */

struct tenant {
	struct worker_client *worker;
	int fd;
	uint8_t *window;
	uint64_t wptr;
	struct worker_ended ended;
};

static int tenant_start(struct tenant *t, uint32_t number, const struct softgpu_config *config,
			struct vgpu_error *err)
{
	struct worker_options options = {
		.device = config->device,
		.gpu = config->device_index,
		.vf = number,
		.size = PARTITION,
		.limit = LIMIT,
		.fifo = config->fifo,
		.uid = config->worker_uid,
		.gid = config->worker_gid,
	};

	t->fd = memfd_create("softgpu-proof", MFD_CLOEXEC);
	if (t->fd < 0 || ftruncate(t->fd, (off_t)WINDOW) < 0)
		return vgpu_error_set(err, -errno, "memory: %s", strerror(errno));
	t->window = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	if (t->window == MAP_FAILED)
		return vgpu_error_set(err, -errno, "memory: %s", strerror(errno));
	options.window_fd = t->fd;
	return worker_start(&t->worker, &options, err);
}

static void tenant_end(struct tenant *t)
{
	worker_kill(t->worker);
	if (t->window && t->window != MAP_FAILED)
		munmap(t->window, WINDOW);
	if (t->fd >= 0)
		close(t->fd);
}

static void put(struct tenant *t, struct softgpu_packet p)
{
	memcpy(t->window + t->wptr++ % RING_PACKETS * sizeof(p), &p, sizeof(p));
	atomic_store(&t->worker->shared->wptr, t->wptr);
}

static void run(struct tenant *t, uint32_t stops)
{
	struct worker_message m = {.run = {0, RING_PACKETS, t->ended.rptr, FENCE_AT, stops}};

	worker_run(t->worker, &m);
}

static uint64_t word(const struct tenant *t, uint64_t at)
{
	return __atomic_load_n((const uint64_t *)(t->window + at), __ATOMIC_ACQUIRE);
}

/* Waits for the run's end. -errno; -ETIMEDOUT after DEADLINE. */
static int await_end(struct tenant *t)
{
	vgpu_nsec until = vgpu_now() + DEADLINE;
	struct pollfd p = {t->worker->socket, POLLIN, 0};
	struct worker_message m;
	int r;

	while (vgpu_now() < until) {
		r = worker_receive(t->worker, &m);
		if (r < 0)
			return r;
		if (r > 0 && m.type == WORKER_ENDED) {
			t->ended = m.ended;
			return 0;
		}
		if (r == 0)
			poll(&p, 1, 10);
	}
	return -ETIMEDOUT;
}

/* Until the counter leaves VALUE, or LONG_ENOUGH has passed: whether it has left. */
static bool moves(const struct tenant *t, uint64_t value, vgpu_nsec long_enough)
{
	vgpu_nsec until = vgpu_now() + long_enough;

	while (word(t, COUNTER_AT) == value)
		if (vgpu_now() >= until)
			return false;
	return true;
}

/* The second tenant computes while the first is stopped. */
static bool other_computes(struct tenant *t, uint32_t value)
{
	uint64_t i, fence = t->wptr + 1;

	put(t, (struct softgpu_packet){SOFTGPU_FILL, 0, {RESULT_AT, RESULT_WORDS * 4, value}});
	put(t, (struct softgpu_packet){SOFTGPU_FENCE, 0, {fence}});
	run(t, 0);
	if (await_end(t) < 0 || t->ended.end != WORKER_IDLE || word(t, FENCE_AT) != fence)
		return false;
	for (i = 0; i < RESULT_WORDS; i++)
		if (((uint32_t *)(t->window + RESULT_AT))[i] != value)
			return false;
	return true;
}

static int compare(const void *a, const void *b)
{
	vgpu_nsec x = *(const vgpu_nsec *)a, y = *(const vgpu_nsec *)b;

	return (x > y) - (x < y);
}

/* Whether a method of stopping works: why it does not, or NULL with the times in *OUT. */
static const char *prove(struct tenant *a, struct tenant *b, uint32_t method,
			 struct workers_proof *out)
{
	vgpu_nsec took[ROUNDS], begin;
	uint64_t before;
	uint32_t i, late = 0;

	put(a, (struct softgpu_packet){SOFTGPU_COUNT, 0, {COUNTER_AT, COUNTS}});
	for (i = 0; i < ROUNDS; i++) {
		before = word(a, COUNTER_AT);
		run(a, method);
		if (!moves(a, before, DEADLINE))
			return i ? "it does not go on" : "it does not begin";
		begin = vgpu_now();
		worker_stop(a->worker);
		if (await_end(a) < 0)
			return "it does not stop";
		took[i] = vgpu_now() - begin;
		if (a->ended.end != WORKER_STOPPED || a->ended.level != SOFTGPU_PREEMPT_HARD)
			return "it ended, and was not stopped";
		late += took[i] > BOUND;
		if (late > MOST_LATE)
			return "it takes too long to stop";
		before = word(a, COUNTER_AT);
		if (moves(a, before, i ? STAND_STILL : FIRST_STAND_STILL))
			return "it goes on while it should stand still";
		if (i < 3 && !other_computes(b, 0x5a5a0000 + i))
			return "others cannot compute meanwhile";
	}
	run(a, method);
	if (await_end(a) < 0 || a->ended.end != WORKER_IDLE || word(a, COUNTER_AT) != COUNTS)
		return "its result is wrong";
	qsort(took, ROUNDS, sizeof(took[0]), compare);
	out->stops = WORKER_STOP_BLOCK | method;
	out->level = SOFTGPU_PREEMPT_HARD;
	out->typical = took[ROUNDS / 2];
	out->longest = took[ROUNDS - 1];
	return NULL;
}

/* Nothing but killing works: how long that takes. */
static void prove_kill(struct tenant *a, struct workers_proof *out)
{
	vgpu_nsec begin;

	put(a, (struct softgpu_packet){SOFTGPU_COUNT, 0, {COUNTER_AT, COUNTS}});
	run(a, 0);
	moves(a, word(a, COUNTER_AT), DEADLINE);
	begin = vgpu_now();
	worker_kill(a->worker);
	a->worker = NULL;
	out->stops = WORKER_STOP_BLOCK;
	out->level = SOFTGPU_PREEMPT_KILL;
	out->typical = out->longest = vgpu_now() - begin;
}

/* What it is, and how much of its memory there is when nobody runs: each worker has taken as much
 * as the second has, beside its partition. */
static void note_device(const struct tenant *a, const struct tenant *b, struct workers_proof *out)
{
	const struct device_about *first = &a->worker->shared->about;
	const struct device_about *second = &b->worker->shared->about;

	memcpy(out->device, first->name, sizeof(out->device));
	out->device[sizeof(out->device) - 1] = 0;
	out->modules = first->modules;
	memcpy(out->wall, first->wall, sizeof(out->wall));
	out->wall[sizeof(out->wall) - 1] = 0;
	out->overhead = first->free > second->free ? first->free - second->free : 0;
	out->free = second->free + 2 * out->overhead;
}

/* Two tenants from scratch, for each method. -ENODEV and the like: the device does not start. */
static int try(const struct softgpu_config *config, uint32_t method, struct workers_proof *out,
	       const char **why, struct vgpu_error *err)
{
	struct tenant a = {.fd = -1}, b = {.fd = -1};
	int r = tenant_start(&a, 0, config, err);

	r = r ? r : worker_wait_ready(a.worker, START_MS, err);
	r = r ? r : tenant_start(&b, 1, config, err);
	r = r ? r : worker_wait_ready(b.worker, START_MS, err);
	if (r == 0) {
		note_device(&a, &b, out);
		if (method == 0)
			prove_kill(&a, out);
		else if (!(a.worker->shared->about.stops & method))
			*why = "the device does not offer it";
		else
			*why = prove(&a, &b, method, out);
	}
	tenant_end(&a);
	tenant_end(&b);
	return r;
}

int workers_prove(const struct softgpu_config *config, struct workers_proof *out,
		  struct vgpu_error *err)
{
	static const struct {
		uint32_t method;
		const char *name;
	} methods[] = {{WORKER_STOP_CHANNELS, "channels"}, {WORKER_STOP_GROUPS, "groups"}};
	const char *why;
	size_t i;
	int r;

	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		why = NULL;
		r = try(config, methods[i].method, out, &why, err);
		if (r < 0 || !why)
			return r;
		fprintf(stderr, "<5>softgpu: %s: work cannot be stopped by its %s: %s\n",
			out->device, methods[i].name, why);
	}
	return try(config, 0, out, &why, err);
}
