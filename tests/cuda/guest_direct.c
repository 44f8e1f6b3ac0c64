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

bool guest_direct_all_rung(void)
{
	return atomic_load(&only->worker->shared->wptr) == only->wptr;
}

int guest_open(struct guest **out, const char *name, struct vgpu_error *err)
{
	struct worker_options options = {.device = "cuda",
					 .size = PARTITION,
					 .modules = UINT64_C(64) << 20,
					 .uid = 65534,
					 .gid = 65534};
	struct guest *g = calloc(1, sizeof(*g));
	int r;

	(void)name;
	g->owner = getpid();
	g->fd = memfd_create("guest-direct", MFD_CLOEXEC);
	if (ftruncate(g->fd, (off_t)WINDOW) < 0)
		return -errno;
	g->window = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, g->fd, 0);
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

int guest_bring_down(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err)
{
	(void)g;
	(void)timeout;
	(void)err;
	return 0;
}

void *guest_memory(struct guest *g, uint64_t *offset, uint64_t *size)
{
	*offset = FREE_AT;
	*size = WINDOW - FREE_AT;
	return g->window + FREE_AT;
}

void guest_device_memory(struct guest *g, uint64_t *offset, uint64_t *size)
{
	(void)g;
	*offset = WINDOW;
	*size = PARTITION - WINDOW;
}

bool guest_is_fresh(struct guest *g)
{
	(void)g;
	return true;
}

/* It is not shared. */
uint32_t guest_slots(struct guest *g)
{
	(void)g;
	return 0;
}

uint32_t guest_slot(struct guest *g)
{
	(void)g;
	return 0;
}

_Atomic uint32_t *guest_pieces(struct guest *g, uint32_t *n, uint64_t *bytes)
{
	(void)g;
	*n = 0;
	*bytes = 0;
	return NULL;
}

bool guest_begin_care(struct guest *g)
{
	(void)g;
	return false;
}

void guest_end_care(struct guest *g)
{
	(void)g;
}

bool guest_take_over(struct guest *g, uint32_t slot, vgpu_nsec timeout)
{
	(void)g;
	(void)slot;
	(void)timeout;
	return false;
}

void guest_let_go(struct guest *g, uint32_t slot, bool clean)
{
	(void)g;
	(void)slot;
	(void)clean;
}

bool guest_has_reports(struct guest *g)
{
	return g->worker->shared->about.modules;
}

bool guest_has_symbols(struct guest *g)
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
		if (m.ended.end == WORKER_FAILED)
			return -EIO;
		if (m.ended.end == WORKER_LOST)
			return -ECONNRESET;
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
 * found by guest_wait(). */
bool guest_reached(struct guest *g, uint64_t fence)
{
	if (!is_reached(g, fence))
		listen_to(g);
	return is_reached(g, fence);
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
