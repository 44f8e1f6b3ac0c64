/* SPDX-License-Identifier: MIT */
/*
 * guest.h over a worker, without a VF process, a socket or a scheduler: for tests of what uses a
 * guest. The worker is the real one; this file does what the VF's process does with it.
 */
#include "guest_direct.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"
#include "guest.h"
#include "vgpu/clock.h"

#define WINDOW (UINT64_C(16) << 20)
#define PARTITION (UINT64_C(64) << 20)
#define PACKETS 1024u
#define FENCE_AT (PACKETS * 64u)
#define FREE_AT (UINT64_C(1) << 20)
#define READY_MS 60000

struct guest {
	struct worker_client *worker;
	uint8_t *window;
	int fd;
	uint64_t wptr, fence;
	struct worker_ended ended;
	bool running;
	pid_t owner;
};

static struct guest *only;

void guest_direct_kill(void)
{
	kill(only->worker->pid, SIGKILL);
}

void guest_direct_pause(bool stop)
{
	kill(only->worker->pid, stop ? SIGSTOP : SIGCONT);
}

uint64_t guest_direct_packets(void)
{
	return only->wptr;
}

static int listen_to(struct guest *g);

bool guest_direct_all_rung(void)
{
	return atomic_load(&only->worker->shared->wptr) == only->wptr;
}

/* Has the worker carry out M. 0 or -errno. */
static int ask(struct worker_memory m)
{
	struct pollfd p = {only->worker->memory_fd, POLLIN, 0};

	if (send(p.fd, &m, sizeof(m), MSG_NOSIGNAL) != sizeof(m) || poll(&p, 1, READY_MS) != 1 ||
	    recv(p.fd, &m, sizeof(m), 0) != sizeof(m))
		return -ECONNRESET;
	return m.result;
}

/* Copies all device memory to COPY, or back from it. */
static int carry(uint8_t *copy, uint8_t *stage, enum worker_memory_what what)
{
	uint64_t at;
	int r = 0;

	for (at = 0; at < PARTITION - WINDOW && r == 0; at += WORKER_STAGE) {
		if (what == WORKER_MEMORY_IN)
			memcpy(stage, copy + at, WORKER_STAGE);
		r = ask((struct worker_memory){.what = what, .at = at, .bytes = WORKER_STAGE});
		if (what == WORKER_MEMORY_OUT)
			memcpy(copy + at, stage, WORKER_STAGE);
	}
	return r;
}

int guest_direct_swap(void)
{
	uint8_t *copy = malloc(PARTITION - WINDOW);
	uint8_t *stage = mmap(NULL, WORKER_STAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
			      only->worker->stage_fd, 0);
	int r = copy && stage != MAP_FAILED ? 0 : -ENOMEM;

	while (r == 0 && only->running) /* the last fence is before the end of the run */
		r = listen_to(only);
	if (r == 0)
		r = carry(copy, stage, WORKER_MEMORY_OUT);
	if (r == 0)
		r = ask((struct worker_memory){.what = WORKER_MEMORY_LEAVE});
	if (r == 0)
		r = carry(copy, stage, WORKER_MEMORY_IN);
	munmap(stage, WORKER_STAGE);
	free(copy);
	return r;
}

int guest_open(struct guest **out, const char *, struct vgpu_error *err)
{
	struct worker_options options = {.device = "cuda",
					 .size = PARTITION,
					 .modules = UINT64_C(64) << 20,
					 .uid = 65534,
					 .gid = 65534};
	struct guest *g = calloc(1, sizeof(*g));
	int r;

	g->owner = getpid();
	g->fd = memfd_create("guest-direct", MFD_CLOEXEC);
	if (ftruncate(g->fd, (off_t)WINDOW) < 0)
		return -errno;
	g->window = mmap((void *)SOFTGPU_WINDOW_HINT, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED,
			 g->fd, 0);
	options.window_fd = g->fd;
	r = worker_start(&g->worker, &options, err);
	if (r < 0) {
		free(g);
		return r;
	}
	only = *out = g;
	return 0;
}

void guest_close(struct guest *g)
{
	/* The child of fork() leaves the worker alone. */
	if (g->owner == getpid()) {
		worker_gone(worker_quit(g->worker), READY_MS);
		munmap(g->window, WINDOW);
		close(g->fd);
	}
	free(g);
}

int guest_bring_up(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err)
{
	return worker_wait_ready(g->worker, (int)(timeout / VGPU_MSEC), err);
}

int guest_bring_down(struct guest *, vgpu_nsec, struct vgpu_error *)
{
	return 0;
}

void *guest_memory(struct guest *g, uint64_t *offset, uint64_t *size)
{
	*offset = FREE_AT;
	*size = WINDOW - FREE_AT;
	return g->window + FREE_AT;
}

void guest_device_memory(struct guest *, uint64_t *offset, uint64_t *size)
{
	*offset = WINDOW;
	*size = PARTITION - WINDOW;
}

bool guest_is_fresh(struct guest *)
{
	return true;
}

/* It is not shared. */
uint32_t guest_slots(struct guest *)
{
	return 0;
}

uint32_t guest_slot(struct guest *)
{
	return 0;
}

_Atomic uint32_t *guest_pieces(struct guest *, uint32_t *n, uint64_t *bytes)
{
	*n = 0;
	*bytes = 0;
	return NULL;
}

bool guest_begin_care(struct guest *)
{
	return false;
}

void guest_end_care(struct guest *)
{
}

bool guest_take_over(struct guest *, uint32_t, vgpu_nsec)
{
	return false;
}

void guest_let_go(struct guest *, uint32_t, bool)
{
}

void guest_use_slot(struct guest *)
{
}

bool guest_show(struct guest *)
{
	return false;
}

