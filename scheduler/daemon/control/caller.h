/* SPDX-License-Identifier: MIT */
/*
 * The peer of a connection, and the owner of another process, as the kernel reports them. Processes
 * are held by pidfds: a number can belong to another process a moment later. Control thread; reads
 * /proc.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "vgpu/types.h"

struct caller {
	uid_t uid; /* in vgpud's user namespace */
	gid_t gid;
	uint32_t pid;	  /* in vgpud's PID namespace; 0: it is not in it */
	uint64_t started; /* vgpu/process.h */
	int pidfd;	  /* -1: it has ended; the holder closes it */
	bool is_here; /* it is in vgpud's own PID namespace, so that process numbers mean the same
		       */
	bool is_root; /* root, or vgpud's own user, of vgpud's own user and PID namespace */
	uid_t owner;  /* the user to charge: the owner of the outermost user namespace below vgpud's
			 that contains the process, else UID; (uid_t)-1: unknown */
};

/* Reads the peer of FD. Returns 0; or -errno: the peer cannot be identified. A peer that has ended
 * is not root. */
int caller_read(int fd, struct caller *out);
/* Returns whether the peer of FD is root of this host, or vgpud's own user there; uid 0 of another
 * user or PID namespace is not. Cheaper than caller_read. */
bool caller_is_root(int fd, uid_t uid);
/* Opens the process PID that CALLER names, which must belong to CALLER: in a user namespace that
 * CALLER owns, unless CALLER is root. OUT is then that process. Returns 0, or -errno with the
 * reason in ERR. */
int caller_open(const struct caller *caller, uint32_t pid, struct caller *out,
		struct vgpu_error *err);
/* The same, for a process that may also be outside of such a namespace: one that runs as CALLER's
 * user, without further rights. */
int caller_open_any(const struct caller *caller, uint32_t pid, struct caller *out,
		    struct vgpu_error *err);
/* Opens a process by its recorded number and start time. Returns a pidfd, which the caller closes,
 * or -ESRCH. */
int caller_reopen(uint32_t pid, uint64_t started);
/* Returns whether the process of a pidfd has ended. */
bool caller_has_ended(int pidfd);
