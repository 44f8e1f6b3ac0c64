/* SPDX-License-Identifier: MIT */
/*
 * The leases of programs and containers of this host. Each belongs to a process, by a pidfd that
 * vgpud has opened, and ends with it. A container's is then held for a while, for its restart: its
 * VF is reset and cleared, and keeps its parameters and its memory. Control thread.
 */
#ifndef DAEMON_TENANT_H
#define DAEMON_TENANT_H

#include "control/call.h"

/* The call's reservation has its VF: gives it to the reservation's process. Returns its lease, and
 * its place in *GPU and *VF; NULL with the reason in ERR: the process has ended, or the lease's
 * socket cannot be made, and there is no lease. */
struct lease *tenant_take(struct call *call, struct gpu **gpu, uint32_t *vf,
			  struct vgpu_error *err);
/* Ends a lease without holding its VF. The caller saves the leases. */
void tenant_end(struct gpu *gpu, uint32_t vf);
/* Has the lease belong to another process, PROCESS, from now on: that of a container. Its pidfd
 * becomes the lease's. */
void tenant_hand_over(struct gpu *gpu, uint32_t vf, const struct claim *claim, uint32_t process,
		      uint64_t started, int pidfd);
/* Ends the leases of processes that have ended, and what was held for long enough. Often. */
void tenants_look(struct control *control);
/* vgpud ends, and the leases go on: closes their sockets, which the next vgpud opens again. */
void tenants_leave(struct control *control);

#endif
