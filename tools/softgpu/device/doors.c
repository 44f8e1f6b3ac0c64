/* SPDX-License-Identifier: MIT */
#include "doors.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"
#include "leaving.h"
#include "link.h"
#include "program.h"
#include "vfio/thread.h"
#include "vfio/user_server.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

/* What one closing process gets at most, beside the pipe that it waits at. */
#define CLOSES 7u
/* A closing process that has not ended by then is killed. */
#define CLOSE_MOST VGPU_SEC
/* The thread rests after each client that it refuses, so that a flood of them costs no more. */
#define REFUSE_REST (5 * VGPU_MSEC)

struct closing {
	struct closing *next;
	int fd;
};

struct doors {
	struct softgpu *gpu;
	int epoll, wake;
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock; /* protects the members below */
	struct closing *closing;
	bool quit;
};

/* Whether the connection may be passed on: a carrier that is the client itself has a listener with
 * a name that others can find. */
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
	const struct timespec rest = {0, REFUSE_REST};
	struct link *link;
	bool taken = false;
	int fd = -1;

	softgpu_lock(d->gpu);
	link = d->gpu->vfs[vf].link;
	if (link)
		fd = link_accept(link);
	if (fd >= 0) {
		taken = is_welcome(d, vf, fd) && link_client(link, fd);
		link_open(link);
	}
	softgpu_unlock(d->gpu);
	if (fd < 0 || taken)
		return;
	vfio_server_refuse(fd);
	shutdown(fd, SHUT_RDWR);
	doors_discard(d, &fd);
	nanosleep(&rest, NULL);
}

/* Takes what is to be closed, CLOSES at most. How many. */
static uint32_t take_closing(struct doors *d, int fds[CLOSES])
{
	struct closing *c;
	uint32_t n = 0;

	pthread_mutex_lock(&d->lock);
	while (n < CLOSES && (c = d->closing)) {
		d->closing = c->next;
		fds[n++] = c->fd;
		free(c);
	}
	pthread_mutex_unlock(&d->lock);
	return n;
}

/* Closes the descriptors by a process. It ends when it alone has them. */
static void close_by_process(struct doors *d, int *fds, uint32_t n)
{
	const char *args[] = {"--close", NULL};
	int given[CLOSES + 1], ends[2], pidfd, r = -EMFILE;
	struct vgpu_error err = {"descriptors for it"};
	pid_t pid;
	uint32_t i;

	if (pipe2(ends, O_CLOEXEC) == 0) {
		given[0] = ends[0];
		memcpy(given + 1, fds, n * sizeof(*fds));
		r = program_start("softgpu-vf", args, given, n + 1, &pid, &pidfd, &err);
		close(ends[0]);
	}
	if (r < 0) { /* this thread must not wait for their end */
		fprintf(stderr, "<4>softgpu: %u connections stay open: %s\n", n, err.text);
		if (r != -EMFILE)
			close(ends[1]);
		return;
	}
	for (i = 0; i < n; i++)
		vgpu_close(&fds[i]);
	close(ends[1]);
	softgpu_lock(d->gpu);
	leaving_add(d->gpu->leaving, pidfd, LEAVING_NOBODYS, vgpu_now() + CLOSE_MOST);
	softgpu_unlock(d->gpu);
}

static void *doors_thread(void *arg)
{
	struct doors *d = arg;
	struct epoll_event events[8];
	int fds[CLOSES], n, i;
	bool quit = false;
	uint32_t closes;

	while (!quit) {
		n = epoll_wait(d->epoll, events, 8, -1);
		for (i = 0; i < n; i++) {
			if (events[i].data.u64 < SOFTGPU_MAX_VFS)
				accept_for(d, (int)events[i].data.u64);
			else
				vgpu_eventfd_drain(d->wake);
		}
		while ((closes = take_closing(d, fds)) > 0)
			close_by_process(d, fds, closes);
		pthread_mutex_lock(&d->lock);
		quit = d->quit;
		pthread_mutex_unlock(&d->lock);
	}
	return NULL;
}

int doors_create(struct doors **out, struct softgpu *gpu, struct vgpu_error *err)
{
	struct epoll_event want = {.events = EPOLLIN, .data.u64 = SOFTGPU_MAX_VFS};
	struct doors *d = calloc(1, sizeof(*d));
	int r = 0;

	*out = d;
	if (!d)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	d->gpu = gpu;
	pthread_mutex_init(&d->lock, NULL);
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
		pthread_mutex_lock(&d->lock);
		d->quit = true;
		pthread_mutex_unlock(&d->lock);
		vgpu_eventfd_signal(d->wake);
		pthread_join(d->thread, NULL);
	}
	vgpu_close(&d->epoll);
	vgpu_close(&d->wake);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

void doors_open(struct doors *d, int vf, int listener)
{
	struct epoll_event want = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = (uint64_t)vf};

	if (epoll_ctl(d->epoll, EPOLL_CTL_MOD, listener, &want) < 0)
		epoll_ctl(d->epoll, EPOLL_CTL_ADD, listener, &want);
}

void doors_discard(struct doors *d, int *fd)
{
	struct closing *c = malloc(sizeof(*c));

	if (*fd < 0 || !c) { /* without memory it stays open: nobody must wait for its end */
		free(c);
		*fd = -1;
		return;
	}
	epoll_ctl(d->epoll, EPOLL_CTL_DEL, *fd, NULL);
	pthread_mutex_lock(&d->lock);
	*c = (struct closing){.next = d->closing, .fd = vgpu_take(fd)};
	d->closing = c;
	pthread_mutex_unlock(&d->lock);
	vgpu_eventfd_signal(d->wake);
}
