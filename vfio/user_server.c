/* SPDX-License-Identifier: MIT */
/*
 * The server's thread: accepts clients, one per device at a time, and serves them in turn.
 * user_messages.c handles the messages.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "user_connection.h"
#include "vfio/thread.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"

/* Number of messages of one client before the next client is served. */
#define BURST 16
#define BACKLOG 4

/* A token bucket: CPU time that the thread may use. */
struct budget {
	uint32_t percent; /* long-term limit, percent of one CPU; 0: none */
	int64_t most;	  /* largest unused allowance, nanoseconds */
	int64_t left;	  /* below 0: time used in excess, ns */
	vgpu_nsec at, used;
};

struct vfio_server {
	pthread_t thread;
	int epoll, wake;
	int spare; /* descriptor that is closed to accept and refuse a client when no other is
		    * left */
	bool stop;
	_Atomic bool asked; /* ANSWER must be called */
	void (*answer)(void *data);
	void *answer_data;
	struct budget budget; /* of the thread */
	pthread_mutex_t lock; /* protects the list; the thread holds it except while it waits */
	struct vfio_endpoint *endpoints;
};

/* Ends the connection of the client, if there is one. */
static void disconnect(struct vfio_endpoint *e)
{
	struct connection *c = &e->c;
	unsigned i;

	if (c->fd < 0)
		return;
	pthread_mutex_lock(&e->lock);
	for (i = 0; i < VFIO_USER_MAX_VECTORS; i++)
		vgpu_close(&e->vectors[i]);
	endpoint_drop_maps(e);
	pthread_mutex_unlock(&e->lock);
	connection_drop_fds(c);
	free(c->message);
	free(c->reply);
	vgpu_close(&c->fd);
	*c = (struct connection){.fd = -1};
	e->ops->disconnected(e->device);
}

static void serve(struct vfio_endpoint *e, uint32_t events)
{
	struct connection *c = &e->c;
	struct epoll_event want = {.events = EPOLLIN, .data.ptr = &e->c};
	int i, r = 0;

	if (c->reply) {
		r = connection_flush(c);
	} else if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
		for (i = 0; i < BURST && r >= 0 && !c->reply; i++) {
			r = connection_receive(c);
			if (r == 0)
				break;
			if (r > 0)
				r = connection_handle(e);
		}
	}
	if (r < 0) {
		disconnect(e);
		return;
	}
	if (c->reply)
		want.events = EPOLLOUT;
	if (c->reply || events & EPOLLOUT)
		epoll_ctl(e->server->epoll, EPOLL_CTL_MOD, c->fd, &want);
}

