/* SPDX-License-Identifier: MIT */
/* The device as its carrier sees it: functions, regions, accesses. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "workers.h"

#include "vfio/device.h"
#include "vfio/thread.h"
#include "vgpu/clock.h"

void softgpu_lock(struct softgpu *gpu)
{
	pthread_mutex_lock(&gpu->lock);
}

/*
 * What came up under the lock is delivered after it: a carrier may take locks of its own, and call
 * back. A change of the VFs is told by the thread that caused it, before its access is answered.
 */
void softgpu_unlock(struct softgpu *gpu)
{
	uint32_t pf = gpu->irqs_pf, vfs[SOFTGPU_MAX_VFS], any = 0, n = gpu->enabled, i, v;
	bool changed = gpu->vfs_changed;

	/* Until the carrier has followed, a reset of the GPU does not look finished. */
	if (changed)
		gpu->vfs_changing++;

	for (i = 0; i < gpu->config.n_vfs; i++) {
		vfs[i] = gpu->irqs_vf[i];
		any |= vfs[i];
	}
	gpu->irqs_pf = 0;
	if (any)
		memset(gpu->irqs_vf, 0, sizeof(gpu->irqs_vf));
	gpu->vfs_changed = false;
	pthread_mutex_unlock(&gpu->lock);
	for (v = 0; pf >> v; v++)
		if (pf >> v & 1)
			gpu->carrier->irq(gpu->opaque, SOFTGPU_PF, v);
	for (i = 0; any && i < gpu->config.n_vfs; i++)
		for (v = 0; vfs[i] >> v; v++)
			if (vfs[i] >> v & 1)
				gpu->carrier->irq(gpu->opaque, (int)i, v);
	if (!changed)
		return;
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

	r = r ? r : start(gpu, &gpu->filler, "sg-filler", SCHED_OTHER, 0, memory_filler);
	r = r ? r : start(gpu, &gpu->engine, "sg-engine", SCHED_IDLE, 0, engine_thread);
	return r ? vgpu_error_set(err, -r, "threads: %s", strerror(r)) : 0;
}

static void end_threads(struct softgpu *gpu)
{
	const pthread_t threads[] = {gpu->sequencer, gpu->filler, gpu->engine};

	softgpu_lock(gpu);
	gpu->quit = true;
	engine_stop(gpu, true);
	pthread_cond_broadcast(&gpu->sequencer_cond);
	pthread_cond_broadcast(&gpu->engine_cond);
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
	pthread_cond_init(&gpu->engine_cond, &cond);
	pthread_cond_init(&gpu->stopped_cond, &cond);
	pthread_cond_init(&gpu->filler_cond, &cond);
	pthread_condattr_destroy(&cond);
}

/* As much as was asked for; else what the device has beside its workers, with a sixteenth left for
 * what its driver takes later. */
static int size_memory(struct softgpu *gpu, struct vgpu_error *err)
{
	const struct workers_proof *p = gpu->workers ? workers_proof(gpu) : NULL;
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
		return vgpu_error_set(err, -ENOMEM,
				      "%s: %u workers take %llu MiB each, and it has %llu MiB "
				      "free: take fewer VFs",
				      p->device, gpu->config.n_vfs,
				      (unsigned long long)(p->overhead >> 20),
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
	gpu->active = -1;
	gpu->running = -1;
	gpu->busy_irq_at = VGPU_NEVER;
	gpu->gpu_reset_at = VGPU_NEVER;
	for (i = 0; i < SOFTGPU_MAX_VFS; i++) {
		gpu->vfs[i].memfd = -1;
		gpu->vfs[i].reset_at = VGPU_NEVER;
		pci_build_vf(gpu, &gpu->vfs[i]);
	}
	gpu->die_at = VGPU_NEVER;
	for (i = 0; i < config->n_faults; i++)
		if (config->faults[i].kind == SOFTGPU_FAULT_DIE)
			die = &config->faults[i];
	if (die)
		gpu->die_at = vgpu_now() + die->min;
	pci_build_pf(gpu);
	init_locks(gpu);
	r = config->device ? workers_create(gpu, err) : 0;
	r = r ? r : size_memory(gpu, err);
	r = r ? r : memory_create(gpu, err);
	r = r ? r : start_threads(gpu, err);
	if (r < 0) {
		softgpu_destroy(gpu);
		return r;
	}
	*out = gpu;
	return 0;
}

void softgpu_destroy(struct softgpu *gpu)
{
	end_threads(gpu);
	workers_destroy(gpu->workers);
	gpu->workers = NULL;
	memory_destroy(gpu);
	pthread_cond_destroy(&gpu->sequencer_cond);
	pthread_cond_destroy(&gpu->engine_cond);
	pthread_cond_destroy(&gpu->stopped_cond);
	pthread_cond_destroy(&gpu->filler_cond);
	pthread_mutex_destroy(&gpu->lock);
	free(gpu);
}

uint64_t softgpu_vram(const struct softgpu *gpu)
{
	return gpu->config.vram;
}

const char *softgpu_computes_on(const struct softgpu *gpu)
{
	return gpu->workers ? workers_proof(gpu)->device : "a thread";
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
		if (fn >= 0 && !gpu->vfs[fn].renew) {
			out->mmap_fd = gpu->vfs[fn].memfd;
			out->mmap_size = gpu->vfs[fn].memory_size;
		}
		softgpu_unlock(gpu);
	} else if (region < sizeof(sizes) / sizeof(sizes[0])) {
		out->size = sizes[region];
	}
}

