/* SPDX-License-Identifier: MIT */
/* The methods policy.* and vf.set, as rows of the table in methods.c name them. Control thread. */
#pragma once

#include "control/args.h"

int begin_policy_list(struct control *control, struct call *call, struct vgpu_error *err);
json *finish_policy_show(struct call *call);
int begin_policy_set(struct control *control, struct call *call, struct vgpu_error *err);
json *finish_policy_set(struct call *call);
int begin_vf_set(struct control *control, struct call *call, struct vgpu_error *err);
json *finish_vf_set(struct call *call);
