/* SPDX-License-Identifier: MIT */
/*
 * The sockets of the VFs, DIR/vfN.sock, and who may connect to them: a VMM that runs as a user of
 * its own. The PF's socket is this process's user's alone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "vgpu/types.h"

struct sockets {
	const char *dir;
	int owned; /* the directory's lock, from sockets_own() to sockets_disown() */
	uid_t uid; /* owner of the VFs' sockets; (uid_t)-1: this process's user */
	gid_t gid;
	mode_t mode;
	bool found; /* UID and GID were found on this host, not configured */
};

/*
 * Access to the VFs' sockets. USER, GROUP: names, or NULL: if this process is root's, those with
 * which libvirt runs QEMU here (libvirt-qemu and kvm in Debian, qemu elsewhere), if there are such,
 * else this process's. MODE: octal, NULL: 0600. Looks up users: before there are threads. Returns
 * 0, or -EINVAL with the reason.
 */
int sockets_access(struct sockets *sockets, const char *user, const char *group, const char *mode,
		   struct vgpu_error *err);

/* Makes the directory, if it is missing, and locks it: another softgpu there would remove these
 * sockets when it ends, or have its own removed. Returns 0, or -errno with the reason. */
int sockets_own(struct sockets *sockets, struct vgpu_error *err);
/* Lets another softgpu have the directory, which stays. */
void sockets_disown(struct sockets *sockets);

/* Returns a socket that listens for VF, which the caller closes; or -errno with the reason. Any
 * thread. */
int sockets_listen(const struct sockets *sockets, int vf, struct vgpu_error *err);

/* Removes the sockets of VF N and those behind it. Any thread. */
void sockets_remove(const struct sockets *sockets, uint32_t n);
