/* SPDX-License-Identifier: MIT */
/*
 * A client of the control socket, the hook's or the tenants': reads its lines and sends it answers.
 *
 * Root's lines are handled as they come. A reader's line waits for the readers' share (share.h),
 * and its next line is read only after the client has received the previous answer: one call is in
 * progress for each connection. The connections and the unread bytes of readers are limited, so
 * that enough are left for root and for other readers. docs/protocol.md states the limits.
 *
 * Owned by the control thread.
 */
#pragma once

#include <event2/buffer.h>
#include <sys/socket.h>

#include "caller.h"
#include "state.h"

/* The socket that the client has connected to. */
enum client_at { CLIENT_CONTROL = 0, CLIENT_HOOK, CLIENT_TENANT };

/* Limits on connections: to each socket; of readers; of each user's readers. */
#define CLIENT_PLACES 64u
#define CLIENT_READERS 48u
#define CLIENT_OF_USER 16u
/* Limit on unread answers of all readers together, bytes. Each user may have the same part of them
 * as of the readers' connections: a third. */
#define CLIENT_UNREAD (32u << 20)
#define CLIENT_UNREAD_OF_USER (CLIENT_UNREAD / (CLIENT_READERS / CLIENT_OF_USER))
/* How long a client may leave an answer unread, seconds. */
#define CLIENT_TIMEOUT_S 10

struct client {
	struct client *next;
	struct control *control;
	int fd;
	uid_t uid; /* the user whose connections and bytes it counts against */
	enum client_at at;
	bool may_change;
	struct caller who; /* for CLIENT_TENANT; the client owns the pidfd */
	bool ending;	   /* the client is closed when its answers are sent */
	uint32_t n_calls;  /* calls in progress */
	struct event *readable, *writable;
	struct evbuffer *in, *out;
	size_t searched; /* bytes of IN already searched for an end of line */
	struct piece piece;
	const struct client_ops *ops;
};

struct client_ops {
	/* Handles a line that the client sent, without its end. */
	void (*handle)(struct client *client, const char *line);
	/* Called before the client is freed. */
	void (*gone)(struct client *client);
};

/* Makes a client of a connection, and owns it and the pidfd of WHO. If no place is free, reports
 * that to the peer and closes both. */
void client_add(struct control *control, int fd, const struct caller *who, enum client_at at,
		bool may_change, const struct client_ops *ops);
/* Disconnects it; calls in progress continue without it. */
void client_drop(struct client *client);
/* Disconnects a client whose peer has closed the connection, and returns whether it has: waiting
 * requests of a reader that has gone need no answer. */
bool client_drop_if_gone(struct client *client);
/* Disconnects the reader that has been connected for the longest time. False: there is none. */
bool client_shed(struct control *control);
/* Sends an answer; drops it and closes the client if readers leave too much unread. */
void client_send(struct client *client, const char *text, size_t size);
/* A call of the client has ended. */
void client_call_over(struct client *client);
