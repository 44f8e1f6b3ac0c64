/* SPDX-License-Identifier: MIT */
/*
 * Workers on a device, as softgpu starts them: "test-device host"; "test-device soft-cuda", with
 * the CUDA driver in software; or "test-device cuda" on a GPU (skipped where there is none). Each
 * packet is compared with plain C while the work is stopped at random instants. Other tests check
 * what a tenant leaves behind, and what a broken or hostile tenant costs the others.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "draw.h"
#include "jobs.h"
#include "suite.h"
#include "softgpu/registers.h"
#include "softgpu/packets.h"
#include "vgpu/clock.h"

#define WINDOW (UINT64_C(16) << 20)
#define PARTITION (UINT64_C(64) << 20)
#define RING_PACKETS 256u
#define FENCE_AT (RING_PACKETS * 64u)
#define FREE_AT (UINT64_C(1) << 20)
#define HARD_STOPS (WORKER_STOP_CHANNELS | WORKER_STOP_GROUPS)
#define EVERY_STOP (WORKER_STOP_BLOCK | HARD_STOPS)
#define PATIENCE_MS 60000

static const char *device = "host";
static struct device_about about;

struct tenant {
	struct worker_client *worker;
	uint8_t *window;
	int fd;
	uint64_t wptr;
	struct worker_ended ended;
	uint32_t stops, hard, block;
	vgpu_nsec longest;
};

static int begin(struct tenant *t, struct vgpu_error *err)
{
	struct worker_options options = {.device = device,
					 .size = PARTITION,
					 .limit = UINT64_C(8) << 30,
					 .modules = UINT64_C(64) << 20,
					 .uid = 65534,
					 .gid = 65534};

	t->fd = memfd_create("test-device", MFD_CLOEXEC);
	if (ftruncate(t->fd, (off_t)WINDOW) < 0)
		return -errno;
	t->window = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	options.window_fd = t->fd;
	return worker_start(&t->worker, &options, err);
}

static int start(struct tenant *t, struct vgpu_error *err)
{
	int r = begin(t, err);

	return r < 0 ? r : worker_wait_ready(t->worker, PATIENCE_MS, err);
}

static void tenant_start(struct tenant *t)
{
	struct vgpu_error err = {""};

	*t = (struct tenant){.fd = -1};
	if (start(t, &err) < 0) {
		puts(err.text);
		CU_FAIL_FATAL("a worker did not start");
	}
}

static void forget(struct tenant *t)
{
	munmap(t->window, WINDOW);
	close(t->fd);
}

static void tenant_end(struct tenant *t)
{
	CU_ASSERT(worker_gone(worker_quit(t->worker), PATIENCE_MS));
	forget(t);
}

static void put(struct tenant *t, struct softgpu_packet p)
{
	memcpy(t->window + t->wptr++ % RING_PACKETS * sizeof(p), &p, sizeof(p));
	atomic_store(&t->worker->shared->wptr, t->wptr);
}

static void run(struct tenant *t)
{
	struct worker_message m = {
		.run = {0, RING_PACKETS, t->ended.rptr, FENCE_AT, EVERY_STOP, 0}};

	worker_run(t->worker, &m);
}

/* Receives messages until the run ends, for at most MS milliseconds. Returns true if it has
 * ended. */
static bool listen_for(struct tenant *t, int ms)
{
	struct pollfd p[] = {{t->worker->socket, POLLIN, 0}};
	vgpu_nsec until = vgpu_now() + (vgpu_nsec)ms * VGPU_MSEC;
	struct worker_message m;
	int r;

	for (;;) {
		while ((r = worker_receive(t->worker, &m)) > 0) {
			if (m.type != WORKER_ENDED)
				continue;
			t->ended = m.ended;
			return true;
		}
		if (r < 0 || vgpu_now() >= until) {
			if (r < 0)
				t->ended = (struct worker_ended){.end = WORKER_LOST};
			return r < 0;
		}
		poll(p, 1, (int)((until - vgpu_now()) / VGPU_MSEC) + 1);
	}
}

static bool stop(struct tenant *t)
{
	vgpu_nsec begin = vgpu_now();

	worker_stop(t->worker);
	if (!listen_for(t, PATIENCE_MS))
		return false;
	if (t->ended.end == WORKER_STOPPED) {
		t->stops++;
		t->hard += t->ended.level == SOFTGPU_PREEMPT_HARD;
		t->block += t->ended.level == SOFTGPU_PREEMPT_BLOCK;
		t->longest = vgpu_now() - begin > t->longest ? vgpu_now() - begin : t->longest;
	}
	return true;
}

/* Runs the packets of the ring to their end, in turns of at most US microseconds; 0: without
 * interruption. */
static bool finish(struct tenant *t, uint64_t us)
{
	for (;;) {
		run(t);
		if (us == 0) {
			if (!listen_for(t, PATIENCE_MS))
				return false;
		} else {
			struct timespec turn = {.tv_nsec = (long)(draw(us) * 1000)};

			nanosleep(&turn, NULL);
			if (!stop(t))
				return false;
		}
		if (t->ended.end != WORKER_STOPPED)
			return t->ended.end == WORKER_IDLE &&
			       !atomic_load(&t->worker->shared->waits);
	}
}

/* Puts a job at offset AT of the partition. If AT is in device memory, its data are uploaded first
 * and downloaded afterwards. */
static void put_job(struct tenant *t, const struct job *j, uint64_t at, uint64_t shown)
{
	struct softgpu_packet p = j->packet;
	uint32_t i;

	for (i = 0; i < 3; i++)
		if (j->places >> i & 1)
			p.arg[i] += at;
	memset(t->window + shown, 0, j->bytes);
	if (j->fill)
		j->fill(t->window + shown);
	if (at != shown)
		put(t, (struct softgpu_packet){SOFTGPU_UPLOAD, 0, {at, shown, j->bytes}});
	put(t, p);
	if (at != shown)
		put(t, (struct softgpu_packet){SOFTGPU_DOWNLOAD, 0, {shown, at, j->bytes}});
}

static bool is_right(const struct tenant *t, const struct job *j, uint64_t shown)
{
	uint8_t *wanted = calloc(1, j->bytes);
	bool right;

	if (j->fill)
		j->fill(wanted);
	j->expect(wanted);
	right = memcmp(wanted, t->window + shown, j->bytes) == 0;
	free(wanted);
	if (!right)
		printf(" %s is wrong;", j->name);
	return right;
}

static void packets(void)
{
	struct tenant t;
	uint32_t i, place;

	jobs_begin();
	tenant_start(&t);
	for (i = 0; i < JOBS; i++) {
		for (place = 0; place < 2; place++) {
			uint64_t at = place ? WINDOW + 4096 : FREE_AT;

			put_job(&t, &jobs[i], at, FREE_AT);
			put(&t, (struct softgpu_packet){SOFTGPU_FENCE, 0, {i * 2 + place + 1}});
			CU_ASSERT(finish(&t, 0));
			CU_ASSERT_EQUAL(*(uint64_t *)(t.window + FENCE_AT), i * 2 + place + 1);
			CU_ASSERT(is_right(&t, &jobs[i], FREE_AT));
		}
	}
	tenant_end(&t);
}

/* Two tenants take turns of random length, with a thousand world switches: all results are right to
 * the bit. */
