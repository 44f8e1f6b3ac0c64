/* SPDX-License-Identifier: MIT */
/*
 * A minimal HTTP/1.1 server (RFC 9112) for metrics: GET, one request per connection. Any program of
 * this host may connect, so connections, their bytes and their duration are bounded. A new
 * connection is always accepted, and closes the oldest one if necessary. The work is done in the
 * readers' share (share.h).
 *
 * Control thread.
 */
#pragma once

#include <event2/buffer.h>

#include "control/share.h"

/* Connections at a time. Each takes a descriptor, and at most HTTP_MAX_HEAD bytes of a request. */
#define HTTP_PEERS 64u
#define HTTP_MAX_HEAD 8192u
/* Limit on unread bytes of answers, of all connections together. */
#define HTTP_UNREAD (8u << 20)
/* From connecting to the end of the answer, seconds: as long as Prometheus waits by default. */
#define HTTP_TIMEOUT_S 10

struct http;
struct http_peer;

struct http_ops {
	/* Answers a GET by http_answer, now or later. PATH ends before a '?'; ACCEPT is that
	 * header's value, NULL: none. Both are valid during the call. Returns whether it will
	 * answer; otherwise the server answers 404. */
	bool (*get)(struct http_peer *peer, const char *path, const char *accept, void *data);
	/* The peer has disconnected before it was answered. */
	void (*gone)(struct http_peer *peer, void *data);
};

/* Serves at the listening socket FD, which is closed by http_stop or after an error. Returns 0 or
 * -ENOMEM. */
int http_start(struct http **out, struct event_base *base, int fd, struct share *share,
	       const struct http_ops *ops, void *data);
void http_stop(struct http *http);
/* Answers a peer, once. BODY, which may be NULL, is emptied; TYPE is its media type. */
void http_answer(struct http_peer *peer, const char *status, const char *type,
		 struct evbuffer *body);
