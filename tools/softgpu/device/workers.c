/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "client.h"
#include "limit.h"
#include "link.h"
#include "vfio/thread.h"
#include "workers.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

/* A worker that quits has this long to clear its memory. */
#define QUIT_MS 6000
#define MAX_LEAVING 64u
/* How much a worker's context may grow when GPU kernels need more stack or modules are loaded. */
#define LIMIT_SLACK (UINT64_C(256) << 20)

struct workers {
	struct softgpu *gpu;
	struct workers_proof proof;
	struct worker_client *of[SOFTGPU_MAX_VFS];
	int leaving[MAX_LEAVING]; /* pidfds of workers that have been asked to exit */
	uint32_t n_leaving;
	int watch_fd; /* eventfd that wakes the monitor when LEAVING or QUIT has changed */
	pthread_t monitor;
	bool quit;
};

void workers_begin(struct softgpu *gpu, int index)
{
	const struct workers_proof *proof = &gpu->workers->proof;
	struct vf *vf = &gpu->vfs[index];
	uint64_t limit = proof->limit_error[0] ? 0 : vf->fb_size + proof->overhead + LIMIT_SLACK;
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
	vgpu_eventfd_signal(w->watch_fd);
}

void workers_kill(struct softgpu *gpu, int index)
{
	struct worker_client *w = gpu->workers->of[index];

	if (w)
		pidfd_send_signal(w->pidfd, SIGKILL, NULL, 0);
}

void workers_restart(struct softgpu *gpu, int index)
{
	struct worker_client *w = gpu->workers->of[index];

	if (gpu->vfs[index].memfd < 0 || (w && !w->has_run))
		return;
	workers_end(gpu, index);
	workers_begin(gpu, index);
	link_worker(gpu->vfs[index].link);
}

void workers_used(struct softgpu *gpu, int index)
{
	if (gpu->workers->of[index])
		gpu->workers->of[index]->has_run = true;
}

bool workers_order(const struct softgpu *gpu, int index, struct vf_order *order,
		   int fds[VF_ORDER_FDS])
{
	const struct worker_client *w = gpu->workers->of[index];

	if (!w)
		return false;
	*order = (struct vf_order){
		.type = VF_ORDER_WORKER,
		.modules = gpu->workers->proof.modules,
		.stops = gpu->workers->proof.stops,
		.kill_after = gpu->config.kill_after,
	};
	fds[0] = w->socket;
	fds[1] = w->shared_fd;
	fds[2] = w->wake_fd;
	return true;
}

const struct workers_proof *workers_proof(const struct softgpu *gpu)
{
	return &gpu->workers->proof;
}

/* Waits for the end of workers that were asked to exit. */
static void *monitor(void *arg)
{
	struct workers *w = arg;
	struct pollfd fds[1 + MAX_LEAVING];
	uint32_t i, n;

	softgpu_lock(w->gpu);
	while (!w->quit) {
		fds[0] = (struct pollfd){w->watch_fd, POLLIN, 0};
		for (n = 1, i = 0; i < w->n_leaving; i++)
			fds[n++] = (struct pollfd){w->leaving[i], POLLIN, 0};
		softgpu_unlock(w->gpu);
		poll(fds, n, -1);
		softgpu_lock(w->gpu);
		if (fds[0].revents)
			vgpu_eventfd_drain(w->watch_fd);
		for (i = w->n_leaving; i-- > 0;)
			if (worker_gone(w->leaving[i], 0))
				w->leaving[i] = w->leaving[--w->n_leaving];
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
	if (w->proof.limit_error[0] && strcmp(gpu->config.device, "cuda") == 0)
		fprintf(stderr, "<6>softgpu: %s: the driver does not limit VFs' memory: %s\n",
			w->proof.device, w->proof.limit_error);
	w->gpu = gpu;
	w->watch_fd = vgpu_eventfd();
	if (w->watch_fd < 0)
		r = -w->watch_fd;
	else
		r = vfio_thread_create(&w->monitor, "sg-monitor", SCHED_OTHER, 0, monitor, w);
	if (r != 0) {
		vgpu_close(&w->watch_fd);
		free(w);
		return vgpu_error_set(err, -r, "the thread that watches workers: %s", strerror(r));
	}
	gpu->workers = w;
	return 0;
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
	vgpu_eventfd_signal(w->watch_fd);
	softgpu_unlock(w->gpu);
	pthread_join(w->monitor, NULL);
	while (w->n_leaving > 0)
		worker_gone(w->leaving[--w->n_leaving], QUIT_MS);
	if (strcmp(w->gpu->config.device, "cuda") == 0)
		for (i = 0; i < SOFTGPU_MAX_VFS; i++)
			limit_forget(LIMIT_ROOT, getpid(), i);
	vgpu_close(&w->watch_fd);
	free(w);
}
