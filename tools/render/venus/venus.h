/* SPDX-License-Identifier: MIT */
/*
 * For programs that start the render server of Venus, and do not compute themselves: QEMU for a VM,
 * and virglrenderer's server for a container. The render server's processes compute: they have
 * vgpud's layer, and are behind the wall.
 */
#pragma once

#include "vgpu/types.h"

/* Removes from the environment what Venus does not need. Returns 0 or -errno. */
int venus_clean_environment(void);
/*
 * Sets up the layer and the wall for what this process will start, not for itself, and what
 * switches virgl off. $VGPUD_GATE must be the door, $VK_ADD_LAYER_PATH the layer's directory.
 * Returns 0, or -errno with the reason.
 */
int venus_gate(struct vgpu_error *err);
