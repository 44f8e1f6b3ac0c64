/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"
#include "local.h"
#include "vfio/device.h"
#include "vfio/thread.h"
#include "vgpu/clock.h"

/* How long an access waits for a process that is being started. */
#define CONNECT (5 * VGPU_SEC)

struct local {
	struct softgpu *gpu;
	int vf;
	pthread_t thread;
	pthread_mutex_t lock; /* what follows; held during an access */
	pthread_cond_t cond;
	char name[128]; /* of the socket, for vfio_device_open() */
	struct vfio_device *device;
	int wake, dma, dma_theirs;
	int irqs[SOFTGPU_VF_VECTORS];
	bool quit;
};

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void drain(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return;
}

static void wake(struct local *l)
{
	const uint64_t one = 1;

	if (write(l->wake, &one, sizeof(one)) < 0)
		return;
}

int local_listen(struct local *l, struct vgpu_error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t size = sizeof(address);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	/* A name of the kernel's choice, in no folder. */
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address.sun_family)) < 0 ||
	    listen(fd, 4) < 0 || getsockname(fd, (struct sockaddr *)&address, &size) < 0) {
		int r = vgpu_error_set(err, -errno, "no socket: %s", strerror(errno));

		close_one(&fd);
		return r;
	}
	pthread_mutex_lock(&l->lock);
	snprintf(l->name, sizeof(l->name), "vfio-user:@%.*s",
		 (int)(size - sizeof(address.sun_family) - 1), address.sun_path + 1);
	pthread_mutex_unlock(&l->lock);
	return fd;
}

int local_dma_fd(struct local *l)
{
	int pair[2] = {-1, -1};

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	pthread_mutex_lock(&l->lock);
	close_one(&l->dma);
	l->dma = pair[0];
	pthread_mutex_unlock(&l->lock);
	wake(l);
	return pair[1];
}

