/* SPDX-License-Identifier: MIT */
/*
 * The drop-in of the configuration that vgpud writes itself, for changes with --save: CONFIG_SAVED,
 * read after all others. It is written whole, under another name first, and takes its place only if
 * the whole configuration reads back with it, and the saved keys have the saved values. Each key
 * has a comment above it: when, by whom and why it was saved. Control thread; blocks for the disk.
 */
#pragma once

#include "control/state.h"

/* Keys of one section to be saved. */
struct saving {
	struct gpu_config *gpu;
	const struct vgpu_policy_ops *policy; /* the GPU's policy after saving */
	char section[48];		      /* "gpu NAME" or "vf NAME/N" */
	char why[160];			      /* when, by whom, why */
	uint32_t n;
	struct {
		char key[32], value[64];
	} keys[VGPU_MAX_PARAMS + 1];
};

/* Adds a key; there is room for the policy and all its parameters. */
void saving_add(struct saving *saving, const char *key, const char *value);

/* Returns 0 if SAVING could be saved in the configuration's drop-in; -errno with the reason in ERR.
 * Changes nothing. */
int saved_check(const struct control *control, const struct saving *saving, struct vgpu_error *err);
/* Saves it, and puts it into saving->gpu: with the policy, also the parameters that the GPU then
 * has by configuration. Returns 0; -errno with the reason in ERR: then nothing is changed. */
int saved_write(const struct control *control, const struct saving *saving, struct vgpu_error *err);
