/* SPDX-License-Identifier: MIT */
/*
 * Tests whether work on this device can be stopped, and how fast, because neither the GPU's model
 * nor the driver's version tells. One worker counts a word up. It is stopped, must stand still
 * while a second worker computes, and must continue where it was. This is repeated, also while a
 * third worker starts and ends, because a driver's locks may be held for long then. In the end the
 * count must be right.
 *
 * Work that is stopped softly does not stand still. Then the second worker counts, too, by the same
 * GPU kernel, and what both have counted meanwhile tells which part of the GPU the stopped work
 * had. A count that is interrupted is over as soon as the work is on the GPU again, so this part
 * comes out too large, if anything.
 *
 * The host may be busy, so that each step takes much longer than the device needs. Nothing here
 * depends on how long that is: a round that proves nothing is repeated, and whether stops are late
 * is judged by how long messages take that stop nothing, and how long work stands still that nobody
 * stops.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <time.h>
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
#define CHURNS 2u     /* how often the third worker comes and goes */
#define COUNTS 50000u /* of 2 us each, at least */
/* A round begins while more than half of the count is left. Work that has this much left when it is
 * asked to stop, and counts to its end all the same, was not stopped. */
#define LEFT (COUNTS / 4)
#define LEFT_TIME (LEFT * 2 * VGPU_USEC)
/* What the second worker counts beside work that is stopped softly, in a round. */
#define BESIDE (COUNTS / 5)
#define LOOK (20 * VGPU_USEC) /* how often a word is read */
#define STAND_STILL (2 * VGPU_MSEC)
#define FIRST_STAND_STILL (20 * VGPU_MSEC)
#define START_MS 30000 /* a CUDA context takes 1 or 2 s, and longer on a driver just loaded */
#define DEADLINE (20 * VGPU_SEC)
#define TEST_MOST (60 * VGPU_SEC) /* for all rounds */
#define KILL_MS 10000		  /* the driver frees the worker's memory first */
/* Half of all stops may take as long as this; and as TRIPS messages and their answers take, and
 * STALLS times the longest standstill of work that nobody has stopped within WATCH. */
#define BOUND (20 * VGPU_MSEC)
#define TRIPS 4u
#define STALLS 2u
#define WATCH (2 * VGPU_SEC)

struct tenant {
	struct worker_client *worker;
	int fd;
	uint8_t *window;
	uint64_t wptr;
	struct worker_ended ended;
};

/* What the rounds of a test have found. */
struct rounds {
	vgpu_nsec took[ROUNDS], trip[ROUNDS];
	vgpu_nsec until;     /* when a test ends that has not finished */
	vgpu_nsec disturbed; /* the longest stop while the third worker started or ended */
	uint64_t own, other; /* count of the first worker while it was stopped; of the second */
};

static enum softgpu_preempt level_of(uint32_t method)
{
	return method == WORKER_STOP_SOFT ? SOFTGPU_PREEMPT_SOFT : SOFTGPU_PREEMPT_HARD;
}

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
		.memory = config->worker_memory,
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
	*t = (struct tenant){.fd = -1};
	if (gone)
		return 0;
	return vgpu_error_set(
		err, -EBUSY,
		"a worker that was killed %d s ago has not ended: the GPU's driver may "
		"hang: look at dmesg, and reset the GPU",
		KILL_MS / 1000);
}

static void put_packet(struct tenant *t, struct softgpu_packet p)
{
	memcpy(t->window + t->wptr++ % RING_PACKETS * sizeof(p), &p, sizeof(p));
	atomic_store(&t->worker->shared->wptr, t->wptr);
}

/* A count from 0. */
static void put_count(struct tenant *t, uint64_t n)
{
	__atomic_store_n((uint64_t *)(t->window + COUNTER_AT), 0, __ATOMIC_RELEASE);
	put_packet(t, (struct softgpu_packet){SOFTGPU_COUNT, 0, {COUNTER_AT, n}});
}

