/* SPDX-License-Identifier: MIT */
/* The governor of an engine. */
#ifndef DAEMON_ENGINE_GOVERNED_H
#define DAEMON_ENGINE_GOVERNED_H

#include "vgpu/core.h"
#include "vgpu/governor.h"

/* Makes the governor that an engine has for a GPU with CAPS that has APPLIED in force; CORE as in
 * struct engine_config. It has no policy yet; free() frees it. Returns 0, or -errno with the reason
 * in *WHY, a constant text. Any thread. */
int engine_make_governor(struct vgpu_governor **out, const struct vgpu_driver_caps *caps,
			 const struct vgpu_core_config *core, const struct vgpu_program *applied,
			 const char **why);

#endif
