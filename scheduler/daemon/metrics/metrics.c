/* SPDX-License-Identifier: MIT */
#include "metrics.h"

#include <errno.h>
#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/call.h"
#include "methods/capacity.h"
#include "http.h"
#include "control/log.h"
#include "vms/memory_methods.h"
#include "config/metrics_address.h"
#include "metrics_text.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"

#define MAX_SCRAPES 4u
#define BACKLOG 16

/* Interval between attempts to listen at an address that another program uses, or that this host
 * lacks. */
static const struct timeval try_again = {2, 0};

struct metrics {
	struct control *control;
	const char *where; /* the configured address */
	struct event *again;
	struct http *http;	     /* NULL: it does not listen yet */
	bool told;		     /* its failure to listen was logged */
	char path[VGPU_SOCKET_PATH]; /* path of the unix socket; "": none */
	uint32_t n_scrapes;
	struct scrape *scrapes;
};

/* A request for metrics: takes a snapshot of each GPU, one after the other. */
struct scrape {
	struct scrape *next;
	struct metrics *metrics;
	struct http_peer *peer; /* NULL: it has disconnected */
	enum metrics_format format;
	uint32_t n;
	struct metrics_look *looks[CONFIG_MAX_GPUS]; /* NULL: out of memory */
};

static void free_scrape(struct scrape *s)
{
	struct scrape **link = &s->metrics->scrapes;
	uint32_t i;

	while (*link != s)
		link = &(*link)->next;
	*link = s->next;
	s->metrics->n_scrapes--;
	for (i = 0; i < s->n; i++)
		free(s->looks[i]);
	free(s);
}

/* The client has disconnected. */
static void on_gone(struct http_peer *peer, void *data)
{
	struct scrape *s;

	for (s = ((struct metrics *)data)->scrapes; s; s = s->next)
		if (s->peer == peer)
			s->peer = NULL;
}

static void finish(struct scrape *s)
{
	struct evbuffer *out = s->peer ? evbuffer_new() : NULL;

	if (out) {
		metrics_write(out, s->format, s->metrics->control, s->looks);
		http_answer(s->peer, "200 OK", metrics_media_types[s->format], out);
	} else if (s->peer) {
		http_answer(s->peer, "503 Service Unavailable", "text/plain", NULL);
	}
	if (out)
		evbuffer_free(out);
	free_scrape(s);
}

static void look_at_next(struct scrape *s);

static void on_snapshot(struct call *call)
{
	struct scrape *s = call->job;

	if (call->request.result == 0)
		s->looks[s->n] = malloc(sizeof(*s->looks[0]));
	if (s->looks[s->n])
		*s->looks[s->n] = (struct metrics_look){
			.snapshot = call->snapshot,
			.largest_share = capacity_largest_free(call->gpu, &call->snapshot),
			.largest_memory = memory_after_compaction(call->gpu, &call->snapshot)};
	s->n++;
	call_drop(call);
	look_at_next(s);
}

static void look_at_next(struct scrape *s)
{
	struct control *control = s->metrics->control;
	struct call *call;

	for (; s->n < control->n_gpus; s->n++) {
		call = call_new(control, &control->gpus[s->n]);
		if (!call)
			continue;
		call->job = s;
		call->of_reader = true;
		call->then = on_snapshot;
		call->request = (struct engine_request){.ask = ENGINE_SNAPSHOT,
							.snapshot = &call->snapshot};
		call_queue(call);
		return;
	}
	finish(s);
}

static bool on_get(struct http_peer *peer, const char *path, const char *accept, void *data)
{
	struct metrics *m = data;
	struct scrape *s;

	if (strcmp(path, "/metrics") != 0)
		return false;
	s = m->n_scrapes < MAX_SCRAPES ? calloc(1, sizeof(*s)) : NULL;
	if (!s) {
		http_answer(peer, "503 Service Unavailable", "text/plain", NULL);
		return true;
	}
	m->n_scrapes++;
	*s = (struct scrape){.next = m->scrapes,
			     .metrics = m,
			     .peer = peer,
			     .format = metrics_choose(accept)};
	m->scrapes = s;
	look_at_next(s);
	return true;
}

static const struct http_ops http_ops = {on_get, on_gone};

/* Returns a listening socket, which the caller closes, or -errno with the reason in ERR. */
static int listen_unix(struct metrics *m, const char *path, struct vgpu_error *err)
{
	int fd = vgpu_socket_listen(path, 0660, BACKLOG, err);

	if (fd < 0)
		return vgpu_error_prefix(err, fd, "metrics");
	snprintf(m->path, sizeof(m->path), "%s", path); /* metrics_stop unlinks it */
	return fd;
}

static int listen_tcp(const char *where, struct vgpu_error *err)
{
	struct sockaddr_storage address;
	socklen_t size = metrics_address_parse(where, &address);
	VGPU_AUTO_CLOSE int fd = -1;
	int yes = 1;

	fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
	    bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, BACKLOG) < 0)
		return vgpu_error_set(err, -errno, "metrics = %s: %s", where, strerror(errno));
	if (!metrics_address_is_local(&address))
		log_line(LOG_WARNING,
			 "metrics = %s: everyone who can connect can read the metrics, names of "
			 "VMs included, without TLS and password; use 127.0.0.1 or a unix socket "
			 "behind a reverse proxy (docs/protocol.md)",
			 where);
	return vgpu_take(&fd);
}

/* Returns 0, or -errno with the reason in ERR. */
static int start_listening(struct metrics *m, struct vgpu_error *err)
{
	int fd = strncmp(m->where, "unix:", 5) == 0 ? listen_unix(m, m->where + 5, err)
						    : listen_tcp(m->where, err);
	int r = fd < 0 ? fd
		       : http_start(&m->http, m->control->base, fd, &m->control->share, &http_ops,
				    m);

	return fd >= 0 && r < 0 ? vgpu_error_set(err, r, "metrics: out of memory") : r;
}

/* Metrics are optional: while they cannot be served, vgpud does everything else. */
static void listen_or_wait(evutil_socket_t, short, void *data)
{
	struct metrics *m = data;
	struct vgpu_error err;

	if (start_listening(m, &err) == 0) {
		if (m->told)
			log_line(LOG_NOTICE, "metrics = %s: served from now on", m->where);
		return;
	}
	if (!m->told)
		log_line(LOG_ERR, "%s; no metrics are served; vgpud keeps trying", err.text);
	m->told = true;
	event_add(m->again, &try_again);
}

int metrics_start(struct metrics **out, struct control *control, const char *where,
		  struct vgpu_error *err)
{
	struct metrics *m = where[0] ? calloc(1, sizeof(*m)) : NULL;

	*out = m;
	if (!where[0])
		return 0;
	if (m)
		*m = (struct metrics){.control = control, .where = where};
	if (m)
		m->again = evtimer_new(control->base, listen_or_wait, m);
	if (!m || !m->again) {
		free(m);
		*out = NULL;
		return vgpu_error_set(err, -ENOMEM, "metrics: out of memory");
	}
	listen_or_wait(-1, 0, m);
	return 0;
}

void metrics_stop(struct metrics *m)
{
	struct call *call;

	if (!m)
		return;
	http_stop(m->http);
	/* Answers of the engines to unfinished scrapes will be dropped. */
	for (call = m->control->calls; call; call = call->next)
		if (call->then == on_snapshot && call->job) {
			free_scrape(call->job);
			call->job = NULL;
		}
	event_free(m->again);
	if (m->path[0])
		unlink(m->path);
	free(m);
}
