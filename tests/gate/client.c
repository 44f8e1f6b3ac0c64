/* SPDX-License-Identifier: MIT */
/*
 * client HOW SECONDS: submits jobs of 2 ms to lab_sched for that long, as a worker of its VF. HOW:
 * "waits" counts each in and waits for the gate, as the layer does; "ignores" says nothing and
 * submits all the time. Prints how many were done.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "sched/lab_sched.h"
#include "vgpu/gate.h"
#include "vgpu/local_socket.h"

static const struct gate_seat *seat;
static struct gate_worker *page;
static int bell;

static int enter(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct vgpu_received got = {.n_fds = 0};
	const char *door = getenv(GATE_DOOR);
	struct gate_welcome w = {.why = "no answer"};

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", door ? door : "");
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    vgpu_socket_receive(fd, &w, sizeof(w), 0, &got) != sizeof(w) ||
	    got.n_fds != GATE_DESCRIPTORS) {
		fprintf(stderr, "the door %s: %s\n", a.sun_path, w.why);
		return -1;
	}
	close(fd);
	seat = mmap(NULL, GATE_PAGE, PROT_READ, MAP_SHARED, got.fds[0], 0);
	page = mmap(NULL, GATE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, got.fds[2], 0);
	bell = got.fds[3];
	return seat == MAP_FAILED || page == MAP_FAILED ? -1 : 0;
}

static void ring(void)
{
	const uint64_t one = 1;

	if (write(bell, &one, sizeof(one)) < 0 && errno != EAGAIN)
		perror("bell");
}

static void wait_for_gate(void)
{
	for (;;) {
		atomic_fetch_add(&page->in_flight, 1);
		if (gate_is_open(atomic_load(&seat->gate)))
			return;
		atomic_fetch_sub(&page->in_flight, 1);
		ring();
		usleep(200);
	}
}

int main(int argc, char **argv)
{
	struct lab_submit job = {.us = 2000};
	bool waits = argc == 3 && strcmp(argv[1], "waits") == 0;
	time_t end = time(NULL) + (argc == 3 ? atoi(argv[2]) : 0);
	int fd = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
	unsigned long done = 0;

	if (fd < 0 || enter() < 0) {
		perror("client");
		return 1;
	}
	if (waits) {
		atomic_store(&page->work, 1);
		ring();
	}
	for (; time(NULL) < end; done++) {
		if (waits)
			wait_for_gate();
		if (ioctl(fd, LAB_SUBMIT, &job) < 0) {
			perror("LAB_SUBMIT");
			return 1;
		}
		if (waits) {
			atomic_fetch_add(&page->submissions, 1);
			atomic_fetch_sub(&page->in_flight, 1);
			if (!gate_is_open(atomic_load(&seat->gate)))
				ring();
		}
	}
	if (waits) {
		atomic_store(&page->work, 0);
		ring();
	}
	printf("%lu\n", done);
	return 0;
}
