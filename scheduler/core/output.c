/* SPDX-License-Identifier: MIT */
/* States of VFs. Each change is a record. */
#include "private.h"

void core_set_state(struct vgpu_core *core, uint32_t vf, enum vgpu_vf_state state)
{
	if (core->vfs[vf].state == state)
		return;
	core->vfs[vf].state = state;
	core_record(core, VGPU_REC_STATE, vf, state, 0, 0);
}