static void switches(void)
{
	struct tenant t[2];
	uint32_t i, k, total = 0;

	jobs_begin();
	tenant_start(&t[0]);
	tenant_start(&t[1]);
	for (i = 0; total < 1000; i++) {
		struct tenant *x = &t[i % 2];
		uint64_t shown[JOBS], next = FREE_AT;

		for (k = 0; k < JOBS; k++) {
			shown[k] = next;
			put_job(x, &jobs[k], draw(2) ? WINDOW + next : next, next);
			next += (jobs[k].bytes + 255) / 256 * 256;
		}
		CU_ASSERT_FATAL(finish(x, 300));
		for (k = 0; k < JOBS; k++)
			CU_ASSERT(is_right(x, &jobs[k], shown[k]));
		total = t[0].stops + t[1].stops;
	}
	printf(" %u stops, %u hard, %u between blocks, longest %.0f us;", total,
	       t[0].hard + t[1].hard, t[0].block + t[1].block,
	       (double)(t[0].longest > t[1].longest ? t[0].longest : t[1].longest) / 1e3);
	CU_ASSERT(t[0].hard + t[1].hard > 0 || !(about.stops & HARD_STOPS));
	tenant_end(&t[0]);
	tenant_end(&t[1]);
}

/* Work that never ends is stopped, stays stopped, and continues in its next turn. The other tenant
 * computes meanwhile. */
static void endless(void)
{
	static const struct softgpu_packet works[] = {
		{SOFTGPU_ENDLESS, 0, {0}},
		{SOFTGPU_NONPREEMPTIBLE, 0, {3600000000u}},
	};
	struct tenant a, b;
	uint32_t i, k, begun;

	jobs_begin();
	for (k = 0; k < 2; k++) {
		begun = 0;
		tenant_start(&a);
		tenant_start(&b);
		put(&a, works[k]);
		for (i = 0; i < 20; i++) {
			run(&a);
			CU_ASSERT(!listen_for(&a, 2));
			CU_ASSERT(stop(&a) && a.ended.end == WORKER_STOPPED);
			begun += a.ended.active; /* on a busy machine the work may not have begun */
			put_job(&b, &jobs[0], FREE_AT, FREE_AT);
			CU_ASSERT(finish(&b, 0) && is_right(&b, &jobs[0], FREE_AT));
		}
		CU_ASSERT(begun > 0 && (k == 0 || a.hard == begun));
		/* the work ends with its worker, and the other tenant is not affected */
		CU_ASSERT(worker_kill(a.worker, PATIENCE_MS));
		forget(&a);
		put_job(&b, &jobs[0], FREE_AT, FREE_AT);
		CU_ASSERT(finish(&b, 0) && is_right(&b, &jobs[0], FREE_AT));
		tenant_end(&b);
	}
}

/* A worker is killed at random instants. The next one can use the whole memory, and finds only
 * zeros in it. */
static void killed(void)
{
	const uint64_t all = PARTITION - WINDOW, part = UINT64_C(8) << 20;
	uint64_t at, i, left = 0;
	struct tenant t;
	uint32_t round;

	for (round = 0; round < 8; round++) {
		tenant_start(&t);
		for (at = 0; at < all; at += part) {
			put(&t, (struct softgpu_packet){SOFTGPU_DOWNLOAD,
							0,
							{FREE_AT, WINDOW + at, part}});
			CU_ASSERT_FATAL(finish(&t, 0));
			for (i = 0; i < part; i += 8)
				left += *(uint64_t *)(t.window + FREE_AT + i) != 0;
		}
		put(&t, (struct softgpu_packet){SOFTGPU_FILL, 0, {WINDOW, all, 0xffffffff}});
		put(&t, (struct softgpu_packet){SOFTGPU_ENDLESS, 0, {0}});
		run(&t);
		listen_for(&t, (int)draw(20));
		if (round % 2) {
			stop(&t);
			tenant_end(&t);
		} else {
			CU_ASSERT(worker_kill(t.worker, PATIENCE_MS));
			forget(&t);
		}
	}
	CU_ASSERT_EQUAL(left, 0);
}

static void errors(void)
{
	static const struct {
		struct softgpu_packet packet;
		uint32_t error;
	} cases[] = {
		{{0x77, 0, {0}}, SOFTGPU_BAD_OPCODE},
		{{SOFTGPU_FILL, 0, {PARTITION - 4, 8, 0}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_FILL, 0, {WINDOW - 4, 8, 0}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_UPLOAD, 0, {WINDOW, PARTITION - 8, 8}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_COPY, 0, {0, UINT64_MAX, 2}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_EVENT, 0, {WINDOW}}, SOFTGPU_OUT_OF_RANGE},
		{{SOFTGPU_EVENT, 0, {4}}, SOFTGPU_BAD_ARGUMENT},
		{{SOFTGPU_FAULT, 0, {0}}, SOFTGPU_FAULTED},
	};
	struct tenant t;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tenant_start(&t);
		put(&t, cases[i].packet);
		run(&t);
		CU_ASSERT(listen_for(&t, PATIENCE_MS));
		CU_ASSERT_EQUAL(t.ended.end, WORKER_FAILED);
		CU_ASSERT_EQUAL(t.ended.error, cases[i].error);
		tenant_end(&t);
	}
	/* a write pointer that says more packets than the ring holds */
	tenant_start(&t);
	atomic_store(&t.worker->shared->wptr, RING_PACKETS + 1);
	run(&t);
	CU_ASSERT(listen_for(&t, PATIENCE_MS));
	CU_ASSERT_EQUAL(t.ended.error, SOFTGPU_BAD_RING);
	tenant_end(&t);
}

/* EVENT packets report times by the device's clock. */
static void events(void)
{
	struct tenant t;
	uint64_t *at;

	tenant_start(&t);
	put(&t, (struct softgpu_packet){SOFTGPU_EVENT, 0, {FREE_AT}});
	put(&t, (struct softgpu_packet){SOFTGPU_COUNT, 0, {FREE_AT + 64, 1000}});
	put(&t, (struct softgpu_packet){SOFTGPU_EVENT, 0, {FREE_AT + 8}});
	put(&t, (struct softgpu_packet){SOFTGPU_EVENT, 0, {FREE_AT + 16}});
	CU_ASSERT(finish(&t, 300));
	at = (uint64_t *)(t.window + FREE_AT);
	CU_ASSERT(at[0] > 0 && at[1] >= at[0] + 2 * VGPU_MSEC && at[2] >= at[1]);
	tenant_end(&t);
}

/* The program that started the worker moves bytes between the window and a client's memory. */
static void dma(void)
{
	struct tenant t;
	struct worker_message m, done = {.type = WORKER_DMA_DONE};
	uint64_t moved = 0;
	int r;

	tenant_start(&t);
	put(&t, (struct softgpu_packet){SOFTGPU_DMA_IN, 0, {FREE_AT, 0x1000, 200000}});
	put(&t, (struct softgpu_packet){SOFTGPU_COPY, 0, {WINDOW, FREE_AT, 200000}});
	run(&t);
	do {
		struct pollfd p = {t.worker->socket, POLLIN, 0};

		poll(&p, 1, PATIENCE_MS);
		r = worker_receive(t.worker, &m);
		if (r > 0 && m.type == WORKER_DMA) {
			CU_ASSERT(m.dma.at == FREE_AT + moved && m.dma.iova == 0x1000 + moved);
			CU_ASSERT(!m.dma.out);
			moved += m.dma.bytes;
			worker_send(t.worker, &done);
		}
	} while (r > 0 && m.type != WORKER_ENDED);
	CU_ASSERT(r > 0 && m.ended.end == WORKER_IDLE);
	CU_ASSERT_EQUAL(moved, 200000);
	tenant_end(&t);
}

