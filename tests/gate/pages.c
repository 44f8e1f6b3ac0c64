/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "vgpu/clock.h"
#include "vgpu/local_socket.h"

static int fds[GATE_DESCRIPTORS];

static void *make(int i)
{
	fds[i] = memfd_create("page", MFD_CLOEXEC);
	if (fds[i] < 0 || ftruncate(fds[i], GATE_PAGE) < 0)
		return NULL;
	return mmap(NULL, GATE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
}

static void *serve(void *arg)
{
	struct gate_welcome welcome = {.magic = GATE_MAGIC, .version = GATE_VERSION};
	struct iovec part = {&welcome, sizeof(welcome)};
	int listener = (int)(intptr_t)arg, fd = accept(listener, NULL, NULL);

	vgpu_socket_send(fd, &part, 1, fds, GATE_DESCRIPTORS, 0);
	close(fd);
	close(listener);
	return NULL;
}

bool pages_open(struct pages *p, const char *device)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	pthread_t thread;

	snprintf(a.sun_path, sizeof(a.sun_path), "/tmp/vgpud-gate-test.%d", (int)getpid());
	unlink(a.sun_path);
	*p = (struct pages){make(0), make(1), make(2), -1};
	p->bell = fds[3] = eventfd(0, EFD_NONBLOCK);
	if (fd < 0 || !p->seat || !p->account || !p->worker ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 1) < 0)
		return false;
	p->seat->magic = GATE_MAGIC;
	p->seat->version = GATE_VERSION;
	snprintf(p->seat->device, sizeof(p->seat->device), "%s", device);
	setenv(GATE_DOOR, a.sun_path, 1);
	return pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) == 0 &&
	       pthread_detach(thread) == 0;
}

void pages_gate(struct pages *p, bool open)
{
	if (gate_is_open(atomic_load(&p->seat->gate)) == open)
		return;
	atomic_fetch_add(&p->seat->gate, 1);
	if (open)
		syscall(SYS_futex, &p->seat->gate, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint64_t pages_rung(struct pages *p)
{
	uint64_t n;

	return read(p->bell, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

bool pages_shut(struct pages *p)
{
	vgpu_nsec until = vgpu_now() + 30 * VGPU_SEC;
	struct timespec pause = {0, 50000};
	uint32_t in_flight;

	pages_gate(p, false);
	/* Once it has been 0 it may still rise for a moment: who is late counts itself, sees the
	 * gate, and takes it back. */
	while ((in_flight = atomic_load(&p->worker->in_flight)) > 0 && vgpu_now() < until)
		nanosleep(&pause, NULL);
	return in_flight == 0;
}
