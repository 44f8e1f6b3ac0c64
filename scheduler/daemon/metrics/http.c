/* SPDX-License-Identifier: MIT */
#include "http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/door.h"
#include "vgpu/descriptor.h"
#include "vgpu/untrusted.h"

/* Descriptors left for vgpud and the clients of its other sockets. */
#define RESERVE (DOOR_RESERVE + 128u)

/* ASKS: the peer sends its request. WAITS: it waits for the answer. READS: it is being sent the
 * answer. LEAVES: it has the answer, and must close the connection first, because unread bytes of a
 * request would destroy the answer. */
enum stage { ASKS, WAITS, READS, LEAVES };

struct http_peer {
	struct http_peer *next; /* younger ones first */
	struct http *http;
	int fd;
	enum stage stage;
	bool head; /* a HEAD request */
	struct event *readable, *writable, *late;
	struct evbuffer *in, *out;
	struct piece piece;
};

struct http {
	struct event_base *base;
	struct share *share;
	struct door *door;
	const struct http_ops *ops;
	void *data;
	struct http_peer *peers;
};

static void drop(struct http_peer *peer)
{
	struct http_peer **link = &peer->http->peers;

	while (*link != peer)
		link = &(*link)->next;
	*link = peer->next;
	if (peer->stage == WAITS)
		peer->http->ops->gone(peer, peer->http->data);
	share_remove(peer->http->share, &peer->piece);
	if (peer->readable)
		event_free(peer->readable);
	if (peer->writable)
		event_free(peer->writable);
	if (peer->late)
		event_free(peer->late);
	if (peer->in)
		evbuffer_free(peer->in);
	if (peer->out)
		evbuffer_free(peer->out);
	vgpu_untrusted_close(&peer->fd);
	free(peer);
}

static size_t unread_of(const struct http_peer *peer)
{
	return peer->out ? evbuffer_get_length(peer->out) : 0;
}

/* Drops the oldest connection, or the oldest with unread bytes. False: there is none. */
static bool drop_oldest(struct http *http, bool with_unread)
{
	struct http_peer *p, *oldest = NULL;

	for (p = http->peers; p; p = p->next)
		if (!with_unread || unread_of(p) > 0)
			oldest = p;
	if (oldest)
		drop(oldest);
	return oldest != NULL;
}

static size_t unread(const struct http *http)
{
	const struct http_peer *p;
	size_t n = 0;

	for (p = http->peers; p; p = p->next)
		n += unread_of(p);
	return n;
}

void http_answer(struct http_peer *peer, const char *status, const char *type,
		 struct evbuffer *body)
{
	peer->stage = READS;
	evbuffer_add_printf(peer->out,
			    "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %zu\r\n"
			    "Content-Type: %s\r\n\r\n",
			    status, body ? evbuffer_get_length(body) : 0, type);
	if (body && !peer->head)
		evbuffer_add_buffer(peer->out, body);
	event_add(peer->writable, NULL);
}

/* STATUS may be followed by further headers. */
static void refuse(struct http_peer *peer, const char *status)
{
	http_answer(peer, status, "text/plain", NULL);
}

/* Finds a header's value in LINES, and terminates it; NULL: none. The first of duplicate headers
 * counts. */
static char *header(char *lines, const char *name)
{
	size_t n = strlen(name);
	char *line, *value;

	for (line = strchr(lines, '\n'); line; line = strchr(line, '\n')) {
		line++;
		if (strncasecmp(line, name, n) != 0 || line[n] != ':')
			continue;
		value = line + n + 1;
		value[strcspn(value, "\r\n")] = '\0';
		return value;
	}
	return NULL;
}

/* Answers a request whose head is HEAD. */
static void answer(struct http_peer *peer, char *head)
{
	char *path = strchr(head, ' '), *version = path ? strchr(path + 1, ' ') : NULL;
	const char *accept;

	if (!version || version > head + strcspn(head, "\r\n") ||
	    strncmp(version, " HTTP/1.", 8) != 0) {
		refuse(peer, "400 Bad Request");
		return;
	}
	accept = header(version + 1, "Accept");
	*path++ = *version = '\0';
	path[strcspn(path, "?")] = '\0';
	peer->head = strcmp(head, "HEAD") == 0;
	if (!peer->head && strcmp(head, "GET") != 0) {
		refuse(peer, "405 Method Not Allowed\r\nAllow: GET, HEAD");
		return;
	}
	peer->stage = WAITS;
	if (!peer->http->ops->get(peer, path, accept, peer->http->data))
		refuse(peer, "404 Not Found");
}

