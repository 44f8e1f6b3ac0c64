/* SPDX-License-Identifier: MIT */
/*
 * Tests whether work on this device can be stopped, and how fast, because neither the GPU's model
 * nor the driver's version tells. One worker counts a word up. It is stopped, must stand still
 * while a second worker computes, and must continue where it was. This is repeated, and in the end
 * the count must be right.
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
#include "vgpu/descriptor.h"

#define WINDOW (UINT64_C(4) << 20)
#define PARTITION (UINT64_C(8) << 20)
#define LIMIT (UINT64_C(8) << 30) /* more than any context needs */
#define RING_PACKETS 64u
#define FENCE_AT 8192u
#define COUNTER_AT 12288u
#define RESULT_AT 16384u
#define RESULT_WORDS 4096u

#define ROUNDS 25u
#define COUNTS 200000u /* of 2 us each: longer than all rounds together */
#define STAND_STILL (2 * VGPU_MSEC)
#define FIRST_STAND_STILL (20 * VGPU_MSEC)
#define START_MS 30000 /* a CUDA context takes 1 or 2 s, and longer on a driver just loaded */
#define DEADLINE (2 * VGPU_SEC)
#define KILL_MS 10000	       /* the driver frees the worker's memory first */
#define BOUND (20 * VGPU_MSEC) /* a stop that takes longer is late */
#define MOST_LATE 2u	       /* more late stops are not the host's delays any more */

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
		.modules = config->module_memory,
		.fifo = config->fifo,
		.uid = config->worker_uid,
		.gid = config->worker_gid,
	};

	t->fd = memfd_create("softgpu-selftest", MFD_CLOEXEC);
	if (t->fd < 0 || ftruncate(t->fd, (off_t)WINDOW) < 0)
		return vgpu_error_set(err, -errno, "memory for the self-test: %s", strerror(errno));
	t->window = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	if (t->window == MAP_FAILED)
		return vgpu_error_set(err, -errno, "memory for the self-test: %s", strerror(errno));
	options.window_fd = t->fd;
	return worker_start(&t->worker, &options, err);
}

