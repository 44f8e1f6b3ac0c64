/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"
#include "local.h"
#include "vfio/device.h"
#include "vfio/thread.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/untrusted.h"

/* How long an access waits while a process starts. */
#define CONNECT_TIMEOUT (5 * VGPU_SEC)

struct local {
	struct softgpu *gpu;
	int vf;
	pthread_t thread;
	pthread_mutex_t lock; /* protects the members below; held during an access */
	pthread_cond_t cond;
	char name[128]; /* name of the socket, for vfio_device_open() */
	struct vfio_device *device;
	int wake, dma;
	int irqs[SOFTGPU_VF_VECTORS];
	bool quit;
};

int local_listen(struct local *l, struct vgpu_error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t size = sizeof(address);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	/* The kernel chooses an abstract name. */
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address.sun_family)) < 0 ||
	    listen(fd, 4) < 0 || getsockname(fd, (struct sockaddr *)&address, &size) < 0) {
		int r = vgpu_error_set(err, -errno, "a socket for the VF's process: %s",
				       strerror(errno));

		vgpu_close(&fd);
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
	vgpu_untrusted_prepare(pair[0]);
	pthread_mutex_lock(&l->lock);
	vgpu_close(&l->dma);
	l->dma = pair[0];
	pthread_mutex_unlock(&l->lock);
	vgpu_eventfd_signal(l->wake);
	return pair[1];
}

/* Lets the carrier do one DMA transfer. Returns false if the process is gone, or its request is
 * malformed. */
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
	/* With the lock, so that an access which sees the end of the transfer also sees its bytes.
	 */
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
		vgpu_close(&l->irqs[i]);
}

/* Connects to the process. Called with the lock held, which it releases meanwhile. */
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
		l->irqs[i] = vgpu_eventfd();
	r = name[0] ? vfio_device_open(&device, name, &err) : -ENOENT;
	if (r == 0)
		r = vfio_irqs(device, l->irqs, SOFTGPU_VF_VECTORS);
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
		/* While a process starts, tries to connect again after 10 ms. */
		poll(fds, 3 + SOFTGPU_VF_VECTORS, fds[2].fd < 0 ? 10 : -1);
		if (fds[0].revents)
			vgpu_eventfd_drain(l->wake);
		for (i = 0; i < SOFTGPU_VF_VECTORS; i++) {
			if (!(fds[3 + i].revents & POLLIN))
				continue;
			vgpu_eventfd_drain(fds[3 + i].fd);
			l->gpu->carrier->irq(l->gpu->opaque, l->vf, i);
		}
		if (fds[1].revents && !serve_dma(l, fds[1].fd)) {
			pthread_mutex_lock(&l->lock);
			if (l->dma == fds[1].fd)
				vgpu_close(&l->dma);
			pthread_mutex_unlock(&l->lock);
		}
		pthread_mutex_lock(&l->lock);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

/* Waits until there is a connection. Called with the lock held. */
static bool await_device(struct local *l)
{
	vgpu_nsec until = vgpu_now() + CONNECT_TIMEOUT;
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

/* The read that follows the write waits until the process has executed the write: as on a bus, a
 * later read, of the PF too, must see its effect. */
void local_write(struct local *l, uint32_t region, uint64_t offset, const void *data, uint32_t size)
{
	uint32_t id;

	pthread_mutex_lock(&l->lock);
	if (await_device(l) && vfio_write(l->device, region, offset, data, size) == 0 &&
	    vfio_read(l->device, VFIO_REGION_CONFIG, 0, &id, sizeof(id)) < 0)
		vgpu_eventfd_signal(l->wake);
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
	l->wake = vgpu_eventfd();
	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->cond, &attr);
	pthread_condattr_destroy(&attr);
	if (l->wake < 0)
		r = -l->wake;
	else
		r = vfio_thread_create(&l->thread, "sg-local", SCHED_OTHER, 0, local_thread, l);
	if (r) {
		l->quit = true;
		vgpu_close(&l->wake);
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
	vgpu_eventfd_signal(l->wake);
	pthread_join(l->thread, NULL);
	if (l->device)
		disconnect(l);
	vgpu_close(&l->wake);
	vgpu_close(&l->dma);
	pthread_cond_destroy(&l->cond);
	pthread_mutex_destroy(&l->lock);
	free(l);
}
