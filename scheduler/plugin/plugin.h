/* SPDX-License-Identifier: MIT */
/*
 * Policies from shared objects. They run inside vgpud, as root: loading is off unless the operator
 * names a directory, and nothing is loaded that somebody else could have written. A plug-in that
 * has been loaded is never unloaded.
 */
#ifndef VGPU_PLUGIN_H
#define VGPU_PLUGIN_H

#include "vgpu/policy.h"

/*
 * The policy NAME: a built-in one, else one that was loaded already, else the plug-in DIR/NAME.so;
 * NULL with one sentence that says why not. DIR may be "": plug-ins are off. It has to be absolute
 * and, like the file, owned by root and writable by nobody else; the file is opened first, looked
 * at, and loaded through that descriptor. One thread at a time.
 */
const struct vgpu_policy_ops *plugin_policy(const char *dir, const char *name,
					    struct vgpu_error *err);

/* Loads a file that the caller trusts, whoever owns it: for the simulator and for tests. */
const struct vgpu_policy_ops *plugin_load(const char *path, struct vgpu_error *err);

/* The I-th policy that was loaded, or NULL. */
const struct vgpu_policy_ops *plugin_loaded(unsigned i);

/*
 * Whether TABLE keeps to the contract, as far as a table can tell; OUT becomes a copy of it in the
 * size of this host. 0 or -EINVAL with the reason. TABLE is read as far as its size says.
 */
int plugin_vet(const struct vgpu_policy_ops *table, struct vgpu_policy_ops *out,
	       struct vgpu_error *err);

#endif
