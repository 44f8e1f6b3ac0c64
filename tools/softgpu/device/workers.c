/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client.h"
#include "limit.h"
#include "vfio/thread.h"
#include "workers.h"
#include "vgpu/clock.h"

/* A worker that quits has this long to clear its memory. */
#define QUIT_MS 6000
#define MAX_LEAVING 64u
/* What a worker's context may grow by, when kernels with more stack or modules come. */
#define LIMIT_SLACK (UINT64_C(256) << 20)

struct workers {
	struct softgpu *gpu;
	struct workers_proof proof;
	struct worker_client *of[SOFTGPU_MAX_VFS];
	struct worker_client *runs; /* whose run goes on, and has not been told to stop */
	int leaving[MAX_LEAVING];   /* pidfds of those that have been asked to go */
	uint32_t n_leaving;
	int stop_fd;  /* wakes the engine thread */
	int watch_fd; /* wakes the monitor: there are others to watch */
	pthread_t monitor;
	bool quit;
};

static void notify(int fd)
{
	const uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) < 0)
		return; /* it holds a count already */
}

static void drain(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return;
}

void workers_begin(struct softgpu *gpu, int index)
{
	const struct workers_proof *proof = &gpu->workers->proof;
	struct vf *vf = &gpu->vfs[index];
	uint64_t limit = proof->wall[0] ? 0 : vf->fb_size + proof->overhead + LIMIT_SLACK;
	struct worker_options options = {
		.device = gpu->config.device,
		.gpu = gpu->config.device_index,
		.window_fd = vf->memfd,
		.size = vf->fb_size,
		.vf = (uint32_t)index,
		.limit = limit,
		.fifo = gpu->config.fifo,
		.uid = gpu->config.worker_uid,
		.gid = gpu->config.worker_gid,
	};
	struct vgpu_error err = {""};

	if (worker_start(&gpu->workers->of[index], &options, &err) < 0)
		fprintf(stderr, "<3>softgpu: VF %d: %s\n", index, err.text);
	notify(gpu->workers->watch_fd);
}

void workers_end(struct softgpu *gpu, int index)
{
	struct workers *w = gpu->workers;
	int pidfd = worker_quit(w->of[index]);

	w->of[index] = NULL;
	if (pidfd < 0)
		return;
	if (w->n_leaving == MAX_LEAVING)
		worker_gone(w->leaving[--w->n_leaving], QUIT_MS);
	w->leaving[w->n_leaving++] = pidfd;
	notify(w->watch_fd);
}

void workers_restart(struct softgpu *gpu, int index)
{
	struct worker_client *w = gpu->workers->of[index];

	if (gpu->vfs[index].memfd < 0 || (w && !w->has_run))
		return;
	workers_end(gpu, index);
	workers_begin(gpu, index);
}

bool workers_ready(const struct softgpu *gpu, int index)
{
	const struct worker_client *w = gpu->workers->of[index];

	return !w || (atomic_load(&w->shared->state) != WORKER_STARTING &&
		      !atomic_load(&w->shared->waits));
}

void workers_doorbell(struct softgpu *gpu, int index, uint64_t wptr)
{
	struct worker_client *w = gpu->workers->of[index];

	if (w)
		atomic_store_explicit(&w->shared->wptr, wptr, memory_order_release);
}

void workers_stop(struct softgpu *gpu)
{
	struct workers *w = gpu->workers;

	if (w->runs)
		worker_stop(w->runs);
	w->runs = NULL;
	notify(w->stop_fd);
}

const struct workers_proof *workers_proof(const struct softgpu *gpu)
{
	return &gpu->workers->proof;
}

/* The VF's worker ends now, whatever it does. */
static void drop(struct softgpu *gpu, int index)
{
	struct worker_client *w;

	gpu->vfs[index].live.job.active = false;
	softgpu_lock(gpu);
	w = gpu->workers->of[index];
	gpu->workers->of[index] = NULL;
	gpu->workers->runs = NULL;
	notify(gpu->workers->watch_fd);
	softgpu_unlock(gpu);
	worker_kill(w);
}