static void run(struct tenant *t, uint32_t stops)
{
	struct worker_message m = {.run = {0, RING_PACKETS, t->ended.rptr, FENCE_AT, stops, 0}};

	worker_run(t->worker, &m);
}

static uint64_t word(const struct tenant *t, uint64_t at)
{
	return __atomic_load_n((const uint64_t *)(t->window + at), __ATOMIC_ACQUIRE);
}

/* Waits for the end of the run. Returns 0; -ETIMEDOUT after DEADLINE; or another -errno. */
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

/* Returns whether the counter changes from VALUE within TIMEOUT. */
static bool moves(const struct tenant *t, uint64_t value, vgpu_nsec timeout)
{
	const struct timespec look = {.tv_nsec = LOOK};
	vgpu_nsec until = vgpu_now() + timeout;

	while (word(t, COUNTER_AT) == value) {
		if (vgpu_now() >= until)
			return false;
		nanosleep(&look, NULL);
	}
	return true;
}

/* Waits for the end of the run for as long as the count goes on. As await_end(). */
static int await_count(struct tenant *t)
{
	uint64_t before;
	int r;

	do {
		before = word(t, COUNTER_AT);
		r = await_end(t);
	} while (r == -ETIMEDOUT && word(t, COUNTER_AT) != before);
	return r;
}

