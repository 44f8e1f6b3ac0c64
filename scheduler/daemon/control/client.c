/* SPDX-License-Identifier: MIT */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "vgpu/descriptor.h"
#include "vgpu/untrusted.h"

#define MAX_REQUEST 65536u
#define MAX_BACKLOG (8u << 20) /* bytes of answers that a client of root may leave unread */
#define MAX_READ 16384
/* Answers are stored in pieces of this size, each freed when it is sent. Libevent adds 48 bytes and
 * rounds up to a power of two. */
#define CHUNK (32768u - 64u)

#define TOO_LONG "the request is too long"
#define DESCRIPTORS "vgpud takes no descriptors"
#define TOO_MUCH "too many bytes of answers are unread; read them, and ask again"

static bool is_reader(const struct client *client)
{
	return !client->may_change;
}

/* Makes an answer that has no request. */
static void put_refusal(struct client *client, const char *code, const char *why)
{
	evbuffer_add_printf(client->out,
			    "{\"id\":null,\"error\":{\"code\":\"%s\",\"message\":\"%s\"}}\n", code,
			    why);
}

static void send_more(struct client *client)
{
	static const struct timeval timeout = {CLIENT_TIMEOUT_S, 0};

	if (!event_pending(client->writable, EV_WRITE, NULL))
		event_add(client->writable, &timeout);
}

static void end_with(struct client *client, const char *code, const char *why)
{
	put_refusal(client, code, why);
	client->ending = true;
	event_del(client->readable);
	send_more(client);
}

/* Returns whether IN contains a whole line. */
static bool has_line(struct client *client, size_t *end)
{
	struct evbuffer_ptr at;

	if (evbuffer_get_length(client->in) == client->searched)
		return false;
	evbuffer_ptr_set(client->in, &at, client->searched, EVBUFFER_PTR_SET);
	at = evbuffer_search(client->in, "\n", 1, &at);
	client->searched = at.pos < 0 ? evbuffer_get_length(client->in) : (size_t)at.pos;
	*end = client->searched;
	return at.pos >= 0;
}

/* Takes the line that ends at END; the caller frees it. */
static char *take_line(struct client *client, size_t end)
{
	char *line = malloc(end + 1);

	if (line) {
		evbuffer_remove(client->in, line, end);
		line[end] = '\0';
	} else {
		evbuffer_drain(client->in, end);
	}
	evbuffer_drain(client->in, 1);
	client->searched = 0;
	return line;
}

/* Reads from the socket. False: the client has disconnected, and is freed. */
static bool receive(struct client *client)
{
	char bytes[MAX_READ];
	ssize_t n = vgpu_untrusted_receive(client->fd, bytes, sizeof(bytes));

	if (n > 0)
		n = evbuffer_add(client->in, bytes, (size_t)n) < 0 ? -ENOMEM : n;
	else if (n == -EPERM)
		end_with(client, "EPERM", DESCRIPTORS);
	if (n > 0 || n == -EAGAIN || n == -EPERM)
		return true;
	client_drop(client);
	return false;
}

/* Handles one line if there is one. */
static bool handle_one(struct client *client)
{
	size_t end;
	char *line;

	if (client->ending || !has_line(client, &end))
		return false;
	line = take_line(client, end);
	if (line)
		client->ops->handle(client, line);
	free(line);
	return true;
}

/* Waits for the client's next data, or until the client can be served. */
static void wait_for_more(struct client *client)
{
	size_t end, most = client->at == CLIENT_HOOK ? CLAIM_MAX_REQUEST : MAX_REQUEST;
	bool busy =
		is_reader(client) && (client->n_calls > 0 || evbuffer_get_length(client->out) > 0);

	if (client->ending || busy)
		return;
	if (has_line(client, &end))
		share_add(&client->control->share, &client->piece);
	else if (evbuffer_get_length(client->in) > most)
		end_with(client, "EMSGSIZE", TOO_LONG);
	else
		event_add(client->readable, NULL);
}

static void serve_reader(struct piece *piece)
{
	struct client *client =
		(struct client *)(void *)((char *)piece - offsetof(struct client, piece));

	if (client_drop_if_gone(client))
		return;
	if (!handle_one(client)) {
		if (!receive(client))
			return;
		handle_one(client);
	}
	wait_for_more(client);
}

static void on_readable(evutil_socket_t, short, void *data)
{
	struct client *client = data;

	if (is_reader(client)) {
		share_add(&client->control->share, &client->piece);
		return;
	}
	if (!receive(client))
		return;
	while (handle_one(client))
		if (evbuffer_get_length(client->out) > MAX_BACKLOG) {
			client_drop(client); /* a client that sends requests but reads no answers */
			return;
		}
	wait_for_more(client);
}