/* It does not answer, or is gone: the VF is lost, until it is reset. */
static uint64_t lost(struct softgpu *gpu, int index, const char *why)
{
	fprintf(stderr, "<4>softgpu: VF %d: %s: its worker is killed, and it needs a reset\n",
		index, why);
	drop(gpu, index);
	return SOFTGPU_FAULTED;
}

static void serve_dma(struct softgpu *gpu, int index, struct worker_client *w,
		      const struct worker_message *m)
{
	const struct vf *vf = &gpu->vfs[index];
	struct worker_message answer = {.type = WORKER_DMA_DONE, .dma.result = -EFAULT};

	if (m->dma.at <= vf->memory_size && m->dma.bytes <= vf->memory_size - m->dma.at)
		answer.dma.result =
			gpu->carrier->dma(gpu->opaque, index, m->dma.iova, vf->memory + m->dma.at,
					  m->dma.bytes, m->dma.out);
	worker_send(w, &answer);
}

/* The run is over: what the VF's context is from now on. */
static uint64_t note_end(struct softgpu *gpu, int index, const struct worker_ended *ended)
{
	struct vf *vf = &gpu->vfs[index];

	vf->live.rptr = ended->rptr;
	vf->live.job.active = ended->active;
	switch (ended->end) {
	case WORKER_IDLE:
	case WORKER_STOPPED:
		return SOFTGPU_OK;
	case WORKER_FAILED:
		/* What it has put into the queue may still run, in others' time. */
		drop(gpu, index);
		return ended->error ? ended->error : SOFTGPU_FAULTED;
	default:
		return lost(gpu, index, "its device failed");
	}
}

/* What has come in from the worker. True: the run is over, with *ERROR. */
static bool receive(struct softgpu *gpu, int index, struct worker_client *w, uint64_t *error)
{
	struct worker_message m;
	int r;

	while ((r = worker_receive(w, &m)) > 0) {
		switch (m.type) {
		case WORKER_FENCE:
			gpu->carrier->irq(gpu->opaque, index, SOFTGPU_VECTOR_FENCE);
			break;
		case WORKER_DMA:
			serve_dma(gpu, index, w, &m);
			break;
		case WORKER_ENDED:
			*error = note_end(gpu, index, &m.ended);
			return true;
		default:
			break;
		}
	}
	if (r < 0)
		*error = lost(gpu, index, "its worker has died");
	return r < 0;
}

uint64_t workers_execute(struct softgpu *gpu, int index)
{
	struct workers *all = gpu->workers;
	struct worker_client *w = all->of[index];
	struct vf *vf = &gpu->vfs[index];
	struct worker_message m = {
		.run = {vf->live.ring_base, vf->live.ring_size, vf->live.rptr, vf->live.fence_addr,
			all->proof.stops},
	};
	struct pollfd fds[] = {{-1, POLLIN, 0}, {all->stop_fd, POLLIN, 0}};
	vgpu_nsec deadline = VGPU_NEVER, at;
	uint64_t error = SOFTGPU_OK;
	int left;

	if (!w || atomic_load(&w->shared->state) != WORKER_READY)
		return lost(gpu, index, "its worker did not start");
	fds[0].fd = w->socket;
	drain(all->stop_fd);
	atomic_store(&w->shared->wptr, atomic_load(&vf->wptr));
	softgpu_lock(gpu);
	worker_run(w, &m);
	all->runs = w;
	if (atomic_load(&gpu->stop))
		workers_stop(gpu);
	softgpu_unlock(gpu);
	while (!receive(gpu, index, w, &error)) {
		if (atomic_load(&gpu->kill)) {
			drop(gpu, index);
			return SOFTGPU_OK;
		}
		at = vgpu_now();
		if (deadline == VGPU_NEVER && atomic_load(&gpu->stop))
			deadline = at + gpu->config.kill_after;
		if (deadline <= at)
			return lost(gpu, index, "its work does not stop");
		left = deadline == VGPU_NEVER ? -1 : (int)((deadline - at) / VGPU_MSEC) + 1;
		poll(fds, 2, left);
		if (fds[1].revents)
			drain(all->stop_fd);
	}
	softgpu_lock(gpu);
	all->runs = NULL;
	softgpu_unlock(gpu);
	return error;
}