/* Malformed messages, and messages at the wrong time, change nothing. */
static void nonsense(void)
{
	struct worker_message m;
	struct tenant t;
	uint32_t i;
	size_t k;

	jobs_begin();
	tenant_start(&t);
	for (i = 0; i < 2000; i++) {
		for (k = 0; k < sizeof(m); k++)
			((uint8_t *)&m)[k] = (uint8_t)draw(256);
		m.type = draw(2) ? WORKER_STOP : WORKER_DMA_DONE;
		if (draw(4) == 0)
			m.type = (uint32_t)(100 + draw(1000));
		send(t.worker->socket, &m, draw(3) ? sizeof(m) : 1 + draw(sizeof(m)), MSG_NOSIGNAL);
	}
	put_job(&t, &jobs[1], FREE_AT, FREE_AT);
	CU_ASSERT(finish(&t, 0) && is_right(&t, &jobs[1], FREE_AT));
	tenant_end(&t);
}

/* swapping, by the program that has started the worker */

#define BEHIND (PARTITION - WINDOW)

/* Asks the worker, and waits for its answer. The result; -EPIPE: there is no answer. */
static int ask(struct tenant *t, struct worker_memory m)
{
	struct pollfd p = {t->worker->memory_fd, POLLIN, 0};

	if (send(p.fd, &m, sizeof(m), MSG_NOSIGNAL) < 0 || poll(&p, 1, PATIENCE_MS) <= 0 ||
	    recv(p.fd, &m, sizeof(m), 0) != sizeof(m))
		return -EPIPE;
	return m.result;
}

static int ask_copy(struct tenant *t, uint8_t *at_home, uint64_t at, uint64_t n, bool out)
{
	const struct worker_memory m = {.what = out ? WORKER_MEMORY_OUT : WORKER_MEMORY_IN,
					.at = at,
					.bytes = n};
	int r;

	if (!out && pwrite(t->worker->stage_fd, at_home + at, n, 0) != (ssize_t)n)
		return -errno;
	r = ask(t, m);
	if (r == 0 && out && pread(t->worker->stage_fd, at_home + at, n, 0) != (ssize_t)n)
		return -errno;
	return r;
}

static int copy_all(struct tenant *t, uint8_t *home, bool out)
{
	uint64_t at, n;
	int r = 0;

	for (at = 0; at < BEHIND && r == 0; at += n) {
		n = 1 + draw(WORKER_STAGE);
		n = n < BEHIND - at ? n : BEHIND - at;
		r = ask_copy(t, home, at, n, out);
	}
	return r;
}

/* Copies all out. A piece that was stopped hard may not have ended in the time that it is given. */
static int copy_out(struct tenant *t, uint8_t *home)
{
	const vgpu_nsec until = vgpu_now() + PATIENCE_MS * VGPU_MSEC;
	int r;

	do
		r = copy_all(t, home, true);
	while (r == -EBUSY && vgpu_now() < until);
	return r;
}

static int leave(struct tenant *t)
{
	return ask(t, (struct worker_memory){.what = WORKER_MEMORY_LEAVE});
}

static bool put_about(struct tenant *t, struct softgpu_about *out)
{
	put(t, (struct softgpu_packet){SOFTGPU_ABOUT, 0, {0, FREE_AT, sizeof(*out)}});
	if (!finish(t, 0))
		return false;
	memcpy(out, t->window + FREE_AT, sizeof(*out));
	return true;
}

/* Work in device memory is stopped at random instants, hard ones too, and its memory goes to host
 * memory and comes back. Another tenant has memory meanwhile. Results are right to the bit, and the
 * addresses are the same. */
static void swaps(void)
{
	uint8_t *home = malloc(BEHIND);
	struct tenant t, other;
	/* The machine that executes PTX is slow, and stops only between blocks. */
	const uint64_t turn_us = about.stops & HARD_STOPS ? 3000 : 400000;
	const uint32_t rounds = about.stops & HARD_STOPS ? 6 : 1;
	uint32_t round, k, swapped = 0, hard = 0, busy = 0;
	struct softgpu_about before = {.name = ""}, after = {.name = ""};
	uint64_t shown[JOBS], next;
	int r;

	jobs_begin();
	tenant_start(&t);
	for (round = 0; round < rounds; round++) {
		CU_ASSERT(!about.modules || put_about(&t, &before));
		for (k = 0, next = FREE_AT; k < JOBS; k++) {
			shown[k] = next;
			put_job(&t, &jobs[k], WINDOW + next, next);
			next += (jobs[k].bytes + 255) / 256 * 256;
		}
		do {
			struct timespec turn = {.tv_nsec = (long)(draw(turn_us) * 1000)};

			run(&t);
			nanosleep(&turn, NULL);
			CU_ASSERT_FATAL(stop(&t));
			if (draw(4) && swapped > 0)
				continue;
			hard += t.ended.end == WORKER_STOPPED &&
				t.ended.level == SOFTGPU_PREEMPT_HARD;
			r = copy_all(&t, home, true);
			busy += r == -EBUSY;
			if (r == -EBUSY)
				continue;
			CU_ASSERT_EQUAL_FATAL(r, 0);
			CU_ASSERT_EQUAL_FATAL(leave(&t), 0);
			if (swapped++ % 16 == 0) {
				tenant_start(&other);
				put(&other, (struct softgpu_packet){SOFTGPU_FILL,
								    0,
								    {WINDOW, BEHIND, 0xffffffff}});
				CU_ASSERT(finish(&other, 0));
				CU_ASSERT(worker_kill(other.worker, PATIENCE_MS));
				forget(&other);
			}
			CU_ASSERT_EQUAL_FATAL(copy_all(&t, home, false), 0);
		} while (t.ended.end == WORKER_STOPPED);
		CU_ASSERT_EQUAL(t.ended.end, WORKER_IDLE);
		for (k = 0; k < JOBS; k++)
			CU_ASSERT(is_right(&t, &jobs[k], shown[k]));
		CU_ASSERT(!about.modules || put_about(&t, &after));
		CU_ASSERT(memcmp(&before, &after, sizeof(before)) == 0);
	}
	printf(" %u swaps, %u after a hard stop, %u refused;", swapped, hard, busy);
	CU_ASSERT(swapped > 0);
	tenant_end(&t);
	free(home);
}

