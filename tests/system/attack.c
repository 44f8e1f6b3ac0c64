/* SPDX-License-Identifier: MIT */
/*
 * A hostile client of one VF: attack KIND SOCKET SECONDS. The table at the end says what the kinds
 * are. It prints "begun" when it is first let in, and goes on with another connection when it has
 * lost one. When its time is over, or at SIGTERM, it prints how many rounds it has made, and ends
 * with 0; with 1 if there was none. 3: this machine cannot do it. 4: it found what must not be.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "attack.h"
#include "guest.h"
#include "lingering.h"
#include "vfio/device.h"
#include "vfio/gpuiov.h"
#include "vfio/user_proto.h"
#include "vgpu/clock.h"
#include "vgpu/local_socket.h"

#define REGISTERS (256u << 10)
/* The most descriptors that the kernel takes with one message. */
#define MOST_FDS 253u
#define BATCH 64u
/* How often it asks in one connection. */
#define UNREAD 512
#define CROWD 64u

_Atomic vgpu_nsec attack_until;
_Atomic uint64_t attack_rounds;

static const char *socket_path;

bool attack_goes_on(void)
{
	attack_rounds++;
	return vgpu_now() < attack_until;
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

	while (vgpu_now() < attack_until) {
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
	while (attack_goes_on() && trigger(vfio_fd(d)))
		;
	pthread_join(thread, NULL);
	close(fds[0]);
	close(fds[1]);
}

static void registers(struct vfio_device *d)
{
	static uint8_t all[REGISTERS];

	while (attack_goes_on() && vfio_read(d, VFIO_REGION_BAR5, 0, all, sizeof(all)) == 0)
		;
}

/* Sends SIZE bytes of messages, and reads no answer. False: the connection is gone. */
static bool send_all(int fd, const void *messages, size_t size)
{
	const char *p = messages;
	ssize_t n;

	while (size > 0) {
		n = send(fd, p, size, MSG_NOSIGNAL);
		if (n < 0)
			return false;
		p += n;
		size -= (size_t)n;
	}
	return true;
}

static void doorbells(struct vfio_device *d)
{
	struct doorbell {
		struct vfio_user_header header;
		struct vfio_user_access access;
		uint64_t value;
	} __attribute__((packed)) m[BATCH];
	unsigned i;

	for (i = 0; i < BATCH; i++)
		m[i] = (struct doorbell){.header = {.command = VFIO_USER_REGION_WRITE,
						    .size = sizeof(m[0]),
						    .flags = VFIO_USER_NO_REPLY},
					 .access = {.region = VFIO_REGION_BAR2, .count = 8}};
	while (attack_goes_on() && send_all(vfio_fd(d), m, sizeof(m)))
		;
}

static void *discard(void *arg)
{
	static char buffer[1 << 16];
	int fd = *(int *)arg;

	while (recv(fd, buffer, sizeof(buffer), 0) > 0)
		;
	return NULL;
}

/* Small requests without an end, of which all answers are read. */
static void requests(struct vfio_device *d)
{
	struct request {
		struct vfio_user_header header;
		struct vfio_user_access access;
	} m[BATCH];
	int fd = vfio_fd(d);
	pthread_t thread;
	unsigned i;

	for (i = 0; i < BATCH; i++)
		m[i] = (struct request){.header = {.command = VFIO_USER_REGION_READ,
						   .size = sizeof(m[0])},
					.access = {.region = VFIO_REGION_BAR5, .count = 4}};
	if (pthread_create(&thread, NULL, discard, &fd) != 0)
		return;
	while (attack_goes_on() && send_all(fd, m, sizeof(m)))
		;
	shutdown(fd, SHUT_RDWR);
	pthread_join(thread, NULL);
}

static void maps(struct vfio_device *d)
{
	int fd = memfd_create("attack", MFD_CLOEXEC);
	uint64_t iova = 0;

	if (ftruncate(fd, 4096) == 0)
		while (attack_goes_on() && vfio_check(d) == 0 && iova < 4096 * 4096 &&
		       vfio_dma_map(d, fd, 0, iova, 4096) != -ENODEV)
			iova += 4096;
	close(fd);
}

/* Has as many files mapped as anybody may have, and others wait to be let in. */
static void crowd(struct vfio_device *d)
{
	int fd = memfd_create("attack", MFD_CLOEXEC), others[CROWD];
	uint64_t iova = 0;
	unsigned i;

	if (ftruncate(fd, 4096) < 0)
		return;
	while (vfio_dma_map(d, fd, 0, iova, 4096) == 0)
		iova += 4096;
	for (i = 0; i < CROWD; i++)
		others[i] = vgpu_socket_connect(socket_path, SOCK_NONBLOCK);
	while (attack_goes_on() && vfio_check(d) == 0)
		usleep(1000);
	for (i = 0; i < CROWD; i++)
		if (others[i] >= 0)
			close(others[i]);
	close(fd);
}

/* Messages with more descriptors than anybody takes, in which the kernel cuts some off. */
static void descriptors(struct vfio_device *d)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * MOST_FDS)];
	} control = {0};
	struct vfio_user_header header = {.command = VFIO_USER_DMA_UNMAP, .size = 16};
	struct iovec iov = {&header, sizeof(header)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.space,
			   .msg_controllen = sizeof(control.space)};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&m);
	int fds[MOST_FDS];
	unsigned i;

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(fds));
	for (i = 0; i < MOST_FDS; i++)
		fds[i] = 0;
	memcpy(CMSG_DATA(cmsg), fds, sizeof(fds));
	while (attack_goes_on() && vfio_check(d) == 0)
		if (sendmsg(vfio_fd(d), &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN)
			return;
}

