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
#ifndef DAEMON_CLIENT_H
#define DAEMON_CLIENT_H

#include <event2/buffer.h>
#include <sys/socket.h>

#include "caller.h"
#include "state.h"

/* Which socket it has connected to. */
enum client_at { CLIENT_CONTROL = 0, CLIENT_HOOK, CLIENT_TENANT };

/* Connected to each socket; of these, readers; of these, of each user. */
#define CLIENT_PLACES 64u
#define CLIENT_READERS 48u
#define CLIENT_OF_USER 16u
/* Bytes of answers that readers have not read, of all together. A user has as many of them as of
 * the readers' places: a third. */
#define CLIENT_UNREAD (32u << 20)
#define CLIENT_UNREAD_OF_USER (CLIENT_UNREAD / (CLIENT_READERS / CLIENT_OF_USER))
/* How long a client may leave an answer unread, seconds. */
#define CLIENT_PATIENCE_S 10

struct client {
	struct client *next;
	struct control *control;
	int fd;
	uid_t uid; /* whose places and bytes it takes */
	enum client_at at;
	bool may_change;
	struct caller who; /* CLIENT_TENANT; its pidfd is the client's */
	bool ending;	   /* it ends when its answers are sent */
	uint32_t n_calls;  /* under way */
	struct event *readable, *writable;
	struct evbuffer *in, *out;
	size_t searched; /* bytes of IN that have no end of line in them */
	struct piece piece;
	const struct client_ops *ops;
};

struct client_ops {
	/* Handles a line that the client sent, without its end. */
	void (*handle)(struct client *client, const char *line);
	/* The client is about to be freed. */
	void (*gone)(struct client *client);
};

/* Makes a client of a connection, which is closed with it, like the pidfd of WHO. Without a place
 * for it, tells the peer and closes both. */
void client_add(struct control *control, int fd, const struct caller *who, enum client_at at,
		bool may_change, const struct client_ops *ops);
/* Disconnects it; calls in progress continue without it. */
void client_drop(struct client *client);
/* Disconnects a client whose peer has closed the connection, and returns whether that is so:
 * requests and answers of readers wait, and need not be made for a client that has gone. */
bool client_drop_if_gone(struct client *client);
/* Disconnects the reader that has been connected for the longest time. False: there is none. */
bool client_shed(struct control *control);
/* Sends an answer, or drops it and ends the client if readers leave too much unread. */
void client_send(struct client *client, const char *text, size_t size);
/* A call of the client is over. */
void client_call_over(struct client *client);

#endif
