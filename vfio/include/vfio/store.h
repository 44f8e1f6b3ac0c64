/* SPDX-License-Identifier: MIT */
/*
 * Where descriptors outlive this process: what a service manager, or vgpud-keeper, holds for its
 * next life. A PF held by VFIO has its descriptors there, for their last close would reset it.
 */
#ifndef VFIO_STORE_H
#define VFIO_STORE_H

struct vfio_store {
	/* Has a duplicate of FD kept under NAME. 0 or -errno. */
	int (*put)(const char *name, int fd);
	/* What an earlier process put there; it is the caller's, and is kept on. -ENOENT: nothing.
	 */
	int (*take)(const char *name);
	/* Keeps it no longer. */
	void (*drop)(const char *name);
};

/* NULL: there is none. Set before anything is opened. */
extern const struct vfio_store *vfio_store;

#endif
