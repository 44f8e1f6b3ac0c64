/* SPDX-License-Identifier: MIT */
/*
 * The thread that watches. NVIDIA's driver keeps the last 200 turns of a GPU, and says that the log
 * must be read five times in a second to have all.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "nvidia.h"
#include "vfio/kernel.h"
#include "vfio/thread.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

#define PERIOD_MS 150
#define ASSIGN_EACH VGPU_SEC

static struct nvidia_vgpu *find_vgpu(struct nvidia_watcher *w, uint32_t id)
{
	uint32_t i;

	for (i = 0; i < w->n_vgpus; i++)
		if (w->vgpus[i].id == id)
			return &w->vgpus[i];
	return NULL;
}

/* Keeps those that exist, and adds new ones. Returns whether there are new ones. */
static bool keep_vgpus(struct nvidia_watcher *w, const uint32_t *ids, uint32_t n)
{
	struct nvidia_vgpu *known;
	uint32_t i, kept = 0;
	bool news = false;

	for (i = 0; i < w->n_vgpus; i++)
		w->vgpus[i].seen = false;
	for (i = 0; i < n; i++) {
		known = find_vgpu(w, ids[i]);
		if (known)
			known->seen = true;
	}
	for (i = 0; i < w->n_vgpus; i++)
		if (w->vgpus[i].seen)
			w->vgpus[kept++] = w->vgpus[i];
	w->n_vgpus = kept;
	for (i = 0; i < n && w->n_vgpus < NVIDIA_VGPUS; i++) {
		if (find_vgpu(w, ids[i]))
			continue;
		w->vgpus[w->n_vgpus++] = (struct nvidia_vgpu){.id = ids[i], .vf = -1, .seen = true};
		news = true;
	}
	return news;
}

/* The VF that the VM with that UUID has open; -1: none, or several. */
static int32_t vf_of(char (*uuids)[NVML_ID_SIZE], uint32_t n_vfs, const char *uuid)
{
	int32_t found = -1;
	uint32_t i;

	for (i = 0; i < n_vfs; i++) {
		if (strcasecmp(uuids[i], uuid) != 0)
			continue;
		if (found >= 0)
			return -1;
		found = (int32_t)i;
	}
	return found;
}

/* Finds which VF is which vGPU: by the VM that has both. */
static void assign(struct nvidia_watcher *w)
{
	char uuids[VGPU_GPU_MAX_VFS][NVML_ID_SIZE] = {{0}}, uuid[NVML_ID_SIZE];
	uint32_t i;

	w->assigned_at = vgpu_now();
	for (i = 0; i < w->n_vfs; i++)
		if (!nvidia_vm_of(w->pf, i, uuids[i], sizeof(uuids[i])))
			uuids[i][0] = '\0';
	for (i = 0; i < w->n_vgpus; i++)
		if (w->vgpus[i].vf < 0 &&
		    nvidia_get_vm(&w->library, w->vgpus[i].id, uuid) == NVML_OK && uuid[0])
			w->vgpus[i].vf = vf_of(uuids, w->n_vfs, uuid);
}

static int watch_vgpus(struct nvidia_watcher *w)
{
	uint32_t ids[NVIDIA_VGPUS], n = NVIDIA_VGPUS, i;
	int r = nvidia_get_running(&w->library, ids, &n);
	bool news;

	if (r != NVML_OK)
		return r;
	/* The library lists none if it cannot list all. */
	news = n <= NVIDIA_VGPUS && keep_vgpus(w, ids, n);
	w->now.running = n;
	w->now.unassigned = n;
	w->now.up = 0;
	for (i = 0; i < w->n_vgpus; i++)
		news |= w->vgpus[i].vf < 0 && vgpu_now() - w->assigned_at >= ASSIGN_EACH;
	if (news)
		assign(w);
	for (i = 0; i < w->n_vgpus; i++) {
		if (w->vgpus[i].vf < 0)
			continue;
		w->now.unassigned--;
		w->now.up |= VGPU_VF_BIT(w->vgpus[i].vf);
	}
	return r;
}

/* A sample says how busy a vGPU was since the one before, in whole percent of the GPU. */
static void watch_busy(struct nvidia_watcher *w)
{
	struct nvml_sample samples[NVIDIA_VGPUS];
	uint32_t n = NVIDIA_VGPUS, i;
	uint64_t passed, percent;

	if (nvidia_get_busy(&w->library, w->sampled_at, samples, &n) != NVML_OK)
		return;
	for (i = 0; i < n; i++) {
		struct nvidia_vgpu *v = find_vgpu(w, samples[i].vgpu);

		if (samples[i].timestamp > w->sampled_at)
			w->sampled_at = samples[i].timestamp;
		if (!v || samples[i].timestamp <= v->sampled_at)
			continue;
		passed = v->sampled_at ? samples[i].timestamp - v->sampled_at : 0;
		percent = samples[i].sm.percent < 100 ? samples[i].sm.percent : 100;
		v->sampled_at = samples[i].timestamp;
		if (v->vf >= 0)
			w->now.active[v->vf] += passed * VGPU_USEC / 100 * percent;
	}
}

