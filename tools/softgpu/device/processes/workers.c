/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "client.h"
#include "gpus.h"
#include "doors.h"
#include "leaving.h"
#include "limit.h"
#include "link.h"
#include "users.h"
#include "workers.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

/* A worker that quits has this long to clear its memory. */
#define QUIT (6 * VGPU_SEC)
/* How much a worker's context may grow for what the driver itself needs. */
#define LIMIT_SLACK (UINT64_C(256) << 20)

/* A stop may take this many times as long as the longest one of the test at the start, and at least
 * and at most this long: by itself (vgpud's default grace is 50 ms), and while another worker
 * starts or ends, which takes longer with the memory that it has than in the test. */
#define STOPS 10u
#define KILL_LEAST (25 * VGPU_MSEC)
#define KILL_MOST VGPU_SEC
#define DISTURBED_LEAST (2 * VGPU_SEC)
#define DISTURBED_MOST (10 * VGPU_SEC)
/* A worker counts as starting or ending for at most this long, whatever it says. */
#define CHURN_MOST (10 * VGPU_SEC)

/* A VF's worker that is starting, or was killed, since SINCE; VGPU_NEVER: neither. */
struct churn {
	vgpu_nsec since;
	bool killed, started;
};

struct workers {
	struct softgpu *gpu;
	struct workers_tested tested;
	struct worker_client *of[SOFTGPU_MAX_VFS];
	uint32_t numbers[SOFTGPU_MAX_VFS]; /* number of each VF's last worker */
	struct churn churn[SOFTGPU_MAX_VFS];
	vgpu_nsec quiet_since;		      /* when the last of these had settled */
	vgpu_nsec kill_after, kill_disturbed; /* see struct vf_order */
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

/* Another worker has nothing of what was copied. */
static void forget_copies(struct vf *vf)
{
	vf->copied_out = vf->copied_in = 0;
	vf->coming = MEMORY_NOWHERE;
	vf->leaves = false;
	vf->waited = 0;
	vf->told = 0;
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
		.memory = gpu->config.worker_memory,
		.says = true,
		.fifo = gpu->config.fifo,
	};
	struct vgpu_error err = {""};

	forget_copies(vf);
	if (!memory_is_here(gpu, vf))
		return;
	options.uid = users_next(gpu, index, USERS_WORKER, &options.gid);
	gpu->workers->numbers[index]++;
	if (worker_start(&gpu->workers->of[index], &options, &err) < 0)
		fprintf(stderr, "<3>softgpu: VF %d: %s\n", index, err.text);
	else
		gpu->workers->churn[index] = (struct churn){.since = vgpu_now()};
	if (gpu->workers->of[index])
		doors_hear(gpu->doors, index, SAYS_WORKER, workers_says(gpu, index));
	workers_tell(gpu);
}

int workers_says(const struct softgpu *gpu, int index)
{
	return gpu->workers->of[index] ? gpu->workers->of[index]->says : -1;
}

/* Returns whether the worker of the VF still starts or ends. */
static bool churns(const struct workers *w, int index)
{
	const struct churn *c = &w->churn[index];
	const struct worker_client *of = w->of[index];

	if (!of || c->since == VGPU_NEVER || vgpu_now() - c->since > CHURN_MOST ||
	    worker_exited(of))
		return false;
	return c->killed || atomic_load(&of->shared->state) == WORKER_STARTING;
}

vgpu_nsec workers_quiet_since(struct softgpu *gpu)
{
	struct workers *w = gpu->workers;
	vgpu_nsec left = leaving_quiet_since(gpu->leaving);
	bool going = left == VGPU_NEVER;
	int i;

	for (i = 0; i < (int)SOFTGPU_MAX_VFS; i++) {
		if (churns(w, i)) {
			going = true;
		} else if (w->churn[i].since != VGPU_NEVER) {
			w->churn[i].since = VGPU_NEVER;
			w->quiet_since = vgpu_now();
		}
	}
	if (going)
		return VGPU_NEVER;
	return left > w->quiet_since ? left : w->quiet_since;
}

void workers_tell(struct softgpu *gpu)
{
	vgpu_nsec quiet_since = workers_quiet_since(gpu);
	uint32_t i;

	for (i = 0; i < gpu->config.n_vfs; i++)
		if (gpu->vfs[i].link)
			atomic_store(&link_page(gpu->vfs[i].link)->quiet_since, quiet_since);
}

vgpu_nsec workers_stop_most(struct softgpu *gpu, vgpu_nsec stopped)
{
	const struct workers *w = gpu->workers;

	return workers_quiet_since(gpu) > stopped ? w->kill_disturbed : w->kill_after;
}

void workers_end(struct softgpu *gpu, int index)
{
	struct workers *w = gpu->workers;
	int sockets[WORKER_SOCKETS] = {-1, -1}, pidfd, i;
	pid_t pid;

	spent_ends(gpu, index, SPENT_WORKER);
	if (w->of[index])
		worker_take_sockets(w->of[index], sockets);
	for (i = 0; i < (int)WORKER_SOCKETS; i++)
		doors_discard_later(gpu->doors, &sockets[i]);
	if (w->of[index])
		doors_hear_last(gpu->doors, index, &w->of[index]->says);
	pid = w->of[index] ? w->of[index]->pid : 0;
	pidfd = worker_quit(w->of[index]);
	w->of[index] = NULL;
	forget_copies(&gpu->vfs[index]);
	w->churn[index].since = VGPU_NEVER;
	if (pidfd < 0)
		return;
	leaving_add_worker(gpu->leaving, pidfd, pid, index, vgpu_now() + QUIT);
	workers_tell(gpu);
}

