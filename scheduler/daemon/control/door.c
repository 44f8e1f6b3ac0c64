/* SPDX-License-Identifier: MIT */
#include "door.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"
#include "vgpu/clock.h"
#include "vgpu/untrusted.h"

struct door {
	int fd;
	struct event *knock, *reopen;
	const char *name;
	uint32_t reserve;
	const struct door_ops *ops;
	void *data;
	vgpu_nsec log_after; /* when the next message may be logged */
	uint64_t unlogged;
};

static void close_for(struct door *door, vgpu_nsec span)
{
	struct timeval after = {(time_t)(span / VGPU_SEC),
				(suseconds_t)(span % VGPU_SEC / VGPU_USEC)};

	event_del(door->knock);
	event_add(door->reopen, &after);
}

static void on_reopen(evutil_socket_t, short, void *data)
{
	struct door *door = data;

	event_add(door->knock, NULL);
}

/* Logs why connections are delayed or dropped, at most once a minute. */
static void complain(struct door *door, const char *why)
{
	vgpu_nsec now = vgpu_now();

	if (now < door->log_after) {
		door->unlogged++;
		return;
	}
	log_line(LOG_WARNING,
		 "%s: %s: connections are delayed or dropped; raise LimitNOFILE (%" PRIu64
		 " more times since the last message)",
		 door->name, why, door->unlogged);
	door->log_after = now + DOOR_LOG_EVERY;
	door->unlogged = 0;
}

static bool is_reserved(const struct door *door, int fd)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
	       (rlim_t)fd + door->reserve >= limit.rlim_cur;
}

static void on_knock(evutil_socket_t listener, short, void *data)
{
	struct door *door = data;
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	bool full =
		fd < 0 ? errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM
		       : is_reserved(door, fd);

	if (full) {
		complain(door, fd < 0 ? strerror(errno) : "few descriptors are left");
		if (!door->ops->shed(door->data)) {
			close_for(door, DOOR_PAUSE);
			vgpu_untrusted_close(&fd);
			return;
		}
	}
	if (fd >= 0 && !door->ops->admit(fd, door->data))
		close_for(door, DOOR_BREATH);
}

int door_open(struct door **out, struct event_base *base, int fd, const char *name,
	      uint32_t reserve, const struct door_ops *ops, void *data)
{
	struct door *door = calloc(1, sizeof(*door));

	*out = NULL;
	if (!door) {
		close(fd);
		return -ENOMEM;
	}
	*door = (struct door){.fd = fd, .name = name, .reserve = reserve, .ops = ops, .data = data};
	door->knock = event_new(base, fd, EV_READ | EV_PERSIST, on_knock, door);
	door->reopen = evtimer_new(base, on_reopen, door);
	if (!door->knock || !door->reopen || event_add(door->knock, NULL) < 0) {
		close(door_close(door));
		return -ENOMEM;
	}
	*out = door;
	return 0;
}

int door_close(struct door *door)
{
	int fd = door ? door->fd : -1;

	if (!door)
		return fd;
	if (door->knock)
		event_free(door->knock);
	if (door->reopen)
		event_free(door->reopen);
	free(door);
	return fd;
}
