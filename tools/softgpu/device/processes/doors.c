/* SPDX-License-Identifier: MIT */
#include "doors.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gpu.h"
#include "link.h"
#include "vfio/thread.h"
#include "vfio/user_server.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/untrusted.h"
#include "workers.h"

/* How long a VF's next client waits after one that was refused, so that a flood of them costs no
 * more, and takes nothing from other VFs' clients. */
#define REFUSE_REST (5 * VGPU_MSEC)

/* How often the thread looks whether processes that close connections have ended. */
#define REAP_MS 200

/* How long nothing of a process's output is read after each piece of it. */
#define HEAR_REST (50 * VGPU_MSEC)

/* Most descriptors that wait until the thread closes them: of all VFs' workers, several times. */
#define LATER 256u

/* What the thread waits for: clients at the doors of VFs, its own event, pipes of each kind. */
#define WAKE SOFTGPU_MAX_VFS
#define PIPES (SAYS_KINDS * SOFTGPU_MAX_VFS)

/* A connection to close, or the pipe of a VF's worker, which may still have output in it. */
struct later {
	int fd, worker_of; /* -1: a connection */
};

struct doors {
	struct softgpu *gpu;
	int epoll, wake;
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock; /* protects the members below */
	struct later later[LATER];
	uint32_t n_later;
	_Atomic bool quit;
	/* The thread's: when a VF's rest ends; VGPU_NEVER: it has none */
	vgpu_nsec opens[SOFTGPU_MAX_VFS], hears[PIPES];
};

/* Returns whether the connection may be passed on: a carrier that is the client itself has a
 * listener with a name that others can find. */
static bool is_welcome(const struct doors *d, int vf, int fd)
{
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);

	return !d->gpu->vfs[vf].local ||
	       (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == getpid());
}

/* Accepts the next client, and passes it to the VF's process, or refuses it. */
static void accept_for(struct doors *d, int vf)
{
	struct link *link;
	bool taken = false;
	int fd = -EBUSY;

	softgpu_lock(d->gpu);
	link = d->gpu->vfs[vf].link;
	if (link)
		fd = link_accept(link);
	if (fd >= 0 && is_welcome(d, vf, fd))
		taken = link_client(link, fd);
	if (taken)
		link_open(link);
	softgpu_unlock(d->gpu);
	if (fd == -EBUSY || taken)
		return;
	d->opens[vf] = vgpu_now() + REFUSE_REST;
	if (fd < 0)
		return;
	vfio_server_refuse(fd);
	vgpu_untrusted_close(&fd);
}

/* Returns the descriptor of pipe number PIPE, or -1. Called with the lock held. */
static int pipe_of(const struct softgpu *gpu, uint32_t pipe)
{
	const struct vf *vf = &gpu->vfs[pipe / SAYS_KINDS];

	if (pipe % SAYS_KINDS == SAYS_WORKER)
		return gpu->workers ? workers_says(gpu, (int)(pipe / SAYS_KINDS)) : -1;
	return vf->link ? link_says(vf->link) : -1;
}

/* Logs a piece of what a VF's process or worker says. */
static void hear(struct doors *d, uint32_t pipe)
{
	int fd;

	softgpu_lock(d->gpu);
	fd = fcntl(pipe_of(d->gpu, pipe), F_DUPFD_CLOEXEC, 0);
	softgpu_unlock(d->gpu);
	if (fd >= 0 && says_pass_on(fd, (int)(pipe / SAYS_KINDS), pipe % SAYS_KINDS) != 0)
		d->hears[pipe] = vgpu_now() + HEAR_REST;
	vgpu_close(&fd);
}

/* Has the thread woken once by FD. */
static void await(const struct doors *d, int fd, uint64_t what)
{
	struct epoll_event want = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = what};

	if (epoll_ctl(d->epoll, EPOLL_CTL_MOD, fd, &want) < 0)
		epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &want);
}

/* Opens the doors of VFs whose rest has ended. Returns how long until the next rest ends, ms; -1 if
 * none is under way. */
static int open_rested(struct doors *d)
{
	vgpu_nsec now = vgpu_now(), next = VGPU_NEVER;
	uint32_t i;

	for (i = 0; i < SOFTGPU_MAX_VFS; i++) {
		if (d->opens[i] <= now) {
			d->opens[i] = VGPU_NEVER;
			softgpu_lock(d->gpu);
			if (d->gpu->vfs[i].link)
				link_open(d->gpu->vfs[i].link);
			softgpu_unlock(d->gpu);
		}
		if (d->opens[i] < next)
			next = d->opens[i];
	}
	for (i = 0; i < PIPES; i++) {
		if (d->hears[i] <= now) {
			d->hears[i] = VGPU_NEVER;
			softgpu_lock(d->gpu);
			await(d, pipe_of(d->gpu, i), WAKE + 1 + i);
			softgpu_unlock(d->gpu);
		}
		if (d->hears[i] < next)
			next = d->hears[i];
	}
	return next == VGPU_NEVER ? -1 : (int)((next - now) / VGPU_MSEC) + 1;
}