/* Of a VF that one process has, nobody else knows an event. */

bool guest_has_events(struct guest *)
{
	return false;
}

bool guest_fence_reached(struct guest *, const struct guest_fence *)
{
	return true;
}

int guest_fence_wait(struct guest *, const struct guest_fence *, vgpu_nsec)
{
	return 0;
}

int guest_event_make(struct guest *, struct guest_event *)
{
	return -ENOSPC;
}

void guest_event_end(struct guest *, const struct guest_event *)
{
}

bool guest_event_is(struct guest *, const struct guest_event *)
{
	return false;
}

bool guest_event_is_own(struct guest *, const struct guest_event *)
{
	return false;
}

void guest_event_record(struct guest *, const struct guest_event *, uint64_t)
{
}

/* Nor does anybody else have memory of it. */

uint32_t guest_common_most(struct guest *)
{
	return 0;
}

int guest_common_make(struct guest *, const uint32_t *, uint32_t, uint32_t *)
{
	return -ENOSPC;
}

int guest_common_show(struct guest *, uint32_t)
{
	return -ENOTSUP;
}

int guest_common_open(struct guest *, int, uint32_t *, uint32_t *, uint32_t *)
{
	return -ENOTSUP;
}

void guest_common_drop(struct guest *, uint32_t)
{
}

bool guest_common_collect(struct guest *)
{
	return false;
}

bool guest_is_common(struct guest *, uint32_t)
{
	return false;
}

bool guest_event_last(struct guest *, const struct guest_event *, struct guest_fence *)
{
	return false;
}

bool guest_has_modules(struct guest *g)
{
	return g->worker->shared->about.modules;
}

bool guest_has_old_modules(struct guest *)
{
	return false;
}

bool guest_has_images(struct guest *g)
{
	return g->worker->shared->about.modules;
}

bool guest_has_many_modules(struct guest *g)
{
	return g->worker->shared->about.modules;
}

bool guest_has_output(struct guest *g)
{
	return g->worker->shared->about.modules;
}

bool guest_has_arena(struct guest *g)
{
	return g->worker->shared->about.modules;
}

void guest_put(struct guest *g, const struct softgpu_packet *packet)
{
	memcpy(g->window + g->wptr++ % PACKETS * sizeof(*packet), packet, sizeof(*packet));
}

uint64_t guest_put_fence(struct guest *g)
{
	struct softgpu_packet p = {SOFTGPU_FENCE, SOFTGPU_FENCE_INTERRUPT, {++g->fence}};

	guest_put(g, &p);
	return g->fence;
}

uint64_t guest_put_mark(struct guest *g)
{
	return guest_put_fence(g);
}

static void run(struct guest *g)
{
	struct worker_message m = {
		.run = {0, PACKETS, g->ended.rptr, FENCE_AT, WORKER_STOP_BLOCK, 0}};

	worker_run(g->worker, &m);
	g->running = true;
}

int guest_ring(struct guest *g)
{
	atomic_store(&g->worker->shared->wptr, g->wptr);
	if (!g->running)
		run(g);
	return 0;
}

enum softgpu_error guest_error(struct guest *g)
{
	return (enum softgpu_error)g->ended.error;
}

enum softgpu_error guest_fault(struct guest *g)
{
	return guest_error(g);
}

void guest_words(struct guest *g, char words[SOFTGPU_WORDS])
{
	memcpy(words, g->worker->shared->words, SOFTGPU_WORDS);
}

/* Hears what the worker says, and continues a run that has ended too early. 0 or -errno. */
static int listen_to(struct guest *g)
{
	struct worker_message m;
	int r;

	while ((r = worker_receive(g->worker, &m)) > 0) {
		if (m.type != WORKER_ENDED)
			continue;
		g->running = false;
		g->ended = m.ended;
		if (m.ended.end == WORKER_LOST || m.ended.error == SOFTGPU_BAD_ADDRESS ||
		    m.ended.error == SOFTGPU_ASSERTED)
			return -ECONNRESET;
		if (m.ended.end == WORKER_FAILED)
			return -EIO;
	}
	if (r < 0)
		return -ECONNRESET;
	if (!g->running && !atomic_load(&g->worker->shared->waits) &&
	    (g->ended.active || g->ended.rptr != g->wptr))
		run(g);
	return 0;
}

static bool is_reached(const struct guest *g, uint64_t fence)
{
	return __atomic_load_n((uint64_t *)(g->window + FENCE_AT), __ATOMIC_ACQUIRE) >= fence;
}

/* A VF's process hears its worker whatever its guest does; here, whoever asks does it. An error is
 * found by guest_wait() and guest_check(). */
bool guest_reached(struct guest *g, uint64_t fence)
{
	if (!is_reached(g, fence))
		listen_to(g);
	return is_reached(g, fence);
}

int guest_check(struct guest *g)
{
	return listen_to(g);
}

int guest_wait(struct guest *g, uint64_t fence, vgpu_nsec timeout)
{
	struct pollfd p[] = {{g->worker->socket, POLLIN, 0}, {g->worker->wake_fd, POLLIN, 0}};
	vgpu_nsec until = vgpu_now() + timeout, now;
	uint64_t n;
	int r;

	for (;;) {
		r = listen_to(g);
		if (r < 0)
			return r;
		if (is_reached(g, fence))
			return 0;
		now = vgpu_now();
		if (now >= until)
			return -ETIMEDOUT;
		poll(p, 2, (int)((until - now) / VGPU_MSEC) + 1);
		if (p[1].revents & POLLIN && read(p[1].fd, &n, sizeof(n)) < 0)
			return -errno;
	}
}

int guest_wait_mark(struct guest *g, uint64_t mark, vgpu_nsec timeout)
{
	return guest_wait(g, mark, timeout);
}