/* What the worker refuses, and what it does not mind. */
static void swaps_refused(void)
{
	const struct worker_memory bad[] = {
		{0, 0, 0, 0},
		{4, 0, 0, 64},
		{WORKER_MEMORY_OUT, 0, 0, 0},
		{WORKER_MEMORY_OUT, 0, 0, WORKER_STAGE + 1},
		{WORKER_MEMORY_OUT, 0, BEHIND - 8, 16},
		{WORKER_MEMORY_OUT, 0, UINT64_MAX - 7, 16},
		{WORKER_MEMORY_IN, 0, 0, 64}, /* nothing has left */
	};
	uint8_t *home = calloc(1, BEHIND);
	struct tenant t;
	uint32_t i, k;

	jobs_begin();
	tenant_start(&t);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(ask(&t, bad[i]), -EINVAL);
	for (i = 0; i < 200; i++) {
		struct worker_memory m;

		for (k = 0; k < sizeof(m); k++)
			((uint8_t *)&m)[k] = (uint8_t)draw(256);
		if (i % 2)
			send(t.worker->memory_fd, &m, 1 + draw(sizeof(m) - 1), MSG_NOSIGNAL);
		else
			CU_ASSERT(m.what <= 3 || ask(&t, m) == -EINVAL);
	}
	put_job(&t, &jobs[4], WINDOW, FREE_AT);
	CU_ASSERT(finish(&t, 0) && is_right(&t, &jobs[4], FREE_AT));

	/* a run that has not ended */
	put(&t, (struct softgpu_packet){SOFTGPU_ENDLESS, 0, {0}});
	run(&t);
	CU_ASSERT(!listen_for(&t, 2));
	CU_ASSERT_EQUAL(ask_copy(&t, home, 0, 64, true), -EBUSY);
	CU_ASSERT_EQUAL(leave(&t), -EBUSY);
	CU_ASSERT(stop(&t));

	/* a gap, and a copy that begins again where it was */
	CU_ASSERT_EQUAL(copy_out(&t, home), 0);
	CU_ASSERT_EQUAL(leave(&t), 0);
	CU_ASSERT_EQUAL(ask_copy(&t, home, 0, 64, true), -EINVAL);
	CU_ASSERT_EQUAL(ask_copy(&t, home, 64, 64, false), -EINVAL);
	CU_ASSERT_EQUAL(ask_copy(&t, home, 0, 128, false), 0);
	CU_ASSERT_EQUAL(ask_copy(&t, home, 64, 128, false), 0);
	CU_ASSERT_EQUAL(ask_copy(&t, home, 193, 64, false), -EINVAL);
	/* given up half way, and begun anew */
	CU_ASSERT_EQUAL(leave(&t), 0);
	CU_ASSERT_EQUAL(ask_copy(&t, home, 64, 64, false), -EINVAL);
	CU_ASSERT_EQUAL(copy_all(&t, home, false), 0);
	CU_ASSERT_EQUAL(ask_copy(&t, home, 0, 64, false), -EINVAL);
	tenant_end(&t);

	/* to run without memory ends the worker, even if the work needs none */
	tenant_start(&t);
	CU_ASSERT_EQUAL(copy_all(&t, home, true), 0);
	CU_ASSERT_EQUAL(leave(&t), 0);
	put_job(&t, &jobs[4], FREE_AT, FREE_AT);
	run(&t);
	CU_ASSERT(listen_for(&t, PATIENCE_MS) && t.ended.end == WORKER_LOST);
	CU_ASSERT(worker_kill(t.worker, PATIENCE_MS));
	forget(&t);
	/* one that is out ends as any other does */
	tenant_start(&t);
	CU_ASSERT_EQUAL(copy_all(&t, home, true), 0);
	CU_ASSERT_EQUAL(leave(&t), 0);
	tenant_end(&t);
	free(home);
}

/* What COUNT has written. */
static uint64_t counted(const struct tenant *t)
{
	return *(volatile uint64_t *)(t->window + FREE_AT);
}

/* Memory is not taken from a GPU kernel that was stopped in its middle: the kernel may end first,
 * and one that does not is stopped again. */
static void swaps_drain(void)
{
	uint8_t *home = malloc(BEHIND);
	struct tenant t;
	uint64_t before;
	vgpu_nsec until = vgpu_now() + 60 * VGPU_SEC;
	bool hard = false;
	int r = -EBUSY;

	tenant_start(&t);
	/* one that ends within a few milliseconds; on a busy machine it takes longer, and is not
	 * waited for again for seconds, or has ended before it could be stopped */
	while (vgpu_now() < until && !(hard && r == 0)) {
		memset(t.window + FREE_AT, 0, 128);
		put(&t, (struct softgpu_packet){SOFTGPU_FILL, 0, {WINDOW, 64, 0}});
		put(&t, (struct softgpu_packet){SOFTGPU_COUNT, 0, {FREE_AT, 5000}});
		put(&t, (struct softgpu_packet){SOFTGPU_FILL, 0, {WINDOW, 64, 7}});
		put(&t, (struct softgpu_packet){SOFTGPU_DOWNLOAD, 0, {FREE_AT + 64, WINDOW, 64}});
		run(&t);
		while (counted(&t) == 0)
			;
		CU_ASSERT_FATAL(stop(&t));
		hard = t.ended.end == WORKER_STOPPED && t.ended.level == SOFTGPU_PREEMPT_HARD &&
		       counted(&t) < 5000;
		r = copy_all(&t, home, true);
		if (hard && r == 0) {
			CU_ASSERT_EQUAL(counted(&t), 5000);
			CU_ASSERT_EQUAL(*(uint32_t *)home, 0); /* nothing after it has run */
			CU_ASSERT_EQUAL(leave(&t), 0);
			CU_ASSERT_EQUAL(copy_all(&t, home, false), 0);
			/* It is not counted again: the worker knows better how far it is. */
			memset(t.window + FREE_AT, 0, 8);
			t.ended.rptr = 0;
		}
		CU_ASSERT_FATAL(finish(&t, 0));
		CU_ASSERT_EQUAL(counted(&t), hard && r == 0 ? 0 : 5000);
		CU_ASSERT_EQUAL(*(uint32_t *)(t.window + FREE_AT + 64), 7);
	}
	CU_ASSERT(hard && r == 0);
	/* one that does not */
	put(&t, (struct softgpu_packet){SOFTGPU_COUNT, 0, {FREE_AT, UINT64_C(1) << 40}});
	*(uint64_t *)(t.window + FREE_AT) = 0;
	run(&t);
	while (counted(&t) == 0)
		;
	CU_ASSERT_FATAL(stop(&t));
	until = vgpu_now() + 60 * VGPU_SEC;
	/* it runs for this, if none has done so lately; and not again at once */
	before = counted(&t);
	do {
		CU_ASSERT_EQUAL_FATAL(copy_all(&t, home, true), -EBUSY);
		CU_ASSERT_FATAL(vgpu_now() < until);
	} while (counted(&t) == before);
	before = counted(&t);
	CU_ASSERT_EQUAL(leave(&t), -EBUSY);
	nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	CU_ASSERT_EQUAL(counted(&t), before);
	run(&t);
	until = vgpu_now() + 60 * VGPU_SEC;
	while (counted(&t) == before && vgpu_now() < until)
		sched_yield();
	CU_ASSERT(counted(&t) > before && !listen_for(&t, 20));
	CU_ASSERT(stop(&t));
	CU_ASSERT(worker_kill(t.worker, PATIENCE_MS));
	forget(&t);
	free(home);
}

/* If memory runs out, the kernel kills a worker before softgpu: its compiler may take any amount.
 */
static void yields_memory(void)
{
	char path[64], text[16] = "";
	struct tenant t;
	int fd;

	tenant_start(&t);
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", t.worker->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CU_ASSERT(read(fd, text, sizeof(text) - 1) > 0);
	CU_ASSERT_EQUAL(atoi(text), 500);
	close(fd);
	tenant_end(&t);
}

/* A worker that is told to end in the middle of a GPU kernel that nothing holds back ends with it:
 * another VF may have the GPU already. */