static void on_writable(evutil_socket_t fd, short what, void *data)
{
	struct client *client = data;
	vgpu_nsec begun = share_clock();
	int n = what & EV_TIMEOUT ? -1 : evbuffer_write(client->out, fd);

	if (is_reader(client))
		share_charge(&client->control->share, begun);
	if (what & EV_TIMEOUT || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		client_drop(client);
	} else if (evbuffer_get_length(client->out) > 0) {
		send_more(client);
	} else if (client->ending) {
		client_drop(client);
	} else if (is_reader(client)) {
		wait_for_more(client);
	}
}

/* Returns whether another connection is allowed; if not, WHY gives the reason. */
static bool has_place(const struct control *control, uid_t uid, enum client_at at, bool may_change,
		      struct vgpu_error *why)
{
	const struct client *c;
	uint32_t clients = 0, readers = 0, of_user = 0;

	for (c = control->clients; c; c = c->next) {
		clients += c->at == at;
		readers += c->at == at && is_reader(c);
		of_user += c->at == at && is_reader(c) && c->uid == uid;
	}
	if (clients >= CLIENT_PLACES)
		vgpu_error_set(why, -EAGAIN, "all %u connections are in use", CLIENT_PLACES);
	else if (!may_change && of_user >= CLIENT_OF_USER)
		vgpu_error_set(why, -EAGAIN, "%u connections of your user are open; close one",
			       CLIENT_OF_USER);
	else if (!may_change && readers >= CLIENT_READERS)
		vgpu_error_set(why, -EAGAIN,
			       "%u connections of users other than root are open; no more are",
			       CLIENT_READERS);
	else
		return true;
	return false;
}

void client_add(struct control *control, int fd, const struct caller *who, enum client_at at,
		bool may_change, const struct client_ops *ops)
{
	struct vgpu_error why = {"vgpud is out of memory"};
	uid_t uid = at == CLIENT_TENANT ? who->owner : who->uid;
	struct client *client =
		has_place(control, uid, at, may_change, &why) ? calloc(1, sizeof(*client)) : NULL;
	int pidfd = who->pidfd;

	if (!client) {
		dprintf(fd, "{\"id\":null,\"error\":{\"code\":\"EAGAIN\",\"message\":\"%s\"}}\n",
			why.text);
		vgpu_untrusted_close(&fd);
		vgpu_close(&pidfd);
		return;
	}
	vgpu_untrusted_prepare(fd);
	*client = (struct client){.control = control,
				  .fd = fd,
				  .uid = uid,
				  .at = at,
				  .who = *who,
				  .may_change = may_change,
				  .in = evbuffer_new(),
				  .out = evbuffer_new(),
				  .piece.run = serve_reader,
				  .ops = ops};
	client->readable = event_new(control->base, fd, EV_READ, on_readable, client);
	client->writable = event_new(control->base, fd, EV_WRITE, on_writable, client);
	client->next = control->clients;
	control->clients = client;
	if (!client->in || !client->out || !client->readable || !client->writable) {
		client_drop(client);
		return;
	}
	event_add(client->readable, NULL);
}

void client_drop(struct client *client)
{
	struct client **link = &client->control->clients;

	while (*link != client)
		link = &(*link)->next;
	*link = client->next;
	client->ops->gone(client);
	share_remove(&client->control->share, &client->piece);
	if (client->readable)
		event_free(client->readable);
	if (client->writable)
		event_free(client->writable);
	if (client->in)
		evbuffer_free(client->in);
	if (client->out)
		evbuffer_free(client->out);
	vgpu_untrusted_close(&client->fd);
	vgpu_close(&client->who.pidfd);
	free(client);
}

bool client_drop_if_gone(struct client *client)
{
	struct pollfd p = {.fd = client->fd};

	if (poll(&p, 1, 0) != 1 || !(p.revents & POLLHUP))
		return false;
	client_drop(client);
	return true;
}

bool client_shed(struct control *control)
{
	struct client *c, *oldest = NULL;

	for (c = control->clients; c; c = c->next)
		if (is_reader(c))
			oldest = c;
	if (oldest)
		client_drop(oldest);
	return oldest != NULL;
}

/* Returns whether a reader may leave SIZE more bytes unread. */
static bool has_room(const struct client *client, size_t size)
{
	size_t all = size, of_user = size;
	const struct client *c;

	for (c = client->control->clients; c; c = c->next) {
		all += is_reader(c) ? evbuffer_get_length(c->out) : 0;
		of_user += is_reader(c) && c->uid == client->uid ? evbuffer_get_length(c->out) : 0;
	}
	return all <= CLIENT_UNREAD && of_user <= CLIENT_UNREAD_OF_USER;
}

void client_send(struct client *client, const char *text, size_t size)
{
	size_t n;

	if (is_reader(client) && !has_room(client, size)) {
		end_with(client, "ENOBUFS", TOO_MUCH);
		return;
	}
	for (; size > 0; text += n, size -= n) {
		n = size < CHUNK ? size : CHUNK;
		evbuffer_add(client->out, text, n);
	}
	evbuffer_add(client->out, "\n", 1);
	send_more(client);
}

void client_call_over(struct client *client)
{
	client->n_calls--;
	if (is_reader(client))
		wait_for_more(client);
}