/* A socket whose last close takes long, in place of a file for DMA. */
static void lingers(struct vfio_device *d)
{
	struct {
		struct vfio_user_header header;
		struct vfio_user_dma_map map;
	} m = {.header = {.command = VFIO_USER_DMA_MAP,
			  .size = sizeof(m),
			  .flags = VFIO_USER_NO_REPLY},
	       .map = {.argsz = sizeof(m.map), .flags = 3, .size = 4096}};
	struct {
		struct vfio_user_header header;
		struct vfio_user_access access;
	} busy = {.header = {.command = VFIO_USER_REGION_READ,
			     .size = sizeof(busy),
			     .flags = VFIO_USER_NO_REPLY},
		  .access = {.region = VFIO_REGION_BAR5, .count = REGISTERS}};
	struct iovec part = {&m, sizeof(m)};
	int fd = lingering(120), i;

	if (fd < 0)
		return;
	/* The receiver has other things to do first, so that the last close is its own. */
	for (i = 0; i < 100; i++)
		send(vfio_fd(d), &busy, sizeof(busy), MSG_NOSIGNAL);
	for (i = 0; i < 20; i++)
		vgpu_socket_send(vfio_fd(d), &part, 1, &fd, 1, MSG_DONTWAIT);
	close(fd);
	while (attack_goes_on() && vfio_check(d) == 0)
		usleep(1000);
}

/* Asks for the file of its memory, reads no answer, and leaves; but keeps the connection, with the
 * files in it. */