/* 0; or -EBUSY with one sentence if the tenant's worker does not end. */
static int tenant_end(struct tenant *t, struct vgpu_error *err)
{
	bool gone = worker_kill(t->worker, KILL_MS);

	if (t->window && t->window != MAP_FAILED)
		munmap(t->window, WINDOW);
	vgpu_close(&t->fd);
	if (gone)
		return 0;
	return vgpu_error_set(
		err, -EBUSY,
		"a worker that was killed %d s ago has not ended: the GPU's driver may "
		"hang: look at dmesg, and reset the GPU",
		KILL_MS / 1000);
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

/* Waits for the end of the run. 0; -ETIMEDOUT after DEADLINE; or another -errno. */
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

/* Whether the counter changes from VALUE within TIMEOUT. */
static bool moves(const struct tenant *t, uint64_t value, vgpu_nsec timeout)
{
	vgpu_nsec until = vgpu_now() + timeout;

	while (word(t, COUNTER_AT) == value)
		if (vgpu_now() >= until)
			return false;
	return true;
}

/* Lets a tenant compute. Whether its results are right. */
static bool compute(struct tenant *t, uint32_t value)
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

/* Tests a method of stopping. NULL with the times in *OUT; or a sentence that says why it does not
 * work. */
static const char *test_method(struct tenant *a, struct tenant *b, uint32_t method,
			       struct workers_tested *out)
{
	vgpu_nsec took[ROUNDS], begin;
	uint64_t before;
	uint32_t i, late = 0;

	put(a, (struct softgpu_packet){SOFTGPU_COUNT, 0, {COUNTER_AT, COUNTS}});
	for (i = 0; i < ROUNDS; i++) {
		before = word(a, COUNTER_AT);
		run(a, method);
		if (!moves(a, before, DEADLINE))
			return i ? "work does not continue after a stop" : "work does not begin";
		begin = vgpu_now();
		worker_stop(a->worker);
		if (await_end(a) < 0)
			return "work does not stop";
		took[i] = vgpu_now() - begin;
		if (a->ended.end != WORKER_STOPPED || a->ended.level != SOFTGPU_PREEMPT_HARD)
			return "work ended before it was stopped";
		late += took[i] > BOUND;
		if (late > MOST_LATE)
			return "stopping takes too long";
		before = word(a, COUNTER_AT);
		if (moves(a, before, i ? STAND_STILL : FIRST_STAND_STILL))
			return "work continues although it was stopped";
		if (i < 3 && !compute(b, 0x5a5a0000 + i))
			return "other workers cannot compute meanwhile";
	}
	run(a, method);
	if (await_end(a) < 0 || a->ended.end != WORKER_IDLE)
		return "work that was stopped does not end";
	if (word(a, COUNTER_AT) != COUNTS)
		return "the result of work that was stopped is wrong";
	qsort(took, ROUNDS, sizeof(took[0]), compare);
	out->stops = WORKER_STOP_BLOCK | method;
	out->level = SOFTGPU_PREEMPT_HARD;
	out->typical = took[ROUNDS / 2];
	out->longest = took[ROUNDS - 1];
	return NULL;
}

/* Measures how long killing a worker takes, which is used if no method of stopping works. */
static int measure_kill(struct tenant *a, struct workers_tested *out, struct vgpu_error *err)
{
	vgpu_nsec begin;
	int r;

	put(a, (struct softgpu_packet){SOFTGPU_COUNT, 0, {COUNTER_AT, COUNTS}});
	run(a, 0);
	moves(a, word(a, COUNTER_AT), DEADLINE);
	begin = vgpu_now();
	r = tenant_end(a, err);
	*a = (struct tenant){.fd = -1};
	out->stops = WORKER_STOP_BLOCK;
	out->level = SOFTGPU_PREEMPT_KILL;
	out->typical = out->longest = vgpu_now() - begin;
	return r;
}

/* Notes the device's name and its free memory. The first worker uses as much memory beside its
 * partition as the second, whose use is the difference between what the two found free. Neither has
 * loaded a module: what modules may take comes on top. */
static void note_device(const struct tenant *a, const struct tenant *b,
			const struct softgpu_config *config, struct workers_tested *out)
{
	const struct device_about *first = &a->worker->shared->about;
	const struct device_about *second = &b->worker->shared->about;

	memcpy(out->device, first->name, sizeof(out->device));
	out->device[sizeof(out->device) - 1] = 0;
	out->modules = first->modules;
	memcpy(out->limit_error, first->limit_error, sizeof(out->limit_error));
	out->limit_error[sizeof(out->limit_error) - 1] = 0;
	out->overhead = first->free > second->free ? first->free - second->free : 0;
	out->free = second->free + 2 * out->overhead;
	if (out->modules)
		out->overhead += config->module_memory;
}

static int start_two(struct tenant *a, struct tenant *b, const struct softgpu_config *config,
		     struct vgpu_error *err)
{
	int r = tenant_start(a, 0, config, err);

	if (r < 0)
		return r;
	r = worker_wait_ready(a->worker, START_MS, err);
	if (r < 0)
		return r;
	r = tenant_start(b, 1, config, err);
	if (r < 0)
		return r;
	return worker_wait_ready(b->worker, START_MS, err);
}

/* Tests METHOD (0: kill) with two new tenants. 0: *WHY is NULL if the method works, or says why
 * not; -errno: the device does not start. */
static int try(const struct softgpu_config *config, uint32_t method, struct workers_tested *out,
	       const char **why, struct vgpu_error *err)
{
	struct tenant a = {.fd = -1}, b = {.fd = -1};
	int r = start_two(&a, &b, config, err), ended;

	*why = NULL;
	if (r == 0) {
		note_device(&a, &b, config, out);
		if (method == 0)
			r = measure_kill(&a, out, err);
		else if (!(a.worker->shared->about.stops & method))
			*why = "the device does not offer it";
		else
			*why = test_method(&a, &b, method, out);
	}
	ended = tenant_end(&a, err);
	if (r == 0)
		r = ended;
	ended = tenant_end(&b, err);
	return r < 0 ? r : ended;
}

int workers_test(const struct softgpu_config *config, struct workers_tested *out,
		 struct vgpu_error *err)
{
	static const struct {
		uint32_t method;
		const char *name;
	} methods[] = {
		{WORKER_STOP_CHANNELS, "disabling channels"},
		{WORKER_STOP_GROUPS, "taking channel groups off their runlists"},
	};
	const char *why;
	size_t i;
	int r;

	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		r = try(config, methods[i].method, out, &why, err);
		if (r < 0 || !why)
			return r;
		fprintf(stderr, "<5>softgpu: %s: work cannot be stopped by %s: %s\n", out->device,
			methods[i].name, why);
	}
	return try(config, 0, out, &why, err);
}
