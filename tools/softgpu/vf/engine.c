/* SPDX-License-Identifier: MIT */
/*
 * The engine's side of the RUN word: executes the ring tile by tile, and reads the word after each
 * tile. A VF without work is parked, with its context in the image. Either the doorbell ends this,
 * in this process, or a stop does, in the device.
 */
#include <sched.h>
#include <string.h>

#include "vf.h"
#include "vgpu/clock.h"

/* While a module of one ring is compiled, another may have got work: its doorbell says so. */
bool engine_has_work(const struct vf *vf)
{
	if (vf->dead)
		return false;
	if (vf->bell != vf->bell_heard && compute_has_started(vf->compute))
		return true;
	return (vf->live.job.active || vf->live.rptr != atomic_load(&vf->wptr)) &&
	       (!vf->has_worker || compute_is_ready(vf->compute));
}

void engine_put_image(struct vf *vf)
{
	memcpy(vf->page->image, &vf->live, sizeof(vf->live));
}

void engine_kick(struct vf *vf)
{
	uint32_t word = atomic_load(&vf->page->run);

	if (vf->executing || !vf->loaded || !engine_has_work(vf) || VF_RUN_STATE(word) != VF_PARKED)
		return;
	if (atomic_compare_exchange_strong(&vf->page->run, &word, word - VF_PARKED + VF_RUN))
		vf_futex_wake(&vf->page->run);
}

/* Stops the VF with an error. Called with the lock, under which a guest reads the last words. */
static void fail(struct vf *vf, uint64_t error)
{
	const bool has_cause = error == SOFTGPU_BAD_ADDRESS || error == SOFTGPU_ASSERTED;

	vf->error = has_cause ? SOFTGPU_FAULTED : error;
	vf->error_at = vf->live.rptr - 1;
	vf->live.job.active = false;
	vf->dead = true;
	if (vf->error == SOFTGPU_FAULTED)
		vf->faults = error << 32 | (uint32_t)(vf->faults + 1);
	if (error == SOFTGPU_ASSERTED && vf->compute)
		compute_last_words(vf->compute, vf->last_words, sizeof(vf->last_words));
	if (error == SOFTGPU_OUT_OF_RANGE)
		atomic_fetch_add(&vf->page->violations, 1);
}

/* Takes the next packet: copies it first and checks the copy, so that the guest cannot change it
 * after the check. */
static uint64_t fetch(struct vf *vf)
{
	struct packet_limits limits = vf_limits(vf);
	struct job *job = &vf->live.job;
	uint64_t slot;

	if (!packet_ring_is_valid(&limits, vf->live.ring_base, vf->live.ring_size) ||
	    atomic_load(&vf->wptr) - vf->live.rptr > vf->live.ring_size)
		return SOFTGPU_BAD_RING;
	slot = vf->live.rptr & (vf->live.ring_size - 1);
	memcpy(&job->packet, vf->memory + vf->live.ring_base + slot * sizeof(job->packet),
	       sizeof(job->packet));
	vf->live.rptr++;
	job->at = 0;
	job->inner = 0;
	job->active = true;
	return packet_check(&limits, &job->packet);
}

/* Ends a packet; if it is a fence, tells the guest. */
static uint64_t retire(struct vf *vf)
{
	const struct softgpu_packet *p = &vf->live.job.packet;
	struct packet_limits limits = vf_limits(vf);
	uint64_t at = vf->live.fence_addr;

	vf->live.job.active = false;
	if (p->opcode != SOFTGPU_FENCE)
		return SOFTGPU_OK;
	if (!packet_fence_is_valid(&limits, at))
		return SOFTGPU_OUT_OF_RANGE;
	__atomic_store_n((uint64_t *)(vf->memory + at), p->arg[0], __ATOMIC_RELEASE);
	atomic_fetch_add(&vf->page->fences, 1);
	if (p->flags & SOFTGPU_FENCE_INTERRUPT)
		vfio_endpoint_irq(vf->endpoint, SOFTGPU_VECTOR_FENCE);
	return SOFTGPU_OK;
}

static uint64_t execute(struct vf *vf, uint32_t word)
{
	uint64_t error = SOFTGPU_OK;

	while (error == SOFTGPU_OK && atomic_load(&vf->page->run) == word) {
		atomic_store(&vf->page->cpu, (uint32_t)sched_getcpu());
		if (!vf->live.job.active) {
			if (vf->live.rptr == atomic_load(&vf->wptr))
				break;
			error = fetch(vf);
			continue;
		}
		if (kernel_tile(vf, &vf->live.job, &error) == TILE_DONE)
			error = retire(vf);
	}
	return error;
}

/* If the device has requested a stop, hands the context to it. Returns the state that the RUN word
 * was in. Called with the lock held. */
static enum vf_run stop(struct vf *vf)
{
	uint32_t word = atomic_load(&vf->page->run);

	if (VF_RUN_STATE(word) < VF_WATCHED)
		return VF_RUN_STATE(word);
	engine_put_image(vf);
	while (!atomic_compare_exchange_strong(&vf->page->run, &word,
					       word - VF_RUN_STATE(word) + VF_STOPPED))
		;
	return VF_RUN_STATE(word);
}

/* Executes without the lock until there is no work, or the VF must stop. */
static void run(struct vf *vf, uint32_t word)
{
	uint64_t error;

	vf->busy = true;
	vf->executing = true;
	vf->run_since = vgpu_now();
	if (vf->compute)
		compute_doorbell(vf->compute, atomic_load(&vf->wptr), vf->bell);
	pthread_mutex_unlock(&vf->lock);
	error = vf->has_worker ? compute_execute(vf) : execute(vf, word);
	pthread_mutex_lock(&vf->lock);
	vf->executing = false;
	vf->ran += vgpu_now() - vf->run_since;
	if (error != SOFTGPU_OK)
		fail(vf, error);
	vf->failed = error != SOFTGPU_OK;
}

/* Does what the RUN word says. Notifies the device once, at the end; not at all if the device is
 * watching the RUN word. */
static void follow_run(struct vf *vf)
{
	enum vf_run ended;
	uint32_t word;

	pthread_mutex_lock(&vf->lock);
	vf_follow(vf);
	vf->failed = false;
	word = atomic_load(&vf->page->run);
	if (VF_RUN_STATE(word) == VF_RUN && engine_has_work(vf))
		run(vf, word);
	vf->busy = engine_has_work(vf);
	vf_publish(vf);
	vf_note(vf);
	ended = stop(vf);
	if (ended < VF_WATCHED && VF_RUN_STATE(word) == VF_RUN && !vf->busy) {
		engine_put_image(vf);
		/* If a stop has come first, engine_loop() sees it next. */
		atomic_compare_exchange_strong(&vf->page->run, &word, word - VF_RUN + VF_PARKED);
	}
	pthread_mutex_unlock(&vf->lock);
	if (ended != VF_WATCHED)
		vf_notify(vf);
	if (vf->failed)
		vfio_endpoint_irq(vf->endpoint, SOFTGPU_VECTOR_FENCE);
}

void engine_loop(struct vf *vf)
{
	for (;;) {
		uint32_t word = atomic_load(&vf->page->run);

		if (VF_RUN_STATE(word) == VF_STOPPED || VF_RUN_STATE(word) == VF_PARKED)
			vf_futex_wait(&vf->page->run, word, NULL);
		else
			follow_run(vf);
	}
}