/* Lets a tenant compute. Returns whether its results are right. */
static bool compute(struct tenant *t, uint32_t value)
{
	uint64_t i, fence = t->wptr + 1;

	put_packet(t,
		   (struct softgpu_packet){SOFTGPU_FILL, 0, {RESULT_AT, RESULT_WORDS * 4, value}});
	put_packet(t, (struct softgpu_packet){SOFTGPU_FENCE, 0, {fence}});
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

/* Counts to the end, if work was stopped before. NULL or a sentence. */
static const char *count_out(struct tenant *a, uint32_t method)
{
	if (a->ended.active) {
		run(a, method);
		if (await_count(a) < 0 || a->ended.end != WORKER_IDLE)
			return "work that was stopped does not end";
	}
	return word(a, COUNTER_AT) == COUNTS ? NULL
					     : "the result of work that was stopped is wrong";
}

/* Begins a new count, or goes on with the one that was stopped. NULL or a sentence. */
static const char *go_on(struct tenant *a, uint32_t method)
{
	uint64_t before = word(a, COUNTER_AT);
	const char *why;

	if (a->ended.active && before > COUNTS / 2) {
		why = count_out(a, method);
		if (why)
			return why;
	}
	if (!a->ended.active) {
		/* On a busy host it may be over before it is looked at. */
		before = 0;
		put_count(a, COUNTS);
	}
	run(a, method);
	return moves(a, before, DEADLINE) ? NULL : "work does not begin, or does not continue";
}

/* Measures how long a message to an idle worker and its answer take. Returns false if there is no
 * answer. */
static bool time_trip(struct tenant *b, vgpu_nsec *trip)
{
	vgpu_nsec begin = vgpu_now();

	run(b, 0);
	if (await_end(b) < 0)
		return false;
	*trip = vgpu_now() - begin;
	return true;
}

/* Stops work once. If the work has ended by itself before, and the host has taken too long for that
 * to prove anything, tries again. NULL with the time that this took, and the time of a message that
 * stops nothing; or a sentence. */
static const char *stop_once(struct tenant *a, struct tenant *b, uint32_t method, vgpu_nsec until,
			     vgpu_nsec *took, vgpu_nsec *trip)
{
	vgpu_nsec stopped;
	const char *why;
	uint64_t left;

	do {
		why = go_on(a, method);
		if (why)
			return why;
		if (!time_trip(b, trip))
			return "other workers do not answer meanwhile";
		left = COUNTS - word(a, COUNTER_AT);
		stopped = vgpu_now();
		worker_stop(a->worker);
		if (await_end(a) < 0)
			return "work does not stop";
		*took = vgpu_now() - stopped;
		if (a->ended.end == WORKER_STOPPED && a->ended.level == level_of(method))
			return NULL;
		if (a->ended.end > WORKER_STOPPED || a->ended.active)
			return "work fails when it is stopped";
		if (word(a, COUNTER_AT) != COUNTS)
			return "the result of work that was not stopped is wrong";
		if (left > LEFT && TRIPS * *trip < LEFT_TIME)
			return "work runs to its end although it should stop";
	} while (vgpu_now() < until);
	return "the host is too busy to test it";
}

/* Looks whether A, which is stopped, stands still, and lets B compute with VALUE meanwhile, unless
 * that is 0. NULL or a sentence. */
static const char *test_still(struct tenant *a, struct tenant *b, vgpu_nsec stand_still,
			      uint32_t value)
{
	uint64_t before = word(a, COUNTER_AT);

	if (moves(a, before, stand_still))
		return "work continues although it was stopped";
	if (value && !compute(b, value))
		return "other workers cannot compute meanwhile";
	return moves(a, before, 0) ? "work continues although it was stopped" : NULL;
}

/* Waits until B has counted beside A for the most part. True with what both have counted by then;
 * false: one of them is at its end, so that this proves nothing. */
static bool await_share(const struct tenant *a, const struct tenant *b, uint64_t *own,
			uint64_t *other)
{
	const struct timespec look = {.tv_nsec = LOOK};
	vgpu_nsec until = vgpu_now() + DEADLINE;

	while (word(b, COUNTER_AT) < BESIDE / 10 * 9 && vgpu_now() < until)
		nanosleep(&look, NULL);
	*own = word(a, COUNTER_AT);
	*other = word(b, COUNTER_AT);
	return *own < COUNTS && *other < BESIDE;
}

/* Adds to ROUNDS what A, which is stopped softly, and B count beside each other. NULL or a
 * sentence.
 */
static const char *test_share(struct tenant *a, struct tenant *b, struct rounds *rounds)
{
	uint64_t own, other, own_then, other_then;
	bool proves;

	put_count(b, BESIDE);
	run(b, 0);
	if (!moves(b, 0, DEADLINE))
		return "other workers cannot compute meanwhile";
	own = word(a, COUNTER_AT);
	other = word(b, COUNTER_AT);
	proves = await_share(a, b, &own_then, &other_then);
	if (await_count(b) < 0 || b->ended.end != WORKER_IDLE || word(b, COUNTER_AT) != BESIDE)
		return "other workers cannot compute meanwhile";
	if (proves) {
		rounds->own += own_then - own;
		rounds->other += other_then - other;
	}
	return NULL;
}

/* Stops work, and tests what METHOD promises while it is stopped. NULL or a sentence. */
static const char *test_stop(struct tenant *a, struct tenant *b, uint32_t method,
			     vgpu_nsec stand_still, uint32_t value, struct rounds *rounds,
			     vgpu_nsec *took, vgpu_nsec *trip)
{
	const char *why = stop_once(a, b, method, rounds->until, took, trip);

	if (why)
		return why;
	return method == WORKER_STOP_SOFT ? test_share(a, b, rounds)
					  : test_still(a, b, stand_still, value);
}

/* Counts to the end. NULL with the longest time in *STALL in which the counter was not seen to
 * move; or a sentence. */
static const char *watch(struct tenant *a, uint32_t method, vgpu_nsec *stall)
{
	const char *why = count_out(a, method);
	const struct timespec look = {.tv_nsec = LOOK};
	vgpu_nsec began, moved, now;
	uint64_t before, is;

	*stall = 0;
	if (why)
		return why;
	why = go_on(a, method);
	began = moved = vgpu_now();
	for (before = word(a, COUNTER_AT); !why && before < COUNTS; before = is) {
		nanosleep(&look, NULL);
		is = word(a, COUNTER_AT);
		now = vgpu_now();
		if (now - moved > *stall)
			*stall = now - moved;
		if (is != before)
			moved = now;
		if (now - began > WATCH)
			break;
	}
	if (!why && (await_count(a) < 0 || word(a, COUNTER_AT) != COUNTS))
		why = "the result of work that was not stopped is wrong";
	return why;
}

/* Judges whether half of the stops took longer than the host's own delays can explain. NULL or a
 * sentence. */
static const char *judge_times(struct tenant *a, uint32_t method, const struct rounds *rounds)
{
	vgpu_nsec typical = rounds->took[ROUNDS / 2], stall = 0;
	const char *why;

	if (typical <= BOUND)
		return NULL;
	why = watch(a, method, &stall);
	if (!why && typical > BOUND + TRIPS * rounds->trip[ROUNDS / 2] + STALLS * stall)
		why = "stopping takes too long";
	return why;
}

static const char *test_quiet(struct tenant *a, struct tenant *b, uint32_t method,
			      struct rounds *rounds)
{
	const char *why = NULL;
	uint32_t i;

	for (i = 0; i < ROUNDS && !why; i++)
		why = test_stop(a, b, method, i ? STAND_STILL : FIRST_STAND_STILL,
				i < 3 ? 0x5a5a0000 + i : 0, rounds, &rounds->took[i],
				&rounds->trip[i]);
	if (why)
		return why;
	qsort(rounds->took, ROUNDS, sizeof(rounds->took[0]), compare);
	qsort(rounds->trip, ROUNDS, sizeof(rounds->trip[0]), compare);
	return judge_times(a, method, rounds);
}

/* One stop while the third worker starts or ends. NULL or a sentence. */
static const char *test_disturbed(struct tenant *a, struct tenant *b, uint32_t method,
				  struct rounds *rounds)
{
	vgpu_nsec took = 0, trip;
	const char *why = test_stop(a, b, method, STAND_STILL, 0, rounds, &took, &trip);

	if (took > rounds->disturbed)
		rounds->disturbed = took;
	return why;
}

/* Stops work while worker C starts. Returns 0 or -errno with one sentence: C does not start. */
static int test_starting(struct tenant *a, struct tenant *b, uint32_t method, struct tenant *c,
			 const struct softgpu_config *config, struct rounds *rounds,
			 const char **why, struct vgpu_error *err)
{
	vgpu_nsec until = vgpu_now() + START_MS * VGPU_MSEC;
	int r = tenant_start(c, 2, config, err);

	if (r < 0)
		return r;
	do {
		*why = test_disturbed(a, b, method, rounds);
	} while (!*why && atomic_load(&c->worker->shared->state) == WORKER_STARTING &&
		 !worker_exited(c->worker) && vgpu_now() < until);
	return *why ? 0 : worker_wait_ready(c->worker, START_MS, err);
}

/* Stops work while worker C ends. Returns 0 or -errno with one sentence: C does not end. */
static int test_ending(struct tenant *a, struct tenant *b, uint32_t method, struct tenant *c,
		       bool kill, struct rounds *rounds, const char **why, struct vgpu_error *err)
{
	vgpu_nsec until = vgpu_now() + KILL_MS * VGPU_MSEC;

	pidfd_send_signal(c->worker->pidfd, kill ? SIGKILL : SIGTERM, NULL, 0);
	do {
		*why = test_disturbed(a, b, method, rounds);
	} while (!*why && !worker_exited(c->worker) && vgpu_now() < until);
	return tenant_end(c, err);
}

/* Stops work while a third worker comes and goes: it is asked to end the first time, and killed the
 * second time. 0: *WHY is NULL or a sentence; -errno: the third worker does not start or end. */
static int test_churn(struct tenant *a, struct tenant *b, uint32_t method,
		      const struct softgpu_config *config, struct rounds *rounds, const char **why,
		      struct vgpu_error *err)
{
	struct tenant c;
	uint32_t i;
	int r = 0, ended;

	for (i = 0; i < CHURNS && r == 0 && !*why; i++) {
		c = (struct tenant){.fd = -1};
		r = test_starting(a, b, method, &c, config, rounds, why, err);
		if (r == 0 && !*why)
			r = test_ending(a, b, method, &c, i % 2, rounds, why, err);
		ended = tenant_end(&c, r < 0 ? NULL : err);
		r = r < 0 ? r : ended;
	}
	return r;
}

/* Writes to OUT which part of the GPU work had to be stopped softly, in millionths. Returns NULL if
 * that is at most what CONFIG allows, else a sentence. */
static const char *judge_share(const struct softgpu_config *config, const struct rounds *rounds,
			       struct workers_tested *out)
{
	uint64_t all = rounds->own + rounds->other;

	if (all == 0)
		return "it ends before its part of the GPU can be measured";
	out->leak = (uint32_t)(rounds->own * 1000000 / all);
	fprintf(stderr,
		"<4>softgpu: %s: work that is stopped softly continues, with %.1f %% of the GPU "
		"beside other work\n",
		out->device, (double)out->leak / 1e4);
	return out->leak <= config->soft_stop * 10000 ? NULL : "--soft-stop allows it less";
}

/* Tests a method of stopping. 0: *WHY is NULL, with the times in *OUT, or a sentence that says why
 * the method does not work; -errno: a third worker does not start or end. */
static int test_method(struct tenant *a, struct tenant *b, uint32_t method,
		       const struct softgpu_config *config, struct workers_tested *out,
		       const char **why, struct vgpu_error *err)
{
	struct rounds rounds = {.until = vgpu_now() + TEST_MOST};
	int r = 0;

	*why = test_quiet(a, b, method, &rounds);
	if (!*why)
		r = test_churn(a, b, method, config, &rounds, why, err);
	if (r == 0 && !*why)
		*why = count_out(a, method);
	if (r == 0 && !*why && method == WORKER_STOP_SOFT)
		*why = judge_share(config, &rounds, out);
	out->stops = WORKER_STOP_BLOCK | method;
	out->level = level_of(method);
	out->typical = rounds.took[ROUNDS / 2];
	out->longest = rounds.took[ROUNDS - 1];
	out->disturbed = rounds.disturbed;
	return r;
}

/* Measures how long killing a worker takes, which is used if no method of stopping works. */
static int measure_kill(struct tenant *a, struct workers_tested *out, struct vgpu_error *err)
{
	vgpu_nsec begin;
	int r;

	put_packet(a, (struct softgpu_packet){SOFTGPU_COUNT, 0, {COUNTER_AT, COUNTS}});
	run(a, 0);
	moves(a, word(a, COUNTER_AT), DEADLINE);
	begin = vgpu_now();
	r = tenant_end(a, err);
	out->stops = WORKER_STOP_BLOCK;
	out->level = SOFTGPU_PREEMPT_KILL;
	out->leak = 0;
	out->typical = out->longest = out->disturbed = vgpu_now() - begin;
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
			r = test_method(&a, &b, method, config, out, why, err);
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
		{WORKER_STOP_SOFT, "the shortest time slice"},
	};
	const char *why;
	size_t i;
	int r;

	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		/* It protects other VFs less than killing does: only the operator of softgpu may
		 * choose it. */
		if (methods[i].method == WORKER_STOP_SOFT && config->soft_stop == 0)
			continue;
		r = try(config, methods[i].method, out, &why, err);
		if (r < 0 || !why)
			return r;
		fprintf(stderr, "<5>softgpu: %s: work cannot be stopped by %s: %s\n", out->device,
			methods[i].name, why);
	}
	return try(config, 0, out, &why, err);
}
