/* SPDX-License-Identifier: MIT */
/*
 * A door: accepts connections at a listening socket, one in a turn of the event loop. While too few
 * descriptors are left, it ends a dispensable connection, or closes for a second, because a
 * listening socket stays readable and would keep the control thread busy.
 *
 * Control thread.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>

#include "vgpu/types.h"

/* Descriptors reserved for vgpud itself: for leases, plug-ins, and a GPU that returns. */
#define DOOR_RESERVE 16u
/* How long a door stays closed after a peer that is not root, so that such peers cannot keep the
 * control thread busy by connecting repeatedly. Root, behind a full backlog, waits for some 20 ms.
 */
#define DOOR_BREATH VGPU_MSEC
/* How long a door stays closed when no connection can be accepted. */
#define DOOR_PAUSE VGPU_SEC
/* Shortest interval between two log lines about closed doors. */
#define DOOR_LOG_EVERY (60 * VGPU_SEC)

struct door;

struct door_ops {
	/* Takes over a connection, non-blocking. Returns whether its peer is root. */
	bool (*admit)(int fd, void *data);
	/* Ends a dispensable connection. Returns false if there is none. */
	bool (*shed)(void *data);
};

/* Opens a door at the listening socket FD, which the door then owns, even after an error. NAME is
 * for the log. Its connections leave RESERVE descriptors to others. Returns 0 or -ENOMEM. */
int door_open(struct door **out, struct event_base *base, int fd, const char *name,
	      uint32_t reserve, const struct door_ops *ops, void *data);
/* Frees the door, which may be NULL. Returns the socket, which the caller owns again; -1 for
 * NULL. */
int door_close(struct door *door);
