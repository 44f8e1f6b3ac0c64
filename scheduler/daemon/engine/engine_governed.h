/* SPDX-License-Identifier: MIT */
/* The governor of an engine. */
#pragma once

#include "vgpu/core.h"
#include "vgpu/governor.h"

/* Makes, in MEMORY (zeroed, vgpu_governor_size() bytes), an engine's governor for a GPU with CAPS
 * that has APPLIED in force; CORE as in struct engine_config. It has no policy yet. Returns NULL
 * with the reason in *WHY, a constant text, if that GPU cannot be governed. Any thread. */
struct vgpu_governor *engine_make_governor(void *memory, const struct vgpu_driver_caps *caps,
					   const struct vgpu_core_config *core,
					   const struct vgpu_program *applied, const char **why);
