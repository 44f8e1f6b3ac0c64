/* SPDX-License-Identifier: MIT */
#include "engine_unswitched.h"

#include <errno.h>
#include <string.h>

#include "vgpu/clock.h"

/* A host driver may take this long to reset a VF. It always answers, and is not asked twice: a
 * second reset could hit the next tenant. */
#define RESET_IS_SLOW (10 * VGPU_SEC)

static const char SLOW[] =
	"the reset of a VF has not ended for 10 s: no VM gets that VF until it has "
	"('vgpuctl vf list' shows which VF is being cleared)";

static bool is_due(const struct unswitched *u, uint32_t vf)
{
	return u->due >> vf & 1;
}

/* Marks the VF for a reset from NOW on. */
static void make_due(struct unswitched *u, uint32_t vf, vgpu_nsec now)
{
	u->due |= VGPU_VF_BIT(vf);
	u->reset[vf] = (struct vgpu_reset){.level = VGPU_RESET_VF, .retry_at = now};
}

void unswitched_restart(struct unswitched *u)
{
	vgpu_vf_set due = u->due;
	uint32_t i;

	*u = (struct unswitched){.up = 0};
	for (i = 0; i < VGPU_GPU_MAX_VFS; i++)
		if (due >> i & 1)
			make_due(u, i, 0);
}

static enum vgpu_vf_state state_of(const struct unswitched *u, uint32_t vf)
{
	if (is_due(u, vf))
		return VGPU_VF_SCRUBBING;
	return u->up >> vf & 1 ? VGPU_VF_ACTIVE : VGPU_VF_AVAIL;
}

static void record_state(struct engine *e, const struct unswitched *u, uint32_t vf)
{
	engine_record(e, VGPU_REC_STATE, vf, state_of(u, vf), 0, 0);
}

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
	u->up = up ? u->up | VGPU_VF_BIT(vf) : u->up & ~VGPU_VF_BIT(vf);
	if (!is_due(u, vf))
		record_state(e, u, vf);
}

/* Has the driver reset the VF now. */
static int reset(struct engine *e, struct unswitched *u, uint32_t vf)
{
	struct vgpu_reset *r = &u->reset[vf];
	vgpu_nsec now = vgpu_now();

	vgpu_reset_begin(r, now, now + RESET_IS_SLOW);
	u->again &= ~VGPU_VF_BIT(vf);
	u->resets[vf]++;
	engine_record(e, VGPU_REC_RESET, vf, r->level, 0, 0);
	return e->ops->device->reset(e->driver, vf, r->level, now);
}

void unswitched_reset_done(struct engine *e, struct unswitched *u, const struct vgpu_event *event)
{
	struct vgpu_reset *r = &u->reset[event->vf];
	vgpu_nsec now = vgpu_now();

	if (!is_due(u, event->vf) || !r->in_flight || event->code != r->level)
		return;
	engine_record(e, VGPU_REC_RESET_DONE, event->vf, event->code, now - r->started,
		      event->value != 0);
	if (event->value != 0) {
		vgpu_reset_failed(r, now);
	} else if (u->again >> event->vf & 1) {
		make_due(u, event->vf, now);
	} else {
		u->due &= ~VGPU_VF_BIT(event->vf);
		record_state(e, u, event->vf);
	}
}

int unswitched_reset(struct engine *e, struct unswitched *u, struct engine_request *request)
{
	uint32_t vf = request->event.vf;

	request->event.now = vgpu_now();
	if (is_due(u, vf) && u->reset[vf].in_flight) {
		u->again |= VGPU_VF_BIT(vf);
		return request->result;
	}
	if (!is_due(u, vf))
		make_due(u, vf, request->event.now);
	record_state(e, u, vf);
	request->result = reset(e, u, vf);
	return request->result;
}

/* When the reset of a VF needs attention. */
static vgpu_nsec next_of(const struct unswitched *u, uint32_t vf)
{
	const struct vgpu_reset *r = &u->reset[vf];

	if (!is_due(u, vf))
		return VGPU_NEVER;
	return r->in_flight ? r->deadline : r->retry_at;
}

vgpu_nsec unswitched_deadline(const struct unswitched *u)
{
	vgpu_nsec at = VGPU_NEVER, t;
	uint32_t i;

	for (i = 0; i < VGPU_GPU_MAX_VFS && u->due; i++) {
		t = next_of(u, i);
		at = t < at ? t : at;
	}
	return at;
}

int unswitched_keep(struct engine *e, struct unswitched *u)
{
	vgpu_nsec now = vgpu_now();
	uint32_t i;
	int r = 0;

	if (now < unswitched_deadline(u))
		return 0;
	for (i = 0; i < e->config.core.max_vfs && r == 0; i++) {
		struct vgpu_reset *of = &u->reset[i];

		if (now < next_of(u, i))
			continue;
		if (of->in_flight) {
			engine_say(e, SLOW);
			of->deadline = VGPU_NEVER;
		} else {
			r = reset(e, u, i);
		}
	}
	return r;
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
			.state = state_of(u, i),
			.admitted = true,
			.ledger = {.resets = u->resets[i]},
		};
		memcpy(s->vfs[i].params, u->values.vf_params[i], sizeof(s->vfs[i].params));
	}
}
