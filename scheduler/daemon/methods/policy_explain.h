/* SPDX-License-Identifier: MIT */
/* The method policy.explain, as a row of the table in methods.c names it. Control thread. */
#pragma once

#include "control/args.h"

int policy_explain_begin(struct control *control, struct call *call, struct vgpu_error *err);
json *policy_explain_finish(struct call *call);
