/* SPDX-License-Identifier: MIT */
/* The methods tenant.*, as rows of the table in methods.c name them. Control thread. */
#pragma once

#include "control/args.h"

int tenant_start_begin(struct control *control, struct call *call, struct vgpu_error *err);
int tenant_stop_begin(struct control *control, struct call *call, struct vgpu_error *err);
int tenant_set_begin(struct control *control, struct call *call, struct vgpu_error *err);
int tenant_name_begin(struct control *control, struct call *call, struct vgpu_error *err);
int tenant_note_begin(struct control *control, struct call *call, struct vgpu_error *err);
int tenant_list_begin(struct control *control, struct call *call, struct vgpu_error *err);
int tenant_explain_begin(struct control *control, struct call *call, struct vgpu_error *err);
