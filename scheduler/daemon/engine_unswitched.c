/* SPDX-License-Identifier: MIT */
#include "engine_unswitched.h"

#include <errno.h>
#include <string.h>

#include "vgpu/clock.h"

struct policy_values unswitched_policy(const struct vgpu_event *event, uint32_t n)
{
	struct policy_values values = {.policy = event->policy};

	memcpy(values.params, event->params, sizeof(values.params));
	memcpy(values.vf_params, event->vf_params, n * sizeof(values.vf_params[0]));
	return values;
}

bool unswitched_change(const struct unswitched *u, struct engine_request *request,
		       struct policy_values *next)
{
	const struct vgpu_event *event = &request->event;
	bool of_vf = event->type == VGPU_EV_SET_VF;

	if (event->policy != u->values.policy) {
		request->result = -ESTALE;
		return false;
	}
	*next = u->values;
	memcpy(of_vf ? next->vf_params[event->vf] : next->params, event->params,
	       sizeof(next->params));
	return true;
}

void unswitched_take(struct engine *e, struct unswitched *u, const struct policy_values *next)
{
	u->values = *next;
	engine_record(e, VGPU_REC_POLICY, VGPU_NO_VF, 0, 0, 0);
	e->policy_changed = true;
}

void unswitched_set_up(struct engine *e, struct unswitched *u, uint32_t vf, bool up)
{
	u->up = up ? u->up | 1u << vf : u->up & ~(1u << vf);
	engine_record(e, VGPU_REC_STATE, vf, up ? VGPU_VF_ACTIVE : VGPU_VF_AVAIL, 0, 0);
}

void unswitched_reset_done(struct engine *e, const struct vgpu_event *event)
{
	engine_record(e, VGPU_REC_RESET_DONE, event->vf, event->code, 0, event->value != 0);
}

int unswitched_reset(struct engine *e, struct unswitched *u, struct engine_request *request)
{
	uint32_t vf = request->event.vf;

	engine_record(e, VGPU_REC_RESET, vf, VGPU_RESET_VF, 0, 0);
	u->resets[vf]++;
	request->result = e->ops->device->reset(e->driver, vf, VGPU_RESET_VF, vgpu_now());
	return request->result;
}

void unswitched_view(const struct unswitched *u, struct engine_snapshot *s)
{
	uint32_t i;

	s->core = (struct vgpu_core_view){.started = true,
					  .current = VGPU_NO_VF,
					  .policy = u->values.policy};
	memcpy(s->core.params, u->values.params, sizeof(s->core.params));
	for (i = 0; i < s->n_vfs; i++) {
		s->vfs[i] = (struct vgpu_vf_view){
			.state = u->up >> i & 1 ? VGPU_VF_ACTIVE : VGPU_VF_AVAIL,
			.admitted = true,
			.ledger = {.resets = u->resets[i]},
		};
		memcpy(s->vfs[i].params, u->values.vf_params[i], sizeof(s->vfs[i].params));
	}
}
