/* SPDX-License-Identifier: MIT */
/*
 * Programs that start the render server of Venus, and do not compute themselves: QEMU, for a VM,
 * and virglrenderer's server for a container. What computes are the render server's processes:
 * these have vgpud's layer, and are behind the wall.
 */
#ifndef RENDER_VENUS_H
#define RENDER_VENUS_H

#include "vgpu/types.h"

/* Leaves in the environment what Venus needs. Returns 0 or -errno. */
int venus_clean_environment(void);
/*
 * The layer and the wall, for what this process will start and not for itself, and what switches
 * virgl off. $VGPUD_GATE is the door, $VK_ADD_LAYER_PATH has the layer. Returns 0, or -errno with
 * the reason.
 */
int venus_gate(struct vgpu_error *err);

#endif