static void watch_log(struct nvidia_watcher *w)
{
	struct nvml_entry2 log[NVML_ENTRIES];
	struct vgpu_runlist *list;
	uint32_t n, i, k;

	if (nvidia_get_log(&w->library, log, &n) != NVML_OK)
		return;
	for (i = 0; i < n; i++) {
		for (k = 0; k < w->now.n_runlists; k++)
			if (w->now.runlists[k].id == log[i].runlist)
				break;
		if (k == VGPU_RUNLISTS || log[i].timestamp <= w->logged_at[k])
			continue;
		if (k == w->now.n_runlists)
			w->now.n_runlists++;
		list = &w->now.runlists[k];
		list->id = log[i].runlist;
		list->weight = log[i].weight;
		list->turns++;
		list->run = log[i].run_total;
		list->preemption = log[i].preemption_total;
		w->logged_at[k] = log[i].timestamp;
	}
}

/* Puts into force what was declared, as soon as no vGPU exists. */
static int watch_policy(struct nvidia_watcher *w)
{
	struct nvidia_scheduler has = {.policy = 0};
	int r = nvidia_get_scheduler(&w->library, &has), put;

	if (r != NVML_OK)
		return r;
	w->now.waits = !nvidia_is_as_wanted(&has, &w->wanted);
	if (w->now.waits && w->now.running > 0) {
		w->failed = false; /* it may go once these are gone */
		w->now.trouble = NULL;
	} else if (w->now.waits && !w->failed) {
		put = nvidia_put(&w->library, &w->wanted);
		w->failed = put != NVML_OK;
		w->now.trouble = w->failed ? nvidia_cause(put) : NULL;
		w->now.waits = w->failed;
		r = nvidia_get_scheduler(&w->library, &has);
	} else if (!w->now.waits) {
		w->now.trouble = NULL;
	}
	w->now.policy = nvidia_policy_name(has.policy);
	w->now.slice = has.slice;
	return r;
}

static bool has_driver(const struct nvidia_watcher *w)
{
	char driver[32];
	int r = kernel_read_link(driver, sizeof(driver), PCI_DEVICES "/%s/driver", w->pf);

	return r < 0 ? r != -ENOENT : strcmp(driver, NVIDIA_DRIVER) == 0;
}

static void look(struct nvidia_watcher *w)
{
	int r = has_driver(w) ? watch_vgpus(w) : NVML_LOST;

	if (r == NVML_OK)
		r = watch_policy(w);
	if (r == NVML_OK) {
		watch_busy(w);
		watch_log(w);
	}
	w->now.stale = r == NVML_OK ? NULL : nvidia_cause(r);
	if (nvidia_errno(r) == -ENODEV)
		atomic_store(&w->lost, -ENODEV);
	w->now.wall = vgpu_now() - w->began;
}

static void show(struct nvidia_watcher *w)
{
	if (!atomic_load(&w->fresh)) {
		w->shown = w->now;
		atomic_store(&w->fresh, true);
	}
	vgpu_eventfd_signal(w->done);
}

static void *run(void *arg)
{
	struct nvidia_watcher *w = arg;
	struct pollfd p = {.fd = w->wake, .events = POLLIN};

	while (!atomic_load(&w->end)) {
		if (atomic_load(&w->asked)) {
			w->wanted = w->want;
			w->failed = false;
			atomic_store(&w->asked, false);
		}
		look(w);
		show(w);
		poll(&p, 1, PERIOD_MS);
		vgpu_eventfd_drain(w->wake);
	}
	return NULL;
}

int nvidia_watcher_start(struct nvidia_watcher *w, const char *pf, uint32_t n_vfs,
			 const struct nvidia_scheduler *wanted)
{
	int r;

	snprintf(w->pf, sizeof(w->pf), "%s", pf);
	w->n_vfs = n_vfs;
	w->wanted = *wanted;
	w->began = vgpu_now();
	look(w); /* the first observation is there when the GPU is open */
	w->wake = vgpu_eventfd();
	w->done = vgpu_eventfd();
	r = w->wake < 0 ? w->wake : w->done < 0 ? w->done : 0;
	if (r == 0) {
		show(w);
		r = -vfio_thread_create(&w->thread, "vgpud-nvidia", SCHED_OTHER, 0, run, w);
	}
	if (r < 0) {
		vgpu_close(&w->wake);
		vgpu_close(&w->done);
	}
	return r;
}

void nvidia_watcher_end(struct nvidia_watcher *w)
{
	atomic_store(&w->end, true);
	vgpu_eventfd_signal(w->wake);
	pthread_join(w->thread, NULL);
	vgpu_close(&w->wake);
	vgpu_close(&w->done);
}
