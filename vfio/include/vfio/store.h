/* SPDX-License-Identifier: MIT */
/*
 * The store: a service manager or vgpud-keeper that holds descriptors while this process restarts.
 * It keeps descriptors of PFs that VFIO holds, because their last close would reset the PF.
 */
#pragma once

struct vfio_store {
	/* Lets the store keep a duplicate of FD under NAME. Returns 0 or -errno. */
	int (*put)(const char *name, int fd);
	/* Returns a duplicate of the descriptor that an earlier process stored under NAME, which
	 * the caller closes; the store keeps its own. -ENOENT if there is none. */
	int (*take)(const char *name);
	/* Removes the descriptor NAME from the store. */
	void (*drop)(const char *name);
};

/* NULL: there is no store. Must be set before any device is opened. */
extern const struct vfio_store *vfio_store;
