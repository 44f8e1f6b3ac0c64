/* SPDX-License-Identifier: MIT */
/*
 * The engine: one thread that executes the ring of the VF that runs, tile by tile, and looks for a
 * request to stop after each. It works below everything else on the machine (SCHED_IDLE); from a
 * request to stop until it has, it is lifted above, so that a busy machine does not delay the
 * acknowledgement by more than a tile. Where workers compute, it tells them to.
 */
#include <sched.h>

#include "gpu.h"
#include "workers.h"

struct packet_limits engine_limits(const struct softgpu *gpu, const struct vf *vf)
{
	struct packet_limits l = {vf->memory_size, vf->memory_size, false};

	if (gpu->workers && vf->memory_size > 0) {
		l.size = vf->fb_size;
		l.modules = workers_proof(gpu)->modules;
	}
	return l;
}

/* Whether the VF has packets to execute. Its ring's size is its context's: what counts for a VF
 * that is not loaded is whether its doorbell has moved on since it was saved. */
bool engine_has_work(struct softgpu *gpu, int index)
{
	struct vf *vf = &gpu->vfs[index];

	return !vf->dead &&
	       (vf->live.job.active ||
		vf->live.rptr != atomic_load_explicit(&vf->wptr, memory_order_acquire)) &&
	       (!gpu->workers || workers_ready(gpu, index));
}

static void boost(struct softgpu *gpu, bool up)
{
	struct sched_param param = {.sched_priority = up ? 1 : 0};

	if (gpu->config.fifo > 0 && gpu->boosted != up)
		pthread_setschedparam(gpu->engine, up ? SCHED_FIFO : SCHED_IDLE, &param);
	gpu->boosted = up;
}

void engine_run(struct softgpu *gpu, int vf)
{
	atomic_store(&gpu->stop, false);
	atomic_store(&gpu->kill, false);
	gpu->running = vf;
	pthread_cond_signal(&gpu->engine_cond);
}

bool engine_stop(struct softgpu *gpu, bool kill)
{
	if (gpu->executing) {
		atomic_store(&gpu->stop, true);
		if (kill)
			atomic_store(&gpu->kill, true);
		if (gpu->workers)
			workers_stop(gpu);
		boost(gpu, true);
		return false;
	}
	gpu->running = -1;
	return true;
}

void engine_stop_now(struct softgpu *gpu)
{
	engine_stop(gpu, true);
	while (gpu->executing)
		pthread_cond_wait(&gpu->stopped_cond, &gpu->lock);
	gpu->running = -1;
}

/* Stops the VF that runs with an error; nobody else is affected. */
static void fail(struct softgpu *gpu, int index, uint64_t error)
{
	struct vf *vf = &gpu->vfs[index];

	vf->error = error;
	vf->error_at = vf->live.rptr - 1;
	vf->live.job.active = false;
	vf->dead = true;
	raise_vf(gpu, index, SOFTGPU_VECTOR_FENCE);
	if (error == SOFTGPU_OUT_OF_RANGE)
		memory_violated(gpu, index);
	if (error == SOFTGPU_FAULTED) {
		gpu->hang_info = GPUIOV_FCN_VF((uint32_t)index);
		raise_pf(gpu, GPUIOV_VECTOR_ENGINE, GPUIOV_INTR_NEED_FLR);
	}
}

/* Takes the next packet in: copied first, then checked, so that the guest cannot change it. */
static uint64_t fetch(struct softgpu *gpu, int index)
{
	struct vf *vf = &gpu->vfs[index];
	struct packet_limits limits = engine_limits(gpu, vf);
	struct job *job = &vf->live.job;
	uint64_t slot;

	if (!packet_ring_is_valid(&limits, vf->live.ring_base, vf->live.ring_size) ||
	    atomic_load(&vf->wptr) - vf->live.rptr > vf->live.ring_size)
		return SOFTGPU_BAD_RING;
	slot = vf->live.rptr & (vf->live.ring_size - 1);
	__builtin_memcpy(&job->packet, vf->memory + vf->live.ring_base + slot * 64, 64);
	vf->live.rptr++;
	job->at = 0;
	job->inner = 0;
	job->active = true;
	return packet_check(&limits, &job->packet);
}

/* The packet is done; a fence tells the guest. */
static uint64_t retire(struct softgpu *gpu, int index)
{
	struct vf *vf = &gpu->vfs[index];
	const struct softgpu_packet *p = &vf->live.job.packet;
	struct packet_limits limits = engine_limits(gpu, vf);
	uint64_t at = vf->live.fence_addr;

	vf->live.job.active = false;
	if (p->opcode != SOFTGPU_FENCE)
		return SOFTGPU_OK;
	if (!packet_fence_is_valid(&limits, at))
		return SOFTGPU_OUT_OF_RANGE;
	__atomic_store_n((uint64_t *)(vf->memory + at), p->arg[0], __ATOMIC_RELEASE);
	if (p->flags & SOFTGPU_FENCE_INTERRUPT)
		gpu->carrier->irq(gpu->opaque, index, SOFTGPU_VECTOR_FENCE);
	return SOFTGPU_OK;
}

/* Executes without the lock until there is nothing to do, or it is to stop. */
static uint64_t execute(struct softgpu *gpu, int index)
{
	struct vf *vf = &gpu->vfs[index];
	uint64_t error = SOFTGPU_OK;

	while (error == SOFTGPU_OK && !atomic_load_explicit(&gpu->stop, memory_order_acquire)) {
		if (!vf->live.job.active) {
			if (vf->live.rptr == atomic_load_explicit(&vf->wptr, memory_order_acquire))
				break;
			error = fetch(gpu, index);
			continue;
		}
		switch (kernel_tile(gpu, index, &vf->live.job, &error)) {
		case TILE_MORE:
		case TILE_ERROR:
			break;
		case TILE_DONE:
			error = retire(gpu, index);
			break;
		}
	}
	return error;
}

void *engine_thread(void *arg)
{
	struct softgpu *gpu = arg;
	uint64_t error;
	int index;

	softgpu_lock(gpu);
	if (gpu->config.fifo > 0) {
		gpu->boosted = true;
		boost(gpu, false);
	}
	while (!gpu->quit) {
		index = gpu->running;
		if (index < 0 || !engine_has_work(gpu, index)) {
			pthread_cond_wait(&gpu->engine_cond, &gpu->lock);
			continue;
		}
		gpu->executing = true;
		softgpu_unlock(gpu);
		error = gpu->workers ? workers_execute(gpu, index) : execute(gpu, index);
		softgpu_lock(gpu);
		gpu->executing = false;
		if (error != SOFTGPU_OK)
			fail(gpu, index, error);
		command_busy(gpu, index, engine_has_work(gpu, index));
		if (!gpu->vfs[index].busy && !gpu->vfs[index].dead) {
			gpu->hvvm_waits |= 1u << index;
			raise_pf(gpu, GPUIOV_VECTOR_ENGINE, GPUIOV_INTR_HVVM_RCV);
		}
		if (atomic_load(&gpu->stop)) {
			atomic_store(&gpu->stop, false);
			gpu->running = -1;
			command_engine_stopped(gpu);
		}
		pthread_cond_broadcast(&gpu->stopped_cond);
		/* Deliver, and let others have the lock. */
		softgpu_unlock(gpu);
		softgpu_lock(gpu);
		boost(gpu, false);
	}
	softgpu_unlock(gpu);
	return NULL;
}
