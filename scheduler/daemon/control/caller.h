/* SPDX-License-Identifier: MIT */
/*
 * Who is at the other end of a connection, and whose another process is, by what the kernel says of
 * them. A process is known by a pidfd: its number may be another's a moment later. Control thread;
 * reads /proc.
 */
#ifndef DAEMON_CALLER_H
#define DAEMON_CALLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "vgpu/types.h"

struct caller {
	uid_t uid; /* in vgpud's user namespace */
	gid_t gid;
	uint32_t pid;	  /* in vgpud's PID namespace; 0: it is not there */
	uint64_t started; /* vgpu/process.h */
	int pidfd;	  /* -1: it has ended; the holder closes it */
	bool is_here;	  /* it is in vgpud's own PID namespace: it means the same by a number */
	bool is_root;	  /* root, or vgpud's own user, of vgpud's own user and PID namespace */
	uid_t owner;	  /* who is charged: the owner of the outermost user namespace below vgpud's
			   * that it is in, else UID; (uid_t)-1: not known */
};

/* Reads who has connected at FD. Returns 0; or -errno: who that is cannot be known. Whoever has
 * ended is not root. */
int caller_read(int fd, struct caller *out);
/* Whether the peer of FD is root of this host, or vgpud's own user there: uid 0 of another user or
 * PID namespace is not. Cheaper than caller_read. */
bool caller_is_root(int fd, uid_t uid);
/* Opens the process PID that CALLER names, which must be his: in a user namespace of his, unless he
 * is root. OUT is then that process. Returns 0, or -errno with the reason in ERR. */
int caller_open(const struct caller *caller, uint32_t pid, struct caller *out,
		struct vgpu_error *err);
/* Opens a process by the number and start that were noted of it. Returns a pidfd, which the caller
 * closes, or -ESRCH. */
int caller_reopen(uint32_t pid, uint64_t started);
/* Whether the process of a pidfd has ended. */
bool caller_has_ended(int pidfd);

#endif