static void ends_at_once(void)
{
	struct tenant t;
	vgpu_nsec began;

	tenant_start(&t);
	put(&t, (struct softgpu_packet){SOFTGPU_COUNT, 0, {FREE_AT, UINT64_C(1) << 40}});
	run(&t);
	while (counted(&t) == 0)
		;
	began = vgpu_now();
	tenant_end(&t);
	CU_ASSERT(vgpu_now() - began < 4 * VGPU_SEC); /* not only by its alarm, after 5 s */
}

/* The memory of the GPU in software, whose driver keeps it in this file: two tenants have room, and
 * three workers, with what each has for its own GPU kernels. */
static char pool[] = "/tmp/vgpud-test-pool-XXXXXX";
#define POOL (BEHIND * 2 + (UINT64_C(24) << 20))

/* How often a word is in the GPU's memory. */
static uint64_t count_words(uint32_t word)
{
	static uint32_t words[65536];
	uint64_t at, n = 0;
	int fd = open(pool, O_RDONLY | O_CLOEXEC);
	size_t i;

	for (at = 0; at < POOL; at += sizeof(words)) {
		if (pread(fd, words, sizeof(words), (off_t)at) != (ssize_t)sizeof(words))
			break;
		for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			n += words[i] == word;
	}
	close(fd);
	return at == POOL ? n : UINT64_MAX;
}

static void mark(struct tenant *t, uint32_t word)
{
	put(t, (struct softgpu_packet){SOFTGPU_FILL, 0, {WINDOW, BEHIND, word}});
	CU_ASSERT(finish(t, 0));
	CU_ASSERT_EQUAL(count_words(word), BEHIND / 4);
}

/* While a VF is out its memory is another's, which finds nothing of it there. Without room it stays
 * out, and loses nothing. */
static void swaps_free_memory(void)
{
	uint8_t *home = malloc(BEHIND);
	struct vgpu_error err = {""};
	struct tenant a, b, c = {.fd = -1};
	uint64_t i, others = 0;

	tenant_start(&a);
	tenant_start(&b);
	mark(&a, 0xaaaa0001);
	CU_ASSERT_EQUAL(start(&c, &err), -ENOMEM);
	CU_ASSERT(worker_kill(c.worker, PATIENCE_MS));
	forget(&c);
	CU_ASSERT_EQUAL(copy_all(&a, home, true), 0);
	CU_ASSERT_EQUAL(leave(&a), 0);
	CU_ASSERT_EQUAL(count_words(0xaaaa0001), 0);
	tenant_start(&c);
	mark(&c, 0xcccc0003);
	CU_ASSERT_EQUAL(ask_copy(&a, home, 0, 4096, false), -ENOMEM);
	CU_ASSERT_EQUAL(ask_copy(&a, home, 0, 4096, false), -ENOMEM);
	CU_ASSERT_EQUAL(count_words(0xcccc0003), BEHIND / 4);
	CU_ASSERT(worker_kill(c.worker, PATIENCE_MS)); /* it cannot clear its memory */
	forget(&c);
	CU_ASSERT_EQUAL(count_words(0xcccc0003), BEHIND / 4);
	CU_ASSERT_EQUAL(ask_copy(&a, home, 0, 4096, false), 0);
	CU_ASSERT_EQUAL(count_words(0xcccc0003), 0);
	CU_ASSERT_EQUAL(copy_all(&a, home, false), 0);
	put(&a, (struct softgpu_packet){SOFTGPU_DOWNLOAD, 0, {FREE_AT, WINDOW, 8 << 20}});
	CU_ASSERT(finish(&a, 0));
	for (i = 0; i < 8 << 20; i += 4)
		others += *(uint32_t *)(a.window + FREE_AT + i) != 0xaaaa0001;
	CU_ASSERT_EQUAL(others, 0);
	/* given up half way: what it has taken for that is free again */
	CU_ASSERT_EQUAL(copy_all(&a, home, true), 0);
	CU_ASSERT_EQUAL(leave(&a), 0);
	CU_ASSERT_EQUAL(ask_copy(&a, home, 0, 4096, false), 0);
	CU_ASSERT_EQUAL(leave(&a), 0);
	tenant_start(&c);
	tenant_end(&c);
	CU_ASSERT_EQUAL(copy_all(&a, home, false), 0);
	tenant_end(&a);
	tenant_end(&b);
	free(home);
}

/* GPU kernels that the guest brings: on a GPU */

extern const char big_ptx[], meet_ptx[], own_ptx[];

#define IMAGE_AT FREE_AT
#define LOG_AT (FREE_AT + 65536)
#define LAUNCH_AT (FREE_AT + 131072)
#define DATA_AT (FREE_AT + 262144)

/* Loads an image of BYTES bytes as MODULE, and waits for the compiler. */
static bool load_as(struct tenant *t, uint32_t module, const void *image, uint64_t bytes,
		    bool gated)
{
	struct softgpu_packet p = {SOFTGPU_MODULE_LOAD,
				   gated ? SOFTGPU_MODULE_GATED : 0,
				   {module, IMAGE_AT, bytes, LOG_AT, 4096}};

	memcpy(t->window + IMAGE_AT, image, bytes);
	put(t, p);
	for (;;) {
		struct pollfd w = {t->worker->wake_fd, POLLIN, 0};
		uint64_t n;

		run(t);
		if (!listen_for(t, PATIENCE_MS) || t->ended.end != WORKER_IDLE)
			return false;
		if (!t->ended.active)
			return true;
		while (atomic_load(&t->worker->shared->waits))
			if (poll(&w, 1, PATIENCE_MS) <= 0 || read(w.fd, &n, sizeof(n)) < 0)
				return false;
	}
}

static bool load(struct tenant *t, const char *image, bool gated)
{
	return load_as(t, 0, image, strlen(image), gated);
}

static void put_launch_as(struct tenant *t, uint32_t flags, const char *function, uint32_t grid,
			  uint32_t block, struct softgpu_launch_arg a, struct softgpu_launch_arg b,
			  uint32_t n)
{
	struct softgpu_launch l = {.grid = {grid, 1, 1},
				   .block = {block, 1, 1},
				   .n_args = n,
				   .args = {a, b}};

	snprintf(l.function, sizeof(l.function), "%s", function);
	memcpy(t->window + LAUNCH_AT, &l, sizeof(l));
	put(t, (struct softgpu_packet){SOFTGPU_LAUNCH, flags, {0, LAUNCH_AT, sizeof(l)}});
}

static void put_launch(struct tenant *t, const char *function, uint32_t grid, uint32_t block,
		       struct softgpu_launch_arg a, struct softgpu_launch_arg b, uint32_t n)
{
	put_launch_as(t, 0, function, grid, block, a, b, n);
}

static struct softgpu_launch_arg buffer(uint64_t at, uint64_t bytes)
{
	return (struct softgpu_launch_arg){.kind = SOFTGPU_ARG_BUFFER, .value = at, .bytes = bytes};
}

static struct softgpu_launch_arg value(uint64_t v, uint64_t bytes)
{
	return (struct softgpu_launch_arg){.kind = SOFTGPU_ARG_VALUE, .value = v, .bytes = bytes};
}

/* Many small launches of a guest's GPU kernel, with a gate and without, in turns of random
 * length. */
