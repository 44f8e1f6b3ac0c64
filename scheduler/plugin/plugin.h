/* SPDX-License-Identifier: MIT */
/*
 * Policies from shared objects. They run inside vgpud, as root, so plug-ins are off unless the
 * operator names a directory, and vgpud loads only files that only root could have written. A
 * loaded plug-in is never unloaded.
 */
#pragma once

#include "vgpu/policy.h"

/*
 * Returns the policy NAME: a built-in one, else a loaded one, else the plug-in DIR/NAME.so; NULL
 * with the reason. DIR "" means that plug-ins are off. DIR must be absolute; DIR and the file must
 * be owned by root and writable by root only. The file is opened first, checked, and loaded through
 * that descriptor. One thread at a time.
 */
const struct vgpu_policy_ops *plugin_policy(const char *dir, const char *name,
					    struct vgpu_error *err);

/* Loads a file that the caller trusts, whoever owns it: for the simulator and tests. NULL with the
 * reason. */
const struct vgpu_policy_ops *plugin_load(const char *path, struct vgpu_error *err);

/* Returns the I-th loaded policy, or NULL. */
const struct vgpu_policy_ops *plugin_loaded(unsigned i);

/*
 * Checks that TABLE keeps the contract, as far as a table can show that. OUT becomes a copy of it,
 * in this host's size. Returns 0 or -EINVAL with the reason. Reads at most the size that TABLE
 * states.
 */
int plugin_vet(const struct vgpu_policy_ops *table, struct vgpu_policy_ops *out,
	       struct vgpu_error *err);
