/* SPDX-License-Identifier: MIT */
/*
 * How long accesses of a VF's client take: bench-access SOCKET N. Beside them, in the same loop, a
 * message to a thread of this process and back, which is what this machine itself needs for a trip.
 * Prints JSON.
 *
 *   register  a read of a register
 *   doorbell  a write of the doorbell, and a read behind it: the doorbell has been handled
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "sample.h"
#include "vfio/device.h"
#include "softgpu/registers.h"
#include "vgpu/clock.h"

/* As long as a read and its answer on the wire. */
#define TRIP 32
#define PAUSE_US 200

enum { REGISTER, DOORBELL, TRIP_HERE, KINDS };
static const char *const names[KINDS] = {"register", "doorbell", "machine"};

static void *echo(void *arg)
{
	int fd = *(int *)arg;
	char message[TRIP];

	while (recv(fd, message, sizeof(message), MSG_WAITALL) == TRIP &&
	       send(fd, message, sizeof(message), MSG_NOSIGNAL) == TRIP)
		;
	return NULL;
}

static bool once(struct vfio_device *d, int fd, int kind)
{
	static const uint64_t wptr = 0;
	char message[TRIP] = "";
	uint32_t value;

	switch (kind) {
	case REGISTER:
		return vfio_read(d, VFIO_REGION_BAR5, SOFTGPU_STATUS, &value, 4) == 0;
	case DOORBELL:
		return vfio_write(d, VFIO_REGION_BAR2, SOFTGPU_DOORBELL, &wptr, 8) == 0 &&
		       vfio_read(d, VFIO_REGION_BAR5, SOFTGPU_RING_WPTR, &value, 4) == 0;
	default:
		return send(fd, message, TRIP, MSG_NOSIGNAL) == TRIP &&
		       recv(fd, message, TRIP, MSG_WAITALL) == TRIP;
	}
}

int main(int argc, char **argv)
{
	unsigned n = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0, i;
	struct timespec pause = {0, PAUSE_US * 1000L};
	struct vfio_device *d;
	struct vgpu_error err;
	vgpu_nsec *ns[KINDS];
	pthread_t thread;
	char name[256];
	int pair[2], k;

	if (n == 0)
		return 2;
	snprintf(name, sizeof(name), "vfio-user:%s", argv[1]);
	if (vfio_device_open(&d, name, &err) < 0) {
		fprintf(stderr, "bench-access: %s\n", err.text);
		return 1;
	}
	for (k = 0; k < KINDS; k++) {
		ns[k] = calloc(n, sizeof(*ns[k]));
		if (!ns[k])
			return 1;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
	    pthread_create(&thread, NULL, echo, &pair[1]) != 0)
		return 1;
	for (i = 0; i < n; i++) {
		for (k = 0; k < KINDS; k++) {
			vgpu_nsec began = vgpu_now();

			if (!once(d, pair[0], k))
				return 1;
			ns[k][i] = vgpu_now() - began;
		}
		nanosleep(&pause, NULL);
	}
	printf("{");
	for (k = 0; k < KINDS; k++)
		sample_print(names[k], ns[k], n, k + 1 < KINDS ? "," : "}\n");
	vfio_device_close(d);
	return 0;
}