static void modules(void)
{
	const uint32_t n = 16 * 1024, rounds = 100;
	/* Where the device stops only between blocks, a turn must be long enough to check all
	 * blocks. */
	const uint64_t turn_us = about.stops & HARD_STOPS ? 100 : 50000;
	struct tenant t;
	uint32_t i, k, gated;
	uint32_t *x;

	for (gated = 0; gated < 2; gated++) {
		tenant_start(&t);
		x = (uint32_t *)(t.window + DATA_AT);
		CU_ASSERT_FATAL(load(&t, own_ptx, gated));
		for (i = 0; i < n; i++)
			x[i] = i;
		put(&t, (struct softgpu_packet){SOFTGPU_UPLOAD, 0, {WINDOW, DATA_AT, n * 4}});
		for (k = 0; k < rounds; k++)
			put_launch(&t, "add", n / 256, 256, buffer(WINDOW, n * 4), value(3, 4), 2);
		put(&t, (struct softgpu_packet){SOFTGPU_DOWNLOAD, 0, {DATA_AT, WINDOW, n * 4}});
		CU_ASSERT(finish(&t, turn_us));
		for (i = 0, k = 0; i < n; i++)
			k += x[i] != i + 3 * rounds;
		CU_ASSERT_EQUAL(k, 0);
		tenant_end(&t);
	}
}

static bool is_bad_launch(struct tenant *t)
{
	return listen_for(t, PATIENCE_MS) && t->ended.end == WORKER_FAILED &&
	       t->ended.error == SOFTGPU_BAD_LAUNCH;
}

/* A grid whose blocks wait for each other is not stopped between blocks, though its module has a
 * gate; and one that the GPU does not run at a time is refused. */
static void together(void)
{
	const uint32_t places = 256, grid = 32, rounds = 2, launches = 60;
	const uint64_t bytes = 64 + 2 * places * 4;
	/* A launch that is not stopped between blocks ends, however short its turn is. */
	const uint64_t turn_us = about.stops & HARD_STOPS ? 100 : 1000;
	struct tenant t;
	uint32_t i, k, gated, *sums;

	for (gated = 0; gated < 2; gated++) {
		tenant_start(&t);
		CU_ASSERT_FATAL(load(&t, meet_ptx, gated));
		for (k = 0; k < launches; k++) {
			put(&t, (struct softgpu_packet){SOFTGPU_FILL, 0, {WINDOW, bytes, 0}});
			put_launch_as(&t, SOFTGPU_LAUNCH_TOGETHER, "meet", grid, 64,
				      buffer(WINDOW, bytes), value(rounds, 4), 2);
		}
		put(&t, (struct softgpu_packet){SOFTGPU_DOWNLOAD, 0, {DATA_AT, WINDOW, bytes}});
		CU_ASSERT(finish(&t, turn_us));
		sums = (uint32_t *)(t.window + DATA_AT + 64 + places * 4);
		for (i = 0, k = 0; i < grid; i++)
			k += sums[i] != rounds * (rounds + 1) / 2;
		CU_ASSERT_EQUAL(k, 0);
		put_launch_as(&t, SOFTGPU_LAUNCH_TOGETHER, "meet", 1 << 20, 64,
			      buffer(WINDOW, bytes), value(1, 4), 2);
		run(&t);
		CU_ASSERT(is_bad_launch(&t));
		tenant_end(&t);
	}
	/* Only the driver in software heeds this: it is one that has no such launches. */
	setenv("SOFT_CUDA_ATTRIBUTE", "95=0", 1);
	tenant_start(&t);
	unsetenv("SOFT_CUDA_ATTRIBUTE");
	CU_ASSERT_FATAL(load(&t, meet_ptx, false));
	put_launch_as(&t, SOFTGPU_LAUNCH_TOGETHER, "meet", 1, 64, buffer(WINDOW, bytes),
		      value(1, 4), 2);
	if (strstr(about.name, "in software")) {
		run(&t);
		CU_ASSERT(is_bad_launch(&t));
	} else {
		CU_ASSERT(finish(&t, 0));
	}
	tenant_end(&t);
}

static bool refused(const struct tenant *t, enum softgpu_error error, const char *says)
{
	return t->ended.end == WORKER_FAILED && t->ended.error == error &&
	       strstr((const char *)t->window + LOG_AT, says);
}

/* PTX as compilers hand it over: with a zero byte behind it. Other images are refused, with a
 * reason in the log. */
static void images(void)
{
	static const char *const bad[] = {"", "no image", "\177ELF", "\x50\xed\x55\xba"};
	static const char *const says[] = {"no PTX, no cubin", "no PTX, no cubin",
					   "its tables are wrong", "cut off"};
	struct tenant t;
	uint32_t i;

	tenant_start(&t);
	CU_ASSERT(load_as(&t, 0, own_ptx, strlen(own_ptx) + 1, false));
	CU_ASSERT(load_as(&t, 1, own_ptx, strlen(own_ptx) + 1, true));
	tenant_end(&t);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		tenant_start(&t);
		CU_ASSERT(!load_as(&t, 0, bad[i], strlen(bad[i]) + 1, false));
		CU_ASSERT(refused(&t, SOFTGPU_BAD_MODULE, says[i]));
		tenant_end(&t);
	}
}

/* What modules and threads need beside the partition is counted against the VF: it has 64 MiB for
 * that, a module 40 MiB, and the threads of the GPU kernel "deep" more than 64 MiB. */
static void module_memory(void)
{
	const uint64_t n = strlen(big_ptx);
	struct tenant t;

	tenant_start(&t);
	CU_ASSERT(load_as(&t, 0, big_ptx, n, false));
	CU_ASSERT(load_as(&t, 0, big_ptx, n, false)); /* in the place of the first */
	put_launch(&t, "touch", 1, 1, buffer(DATA_AT, 8), value(0, 0), 1);
	CU_ASSERT(finish(&t, 50000));
	CU_ASSERT_EQUAL(*(uint64_t *)(t.window + DATA_AT), 5);
	CU_ASSERT(!load_as(&t, 1, big_ptx, n, false));
	CU_ASSERT(refused(&t, SOFTGPU_NO_ROOM, "the module takes 4"));
	CU_ASSERT(refused(&t, SOFTGPU_NO_ROOM,
			  "of the VF's 64 MiB for modules (softgpu's --module-memory) are left"));
	tenant_end(&t);
	tenant_start(&t);
	CU_ASSERT(load_as(&t, 0, big_ptx, n, false));
	put(&t, (struct softgpu_packet){SOFTGPU_MODULE_UNLOAD, 0, {0}});
	CU_ASSERT(load_as(&t, 2, own_ptx, strlen(own_ptx), false));
	CU_ASSERT(load_as(&t, 1, big_ptx, n, false));
	tenant_end(&t);
	tenant_start(&t);
	CU_ASSERT(load_as(&t, 0, big_ptx, n, false));
	put_launch(&t, "deep", 1, 1, buffer(DATA_AT, 8), value(0, 0), 1);
	run(&t);
	CU_ASSERT(listen_for(&t, PATIENCE_MS));
	CU_ASSERT(t.ended.end == WORKER_FAILED && t.ended.error == SOFTGPU_BAD_LAUNCH);
	tenant_end(&t);
}