static void unread(struct vfio_device *d)
{
	struct {
		struct vfio_user_header header;
		struct vfio_user_region_info info;
	} m = {.header = {.command = VFIO_USER_GET_REGION_INFO, .size = sizeof(m)},
	       .info = {.argsz = 4096, .index = VFIO_REGION_BAR0}};
	struct pollfd gone = {.fd = vfio_fd(d)};
	int kept = dup(vfio_fd(d)), i;

	for (i = 0; i < UNREAD; i++)
		if (send(kept, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
	/* The process answers what it has, and ends. */
	shutdown(kept, SHUT_WR);
	poll(&gone, 1, 1000);
	attack_goes_on();
}

/* Maps its memory, for which it gets a descriptor. */
static void maps_once(struct vfio_device *d)
{
	size_t size = 0;
	void *memory;

	if (vfio_map_at(d, VFIO_REGION_BAR0, NULL, &memory, &size) < 0)
		return;
	attack_goes_on();
	attack_until = 0;
}

/* Sends the PF a message and takes it back. */
static void messages(struct vfio_device *d)
{
	uint64_t control = gpuiov_layout_soft.at[GPUIOV_MBOX_CONTROL].offset;
	uint32_t none = 0, valid = GPUIOV_MBOX_TRN_VALID;

	while (attack_goes_on() &&
	       vfio_write(d, VFIO_REGION_BAR5, control, &valid, sizeof(valid)) == 0 &&
	       vfio_write(d, VFIO_REGION_BAR5, control, &none, sizeof(none)) == 0)
		;
}

static void resets(struct vfio_device *d)
{
	unsigned n = 0;

	while (n++ < 20 && attack_goes_on() && vfio_reset(d) == 0)
		;
}

/* Its driver starts and stops, back to back. */
static void windows(struct guest *g)
{
	struct vgpu_error err;
	int r = 0;

	while (r == 0 && attack_goes_on()) {
		r = guest_bring_down(g, 60 * VGPU_SEC, &err);
		if (r == 0)
			r = guest_bring_up(g, 60 * VGPU_SEC, &err);
	}
}

static void silence(struct vfio_device *d)
{
	struct {
		struct vfio_user_header header;
		struct vfio_user_access access;
	} m = {.header = {.command = VFIO_USER_REGION_READ, .size = sizeof(m)},
	       .access = {.region = VFIO_REGION_BAR5, .count = REGISTERS}};

	while (attack_goes_on() && vfio_check(d) == 0)
		if (send(vfio_fd(d), &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			usleep(1000); /* it is full: that was the aim */
}

static void look(struct vfio_device *d)
{
	uint32_t value;

	if (vfio_read(d, VFIO_REGION_BAR5, 0, &value, sizeof(value)) == 0) {
		attack_rounds++;
		attack_until = 0;
	}
}

static const struct kind {
	const char *name;
	/* One of them: as a bare client, or as a guest whose VF executes its packets. */
	void (*run)(struct vfio_device *d);
	void (*compute)(struct guest *g);
} kinds[] = {
	/* its interrupt's eventfd is full, and its writers wait, between any two looks */
	{"interrupts", interrupts, NULL},
	/* fills the file of BAR 0, and punches holes into it */
	{"holes", attack_holes, NULL},
	/* keeps the lock of BAR 0's file, over many connections */
	{"window", attack_window, NULL},
	/* keeps the lock of a file for DMA */
	{"locked", NULL, attack_locked},
	/* fills a file for DMA, and punches holes into it */
	{"filled", NULL, attack_filled},
	/* punches a hole into a huge page for DMA, when there is no other */
	{"huge", NULL, attack_huge},
	/* has DMA fill files without pages */
	{"sparse", NULL, attack_sparse},
	/* has DMA go to a file of a file system that it is itself, and does not answer */
	{"fuse", NULL, attack_fuse},
	/* has modules compiled that take memory and time: a million instructions of little text,
	 * blocks in blocks, calls that double, arrays, entries, registers */
	{"bombs", NULL, attack_bombs},
	/* the first of these only */
	{"bomb", NULL, attack_bomb},
	/* launches a GPU kernel of a thousand threads, five hundred times at once */
	{"launches", NULL, attack_launches},
	/* two of its rings wait for each other */
	{"cycle", NULL, attack_cycle},
	/* keeps filled files of BAR 0 of former connections */
	{"hoard", attack_hoard, NULL},
	/* comes again and again, and looks for what others have left, or what they write later */
	{"successions", attack_successions, NULL},
	/* reads all registers at once, 256 KiB */
	{"registers", registers, NULL},
	/* rings the doorbell, 64 messages at once */
	{"doorbells", doorbells, NULL},
	/* reads a register, 64 messages at once */
	{"requests", requests, NULL},
	/* sends more files for DMA than anybody may have */
	{"maps", maps, NULL},
	/* has as many files for DMA as anybody may have, and others connect */
	{"crowd", crowd, NULL},
	/* sends so many descriptors at once that some are cut off */
	{"descriptors", descriptors, NULL},
	/* sends a descriptor whose close takes two minutes */
	{"lingers", lingers, NULL},
	/* leaves files unread in many connections */
	{"unread", unread, NULL},
	/* sends the PF messages that say nothing */
	{"messages", messages, NULL},
	/* resets its VF, and leaves and comes back */
	{"resets", resets, NULL},
	/* its driver starts and stops as often as it may, each time in an exclusive window */
	{"windows", NULL, windows},
	/* fills the socket with requests, and reads no answer */
	{"silence", silence, NULL},
	/* no attack: reads a register once, and ends */
	{"look", look, NULL},
	/* no attack: maps its memory once, and ends */
	{"map", maps_once, NULL},
};

/* Whatever the others wait for: says what has been done, and ends. */
static void *wait_for_end(void *arg)
{
	const sigset_t *end = arg;
	int signal;

	sigwait(end, &signal);
	printf("%llu rounds\n", (unsigned long long)attack_rounds);
	fflush(stdout);
	_exit(attack_rounds == 0);
}

/* Says that there is an attack from now on. */
static void begin(void)
{
	static bool said;

	if (!said)
		puts("begun");
	fflush(stdout);
	said = true;
}

/* False: it was not let in. */
static bool attack(const struct kind *kind, const char *name)
{
	struct vfio_device *d;
	struct vgpu_error err;
	struct guest *g;

	if (kind->run) {
		if (vfio_device_open(&d, name, &err) < 0)
			return false;
		begin();
		kind->run(d);
		vfio_device_close(d);
		return true;
	}
	if (guest_open(&g, name, &err) < 0)
		return false;
	if (guest_bring_up(g, 60 * VGPU_SEC, &err) == 0) {
		begin();
		kind->compute(g);
	}
	guest_close(g);
	return true;
}

int main(int argc, char **argv)
{
	pthread_t ender;
	char name[256];
	sigset_t end;
	size_t i = 0;

	if (argc != 4)
		return 2;
	while (i < sizeof(kinds) / sizeof(kinds[0]) && strcmp(kinds[i].name, argv[1]) != 0)
		i++;
	if (i == sizeof(kinds) / sizeof(kinds[0]))
		return 2;
	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &end, NULL);
	if (pthread_create(&ender, NULL, wait_for_end, &end) != 0)
		return 2;
	socket_path = argv[2];
	snprintf(name, sizeof(name), "vfio-user:%s", argv[2]);
	attack_until = vgpu_now() + strtoul(argv[3], NULL, 10) * VGPU_SEC;
	while (vgpu_now() < attack_until)
		if (!attack(&kinds[i], name))
			usleep(1000);
	printf("%llu rounds\n", (unsigned long long)attack_rounds);
	return attack_rounds == 0;
}
