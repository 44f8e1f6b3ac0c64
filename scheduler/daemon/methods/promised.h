/* SPDX-License-Identifier: MIT */
/* A policy's promises to a VF, in the form of answers. Control thread. */
#pragma once

#include "control/args.h"

/* The part of the engine's time that a VF is promised, in parts per million, or its budget as a
 * part of its period; 0: neither. POLICY may be NULL. */
uint64_t promised_ppm(const struct vgpu_policy_ops *policy, const struct vgpu_vf_view *vf);
/* Adds to O the share of VF, its base, and its bounds, durations in nanoseconds; null, or 0 for
 * budget and limit, if POLICY does not promise it. */
void put_promised(json *o, const struct vgpu_policy_ops *policy, const struct vgpu_vf_view *vf);

/* Adds to O the promises that POLICY makes, as a list of names. */
void put_promises(json *o, const struct vgpu_policy_ops *policy);