void vfio_server_refuse(int fd)
{
	struct vfio_user_header header = {
		.command = VFIO_USER_VERSION,
		.size = sizeof(header),
		.flags = VFIO_USER_REPLY | VFIO_USER_ERROR,
		.error = EBUSY,
	};

	send(fd, &header, sizeof(header), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Tells a second client that the device is in use, and disconnects it. */
static void refuse(int fd)
{
	vfio_server_refuse(fd);
	close(fd);
}

/* Serves the messages that a client sent before it closed its socket, and disconnects the
 * client. */
static void finish_closed(struct vfio_endpoint *e)
{
	struct pollfd hangup = {.fd = e->c.fd};

	while (e->c.fd >= 0 && poll(&hangup, 1, 0) > 0)
		serve(e, EPOLLIN);
}

static int accept_at(const struct vfio_endpoint *e)
{
	return accept4(e->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void accept_client(struct vfio_endpoint *e)
{
	struct epoll_event want = {.events = EPOLLIN, .data.ptr = &e->c};
	int fd;

	/* The former client may have closed its connection, but the server not have noticed yet,
	 * while the next one waits to be accepted. */
	finish_closed(e);
	fd = accept_at(e);
	if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
		vgpu_close(&e->server->spare);
		fd = accept_at(e);
		if (fd >= 0)
			refuse(fd);
		e->server->spare = vgpu_eventfd();
		return;
	}
	if (fd < 0)
		return;
	if (e->c.fd >= 0) {
		refuse(fd);
		return;
	}
	e->c.fd = fd;
	if (epoll_ctl(e->server->epoll, EPOLL_CTL_ADD, fd, &want) < 0)
		disconnect(e);
}

static vgpu_nsec cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (vgpu_nsec)t.tv_sec * VGPU_SEC + (vgpu_nsec)t.tv_nsec;
}

/* Returns for how long the thread must pause now, ns, because it has overdrawn its CPU budget. */
static vgpu_nsec rest_needed(struct budget *b)
{
	vgpu_nsec at = vgpu_now(), used = cpu_time();

	if (b->percent == 0)
		return 0;
	b->left += (int64_t)((at - b->at) * b->percent / 100);
	if (b->left > b->most)
		b->left = b->most;
	b->left -= (int64_t)(used - b->used);
	b->at = at;
	b->used = used;
	return b->left < 0 ? (vgpu_nsec)-b->left * 100 / b->percent : 0;
}

/* Answers a pending inquiry about the thread. With the lock. */
static void answer_asked(struct vfio_server *s)
{
	vgpu_eventfd_drain(s->wake);
	if (atomic_exchange(&s->asked, false))
		s->answer(s->answer_data);
}

/* Pauses the thread for NS, in which it still answers inquiries. Releases the lock, which the
 * caller holds, meanwhile. */
static void rest(struct vfio_server *s, vgpu_nsec ns)
{
	struct pollfd wake = {s->wake, POLLIN, 0};
	vgpu_nsec until = vgpu_now() + ns, now;
	struct timespec t;
	int n;

	while (!s->stop && (now = vgpu_now()) < until) {
		t.tv_sec = (time_t)((until - now) / VGPU_SEC);
		t.tv_nsec = (long)((until - now) % VGPU_SEC);
		pthread_mutex_unlock(&s->lock);
		n = ppoll(&wake, 1, &t, NULL);
		pthread_mutex_lock(&s->lock);
		if (n > 0)
			answer_asked(s);
	}
}

static void *server_thread(void *arg)
{
	struct vfio_server *s = arg;
	struct epoll_event events[32];
	struct vfio_endpoint *e;
	int i, n;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		rest(s, rest_needed(&s->budget));
		if (s->stop)
			break;
		pthread_mutex_unlock(&s->lock);
		n = epoll_wait(s->epoll, events, 32, -1);
		pthread_mutex_lock(&s->lock);
		for (i = 0; i < n; i++) {
			if (!events[i].data.ptr) {
				answer_asked(s);
				continue;
			}
			/* Search for the endpoint, because it may have been removed since
			 * epoll_wait() returned. */
			for (e = s->endpoints; e; e = e->next) {
				if (events[i].data.ptr == e)
					accept_client(e);
				else if (events[i].data.ptr == &e->c && e->c.fd >= 0)
					serve(e, events[i].events);
				else
					continue;
				break;
			}
		}
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int vfio_server_create(struct vfio_server **out, const char *name, int fifo, struct vgpu_error *err)
{
	struct epoll_event want = {.events = EPOLLIN, .data.ptr = NULL};
	struct vfio_server *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return vgpu_error_set(err, -ENOMEM, "vfio-user server: out of memory");
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->wake = vgpu_eventfd();
	s->spare = vgpu_eventfd();
	vfio_mutex_init(&s->lock);
	if (s->epoll < 0 || s->wake < 0 || s->spare < 0 ||
	    epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->wake, &want) < 0)
		r = errno;
	else
		r = vfio_thread_create(&s->thread, name, fifo ? SCHED_FIFO : SCHED_OTHER, fifo,
				       server_thread, s);
	if (r) {
		vgpu_close(&s->epoll);
		vgpu_close(&s->wake);
		vgpu_close(&s->spare);
		free(s);
		return vgpu_error_set(err, -r, "vfio-user server: %s", strerror(r));
	}
	*out = s;
	return 0;
}

void vfio_server_limit(struct vfio_server *s, uint32_t percent, vgpu_nsec most)
{
	pthread_mutex_lock(&s->lock);
	s->budget = (struct budget){.percent = percent,
				    .most = (int64_t)most,
				    .left = (int64_t)most,
				    .at = vgpu_now()};
	pthread_mutex_unlock(&s->lock);
}

/* Makes an endpoint with a LISTENER, or with a client. Returns 0 or -ENOMEM. */
static int add_endpoint(struct vfio_server *s, int listener, int connection,
			const struct vfio_server_ops *ops, void *device, struct vfio_endpoint **out)
{
	struct vfio_endpoint *e = calloc(1, sizeof(*e));
	struct epoll_event want = {.events = EPOLLIN};
	unsigned i;

	if (!e)
		return -ENOMEM;
	*e = (struct vfio_endpoint){.server = s,
				    .ops = ops,
				    .device = device,
				    .listener = listener,
				    .c = {.fd = connection}};
	want.data.ptr = listener >= 0 ? (void *)e : &e->c;
	vfio_mutex_init(&e->lock);
	for (i = 0; i < VFIO_USER_MAX_VECTORS; i++)
		e->vectors[i] = -1;
	pthread_mutex_lock(&s->lock);
	*out = e; /* with the lock, because vfio_server_ask()'s answer may read it */
	e->next = s->endpoints;
	s->endpoints = e;
	epoll_ctl(s->epoll, EPOLL_CTL_ADD, listener >= 0 ? listener : connection, &want);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

int vfio_server_add(struct vfio_server *s, const char *path, const struct vfio_server_ops *ops,
		    void *device, struct vfio_endpoint **out, struct vgpu_error *err)
{
	int fd = vgpu_socket_listen(path, 0600, BACKLOG, err), r;

	if (fd < 0)
		return fd;
	r = add_endpoint(s, fd, -1, ops, device, out);
	if (r < 0) {
		close(fd);
		return vgpu_error_set(err, r, "%s: out of memory", path);
	}
	strcpy((*out)->path, path);
	return 0;
}

int vfio_server_adopt(struct vfio_server *s, int connection, const struct vfio_server_ops *ops,
		      void *device, struct vfio_endpoint **out)
{
	return add_endpoint(s, -1, connection, ops, device, out);
}

void vfio_server_ask(struct vfio_server *s, void (*answer)(void *data), void *data)
{
	/* The server's thread may still be reading these two for the previous inquiry. */
	if (s->answer != answer || s->answer_data != data) {
		s->answer = answer;
		s->answer_data = data;
	}
	atomic_store(&s->asked, true);
	vgpu_eventfd_signal(s->wake);
}
void vfio_server_remove(struct vfio_endpoint *e)
{
	struct vfio_server *s = e->server;
	struct vfio_endpoint **link;

	pthread_mutex_lock(&s->lock);
	for (link = &s->endpoints; *link != e; link = &(*link)->next)
		;
	*link = e->next;
	disconnect(e);
	vgpu_close(&e->listener);
	if (e->path[0])
		unlink(e->path);
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

void vfio_server_destroy(struct vfio_server *s)
{
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_mutex_unlock(&s->lock);
	vgpu_eventfd_signal(s->wake);
	pthread_join(s->thread, NULL);
	while (s->endpoints)
		vfio_server_remove(s->endpoints);
	vgpu_close(&s->epoll);
	vgpu_close(&s->wake);
	vgpu_close(&s->spare);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