void workers_kill(struct softgpu *gpu, int index)
{
	struct worker_client *w = gpu->workers->of[index];

	if (!w)
		return;
	pidfd_send_signal(w->pidfd, SIGKILL, NULL, 0);
	gpu->workers->churn[index] = (struct churn){.since = vgpu_now(), .killed = true};
	workers_tell(gpu);
}

void workers_restart(struct softgpu *gpu, int index)
{
	struct worker_client *w = gpu->workers->of[index];

	if (!gpu->vfs[index].file || (w && !w->has_run && !worker_exited(w)))
		return;
	workers_end(gpu, index);
	workers_begin(gpu, index);
	link_worker(gpu->vfs[index].link);
}

bool workers_died(const struct softgpu *gpu, int index)
{
	const struct worker_client *w = gpu->workers->of[index];

	return w && worker_exited(w) && atomic_load(&w->shared->state) != WORKER_REFUSED;
}

uint32_t workers_memory(const struct softgpu *gpu, int index, int fds[2])
{
	const struct worker_client *w = gpu->workers->of[index];

	if (w) {
		fds[0] = w->memory_fd;
		fds[1] = w->stage_fd;
	}
	return gpu->workers->numbers[index];
}

bool workers_is(const struct softgpu *gpu, int index, uint32_t number)
{
	return gpu->workers->of[index] && gpu->workers->numbers[index] == number;
}

pid_t workers_process(const struct softgpu *gpu, int index, uint64_t *fences)
{
	const struct worker_client *w = gpu->workers->of[index];

	if (!w)
		return 0;
	*fences = atomic_load(&w->shared->fences);
	return w->pid;
}

bool workers_is_starting(struct softgpu *gpu, int index)
{
	struct churn *c = &gpu->workers->churn[index];

	c->started |= !churns(gpu->workers, index);
	return !c->started;
}

vgpu_nsec workers_lend(struct softgpu *gpu, int index, bool on)
{
	return gpu->workers->of[index] ? worker_lend(gpu->workers->of[index], on) : 0;
}

void workers_begin_turn(struct softgpu *gpu, int index)
{
	if (gpu->workers->of[index])
		worker_begin_turn(gpu->workers->of[index]);
}

bool workers_end_turn(struct softgpu *gpu, int index)
{
	return !gpu->workers->of[index] || worker_end_turn(gpu->workers->of[index]);
}

/* Returns the time of a stop for which a worker is told to plan, ns. A worker waits for work that
 * ends soon for twice that time: together with the stop after it, this must be in time, however
 * short the operator has made the limit. */
static vgpu_nsec typical_stop(const struct workers *w)
{
	return w->tested.typical < w->kill_after / 4 ? w->tested.typical : w->kill_after / 4;
}

bool workers_order(const struct softgpu *gpu, int index, struct vf_order *order,
		   int fds[VF_ORDER_FDS])
{
	const struct workers_tested *tested = &gpu->workers->tested;
	const struct worker_client *w = gpu->workers->of[index];

	if (!w)
		return false;
	*order = (struct vf_order){
		.type = VF_ORDER_WORKER,
		.modules = tested->modules,
		.stops = tested->stops,
		.stop_us = (uint32_t)(tested->level != SOFTGPU_PREEMPT_KILL
					      ? typical_stop(gpu->workers) / VGPU_USEC
					      : 0),
		.kill_after = gpu->workers->kill_after,
		.kill_disturbed = gpu->workers->kill_disturbed,
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

static vgpu_nsec between(vgpu_nsec value, vgpu_nsec least, vgpu_nsec most)
{
	return value < least ? least : value > most ? most : value;
}

/* Sets how long a stop may take, and reports it, because vgpud's grace must be longer. */
static void set_deadlines(struct workers *w, const struct softgpu_config *config)
{
	const struct workers_tested *t = &w->tested;
	bool stops = t->level != SOFTGPU_PREEMPT_KILL;

	w->kill_after = config->kill_after;
	if (w->kill_after == 0)
		w->kill_after = between(stops ? STOPS * t->longest : 0, KILL_LEAST, KILL_MOST);
	w->kill_disturbed = w->kill_after;
	if (!stops)
		return;
	w->kill_disturbed = between(STOPS * t->disturbed, DISTURBED_LEAST, DISTURBED_MOST);
	if (w->kill_disturbed < w->kill_after)
		w->kill_disturbed = w->kill_after;
	fprintf(stderr,
		"<6>softgpu: %s: work %s within %.1f ms, %.1f ms while a worker starts or ends; "
		"it is killed after %.0f ms, and after %.0f ms: vgpud's grace_ms must be longer\n",
		t->device,
		t->level == SOFTGPU_PREEMPT_SOFT ? "has its shortest time slice" : "stops",
		(double)t->longest / 1e6, (double)t->disturbed / 1e6, (double)w->kill_after / 1e6,
		(double)w->kill_disturbed / 1e6);
}

int workers_create(struct softgpu *gpu, struct vgpu_error *err)
{
	struct workers *w = calloc(1, sizeof(*w));
	uint32_t i;
	int r;

	if (!w)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	w->gpu_fd = -1;
	for (i = 0; i < SOFTGPU_MAX_VFS; i++)
		w->churn[i].since = VGPU_NEVER;
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
	set_deadlines(w, &gpu->config);
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
