/* SPDX-License-Identifier: MIT */
/* The methods config.*, as rows of the table in methods.c name them. Control thread. */
#pragma once

#include "control/call.h"

int config_diff_begin(struct control *control, struct call *call, struct vgpu_error *err);
int config_reload_begin(struct control *control, struct call *call, struct vgpu_error *err);
/* Reloads for SIGHUP, and logs the result. */
void config_reload_begin_alone(struct control *control);
