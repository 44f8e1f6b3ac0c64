/* SPDX-License-Identifier: MIT */
/* The device's interface to its carrier: functions, regions, accesses. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "doors.h"
#include "gpu.h"
#include "leaving.h"
#include "link.h"
#include "local.h"
#include "workers.h"

#include "vfio/device.h"
#include "vfio/thread.h"
#include "vgpu/clock.h"

void softgpu_lock(struct softgpu *gpu)
{
	pthread_mutex_lock(&gpu->lock);
}

/*
 * Interrupts and changes of the VFs are delivered after the lock is released, because a carrier may
 * take locks of its own, and call back. The thread that has changed the VFs tells the carrier
 * before its access is answered.
 */
void softgpu_unlock(struct softgpu *gpu)
{
	uint32_t pf = gpu->irqs_pf, n = gpu->enabled, used = gpu->used, v;
	bool changed = gpu->vfs_changed, tell = used != gpu->used_told && gpu->carrier->used;

	/* A reset of the GPU does not end before the carrier knows of the change. */
	if (changed)
		gpu->vfs_changing++;
	gpu->irqs_pf = 0;
	gpu->vfs_changed = false;
	gpu->used_told = used;
	status_publish(gpu);
	pthread_mutex_unlock(&gpu->lock);
	for (v = 0; pf >> v; v++)
		if (pf >> v & 1)
			gpu->carrier->irq(gpu->opaque, SOFTGPU_PF, v);
	if (tell)
		gpu->carrier->used(gpu->opaque);
	if (!changed)
		return;
	pthread_mutex_lock(&gpu->lock);
	links_follow(gpu);
	pthread_mutex_unlock(&gpu->lock);
	gpu->carrier->vfs_changed(gpu->opaque, n);
	pthread_mutex_lock(&gpu->lock);
	gpu->vfs_changing--;
	pthread_mutex_unlock(&gpu->lock);
}

static int start(struct softgpu *gpu, pthread_t *thread, const char *name, int policy, int priority,
		 void *(*run)(void *))
{
	int r;

	if (gpu->config.fifo == 0)
		policy = SCHED_OTHER;
	r = vfio_thread_create(thread, name, policy, priority, run, gpu);
	gpu->n_threads += r == 0;
	return r;
}

static int start_threads(struct softgpu *gpu, struct vgpu_error *err)
{
	int r = start(gpu, &gpu->sequencer, "sg-sequencer", SCHED_FIFO, gpu->config.fifo + 1,
		      command_sequencer);

	if (r == 0)
		r = start(gpu, &gpu->filler, "sg-filler", SCHED_OTHER, 0, memory_filler);
	if (r != 0)
		return vgpu_error_set(err, -r, "a thread cannot be started: %s", strerror(r));
	return 0;
}

static void end_threads(struct softgpu *gpu)
{
	const pthread_t threads[] = {gpu->sequencer, gpu->filler};

	softgpu_lock(gpu);
	gpu->quit = true;
	pthread_cond_broadcast(&gpu->sequencer_cond);
	pthread_cond_broadcast(&gpu->links_cond);
	pthread_cond_broadcast(&gpu->filler_cond);
	softgpu_unlock(gpu);
	while (gpu->n_threads > 0)
		pthread_join(threads[--gpu->n_threads], NULL);
}

static void init_locks(struct softgpu *gpu)
{
	pthread_condattr_t cond;

	vfio_mutex_init(&gpu->lock);
	pthread_condattr_init(&cond);
	pthread_condattr_setclock(&cond, CLOCK_MONOTONIC);
	pthread_cond_init(&gpu->sequencer_cond, &cond);
	pthread_cond_init(&gpu->links_cond, &cond);
	pthread_cond_init(&gpu->filler_cond, &cond);
	pthread_condattr_destroy(&cond);
}

/* Chooses the size of GPU memory if none was given: the device's free memory, less its workers' own
 * and less a sixteenth, which its driver may use later. */