/* Reads, and answers a request whose head is complete. Drops the bytes behind it. */
static void serve(struct piece *piece)
{
	struct http_peer *peer =
		(struct http_peer *)(void *)((char *)piece - offsetof(struct http_peer, piece));
	char bytes[HTTP_MAX_HEAD], *head;
	ssize_t n = vgpu_untrusted_receive(peer->fd, bytes, sizeof(bytes));
	struct evbuffer_ptr end;

	/* A peer that has stopped sending may still read. */
	if (n == 0 && (peer->stage == WAITS || peer->stage == READS))
		return;
	if (n == 0 || (n < 0 && n != -EAGAIN) ||
	    (n > 0 && evbuffer_add(peer->in, bytes, (size_t)n) < 0)) {
		drop(peer);
		return;
	}
	event_add(peer->readable, NULL);
	if (peer->stage != ASKS) {
		evbuffer_drain(peer->in, evbuffer_get_length(peer->in));
		return;
	}
	end = evbuffer_search(peer->in, "\r\n\r\n", 4, NULL);
	if (end.pos < 0 && evbuffer_get_length(peer->in) < HTTP_MAX_HEAD)
		return;
	head = end.pos < 0 ? NULL : calloc(1, (size_t)end.pos + 1);
	if (head) {
		evbuffer_remove(peer->in, head, (size_t)end.pos);
		answer(peer, head);
	} else {
		refuse(peer, "431 Request Header Fields Too Large");
	}
	free(head);
}

static void on_readable(evutil_socket_t, short, void *data)
{
	struct http_peer *peer = data;

	share_add(peer->http->share, &peer->piece);
}

static void on_writable(evutil_socket_t fd, short, void *data)
{
	struct http_peer *peer = data;
	struct http *http = peer->http;
	vgpu_nsec begun = share_clock();
	int n = evbuffer_write(peer->out, fd);

	share_charge(http->share, begun);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		drop(peer);
	} else if (evbuffer_get_length(peer->out) > 0) {
		event_add(peer->writable, NULL);
		while (unread(http) > HTTP_UNREAD && drop_oldest(http, true))
			;
	} else {
		peer->stage = LEAVES;
		shutdown(fd, SHUT_WR);
	}
}

static void on_late(evutil_socket_t, short, void *data)
{
	drop(data);
}

static bool admit(int fd, void *data)
{
	static const struct timeval timeout = {HTTP_TIMEOUT_S, 0};
	struct http *http = data;
	struct http_peer *peer, *p;
	uint32_t n = 0;

	for (p = http->peers; p; p = p->next)
		n++;
	if (n == HTTP_PEERS)
		drop_oldest(http, false);
	peer = calloc(1, sizeof(*peer));
	if (!peer) {
		vgpu_untrusted_close(&fd);
		return false;
	}
	*peer = (struct http_peer){.next = http->peers,
				   .http = http,
				   .fd = fd,
				   .in = evbuffer_new(),
				   .out = evbuffer_new(),
				   .piece.run = serve};
	peer->readable = event_new(http->base, fd, EV_READ, on_readable, peer);
	peer->writable = event_new(http->base, fd, EV_WRITE, on_writable, peer);
	peer->late = evtimer_new(http->base, on_late, peer);
	http->peers = peer;
	if (!peer->in || !peer->out || !peer->readable || !peer->writable || !peer->late) {
		drop(peer);
		return false;
	}
	event_add(peer->readable, NULL);
	event_add(peer->late, &timeout);
	return false;
}

static bool shed(void *data)
{
	return drop_oldest(data, false);
}

int http_start(struct http **out, struct event_base *base, int fd, struct share *share,
	       const struct http_ops *ops, void *data)
{
	static const struct door_ops door_ops = {admit, shed};
	struct http *http = calloc(1, sizeof(*http));

	*out = NULL;
	if (!http) {
		vgpu_close(&fd);
		return -ENOMEM;
	}
	vgpu_untrusted_prepare(fd);
	*http = (struct http){.base = base, .share = share, .ops = ops, .data = data};
	if (door_open(&http->door, base, fd, "metrics", RESERVE, &door_ops, http) < 0) {
		free(http);
		return -ENOMEM;
	}
	*out = http;
	return 0;
}

void http_stop(struct http *http)
{
	int fd;

	if (!http)
		return;
	while (http->peers)
		drop(http->peers);
	fd = door_close(http->door);
	vgpu_untrusted_close_listener(&fd);
	free(http);
}
