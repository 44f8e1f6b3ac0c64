/* SPDX-License-Identifier: MIT */
#include "hold.h"

#include <inttypes.h>
#include <string.h>

#include "control/call.h"
#include "control/log.h"

static void on_told(struct call *call)
{
	if (call->request.result < 0)
		log_about(about_vf(call->gpu, call->request.event.vf, LOG_PLAIN), LOG_WARNING,
			  "the VF of an incoming VM cannot be %s: %s",
			  call->request.event.code ? "held back" : "released",
			  call->request.why[0] ? call->request.why
					       : strerror(-call->request.result));
	call_drop(call);
}

static void tell(struct gpu *gpu, uint32_t vf, bool hold, vgpu_nsec owed)
{
	struct call *call = call_new(gpu->control, gpu);

	if (!call)
		return;
	call->then = on_told;
	call->request.event = (struct vgpu_event){.type = VGPU_EV_INCOMING,
						  .vf = vf,
						  .code = hold,
						  .value = (int64_t)owed};
	call_queue(call);
}

void hold_begin(struct gpu *gpu, uint32_t vf)
{
	tell(gpu, vf, true, 0);
}

void hold_drop(struct gpu *gpu, uint32_t vf)
{
	tell(gpu, vf, false, 0);
}

void hold_resume(struct gpu *gpu, uint32_t vf)
{
	struct lease *l = &gpu->leases[vf];

	l->state = LEASE_RUNNING;
	tell(gpu, vf, false, l->owed);
	log_about(about_vf(gpu, vf, LOG_PLAIN), LOG_INFO,
		  "domain %s has resumed here; its VF gets turns, and owes %" PRIu64 " us",
		  l->domain, l->owed / VGPU_USEC);
	l->owed = 0;
}