static int size_memory(struct softgpu *gpu, struct vgpu_error *err)
{
	const struct workers_tested *p = gpu->workers ? workers_tested(gpu) : NULL;
	uint64_t workers = p ? gpu->config.n_vfs * p->overhead : 0;

	if (gpu->config.vram > 0)
		return 0;
	if (!p || p->free == 0) {
		gpu->config.vram = UINT64_C(1) << 30;
		return 0;
	}
	if (p->free > workers)
		gpu->config.vram = (p->free - workers) / 16 * 15 / GPUIOV_FB_UNIT * GPUIOV_FB_UNIT;
	if (gpu->config.vram == 0)
		return vgpu_error_set(
			err, -ENOMEM,
			"%s: %u workers need %llu MiB each, and %llu MiB are free: use "
			"fewer VFs",
			p->device, gpu->config.n_vfs, (unsigned long long)(p->overhead >> 20),
			(unsigned long long)(p->free >> 20));
	return 0;
}

int softgpu_create(struct softgpu **out, const struct softgpu_config *config,
		   const struct softgpu_carrier *carrier, void *opaque, struct vgpu_error *err)
{
	const struct softgpu_fault *die = NULL;
	struct softgpu *gpu;
	uint32_t i;
	int r;

	if (config->n_vfs == 0 || config->n_vfs > config->layout->max_vfs)
		return vgpu_error_set(err, -EINVAL, "%u VFs: layout %s has 1 to %u", config->n_vfs,
				      config->layout->name, config->layout->max_vfs);
	if (config->schedules && config->layout->at[GPUIOV_FEATURES].space == GPUIOV_NOWHERE)
		return vgpu_error_set(
			err, -EINVAL,
			"--scheduler firmware: layout %s has no registers for it; use "
			"--layout soft",
			config->layout->name);
	if (config->vram % GPUIOV_FB_UNIT || config->vram > UINT64_C(1) << 40)
		return vgpu_error_set(err, -EINVAL,
				      "GPU memory: want a multiple of 16 MiB, up to 1 TiB");
	gpu = calloc(1, sizeof(*gpu));
	if (!gpu)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	gpu->config = *config;
	gpu->layout = config->layout;
	gpu->carrier = carrier;
	gpu->opaque = opaque;
	gpu->rng = config->seed * 2 + 1;
	for (i = 0; i < 8; i++)
		softgpu_random(gpu);
	gpu->began = vgpu_now();
	gpu->memfd = -1;
	gpu->status_fd = -1;
	gpu->active = -1;
	gpu->running = -1;
	spent_begin(gpu);
	gpu->giving_back = -1;
	gpu->busy_irq_at = VGPU_NEVER;
	gpu->gpu_reset_at = VGPU_NEVER;
	for (i = 0; i < SOFTGPU_MAX_VFS; i++) {
		gpu->vfs[i].reset_at = VGPU_NEVER;
		gpu->vfs[i].coming = MEMORY_NOWHERE;
	}
	gpu->die_at = VGPU_NEVER;
	gpu->firmware.frozen_at = VGPU_NEVER;
	for (i = 0; i < config->n_faults; i++) {
		if (config->faults[i].kind == SOFTGPU_FAULT_DIE)
			die = &config->faults[i];
		if (config->faults[i].kind == SOFTGPU_FAULT_FREEZE)
			gpu->firmware.frozen_at = gpu->began + config->faults[i].min;
	}
	if (die)
		gpu->die_at = vgpu_now() + die->min;
	firmware_init(gpu);
	pci_build_pf(gpu);
	init_locks(gpu);
	r = status_create(gpu, err);
	if (r == 0)
		r = leaving_create(&gpu->leaving, gpu, err);
	if (r == 0)
		r = doors_create(&gpu->doors, gpu, err);
	if (r == 0 && config->device)
		r = workers_create(gpu, err);
	if (r == 0)
		r = size_memory(gpu, err);
	if (r == 0)
		r = memory_create(gpu, err);
	if (r == 0)
		r = start_threads(gpu, err);
	if (r == 0)
		r = links_create(gpu, err);
	if (r < 0) {
		softgpu_destroy(gpu);
		return r;
	}
	*out = gpu;
	return 0;
}