static int wait_ms(struct doors *d)
{
	int ms = open_rested(d);

	return vgpu_untrusted_reap() && (ms < 0 || ms > REAP_MS) ? REAP_MS : ms;
}

/* Closes what waits for it. */
static void close_later(struct doors *d)
{
	struct later one;
	bool more = true;

	while (more) {
		pthread_mutex_lock(&d->lock);
		more = d->n_later > 0;
		one = more ? d->later[--d->n_later] : (struct later){-1, -1};
		pthread_mutex_unlock(&d->lock);
		if (one.worker_of >= 0)
			says_pass_on_last(&one.fd, one.worker_of, SAYS_WORKER);
		else
			vgpu_untrusted_close(&one.fd);
	}
}

static void *doors_thread(void *arg)
{
	struct doors *d = arg;
	struct epoll_event events[8];
	int n, i;

	while (!atomic_load(&d->quit)) {
		n = epoll_wait(d->epoll, events, 8, wait_ms(d));
		for (i = 0; i < n; i++) {
			if (events[i].data.u64 < WAKE)
				accept_for(d, (int)events[i].data.u64);
			else if (events[i].data.u64 > WAKE)
				hear(d, (uint32_t)(events[i].data.u64 - WAKE - 1));
			else
				vgpu_eventfd_drain(d->wake);
		}
		close_later(d);
	}
	return NULL;
}

int doors_create(struct doors **out, struct softgpu *gpu, struct vgpu_error *err)
{
	struct epoll_event want = {.events = EPOLLIN, .data.u64 = WAKE};
	struct doors *d = calloc(1, sizeof(*d));
	uint32_t i;
	int r = 0;

	*out = d;
	if (!d)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	d->gpu = gpu;
	pthread_mutex_init(&d->lock, NULL);
	for (i = 0; i < SOFTGPU_MAX_VFS; i++)
		d->opens[i] = VGPU_NEVER;
	for (i = 0; i < PIPES; i++)
		d->hears[i] = VGPU_NEVER;
	d->epoll = epoll_create1(EPOLL_CLOEXEC);
	d->wake = vgpu_eventfd();
	if (d->epoll < 0 || d->wake < 0 || epoll_ctl(d->epoll, EPOLL_CTL_ADD, d->wake, &want) < 0)
		r = errno;
	else
		r = vfio_thread_create(&d->thread, "sg-doors", SCHED_OTHER, 0, doors_thread, d);
	d->has_thread = r == 0;
	return r ? vgpu_error_set(err, -r, "the thread that accepts clients: %s", strerror(r)) : 0;
}

void doors_destroy(struct doors *d)
{
	if (!d)
		return;
	if (d->has_thread) {
		atomic_store(&d->quit, true);
		vgpu_eventfd_signal(d->wake);
		pthread_join(d->thread, NULL);
	}
	close_later(d);
	vgpu_close(&d->epoll);
	vgpu_close(&d->wake);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

void doors_discard(struct doors *d, int *fd)
{
	vgpu_untrusted_close(fd);
	vgpu_eventfd_signal(d->wake);
}

void doors_discard_listener(struct doors *d, int *fd)
{
	vgpu_untrusted_close_listener(fd);
	vgpu_eventfd_signal(d->wake);
}

static void leave_to_thread(struct doors *d, int *fd, int worker_of)
{
	bool full;

	if (*fd < 0)
		return;
	pthread_mutex_lock(&d->lock);
	full = d->n_later == LATER;
	if (!full)
		d->later[d->n_later++] = (struct later){*fd, worker_of};
	pthread_mutex_unlock(&d->lock);
	/* Without room a connection stays open, because no caller may wait for its close. Closing
	 * the reading end of a pipe never takes long. */
	if (full && worker_of >= 0)
		vgpu_close(fd);
	*fd = -1;
	vgpu_eventfd_signal(d->wake);
}

bool doors_have_room(struct doors *d)
{
	bool room;

	pthread_mutex_lock(&d->lock);
	room = d->n_later < LATER;
	pthread_mutex_unlock(&d->lock);
	return room;
}

void doors_discard_later(struct doors *d, int *fd)
{
	leave_to_thread(d, fd, -1);
}

void doors_open(struct doors *d, int vf, int listener)
{
	await(d, listener, (uint64_t)vf);
}

void doors_hear(struct doors *d, int vf, enum says who, int says)
{
	await(d, says, WAKE + 1 + (uint64_t)vf * SAYS_KINDS + who);
}

void doors_hear_last(struct doors *d, int vf, int *says)
{
	leave_to_thread(d, says, vf);
}
