/* SPDX-License-Identifier: MIT */
/* Clients that come and go while threads of softgpu close what others have left: two calls of
 * softgpu's are held here, until the test lets them go on. */
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "doors.h"
#include "gpu.h"
#include "link.h"
#include "softgpu.h"
#include "suite.h"
#include "vfio/device.h"
#include "vfio/pci.h"
#include "vgpu/untrusted.h"

#define SRIOV_AT 0x330u

static struct softgpu *gpu;
static struct sockaddr_un door;
static socklen_t door_size = sizeof(door);

/* A call that waits while it is held. */
struct held {
	_Atomic bool on;
	sem_t reached, go;
};
static struct held discard, closing;

static void begin_hold(struct held *h)
{
	sem_init(&h->reached, 0, 0);
	sem_init(&h->go, 0, 0);
	atomic_store(&h->on, true);
}

static void wait_while_held(struct held *h)
{
	if (!atomic_exchange(&h->on, false))
		return;
	sem_post(&h->reached);
	while (sem_wait(&h->go) < 0)
		;
}

static void await_reached(struct held *h)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 60;
	CU_ASSERT_EQUAL_FATAL(sem_timedwait(&h->reached, &until), 0);
}

/* The linker has softgpu call these. */
void __real_doors_discard(struct doors *d, int *fd);
void __wrap_doors_discard(struct doors *d, int *fd);
void __wrap_doors_discard(struct doors *d, int *fd)
{
	wait_while_held(&discard);
	__real_doors_discard(d, fd);
}

void __real_vgpu_untrusted_close(int *fd);
void __wrap_vgpu_untrusted_close(int *fd);
void __wrap_vgpu_untrusted_close(int *fd)
{
	wait_while_held(&closing);
	__real_vgpu_untrusted_close(fd);
}

static void on_irq(void *opaque, int fn, uint32_t vector)
{
	(void)opaque;
	(void)fn;
	(void)vector;
}

static int on_dma(void *opaque, int fn, uint64_t iova, void *buffer, uint64_t size, bool to_client)
{
	(void)opaque;
	(void)fn;
	(void)iova;
	(void)buffer;
	(void)size;
	(void)to_client;
	return -EFAULT;
}

static void on_vfs(void *opaque, uint32_t n)
{
	(void)opaque;
	(void)n;
}

static int on_listen(void *opaque, int vf, struct vgpu_error *err)
{
	const struct sockaddr any = {.sa_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	(void)opaque;
	(void)vf;
	(void)err;
	if (bind(fd, &any, sizeof(sa_family_t)) < 0 || listen(fd, 8) < 0 ||
	    getsockname(fd, (struct sockaddr *)&door, &door_size) < 0)
		return -errno;
	return fd;
}

static const struct softgpu_carrier carrier = {.irq = on_irq,
					       .dma = on_dma,
					       .vfs_changed = on_vfs,
					       .listen = on_listen};

static void begin(void)
{
	const struct softgpu_config config = {.n_vfs = 1,
					      .vram = UINT64_C(96) << 20,
					      .layout = gpuiov_layout_by_name("soft"),
					      .seed = 1};
	const uint16_t one = 1, enable = SRIOV_CTRL_VF_ENABLE;
	struct vgpu_error err;

	CU_ASSERT_EQUAL_FATAL(softgpu_create(&gpu, &config, &carrier, NULL, &err), 0);
	softgpu_write(gpu, SOFTGPU_PF, VFIO_REGION_CONFIG, SRIOV_AT + SRIOV_NUM_VFS, &one, 2);
	softgpu_write(gpu, SOFTGPU_PF, VFIO_REGION_CONFIG, SRIOV_AT + SRIOV_CTRL, &enable, 2);
}

static int come(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&door, door_size), 0);
	return fd;
}

/* Waits until the VF has a client, or none. */
static bool becomes(uint32_t used)
{
	const struct timespec pause = {0, 1000000};
	int i;

	for (i = 0; i < 60000 && softgpu_used(gpu) != used; i++)
		nanosleep(&pause, NULL);
	return softgpu_used(gpu) == used;
}

static bool is_served(void)
{
	return becomes(1);
}

static uint64_t serial(pid_t *pid)
{
	uint64_t fences, n;

	softgpu_lock(gpu);
	n = link_serial(gpu->vfs[0].link);
	*pid = link_process(gpu->vfs[0].link, &fences);
	softgpu_unlock(gpu);
	return n;
}

static void expel(void)
{
	const uint32_t vfs = 1;

	softgpu_write(gpu, SOFTGPU_PF, VFIO_REGION_BAR5, SOFTGPU_EXPEL, &vfs, sizeof(vfs));
}

TEST(expelled_late, "a VF's clients are to end while its process has ended: the next process lives")
{
	int first, next;
	uint64_t was;
	pid_t pid;

	begin();
	first = come();
	CU_ASSERT_FATAL(is_served());
	was = serial(&pid);
	begin_hold(&discard);
	kill(pid, SIGKILL);
	await_reached(&discard);
	expel();
	sem_post(&discard.go);
	next = come();
	CU_ASSERT(is_served());
	CU_ASSERT_EQUAL(serial(&pid), was + 1);
	close(first);
	close(next);
	softgpu_destroy(gpu);
}

TEST(no_room,
     "while nothing more can be left to the thread that closes, nothing stays open for ever")
{
	int waits, pipes[2], pair[2];
	uint32_t n;

	begin();
	/* It is served, so that the thread waits for clients. */
	waits = come();
	CU_ASSERT_FATAL(is_served());
	begin_hold(&closing);
	for (n = 0; n < 4096 && doors_have_room(gpu->doors); n++) {
		CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		close(pair[1]);
		doors_discard_later(gpu->doors, &pair[0]);
		if (n == 0)
			await_reached(&closing);
	}
	CU_ASSERT_FALSE_FATAL(doors_have_room(gpu->doors));
	CU_ASSERT_EQUAL_FATAL(pipe(pipes), 0);
	doors_hear_last(gpu->doors, 0, &pipes[0]);
	CU_ASSERT_EQUAL(poll(&(struct pollfd){.fd = pipes[1]}, 1, 0), 1); /* nobody reads it */
	close(pipes[1]);
	close(waits);
	CU_ASSERT_FATAL(becomes(0));
	waits = come();
	expel();
	sem_post(&closing.go);
	/* It has not been taken from those who wait, and is served. */
	CU_ASSERT(is_served());
	close(waits);
	softgpu_destroy(gpu);
}

SUITE_MAIN("doors")