void softgpu_destroy(struct softgpu *gpu)
{
	uint32_t i;

	end_threads(gpu);
	links_destroy(gpu);
	softgpu_lock(gpu);
	for (i = 0; i < SOFTGPU_MAX_VFS && gpu->workers; i++)
		workers_end(gpu, (int)i);
	softgpu_unlock(gpu);
	doors_destroy(gpu->doors);
	leaving_destroy(gpu->leaving);
	workers_destroy(gpu->workers);
	gpu->workers = NULL;
	memory_destroy(gpu);
	status_destroy(gpu);
	pthread_cond_destroy(&gpu->sequencer_cond);
	pthread_cond_destroy(&gpu->links_cond);
	pthread_cond_destroy(&gpu->filler_cond);
	pthread_mutex_destroy(&gpu->lock);
	free(gpu);
}

uint64_t softgpu_vram(const struct softgpu *gpu)
{
	return gpu->config.vram;
}

uint32_t softgpu_used(struct softgpu *gpu)
{
	uint32_t used;

	softgpu_lock(gpu);
	used = gpu->used;
	softgpu_unlock(gpu);
	return used;
}

const char *softgpu_computes_on(const struct softgpu *gpu)
{
	return gpu->workers ? workers_tested(gpu)->device : "this CPU";
}

void softgpu_region(struct softgpu *gpu, int fn, uint32_t region, struct softgpu_region *out)
{
	static const uint64_t sizes[] = {[2] = BAR2_SIZE,
					 [4] = BAR4_SIZE,
					 [5] = BAR5_SIZE,
					 [VFIO_REGION_CONFIG] = CONFIG_SIZE};
	uint64_t power = 4096;

	*out = (struct softgpu_region){.mmap_fd = -1};
	if (region == VFIO_REGION_BAR0) {
		while (power < gpu->config.vram)
			power <<= 1;
		out->size = power;
		softgpu_lock(gpu);
		if (fn >= 0 && !gpu->vfs[fn].renew && gpu->vfs[fn].file) {
			out->mmap_fd = gpu->vfs[fn].file->fd;
			out->mmap_size = gpu->vfs[fn].file->size;
		}
		softgpu_unlock(gpu);
	} else if (region < sizeof(sizes) / sizeof(sizes[0])) {
		out->size = sizes[region];
	}
	if (fn == SOFTGPU_PF && region == VFIO_REGION_BAR2 && gpu->status_page) {
		out->mmap_fd = gpu->status_fd;
		out->mmap_size = BAR2_SIZE;
	}
}

/* Registers are dwords: a narrower read returns a part of one, and a narrower write has no effect.
 */
static void mmio_read(struct softgpu *gpu, uint64_t offset, void *data, uint32_t size)
{
	uint8_t *p = data;
	uint32_t value, part, n;

	while (size > 0) {
		value = registers_mmio_read(gpu, (uint32_t)offset & ~3u);
		part = (uint32_t)offset & 3;
		n = 4 - part < size ? 4 - part : size;
		memcpy(p, (uint8_t *)&value + part, n);
		offset += n;
		size -= n;
		p += n;
	}
}

static void mmio_write(struct softgpu *gpu, uint64_t offset, const void *data, uint32_t size)
{
	const uint8_t *p = data;
	uint32_t value;

	if (offset % 4)
		return;
	for (; size >= 4; size -= 4, offset += 4, p += 4) {
		memcpy(&value, p, 4);
		registers_mmio_write(gpu, (uint32_t)offset, value);
	}
}

static bool in_region(struct softgpu *gpu, uint32_t region, uint64_t offset, uint32_t size)
{
	struct softgpu_region r;

	softgpu_region(gpu, SOFTGPU_PF, region, &r);
	return offset <= r.size && size <= r.size - offset;
}

/* Returns whether an access can be passed on to the VF's process: the VF is enabled, and the
 * carrier is its client. */
static bool has_vf(struct softgpu *gpu, int fn)
{
	bool has;

	softgpu_lock(gpu);
	has = fn < (int)gpu->enabled && gpu->vfs[fn].local;
	softgpu_unlock(gpu);
	return has;
}

/* Returns whether the VF's client may access its memory there; counts an access that it may not
 * make. */
