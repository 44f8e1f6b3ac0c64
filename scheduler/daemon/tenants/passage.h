/* SPDX-License-Identifier: MIT */
/*
 * A lease's directory and socket, through which its tenant gets connections to the VF:
 * docs/decisions/0070. docs/protocol.md describes the messages. Control thread.
 */
#pragma once

#include <event2/event.h>
#include <sys/types.h>

#include "control/share.h"
#include "vgpu/local_socket.h"

/* The directory that containers mount, below the lease's directory, and the socket in it. */
#define PASSAGE_DIR "gpu"
#define PASSAGE_SOCKET "vf.sock"

struct passage;

/*
 * Creates the directory PARENT/LEASE, which OWNER and root may enter, with PASSAGE_DIR and the
 * socket, and serves the VF's socket VF there. Reuses the directory that an earlier vgpud has left
 * for the same lease, which containers may have mounted. Work for connections is charged to SHARE.
 * Returns 0, or -errno with the reason, and nothing is left.
 */
int passage_open(struct passage **out, struct event_base *base, struct share *share,
		 const char *parent, const char *lease, uid_t owner, const char *vf,
		 struct vgpu_error *err);
/* The directory to mount, until the passage is closed. */
const char *passage_dir(const struct passage *p);
/* Frees P, which may be NULL. The directory and the socket stay: the lease continues under the next
 * vgpud. */
void passage_leave(struct passage *p);
/* Frees P, and removes them. P may be NULL. */
void passage_close(struct passage *p);
/* Removes the directory that an earlier vgpud has left of a lease that has ended. */
void passage_remove(const char *parent, const char *lease);