/* Registers are read and written by dwords; a narrower access reads its part of one, and a
 * narrower write has no effect. */
static void mmio_read(struct softgpu *gpu, int fn, uint64_t offset, void *data, uint32_t size)
{
	uint8_t *p = data;
	uint32_t value, part, n;

	while (size > 0) {
		uint32_t at = (uint32_t)offset & ~3u;

		value = fn == SOFTGPU_PF ? registers_mmio_read(gpu, at)
					 : registers_vf_read(gpu, fn, at);
		part = (uint32_t)offset & 3;
		n = 4 - part < size ? 4 - part : size;
		memcpy(p, (uint8_t *)&value + part, n);
		offset += n;
		size -= n;
		p += n;
	}
}

static void mmio_write(struct softgpu *gpu, int fn, uint64_t offset, const void *data,
		       uint32_t size)
{
	const uint8_t *p = data;
	uint32_t value;

	if (offset % 4)
		return;
	for (; size >= 4; size -= 4, offset += 4, p += 4) {
		memcpy(&value, p, 4);
		if (fn == SOFTGPU_PF)
			registers_mmio_write(gpu, (uint32_t)offset, value);
		else
			registers_vf_write(gpu, fn, (uint32_t)offset, value);
	}
}

static bool gate_closed(struct softgpu *gpu, int fn, enum gate gate)
{
	if (fn == SOFTGPU_PF || gpu->gates[gate] >> fn & 1)
		return false;
	gpu->gate_drops++;
	return true;
}

static bool in_region(struct softgpu *gpu, uint32_t region, uint64_t offset, uint32_t size)
{
	struct softgpu_region r;

	softgpu_region(gpu, SOFTGPU_PF, region, &r);
	return offset <= r.size && size <= r.size - offset;
}

void softgpu_read(struct softgpu *gpu, int fn, uint32_t region, uint64_t offset, void *data,
		  uint32_t size)
{
	memset(data, 0, size);
	if (!in_region(gpu, region, offset, size))
		return;
	softgpu_lock(gpu);
	if (gpu->dead || (fn >= (int)gpu->enabled)) {
		memset(data, 0xff, size);
	} else if (region == VFIO_REGION_CONFIG) {
		if (fn == SOFTGPU_PF)
			registers_config_read(gpu, (uint32_t)offset, data, size);
		else
			pci_read(&gpu->vfs[fn].pci, (uint32_t)offset, data, size);
	} else if (region == VFIO_REGION_BAR5) {
		mmio_read(gpu, fn, offset, data, size);
	} else if (region == VFIO_REGION_BAR0 && gate_closed(gpu, fn, GATE_MEMORY)) {
		memset(data, 0xff, size);
	} else if (region == VFIO_REGION_BAR0 && fn == SOFTGPU_PF) {
		if (offset + size <= gpu->config.vram)
			memory_access(gpu, offset, data, size, false);
	} else if (region == VFIO_REGION_BAR0) {
		memory_vf_access(gpu, fn, offset, data, size, false);
	}
	softgpu_unlock(gpu);
}

void softgpu_write(struct softgpu *gpu, int fn, uint32_t region, uint64_t offset, const void *data,
		   uint32_t size)
{
	uint64_t wptr;

	if (!in_region(gpu, region, offset, size))
		return;
	softgpu_lock(gpu);
	if (gpu->dead || fn >= (int)gpu->enabled) {
		softgpu_unlock(gpu);
		return;
	}
	if (region == VFIO_REGION_CONFIG) {
		if (fn == SOFTGPU_PF)
			registers_config_write(gpu, (uint32_t)offset, data, size);
		else
			pci_write(&gpu->vfs[fn].pci, (uint32_t)offset, data, size);
	} else if (region == VFIO_REGION_BAR5) {
		mmio_write(gpu, fn, offset, data, size);
	} else if (region == VFIO_REGION_BAR2 && fn >= 0) {
		if (offset == SOFTGPU_DOORBELL && size == sizeof(wptr)) {
			memcpy(&wptr, data, sizeof(wptr));
			registers_doorbell(gpu, fn, wptr);
		}
	} else if (region == VFIO_REGION_BAR0 && !gate_closed(gpu, fn, GATE_MEMORY)) {
		if (fn >= 0)
			memory_vf_access(gpu, fn, offset, (void *)data, size, true);
		else if (offset + size <= gpu->config.vram)
			memory_access(gpu, offset, (void *)data, size, true);
	}
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
	if ((uint32_t)fn < gpu->enabled) {
		gpu->vfs[fn].renew = true;
		command_vf_reset(gpu, fn);
	} else { /* it has been disabled, and so reset, already */
		memory_renew(gpu, fn);
	}
	softgpu_unlock(gpu);
}
