/* SPDX-License-Identifier: MIT */
/*
 * Executes a VF's packets by its worker: sends it RUN and STOP, raises the interrupts and does the
 * DMA that it asks for. It waits for the worker only in poll(), and looks at the RUN word
 * between any two messages. If the worker does not read, or does not stop in time, the VF has
 * failed, and softgpu kills the worker.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol.h"
#include "vf.h"
#include "vfio/thread.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"

struct compute {
	struct vf *vf;
	struct compute_setup setup;
	struct worker_shared *shared;
	uint32_t serial;
};

static uint64_t lost(const struct compute *c, const char *why)
{
	fprintf(stderr, "<4>softgpu: VF %u: %s: its worker is killed, and the VF needs a reset\n",
		c->vf->number, why);
	return SOFTGPU_FAULTED;
}

/* Sends a message, of which a worker that reads has few to read. Returns false if it does not read,
 * and the run is over with *ERROR. */
static bool send_message(struct compute *c, const struct worker_message *m, uint64_t *error)
{
	while (send(c->setup.socket, m, sizeof(*m), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return true; /* the peer has gone, as receive() will report */
		*error = lost(c, "its worker does not read messages");
		return false;
	}
	return true;
}

/* The worker is ready, has refused to start, or has compiled a module. Called with the lock. */
static void look_at_worker(struct vf *vf)
{
	const struct compute *c = vf->compute;

	if (!c)
		return;
	if (atomic_load(&c->shared->state) == WORKER_REFUSED)
		fprintf(stderr, "<3>softgpu: VF %u: %.255s\n", vf->number, c->shared->text);
	if (!vf->executing && engine_has_work(vf)) {
		vf->busy = true;
		vf_publish(vf);
		engine_kick(vf);
		vf_notify(vf);
	}
}

/*
 * Waits for the eventfd of the VF's worker: one thread for all that it will have, so that the
 * process needs no other one after its start. It never reads the eventfd, since the worker has the
 * same open file and can make it one that blocks.
 */
static void *watch(void *arg)
{
	struct vf *vf = arg;
	struct epoll_event event;

	for (;;) {
		if (epoll_wait(vf->worker_events, &event, 1, -1) <= 0)
			continue;
		pthread_mutex_lock(&vf->lock);
		look_at_worker(vf);
		pthread_mutex_unlock(&vf->lock);
	}
	return NULL;
}

int compute_watch(struct vf *vf)
{
	pthread_t watcher;

	vf->worker_events = epoll_create1(EPOLL_CLOEXEC);
	if (vf->worker_events < 0)
		return -errno;
	return -vfio_thread_create(&watcher, "sv-watcher", SCHED_OTHER, 0, watch, vf);
}

struct compute *compute_create(struct vf *vf, const struct compute_setup *setup)
{
	struct epoll_event each_write = {.events = EPOLLIN | EPOLLET};
	struct compute *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	*c = (struct compute){.vf = vf, .setup = *setup};
	c->shared = mmap(NULL, sizeof(*c->shared), PROT_READ | PROT_WRITE, MAP_SHARED,
			 setup->shared, 0);
	close(setup->shared);
	if (c->shared == MAP_FAILED ||
	    epoll_ctl(vf->worker_events, EPOLL_CTL_ADD, setup->wake, &each_write) < 0)
		return NULL;
	return c;
}

/* Closes the worker's socket, which tells the worker to clear its memory and exit. */
void compute_destroy(struct compute *c)
{
	if (!c)
		return;
	shutdown(c->setup.socket, SHUT_RDWR);
	close(c->setup.socket);
	/* close() alone does not remove the eventfd from epoll, because the worker also has it
	 * open. */
	epoll_ctl(c->vf->worker_events, EPOLL_CTL_DEL, c->setup.wake, NULL);
	munmap(c->shared, sizeof(*c->shared));
	vgpu_close(&c->setup.wake);
	free(c);
}

bool compute_has_started(const struct compute *c)
{
	return !c || atomic_load(&c->shared->state) != WORKER_STARTING;
}

bool compute_is_ready(const struct compute *c)
{
	return compute_has_started(c) && (!c || !atomic_load(&c->shared->waits));
}

struct softgpu_about compute_about(const struct compute *c)
{
	struct softgpu_about about = {.name = ""};

	if (!c || atomic_load(&c->shared->state) != WORKER_READY)
		return about;
	memcpy(about.name, c->shared->about.name, sizeof(about.name));
	memcpy(about.attributes, c->shared->about.attributes, sizeof(about.attributes));
	return about;
}

void compute_last_words(const struct compute *c, char *words, size_t room)
{
	snprintf(words, room, "%.*s", (int)sizeof(c->shared->words), c->shared->words);
}

void compute_doorbell(struct compute *c, uint64_t wptr, uint32_t bell)
{
	atomic_store_explicit(&c->shared->wptr, wptr, memory_order_release);
	atomic_store_explicit(&c->shared->bell, bell, memory_order_release);
}

/* Carries out the worker's DMA request M and answers it. Returns false if the run is over, with
 * *ERROR. */
static bool serve_dma(struct compute *c, const struct worker_message *m, uint64_t *error)
{
	const struct vf *vf = c->vf;
	struct worker_message answer = {.type = WORKER_DMA_DONE, .dma.result = -EFAULT};
	uint64_t at = m->dma.at, left = m->dma.bytes, iova = m->dma.iova;

	if (at <= vf->window && left <= vf->window - at) {
		answer.dma.result = 0;
		while (left > 0 && answer.dma.result == 0) {
			uint32_t n = left < VF_DMA_MOST ? (uint32_t)left : VF_DMA_MOST;

			answer.dma.result = vf_dma(vf, iova, vf->memory + at, n, m->dma.out);
			at += n;
			iova += n;
			left -= n;
		}
	}
	return send_message(c, &answer, error);
}

/* Notes the VF's context when its run is over. Returns the run's error. */
static uint64_t note_end(struct compute *c, const struct worker_ended *ended)
{
	c->vf->live.rptr = ended->rptr;
	c->vf->bell_heard = ended->heard;
	c->vf->live.job.active = ended->active;
	switch (ended->end) {
	case WORKER_IDLE:
	case WORKER_STOPPED:
		return SOFTGPU_OK;
	case WORKER_FAILED:
		return ended->error ? ended->error : SOFTGPU_FAULTED;
	default:
		if (ended->error == SOFTGPU_BAD_ADDRESS) {
			lost(c, "a GPU kernel used an address that is not there");
			return SOFTGPU_BAD_ADDRESS;
		}
		if (ended->error == SOFTGPU_ASSERTED) {
			lost(c, "an assertion of a GPU kernel failed");
			return SOFTGPU_ASSERTED;
		}
		return lost(c, "its device failed");
	}
}

/* The most messages that may lie unread before that of the run's end: fences, and an access of the
 * client's memory. */
#define LATE_MOST 64u

enum received { NOTHING, MESSAGE, END };

/* Serves one message of the worker, if there is one. Returns END if the run is over, with *ERROR.
 */
static enum received receive(struct compute *c, uint64_t *error)
{
	struct worker_message m;
	ssize_t n = recv(c->setup.socket, &m, sizeof(m), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return NOTHING;
	if (n != sizeof(m)) {
		*error = lost(c, "its worker has died");
		return END;
	}
	switch (m.type) {
	case WORKER_FENCE:
		vfio_endpoint_irq(c->vf->endpoint, SOFTGPU_VECTOR_FENCE);
		return MESSAGE;
	case WORKER_DMA:
		return serve_dma(c, &m, error) ? MESSAGE : END;
	case WORKER_ENDED:
		if (m.serial != c->serial)
			return MESSAGE;
		*error = note_end(c, &m.ended);
		return END;
	default:
		return MESSAGE;
	}
}

static bool must_stop(const struct vf *vf)
{
	return VF_RUN_STATE(atomic_load(&vf->page->run)) >= VF_WATCHED;
}

/* Returns when a stop that was asked for at STOPPED is late. Stopping may need a lock of the
 * device's driver, which it holds while another process starts or ends: then it may take longer. */
static vgpu_nsec late_at(const struct compute *c, vgpu_nsec stopped)
{
	if (stopped == VGPU_NEVER)
		return VGPU_NEVER;
	return stopped + (atomic_load(&c->vf->page->quiet_since) > stopped ? c->setup.kill_disturbed
									   : c->setup.kill_after);
}

/* Serves the worker until its run is over. Returns the error. Where the host's CPUs are busy, this
 * thread may be late itself: the worker is only late if the end of its run is not among the
 * messages that it had sent when this thread read the clock. */
static uint64_t serve_run(struct compute *c)
{
	const struct worker_message stop = {.type = WORKER_STOP, .serial = c->serial};
	struct pollfd fds[] = {{c->setup.socket, POLLIN, 0}, {VF_CONTROL_FD, POLLIN, 0}};
	vgpu_nsec stopped = VGPU_NEVER, deadline, at = vgpu_now();
	enum received received;
	uint64_t error = SOFTGPU_OK;
	unsigned read_late = 0;
	int left;

	for (; (received = receive(c, &error)) != END; at = vgpu_now()) {
		if (VF_RUN_STATE(atomic_load(&c->vf->page->run)) == VF_KILLING)
			return SOFTGPU_OK; /* a reset follows, which starts another worker */
		if (stopped == VGPU_NEVER && must_stop(c->vf)) {
			if (!send_message(c, &stop, &error))
				return error;
			stopped = vgpu_now();
		}
		deadline = late_at(c, stopped);
		if (deadline <= at && (received == NOTHING || read_late++ == LATE_MOST))
			return lost(c, "its work does not stop");
		left = deadline == VGPU_NEVER ? -1 : (int)((deadline - at) / VGPU_MSEC) + 1;
		poll(fds, 2, received == MESSAGE ? 0 : left);
		if (fds[1].revents)
			vf_take_orders(c->vf);
	}
	return error;
}

uint64_t compute_execute(struct vf *vf)
{
	struct compute *c = vf->compute;
	const struct context *live = &vf->live;
	struct worker_message m = {.type = WORKER_RUN};
	uint64_t error = SOFTGPU_OK;

	if (!c || atomic_load(&c->shared->state) != WORKER_READY) {
		fprintf(stderr,
			"<4>softgpu: VF %u: its worker did not start: the VF needs a reset\n",
			vf->number);
		return SOFTGPU_FAULTED;
	}
	m.serial = ++c->serial;
	m.run.ring_base = live->ring_base;
	m.run.ring_size = live->ring_size;
	m.run.rptr = live->rptr;
	m.run.fence_at = live->fence_addr;
	m.run.stops = c->setup.stops;
	m.run.stop_us = c->setup.stop_us;
	return send_message(c, &m, &error) ? serve_run(c) : error;
}
