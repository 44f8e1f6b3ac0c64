/* SPDX-License-Identifier: MIT */
/*
 * Infers on which GPU each VF of a claim is booked. OpenStack's placement reports how much a server
 * has booked of each GPU, but not for which of its VFs. Control thread.
 */
#pragma once

#include "control/state.h"

/* The VF may be on any GPU. */
#define BOOKED_ANY (-1)

/*
 * Reads LINE, the answer of vgpud-openstack: {"gpus": {"NAME": {"VF": N, "SHARE": N, "MEMORY_MB":
 * N}}}. Fills in ON, by the VFs of CLAIM, with indices of GPUs. INCOMING: the claim's VM comes with
 * the state of its VFs. Returns 1; 0 if no GPU is booked; or -errno with the reason in WHY: the
 * line is no such answer (-EPROTO), or the claim does not fit what is booked (-ESRCH). Unless it
 * returns 1, ON has BOOKED_ANY for each VF.
 */
int booked_read(const struct control *control, const struct claim *claim, bool incoming,
		const char *line, int32_t on[CLAIM_MAX_VFS], struct vgpu_error *why);
