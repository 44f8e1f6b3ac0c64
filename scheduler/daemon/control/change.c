/* SPDX-License-Identifier: MIT */
#include "change.h"

#include <errno.h>
#include <stdio.h>

#include "engine/engine.h"
#include "log.h"
#include "vgpu/clock.h"

/* Largest number of preparations of a change; it fails if the policy is replaced more often. */
#define TRIES 4u
/* How long a reload may delay other changes of all GPUs. A reload whose engine does not answer in
 * time loses this priority. */
#define RELOAD_TIMEOUT (2 * VGPU_SEC)
/* How long a change of policy waits for the previous one to take effect. While the GPU answers, the
 * core needs less than a second. */
#define CHANGE_TIMEOUT (2 * VGPU_SEC)

const struct policy_values *change_policy_of(const struct gpu *gpu)
{
	return &engine_policy(gpu->engine)->to_come;
}

void change_set_vf(struct call *call, const struct policy_values *now)
{
	call->request.event = (struct vgpu_event){.type = VGPU_EV_SET_VF,
						  .vf = call->vf,
						  .policy = now->policy,
						  .params = call->params};
}

/* Ends the first change, done or failed. */
static void finish(struct gpu *gpu, int r, const char *why)
{
	struct call *call = gpu->changes.first;

	gpu->changes.first = call->next_change;
	call->make = NULL;
	call->request.result = r;
	if (why != call->request.why)
		snprintf(call->request.why, sizeof(call->request.why), "%s", why);
	call_over(call);
}

/* Returns whether a change of policy must wait until the one before it has taken effect. */
static bool must_wait(const struct call *call)
{
	return call->request.event.type == VGPU_EV_POLICY &&
	       engine_policy(call->gpu->engine)->change_waits && !engine_trouble(call->gpu->engine);
}

/* Prepares the first change and sends it, unless it must wait. Returns true if it has ended
 * already. */
static bool make(struct gpu *gpu)
{
	struct call *call = gpu->changes.first;
	struct vgpu_error err = {""};
	int r;

	call->request = (struct engine_request){.ask = ENGINE_EVENT};
	r = call->make(call, change_policy_of(gpu), &err);
	if (r != 0) {
		finish(gpu, r, err.text);
		return true;
	}
	if (must_wait(call)) {
		if (call->until == 0)
			call->until = vgpu_now() + CHANGE_TIMEOUT;
		if (vgpu_now() < call->until)
			return false;
	}
	gpu->changes.sent = true;
	call_queue(call);
	return false;
}

/* Returns whether a reload delays the first change. */
static bool is_held(const struct gpu *gpu)
{
	const struct control *control = gpu->control;

	return control->reloading.call && gpu->changes.first != control->reloading.call &&
	       vgpu_now() < control->reloading.until;
}

void change_run(struct gpu *gpu)
{
	/* The end of a change may begin another one recursively: the loop below also runs that
	 * one. */
	if (gpu->changes.running)
		return;
	gpu->changes.running = true;
	while (gpu->changes.first && !gpu->changes.sent && !is_held(gpu) && make(gpu))
		;
	gpu->changes.running = false;
}

void change_begin(struct call *call, change_make *how)
{
	struct call **last = &call->gpu->changes.first;

	/* Ahead of all others, except the one at the engine. */
	if (call == call->control->reloading.call && *last && call->gpu->changes.sent)
		last = &(*last)->next_change;
	while (call != call->control->reloading.call && *last)
		last = &(*last)->next_change;
	call->make = how;
	call->next_change = *last;
	*last = call;
	call->tries = 0;
	call->until = 0;
	change_run(call->gpu);
}

void change_reload(struct call *reload)
{
	reload->control->reloading.call = reload;
	reload->control->reloading.until = vgpu_now() + RELOAD_TIMEOUT;
}

void change_reloaded(struct control *control)
{
	uint32_t g;

	control->reloading.call = NULL;
	for (g = 0; g < control->n_gpus; g++)
		change_run(&control->gpus[g]);
}

int change_request(struct call *call, change_make *how, struct vgpu_error *err)
{
	int r = call_admit(call, err);

	if (r == 0)
		change_begin(call, how);
	return r;
}

void change_told(struct call *call)
{
	if (call->request.result < 0)
		log_about(about_vf(call->gpu, call->vf, LOG_PLAIN), LOG_WARNING,
			  "the VF keeps its parameters: %s", call->request.why);
	call_drop(call);
}

void change_vf(struct gpu *gpu, uint32_t vf, change_make *how)
{
	struct call *call = call_new(gpu->control, gpu);

	if (!call)
		return;
	call->vf = vf;
	call->then = change_told;
	change_begin(call, how);
}

void change_answered(struct call *call)
{
	struct gpu *gpu = call->gpu;
	char text[160];
	int r = call->request.result;

	gpu->changes.sent = false;
	if (r == -ESTALE && ++call->tries < TRIES) {
		change_run(gpu);
		return;
	}
	snprintf(text, sizeof(text),
		 "the policy of %s was replaced %u times during this change; try again",
		 gpu->config->name, TRIES);
	finish(gpu, r, r == -ESTALE ? text : call->request.why);
	change_run(gpu);
}
