/* SPDX-License-Identifier: MIT */
#include "clearing.h"

#include "control/call.h"
#include "engine/engine.h"
#include "lease.h"

static void end(struct gpu *gpu, uint32_t vf)
{
	gpu->clearing.vfs &= ~VGPU_VF_BIT(vf);
	leases_save(gpu->control);
}

/* Returns whether the VF has become clean since the engine received the request. */
static bool is_clean(const struct gpu *gpu, uint32_t vf)
{
	return gpu->clearing.clean_since[vf] > gpu->clearing.since[vf];
}

/* Asks again after the GPU was lost. */
static void on_begun(struct call *call)
{
	struct gpu *gpu = call->gpu;
	uint32_t vf = call->request.event.vf;

	gpu->clearing.asked &= ~VGPU_VF_BIT(vf);
	if (call->request.result == 0)
		gpu->clearing.since[vf] = call->request.event.now;
	/* The engine may have finished before its answer is read. */
	if (gpu->clearing.vfs >> vf & 1 && is_clean(gpu, vf))
		end(gpu, vf);
	call_drop(call);
}

static void ask_engine(struct gpu *gpu, uint32_t vf)
{
	struct call *call = call_new(gpu->control, gpu);

	gpu->clearing.since[vf] = VGPU_NEVER;
	if (!call)
		return;
	gpu->clearing.asked |= VGPU_VF_BIT(vf);
	call->then = on_begun;
	call->request.ask = ENGINE_EXPEL;
	call->request.event = (struct vgpu_event){.type = VGPU_EV_RESET_VF, .vf = vf};
	call_queue(call);
}

void clearing_begin(struct gpu *gpu, uint32_t vf)
{
	gpu->clearing.vfs |= VGPU_VF_BIT(vf);
	ask_engine(gpu, vf);
}

bool clearing_waits(const struct gpu *gpu, uint32_t vf)
{
	return gpu->clearing.vfs >> vf & 1 && gpu->clearing.since[vf] == VGPU_NEVER;
}

void clearing_forgotten(struct gpu *gpu)
{
	uint32_t vf;

	for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++)
		gpu->clearing.since[vf] = VGPU_NEVER;
	clearing_second(gpu);
}

void clearing_second(struct gpu *gpu)
{
	uint32_t vf;

	for (vf = 0; vf < VGPU_GPU_MAX_VFS && gpu->clearing.vfs; vf++)
		if (clearing_waits(gpu, vf) && !(gpu->clearing.asked >> vf & 1) &&
		    !engine_trouble(gpu->engine))
			ask_engine(gpu, vf);
}

/* A VF whose memory cannot be cleared stays failed: the next vgpud tries again. */
void clearing_note(struct gpu *gpu, const struct vgpu_record *r)
{
	if (r->type != VGPU_REC_STATE || r->vf >= VGPU_GPU_MAX_VFS ||
	    r->code == VGPU_VF_SCRUBBING || r->code == VGPU_VF_FAILED)
		return;
	gpu->clearing.clean_since[r->vf] = r->t;
	if (gpu->clearing.vfs >> r->vf & 1 && is_clean(gpu, r->vf))
		end(gpu, r->vf);
}