/* A wrong launch stops the VF that asks for it, with an error code, and affects nothing else. */
static void hostile_launches(void)
{
	static const struct {
		const char *function;
		uint32_t grid, block, n;
		struct softgpu_launch_arg a, b;
		uint32_t error;
	} cases[] = {
		{"nothing", 1, 1, 0, {0}, {0}, SOFTGPU_BAD_LAUNCH},
		{"add", 0, 1, 2, {1, 0, WINDOW, 4}, {0, 0, 1, 4}, SOFTGPU_BAD_LAUNCH},
		{"add", 1, 4096, 2, {1, 0, WINDOW, 4}, {0, 0, 1, 4}, SOFTGPU_BAD_LAUNCH},
		{"add", 1, 1, 1, {1, 0, WINDOW, 4}, {0}, SOFTGPU_BAD_LAUNCH},
		{"add", 1, 1, 2, {1, 0, WINDOW, 4}, {0, 0, 1, 8}, SOFTGPU_BAD_LAUNCH},
		{"add",
		 1,
		 1,
		 SOFTGPU_MAX_LAUNCH_ARGS + 1,
		 {1, 0, WINDOW, 4},
		 {0, 0, 1, 4},
		 SOFTGPU_BAD_LAUNCH},
		{"add", 1, 1, 2, {1, 0, PARTITION - 2, 4}, {0, 0, 1, 4}, SOFTGPU_OUT_OF_RANGE},
		{"add", 1, 1, 2, {1, 0, UINT64_MAX, 4}, {0, 0, 1, 4}, SOFTGPU_OUT_OF_RANGE},
		{"add", 1, 1, 2, {9, 0, WINDOW, 4}, {0, 0, 1, 4}, SOFTGPU_BAD_LAUNCH},
	};
	struct tenant t;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tenant_start(&t);
		CU_ASSERT_FATAL(load(&t, own_ptx, false));
		put_launch(&t, cases[i].function, cases[i].grid, cases[i].block, cases[i].a,
			   cases[i].b, cases[i].n);
		run(&t);
		CU_ASSERT(listen_for(&t, PATIENCE_MS) && t.ended.end == WORKER_FAILED);
		CU_ASSERT_EQUAL(t.ended.error, cases[i].error);
		tenant_end(&t);
	}
	tenant_start(&t);
	CU_ASSERT(!load(&t, ".version 6.0\n.target sm_70\n.address_size 64\nnonsense", false));
	CU_ASSERT_EQUAL(t.ended.error, SOFTGPU_BAD_MODULE);
	CU_ASSERT(t.window[LOG_AT] != 0);
	tenant_end(&t);
}

/* A GPU kernel that accesses foreign memory ends its own worker; one that never ends is stopped. */
static void hostile_kernels(void)
{
	struct tenant bad, good;
	uint64_t before;
	uint32_t i;

	jobs_begin();
	tenant_start(&good);
	tenant_start(&bad);
	CU_ASSERT_FATAL(load(&bad, own_ptx, false));
	put_launch(&bad, "forever", 1, 1, buffer(DATA_AT, 8), value(0, 0), 1);
	for (i = 0; i < 50; i++) {
		run(&bad);
		CU_ASSERT(!listen_for(&bad, 1));
		CU_ASSERT(stop(&bad) && bad.ended.level == SOFTGPU_PREEMPT_HARD);
		before = *(volatile uint64_t *)(bad.window + DATA_AT);
		put_job(&good, &jobs[4], WINDOW, FREE_AT);
		CU_ASSERT(finish(&good, 0) && is_right(&good, &jobs[4], FREE_AT));
		CU_ASSERT_EQUAL(before, *(volatile uint64_t *)(bad.window + DATA_AT));
	}
	printf(" longest stop %.0f us;", (double)bad.longest / 1e3);
	CU_ASSERT(worker_kill(bad.worker, PATIENCE_MS));
	forget(&bad);

	tenant_start(&bad);
	CU_ASSERT_FATAL(load(&bad, own_ptx, false));
	put_launch(&bad, "poke", 1, 1, value(UINT64_C(0x700000000000), 8), value(0, 0), 1);
	run(&bad);
	CU_ASSERT(listen_for(&bad, PATIENCE_MS) && bad.ended.end == WORKER_LOST);
	CU_ASSERT(worker_kill(bad.worker, PATIENCE_MS));
	forget(&bad);
	put_job(&good, &jobs[4], WINDOW, FREE_AT);
	CU_ASSERT(finish(&good, 0) && is_right(&good, &jobs[4], FREE_AT));
	tenant_end(&good);
}

/* Writes the window's first words again and again during a start. Returns how often they had
 * another value. */
static uint64_t write_during_start(void)
{
	vgpu_nsec until = vgpu_now() + PATIENCE_MS * VGPU_MSEC;
	struct vgpu_error err = {""};
	struct tenant t = {.fd = -1};
	uint64_t round = 0, others = 0, i;
	_Atomic uint64_t *words;

	CU_ASSERT_EQUAL_FATAL(begin(&t, &err), 0);
	words = (_Atomic uint64_t *)(void *)t.window;
	while (atomic_load(&t.worker->shared->state) == WORKER_STARTING && vgpu_now() < until) {
		round++;
		for (i = 0; i < RING_PACKETS * 8; i++)
			atomic_store_explicit(&words[i], round, memory_order_relaxed);
		for (i = 0; i < RING_PACKETS * 8; i++)
			others += atomic_load_explicit(&words[i], memory_order_relaxed) != round;
	}
	CU_ASSERT_EQUAL(atomic_load(&t.worker->shared->state), WORKER_READY);
	tenant_end(&t);
	return others;
}

/* A guest may write to its window before its worker is ready, and the worker may not write back
 * what it has read there. One start shows that in every second run. */
static void early_guest(void)
{
	uint32_t i;

	for (i = 0; i < 10; i++)
		CU_ASSERT_EQUAL(write_during_start(), 0);
}

/* A worker whose work may only be stopped softly. */
static void run_softly(struct tenant *t)
{
	struct worker_message m = {.run = {0, RING_PACKETS, t->ended.rptr, FENCE_AT,
					   WORKER_STOP_BLOCK | WORKER_STOP_SOFT, 0}};

	worker_run(t->worker, &m);
}

#define BESIDE 20000u

/* Lets B count beside A. What A counts in the meantime, while B counts BESIDE / 2 or more, which is
 * *OTHER. If this process was kept from looking until B had ended, A was alone, and it begins anew.
 */
static uint64_t count_beside(struct tenant *a, struct tenant *b, uint64_t *other)
{
	const struct timespec look = {.tv_nsec = 20000};
	uint64_t own, began;

	do {
		*(volatile uint64_t *)(b->window + FREE_AT) = 0;
		put(b, (struct softgpu_packet){SOFTGPU_COUNT, 0, {FREE_AT, BESIDE}});
		run(b);
		while (counted(b) == 0)
			nanosleep(&look, NULL);
		own = counted(a);
		began = counted(b);
		while (counted(b) < BESIDE / 2)
			nanosleep(&look, NULL);
		own = counted(a) - own;
		*other = counted(b) - began;
		CU_ASSERT_FATAL(listen_for(b, PATIENCE_MS));
		CU_ASSERT_EQUAL(b->ended.end, WORKER_IDLE);
		CU_ASSERT_EQUAL(counted(b), BESIDE);
	} while (began + *other == BESIDE);
	return own;
}

/* The resource manager does not let a worker stop its channels, but set their time slices. What is
 * stopped softly goes on with a small part of the GPU, and afterwards with its own part again. */
