/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "client.h"
#include "gpus.h"
#include "leaving.h"
#include "limit.h"
#include "link.h"
#include "workers.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

/* A worker that quits has this long to clear its memory. */
#define QUIT (6 * VGPU_SEC)
/* How much a worker's context may grow for what the driver itself needs. */
#define LIMIT_SLACK (UINT64_C(256) << 20)

struct workers {
	struct softgpu *gpu;
	struct workers_tested tested;
	struct worker_client *of[SOFTGPU_MAX_VFS];
	int gpu_fd; /* keeps an NVIDIA GPU initialised; -1: there is none */
};

/* Keeps the GPU initialised while no worker runs. */
static void hold_gpu(struct workers *w, const struct softgpu_config *config)
{
	char path[64] = "";
	int fd = gpus_open(GPUS_ROOT, "/dev", config->device_index, path, sizeof(path));

	if (fd >= 0)
		w->gpu_fd = fd;
	else if (path[0])
		fprintf(stderr,
			"<5>softgpu: %s: %s: without nvidia-persistenced the GPU starts anew after "
			"each time without a worker\n",
			path, strerror(-fd));
}

void workers_begin(struct softgpu *gpu, int index)
{
	const struct workers_tested *tested = &gpu->workers->tested;
	struct vf *vf = &gpu->vfs[index];
	uint64_t limit = tested->limit_error[0] ? 0 : vf->fb_size + tested->overhead + LIMIT_SLACK;
	struct worker_options options = {
		.device = gpu->config.device,
		.gpu = gpu->config.device_index,
		.window_fd = vf->file->fd,
		.size = vf->fb_size,
		.vf = (uint32_t)index,
		.limit = limit,
		.modules = gpu->config.module_memory,
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
	if (pidfd >= 0)
		leaving_add(gpu->leaving, pidfd, -1, vgpu_now() + QUIT);
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

	if (!gpu->vfs[index].file || (w && !w->has_run))
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
		.modules = gpu->workers->tested.modules,
		.stops = gpu->workers->tested.stops,
		.kill_after = gpu->config.kill_after,
	};
	fds[0] = w->socket;
	fds[1] = w->shared_fd;
	fds[2] = w->wake_fd;
	return true;
}

const struct workers_tested *workers_tested(const struct softgpu *gpu)
{
	return &gpu->workers->tested;
}

int workers_create(struct softgpu *gpu, struct vgpu_error *err)
{
	struct workers *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	w->gpu_fd = -1;
	if (strcmp(gpu->config.device, "cuda") == 0)
		hold_gpu(w, &gpu->config);
	r = workers_test(&gpu->config, &w->tested, err);
	if (r < 0) {
		vgpu_close(&w->gpu_fd);
		free(w);
		return r;
	}
	if (w->tested.limit_error[0] && strcmp(gpu->config.device, "cuda") == 0)
		fprintf(stderr, "<6>softgpu: %s: the driver does not limit VFs' memory: %s\n",
			w->tested.device, w->tested.limit_error);
	w->gpu = gpu;
	gpu->workers = w;
	return 0;
}

void workers_destroy(struct workers *w)
{
	uint32_t i;

	if (!w)
		return;
	if (strcmp(w->gpu->config.device, "cuda") == 0)
		for (i = 0; i < SOFTGPU_MAX_VFS; i++)
			limit_forget(LIMIT_ROOT, getpid(), i);
	vgpu_close(&w->gpu_fd);
	free(w);
}
