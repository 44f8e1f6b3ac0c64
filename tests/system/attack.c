/* SPDX-License-Identifier: MIT */
/*
 * A client of one VF that means harm: attack KIND SOCKET SECONDS.
 *
 *   interrupts  makes its interrupt's eventfd full, and its writers wait, between any two looks
 *   holes       punches holes into the file of BAR 0, and fills them, without an end
 *   registers   reads all registers at once, 256 KiB, without an end
 *   maps        sends more files for DMA than anybody may have, again and again
 *   resets      resets its VF, and leaves and comes back, without an end
 *   look        reads a register once, and ends: no attack, but whether the VF is served
 *   silence     fills the socket with requests, and reads no answer
 *
 * What becomes of the client is of no interest: it ends with 0 when its time is over, and goes on
 * with another connection when it has lost one. 1: nobody has ever let it in.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vfio/device.h"
#include "vfio/user_proto.h"
#include "vgpu/clock.h"

#define REGISTERS (256u << 10)

static vgpu_nsec until;
static uint64_t rounds;

static bool goes_on(void)
{
	rounds++;
	return vgpu_now() < until;
}

/* Asks the device to raise a vector, and for no answer. False: the connection is gone. */
static bool trigger(int fd)
{
	struct {
		struct vfio_user_header header;
		struct vfio_user_set_irqs set;
	} m = {.header = {.command = VFIO_USER_SET_IRQS,
			  .size = sizeof(m),
			  .flags = VFIO_USER_NO_REPLY},
	       .set = {.argsz = sizeof(m.set),
		       .flags = VFIO_USER_IRQ_DATA_NONE | VFIO_USER_IRQ_ACTION_TRIGGER,
		       .index = VFIO_USER_IRQ_MSIX,
		       .count = 1}};
	ssize_t n = send(fd, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT);

	return n == (ssize_t)sizeof(m) || (n < 0 && errno == EAGAIN);
}

/* Empty while the device looks, full when it writes; and who writes waits. */
static void *turn(void *arg)
{
	const uint64_t full = UINT64_MAX - 1;
	int fd = *(int *)arg;
	uint64_t count;

	while (vgpu_now() < until) {
		fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
		if (read(fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
			break;
		if (write(fd, &full, sizeof(full)) < 0 && errno != EAGAIN)
			break;
		fcntl(fd, F_SETFL, O_RDWR);
	}
	return NULL;
}

static void interrupts(struct vfio_device *d)
{
	int fds[2] = {eventfd(0, EFD_NONBLOCK), eventfd(0, EFD_NONBLOCK)};
	pthread_t thread;

	if (vfio_irqs(d, fds, 2) < 0 || pthread_create(&thread, NULL, turn, &fds[0]) != 0)
		return;
	while (goes_on() && trigger(vfio_fd(d)))
		;
	pthread_join(thread, NULL);
	close(fds[0]);
	close(fds[1]);
}

static void holes(struct vfio_device *d)
{
	size_t size, i;
	void *p;

	if (vfio_map(d, VFIO_REGION_BAR0, &p, &size) < 0)
		return;
	while (goes_on() && vfio_check(d) == 0) {
		for (i = 0; i < size; i += 4096)
			((volatile char *)p)[i] = 1;
		madvise(p, size, MADV_REMOVE);
	}
}

static void registers(struct vfio_device *d)
{
	static uint8_t all[REGISTERS];

	while (goes_on() && vfio_read(d, VFIO_REGION_BAR5, 0, all, sizeof(all)) == 0)
		;
}

static void maps(struct vfio_device *d)
{
	int fd = memfd_create("attack", 0);
	uint64_t iova = 0;

	if (ftruncate(fd, 4096) == 0)
		while (goes_on() && vfio_check(d) == 0 && iova < 4096 * 4096 &&
		       vfio_dma_map(d, fd, 0, iova, 4096) != -ENODEV)
			iova += 4096;
	close(fd);
}

static void resets(struct vfio_device *d)
{
	unsigned n = 0;

	while (n++ < 20 && goes_on() && vfio_reset(d) == 0)
		;
}

static void silence(struct vfio_device *d)
{
	struct {
		struct vfio_user_header header;
		struct vfio_user_access access;
	} m = {.header = {.command = VFIO_USER_REGION_READ, .size = sizeof(m)},
	       .access = {.region = VFIO_REGION_BAR5, .count = REGISTERS}};

	while (goes_on() && vfio_check(d) == 0)
		if (send(vfio_fd(d), &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			usleep(1000); /* it is full: that was the aim */
}

static void look(struct vfio_device *d)
{
	uint32_t value;

	if (vfio_read(d, VFIO_REGION_BAR5, 0, &value, sizeof(value)) == 0) {
		rounds++;
		until = 0;
	}
}

static const struct {
	const char *name;
	void (*run)(struct vfio_device *d);
} kinds[] = {{"interrupts", interrupts},
	     {"holes", holes},
	     {"registers", registers},
	     {"maps", maps},
	     {"resets", resets},
	     {"silence", silence},
	     {"look", look}};

int main(int argc, char **argv)
{
	struct vfio_device *d;
	struct vgpu_error err;
	char name[256];
	size_t i = 0;

	if (argc != 4)
		return 2;
	while (i < sizeof(kinds) / sizeof(kinds[0]) && strcmp(kinds[i].name, argv[1]) != 0)
		i++;
	if (i == sizeof(kinds) / sizeof(kinds[0]))
		return 2;
	snprintf(name, sizeof(name), "vfio-user:%s", argv[2]);
	until = vgpu_now() + strtoul(argv[3], NULL, 10) * VGPU_SEC;
	while (vgpu_now() < until) {
		if (vfio_device_open(&d, name, &err) < 0) {
			usleep(1000);
			continue;
		}
		kinds[i].run(d);
		vfio_device_close(d);
	}
	printf("%s: %llu rounds\n", argv[1], (unsigned long long)rounds);
	return rounds == 0;
}