static void soft(void)
{
	char path[] = "/tmp/vgpud-test-gpu-XXXXXX";
	const uint64_t counts = 600000;
	int fd = mkostemp(path, O_CLOEXEC);
	struct tenant a, b;
	uint64_t own, other, before;

	CU_ASSERT_FATAL(fd >= 0 && ftruncate(fd, 4096) == 0 && fchmod(fd, 0666) == 0);
	setenv("SOFT_CUDA_RM", path, 1);
	tenant_start(&a);
	tenant_start(&b);
	unsetenv("SOFT_CUDA_RM");
	CU_ASSERT_EQUAL(a.worker->shared->about.stops, EVERY_STOP | WORKER_STOP_SOFT);
	put(&a, (struct softgpu_packet){SOFTGPU_COUNT, 0, {FREE_AT, counts}});
	run(&a);
	while (counted(&a) == 0)
		;
	worker_stop(a.worker); /* it is refused */
	CU_ASSERT(!listen_for(&a, 20));
	CU_ASSERT(worker_kill(a.worker, PATIENCE_MS));
	forget(&a);

	setenv("SOFT_CUDA_RM", path, 1);
	tenant_start(&a);
	unsetenv("SOFT_CUDA_RM");
	put(&a, (struct softgpu_packet){SOFTGPU_COUNT, 0, {FREE_AT, counts}});
	run_softly(&a);
	while (counted(&a) == 0)
		;
	CU_ASSERT_FATAL(stop(&a));
	CU_ASSERT_EQUAL(a.ended.end, WORKER_STOPPED);
	CU_ASSERT_EQUAL(a.ended.level, SOFTGPU_PREEMPT_SOFT);
	own = count_beside(&a, &b, &other);
	printf(" %.1f %% while it is stopped,", 100 * (double)own / (double)(own + other));
	CU_ASSERT(own > 0 && own * 4 < other);
	before = counted(&a);
	run_softly(&a);
	own = count_beside(&a, &b, &other);
	printf(" %.1f %% while it runs;", 100 * (double)own / (double)(own + other));
	CU_ASSERT(own * 4 > other);
	CU_ASSERT(counted(&a) > before && counted(&a) < counts);
	CU_ASSERT(listen_for(&a, PATIENCE_MS));
	CU_ASSERT_EQUAL(a.ended.end, WORKER_IDLE);
	CU_ASSERT_EQUAL(counted(&a), counts);
	tenant_end(&a);
	tenant_end(&b);
	close(fd);
	unlink(path);
}

/* A worker that cannot undo half of a soft stop ends: its VF must not run with what is left. */
static void soft_sticks(void)
{
	char path[] = "/tmp/vgpud-test-gpu-XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);
	struct tenant a;

	CU_ASSERT_FATAL(fd >= 0 && ftruncate(fd, 4096) == 0 && fchmod(fd, 0666) == 0);
	setenv("SOFT_CUDA_RM", path, 1);
	setenv("SOFT_CUDA_STICKS", "1", 1);
	tenant_start(&a);
	unsetenv("SOFT_CUDA_RM");
	unsetenv("SOFT_CUDA_STICKS");
	put(&a, (struct softgpu_packet){SOFTGPU_COUNT, 0, {FREE_AT, 300000}});
	run_softly(&a);
	while (counted(&a) == 0)
		;
	worker_stop(a.worker);
	CU_ASSERT(poll(&(struct pollfd){a.worker->pidfd, POLLIN, 0}, 1, PATIENCE_MS) == 1);
	CU_ASSERT(counted(&a) < 300000);
	CU_ASSERT(worker_kill(a.worker, PATIENCE_MS));
	forget(&a);
	close(fd);
	unlink(path);
}

/* What tests/bench/cuda.sh measures with. */
static void copies_at_once(void)
{
	setenv("SOFT_CUDA_COPIES", "1", 1);
	packets();
	unsetenv("SOFT_CUDA_COPIES");
}

static const struct test softs[] = {
	{"packets give the right result if copies are done at once", copies_at_once},
	{"work that is stopped softly keeps a small part of the GPU", soft},
	{"a worker ends if work is stopped softly by half", soft_sticks},
	{NULL, NULL}};
static const struct test any[] = {
	{"packets give the right result, to the bit", packets},
	{"results are right after a thousand world switches", switches},
	{"a killed worker leaves nothing in memory", killed},
	{"wrong packets fail with the right error", errors},
	{"events report the device's time", events},
	{"DMA is carried out by the program that started the worker", dma},
	{"malformed messages change nothing", nonsense},
	{"a worker that starts leaves its guest's window alone", early_guest},
	{"a worker ends at once, whatever its guest runs", ends_at_once},
	{"a worker is killed before softgpu if memory runs out", yields_memory},
	{"results are right although device memory is swapped", swaps},
	{"swapping: wrong requests are refused", swaps_refused},
	{NULL, NULL},
};
/* tests for devices that can stop any work, that accept modules, and that do both */
static const struct test stops[] = {{"endless work is stopped and continued", endless},
				    {"memory is swapped at the end of a GPU kernel", swaps_drain},
				    {NULL, NULL}};
static const struct test shares[] = {{"swapped memory is free for others, and clear",
				      swaps_free_memory},
				     {NULL, NULL}};
static const struct test takes[] = {
	{"modules: launches, with a gate and without", modules},
	{"modules: launches whose blocks wait for each other", together},
	{"images are known by their beginning", images},
	{"modules and local memory count against the VF", module_memory},
	{"hostile launches stop only their VF", hostile_launches},
	{NULL, NULL},
};
static const struct test both[] = {{"hostile GPU kernels end only their worker", hostile_kernels},
				   {NULL, NULL}};

/* Makes the memory of the GPU in software, which other devices do not use. */
static bool make_pool(void)
{
	int fd = mkstemp(pool);

	if (fd < 0 || fchmod(fd, 0666) < 0 || ftruncate(fd, (off_t)POOL) < 0)
		return false;
	close(fd);
	return setenv("SOFT_CUDA_POOL", pool, 1) == 0;
}

int main(int argc, char **argv)
{
	const struct test *tables[7] = {any};
	bool in_software = false;
	uint32_t n = 1;
	struct vgpu_error err = {""};
	struct tenant t = {.fd = -1};
	int r;

	device = argc > 1 ? argv[1] : device;
	if (strcmp(device, "soft-cuda") == 0) {
		device = "cuda";
		setenv("LD_LIBRARY_PATH", DRIVER, 1); /* for the workers */
		in_software = true;
	}
	if (in_software && !make_pool())
		return 1;
	r = start(&t, &err);
	if (r == -ENODEV || r == -EOPNOTSUPP) {
		printf("skipped: %s\n", err.text);
		worker_kill(t.worker, PATIENCE_MS);
		forget(&t);
		return 77;
	}
	if (r < 0) {
		puts(err.text);
		return 1;
	}
	about = t.worker->shared->about;
	printf("on %s\n", about.name);
	worker_kill(t.worker, PATIENCE_MS);
	forget(&t);
	if (about.stops & HARD_STOPS)
		tables[n++] = stops;
	else
		puts("this device cannot stop work by force: those tests are left out");
	if (about.modules)
		tables[n++] = takes;
	if (about.modules && about.stops & HARD_STOPS)
		tables[n++] = both;
	if (in_software)
		tables[n++] = softs;
	if (about.free > 0 && about.free < POOL)
		tables[n++] = shares;
	r = suite_main("device", tables, argc - 1, argv + 1);
	if (in_software)
		unlink(pool);
	return r;
}