/* One DMA transfer, by the carrier. False: the process is gone, or talks nonsense. */
static bool serve_dma(struct local *l, int fd)
{
	uint8_t bytes[VF_DMA_MOST];
	struct vf_dma ask;
	struct iovec iov[2] = {{&ask, sizeof(ask)}, {bytes, sizeof(bytes)}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return true;
	if (n < (ssize_t)sizeof(ask) || ask.size > sizeof(bytes) ||
	    (ask.to_client && (size_t)n != sizeof(ask) + ask.size))
		return false;
	ask.result = l->gpu->carrier->dma(l->gpu->opaque, l->vf, ask.iova, bytes, ask.size,
					  ask.to_client);
	iov[1].iov_len = ask.size;
	/* Where nothing came, the bytes are this thread's own. */
	m.msg_iovlen = ask.to_client || ask.result < 0 ? 1 : 2;
	/* An access that finds the transfer done finds its bytes. */
	pthread_mutex_lock(&l->lock);
	n = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	pthread_mutex_unlock(&l->lock);
	return n > 0;
}

static void disconnect(struct local *l)
{
	unsigned i;

	vfio_device_close(l->device);
	l->device = NULL;
	for (i = 0; i < SOFTGPU_VF_VECTORS; i++)
		close_one(&l->irqs[i]);
}

/* With the lock, which is given up while the process is asked. */
static void connect_to(struct local *l)
{
	struct vfio_device *device = NULL;
	char name[sizeof(l->name)];
	struct vgpu_error err;
	unsigned i;
	int r;

	memcpy(name, l->name, sizeof(name));
	pthread_mutex_unlock(&l->lock);
	for (i = 0; i < SOFTGPU_VF_VECTORS; i++)
		l->irqs[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = name[0] ? vfio_device_open(&device, name, &err) : -ENOENT;
	r = r ? r : vfio_irqs(device, l->irqs, SOFTGPU_VF_VECTORS);
	pthread_mutex_lock(&l->lock);
	l->device = device;
	if (r < 0)
		disconnect(l);
	pthread_cond_broadcast(&l->cond);
}

static void *local_thread(void *arg)
{
	struct local *l = arg;
	struct pollfd fds[3 + SOFTGPU_VF_VECTORS];
	unsigned i;

	pthread_mutex_lock(&l->lock);
	while (!l->quit) {
		if (l->device && vfio_check(l->device) < 0)
			disconnect(l);
		if (!l->device)
			connect_to(l);
		fds[0] = (struct pollfd){l->wake, POLLIN, 0};
		fds[1] = (struct pollfd){l->dma, POLLIN, 0};
		fds[2] = (struct pollfd){l->device ? vfio_fd(l->device) : -1, POLLRDHUP, 0};
		for (i = 0; i < SOFTGPU_VF_VECTORS; i++)
			fds[3 + i] = (struct pollfd){l->irqs[i], POLLIN, 0};
		pthread_mutex_unlock(&l->lock);
		/* A process that is being started is looked for again. */
		poll(fds, 3 + SOFTGPU_VF_VECTORS, fds[2].fd < 0 ? 10 : -1);
		if (fds[0].revents)
			drain(l->wake);
		for (i = 0; i < SOFTGPU_VF_VECTORS; i++) {
			if (!(fds[3 + i].revents & POLLIN))
				continue;
			drain(fds[3 + i].fd);
			l->gpu->carrier->irq(l->gpu->opaque, l->vf, i);
		}
		if (fds[1].revents && !serve_dma(l, fds[1].fd)) {
			pthread_mutex_lock(&l->lock);
			if (l->dma == fds[1].fd)
				close_one(&l->dma);
			pthread_mutex_unlock(&l->lock);
		}
		pthread_mutex_lock(&l->lock);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

/* With the lock: waits until there is a connection. */
static bool await_device(struct local *l)
{
	vgpu_nsec until = vgpu_now() + CONNECT;
	struct timespec t = {(time_t)(until / VGPU_SEC), (long)(until % VGPU_SEC)};

	while (!l->device && !l->quit)
		if (pthread_cond_timedwait(&l->cond, &l->lock, &t) != 0)
			return false;
	return l->device;
}

void local_read(struct local *l, uint32_t region, uint64_t offset, void *data, uint32_t size)
{
	pthread_mutex_lock(&l->lock);
	if (!await_device(l) || vfio_read(l->device, region, offset, data, size) < 0)
		memset(data, 0xff, size);
	pthread_mutex_unlock(&l->lock);
}

/* A bus has its writes in order: what is read next, of the PF, too, comes after it. */
void local_write(struct local *l, uint32_t region, uint64_t offset, const void *data, uint32_t size)
{
	uint32_t id;

	pthread_mutex_lock(&l->lock);
	if (await_device(l) && vfio_write(l->device, region, offset, data, size) == 0 &&
	    vfio_read(l->device, VFIO_REGION_CONFIG, 0, &id, sizeof(id)) < 0)
		wake(l);
	pthread_mutex_unlock(&l->lock);
}

int local_create(struct local **out, struct softgpu *gpu, int vf)
{
	struct local *l = calloc(1, sizeof(*l));
	pthread_condattr_t attr;
	unsigned i;
	int r;

	if (!l)
		return ENOMEM;
	*l = (struct local){.gpu = gpu, .vf = vf, .dma = -1};
	for (i = 0; i < SOFTGPU_VF_VECTORS; i++)
		l->irqs[i] = -1;
	l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->cond, &attr);
	pthread_condattr_destroy(&attr);
	r = l->wake < 0
		    ? errno
		    : vfio_thread_create(&l->thread, "sg-local", SCHED_OTHER, 0, local_thread, l);
	if (r) {
		l->quit = true;
		close_one(&l->wake);
		free(l);
		return r;
	}
	*out = l;
	return 0;
}

void local_destroy(struct local *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	l->quit = true;
	pthread_cond_broadcast(&l->cond);
	pthread_mutex_unlock(&l->lock);
	wake(l);
	pthread_join(l->thread, NULL);
	if (l->device)
		disconnect(l);
	close_one(&l->wake);
	close_one(&l->dma);
	pthread_cond_destroy(&l->cond);
	pthread_mutex_destroy(&l->lock);
	free(l);
}
