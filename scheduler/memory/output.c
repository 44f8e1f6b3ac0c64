/* SPDX-License-Identifier: MIT */
#include <assert.h>

#include "private.h"

struct vgpu_memory_action *memory_act(struct vgpu_memory_state *m,
				      enum vgpu_memory_action_type type, uint32_t vf, uint32_t code)
{
	struct vgpu_memory_action *a = &m->out->actions[m->out->n++];

	assert(m->out->n <= VGPU_MEMORY_ACTIONS);
	*a = (struct vgpu_memory_action){.type = type, .vf = vf, .code = code};
	return a;
}

void memory_act_on_vf(struct vgpu_memory_state *m, enum vgpu_memory_action_type type, uint32_t vf,
		      uint32_t code)
{
	memory_act(m, type, vf, code);
	m->telling |= VGPU_VF_BIT(vf);
}

void memory_wake_by(struct vgpu_memory_state *m, vgpu_nsec t)
{
	m->look_at = nsec_min(m->look_at, t);
}