static bool may_access(struct softgpu *gpu, int fn, uint64_t offset, uint32_t size)
{
	const struct vf *vf = &gpu->vfs[fn];
	uint64_t window = vf->file && !vf->renew ? vf->file->size : 0;

	if (gpu->dead)
		return false;
	if (!(gpu->gates[VF_GATE_MEMORY] >> fn & 1)) {
		gpu->gate_drops++;
		return false;
	}
	if (offset <= window && size <= window - offset)
		return true;
	memory_violated(gpu, fn, 1);
	return false;
}

/* BAR 0 of a VF whose client is the carrier, which does not map it. The memory is the device's own:
 * a trip to the VF's process for each access of a guest would take too long. */
static void access_window(struct softgpu *gpu, int fn, uint64_t offset, void *data, uint32_t size,
			  bool write)
{
	softgpu_lock(gpu);
	if (may_access(gpu, fn, offset, size))
		memory_transfer(gpu->vfs[fn].file, offset, data, size, write);
	else if (!write)
		memset(data, 0xff, size);
	softgpu_unlock(gpu);
}

void softgpu_read(struct softgpu *gpu, int fn, uint32_t region, uint64_t offset, void *data,
		  uint32_t size)
{
	memset(data, 0, size);
	if (!in_region(gpu, region, offset, size))
		return;
	if (fn != SOFTGPU_PF) {
		if (has_vf(gpu, fn) && region == VFIO_REGION_BAR0)
			access_window(gpu, fn, offset, data, size, false);
		else if (has_vf(gpu, fn))
			local_read(gpu->vfs[fn].local, region, offset, data, size);
		else
			memset(data, 0xff, size);
		return;
	}
	softgpu_lock(gpu);
	links_apply_pages(gpu);
	if (gpu->dead)
		memset(data, 0xff, size);
	else if (region == VFIO_REGION_CONFIG)
		registers_config_read(gpu, (uint32_t)offset, data, size);
	else if (region == VFIO_REGION_BAR5)
		mmio_read(gpu, offset, data, size);
	else if (region == VFIO_REGION_BAR2 && offset + size <= sizeof(gpu->shown))
		memcpy(data, (uint8_t *)gpu->shown + offset, size);
	else if (region == VFIO_REGION_BAR0 && offset + size <= gpu->config.vram)
		memory_access(gpu, offset, data, size, false);
	softgpu_unlock(gpu);
}

void softgpu_write(struct softgpu *gpu, int fn, uint32_t region, uint64_t offset, const void *data,
		   uint32_t size)
{
	if (!in_region(gpu, region, offset, size))
		return;
	if (fn != SOFTGPU_PF) {
		if (has_vf(gpu, fn) && region == VFIO_REGION_BAR0)
			access_window(gpu, fn, offset, (void *)data, size, true);
		else if (has_vf(gpu, fn))
			local_write(gpu->vfs[fn].local, region, offset, data, size);
		return;
	}
	softgpu_lock(gpu);
	links_apply_pages(gpu);
	if (gpu->dead)
		; /* the device has died */
	else if (region == VFIO_REGION_CONFIG)
		registers_config_write(gpu, (uint32_t)offset, data, size);
	else if (region == VFIO_REGION_BAR5)
		mmio_write(gpu, offset, data, size);
	else if (region == VFIO_REGION_BAR0 && offset + size <= gpu->config.vram)
		memory_access(gpu, offset, (void *)data, size, true);
	softgpu_unlock(gpu);
}

void softgpu_function_reset(struct softgpu *gpu, int fn)
{
	if (fn == SOFTGPU_PF)
		return;
	softgpu_lock(gpu);
	command_vf_reset(gpu, fn);
	softgpu_unlock(gpu);
}

void softgpu_function_closed(struct softgpu *gpu, int fn)
{
	if (fn == SOFTGPU_PF)
		return;
	softgpu_lock(gpu);
	/* Ends the process, as a client's disconnection does; the VF is reset by that. */
	if ((uint32_t)fn < gpu->enabled)
		link_kill(gpu->vfs[fn].link);
	softgpu_unlock(gpu);
}
