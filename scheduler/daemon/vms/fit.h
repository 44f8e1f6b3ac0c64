/* SPDX-License-Identifier: MIT */
/*
 * Finds the VFs that can take over the state of a VM from another host, or from a file. Control
 * thread.
 */
#pragma once

#include "control/call.h"
#include "claim.h"
#include "travel.h"

/* Returns the domain's device whose state comes with the VM; NULL: the claimed VF brings no
 * state. */
const struct claim_hostdev *fit_device(const struct claim *claim, const struct claim_vf *claimed);

/* Checks whether VFs of the GPU can take over the state for a claimed VF. Returns 0, or -errno with
 * the reason in WHY. */
int fit_check_gpu(const struct gpu *gpu, const struct travel *travel,
		  const struct claim_vf *claimed, struct vgpu_error *why);
/* As fit_gpu, for one VF of it. */
int fit_check_vf(const struct gpu *gpu, uint32_t vf, const struct engine_snapshot *snapshot,
		 const struct travel *travel, const struct claim_vf *claimed,
		 struct vgpu_error *why);
/* Makes the hook's answer from the leases: the new addresses of the domain's devices. */
struct json_object *fit_answer(struct control *control, const struct claim *claim);