/* Who the monitor listens to: their descriptors, and whose they are. */
struct watched {
	struct pollfd fds[1 + SOFTGPU_MAX_VFS + MAX_LEAVING];
	int vf[1 + SOFTGPU_MAX_VFS + MAX_LEAVING]; /* -1: one that leaves */
	uint32_t n;
};

static void watch(struct watched *l, int fd, int vf)
{
	l->fds[l->n] = (struct pollfd){fd, POLLIN, 0};
	l->vf[l->n++] = vf;
}

static void list(struct workers *w, struct watched *l)
{
	uint32_t i;

	l->n = 0;
	watch(l, w->watch_fd, -1);
	for (i = 0; i < SOFTGPU_MAX_VFS; i++)
		if (w->of[i])
			watch(l, w->of[i]->wake_fd, (int)i);
	for (i = 0; i < w->n_leaving; i++)
		watch(l, w->leaving[i], -1);
}

/* The VF's worker has something to say: that it is ready, or not, or has compiled. */
static void woken(struct softgpu *gpu, int index, int fd)
{
	struct worker_client *w = gpu->workers->of[index];

	if (!w || w->wake_fd != fd)
		return;
	drain(fd);
	if (atomic_load(&w->shared->state) == WORKER_REFUSED)
		fprintf(stderr, "<3>softgpu: VF %d: %.255s\n", index, w->shared->text);
	if (!engine_has_work(gpu, index))
		return;
	command_busy(gpu, index, true);
	if (gpu->running == index && !gpu->executing)
		pthread_cond_signal(&gpu->engine_cond);
}

static void *monitor(void *arg)
{
	struct workers *w = arg;
	struct watched l;
	uint32_t i, k;

	softgpu_lock(w->gpu);
	while (!w->quit) {
		list(w, &l);
		softgpu_unlock(w->gpu);
		poll(l.fds, l.n, -1);
		softgpu_lock(w->gpu);
		if (l.fds[0].revents)
			drain(w->watch_fd);
		for (i = 1; i < l.n; i++) {
			if (!l.fds[i].revents)
				continue;
			if (l.vf[i] >= 0) {
				woken(w->gpu, l.vf[i], l.fds[i].fd);
				continue;
			}
			for (k = 0; k < w->n_leaving; k++) {
				if (w->leaving[k] == l.fds[i].fd && worker_gone(l.fds[i].fd, 0)) {
					w->leaving[k] = w->leaving[--w->n_leaving];
					break;
				}
			}
		}
	}
	softgpu_unlock(w->gpu);
	return NULL;
}

int workers_create(struct softgpu *gpu, struct vgpu_error *err)
{
	struct workers *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	r = workers_prove(&gpu->config, &w->proof, err);
	if (r < 0) {
		free(w);
		return r;
	}
	if (w->proof.wall[0] && strcmp(gpu->config.device, "cuda") == 0)
		fprintf(stderr, "<6>softgpu: %s: no second wall around VFs' memory: %s\n",
			w->proof.device, w->proof.wall);
	w->gpu = gpu;
	w->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->watch_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = w->stop_fd < 0 || w->watch_fd < 0
		    ? errno
		    : vfio_thread_create(&w->monitor, "sg-monitor", SCHED_OTHER, 0, monitor, w);
	if (r == 0) {
		gpu->workers = w;
		return 0;
	}
	if (w->stop_fd >= 0)
		close(w->stop_fd);
	if (w->watch_fd >= 0)
		close(w->watch_fd);
	free(w);
	return vgpu_error_set(err, -r, "cannot watch workers: %s", strerror(r));
}

void workers_destroy(struct workers *w)
{
	uint32_t i;

	if (!w)
		return;
	softgpu_lock(w->gpu);
	w->quit = true;
	for (i = 0; i < SOFTGPU_MAX_VFS; i++)
		workers_end(w->gpu, (int)i);
	notify(w->watch_fd);
	softgpu_unlock(w->gpu);
	pthread_join(w->monitor, NULL);
	while (w->n_leaving > 0)
		worker_gone(w->leaving[--w->n_leaving], QUIT_MS);
	if (strcmp(w->gpu->config.device, "cuda") == 0)
		for (i = 0; i < SOFTGPU_MAX_VFS; i++)
			limit_forget(LIMIT_ROOT, getpid(), i);
	close(w->stop_fd);
	close(w->watch_fd);
	free(w);
}
