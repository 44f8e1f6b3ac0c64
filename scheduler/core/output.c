/* SPDX-License-Identifier: MIT */
/*
 * The output of a step: actions to carry out, records of what happened, and states of VFs.
 */
#include <assert.h>

#include "private.h"

void core_act(struct vgpu_core *core, enum vgpu_action_type type, uint32_t vf, uint32_t code)
{
	assert(core->out->n_actions < VGPU_MAX_ACTIONS);
	core->out->actions[core->out->n_actions++] =
		(struct vgpu_action){.type = type, .vf = vf, .code = code};
}

void core_record(struct vgpu_core *core, enum vgpu_record_type type, uint32_t vf, uint32_t code,
		 uint64_t a, uint64_t b)
{
	assert(core->out->n_records < VGPU_MAX_RECORDS);
	core->out->records[core->out->n_records++] = (struct vgpu_record){
		.t = core->now,
		.type = (uint16_t)type,
		.code = (uint16_t)code,
		.vf = vf,
		.a = a,
		.b = b,
	};
}

void core_set_state(struct vgpu_core *core, uint32_t vf, enum vgpu_vf_state state)
{
	if (core->vfs[vf].state == state)
		return;
	core->vfs[vf].state = state;
	core_record(core, VGPU_REC_STATE, vf, state, 0, 0);
}
