/* SPDX-License-Identifier: MIT */
/*
 * The leases of programs and containers of this host. Each belongs to a process, for which vgpud
 * has a pidfd, and ends with it. A container's VF is then held for a while, for a restart: it is
 * reset and cleared, and keeps its parameters and its memory. Control thread.
 */
#pragma once

#include "control/call.h"

/* The call's reservation has its VF: gives the VF to the reservation's process. Returns its lease,
 * and its place in *GPU and *VF; NULL with the reason in ERR: the process has ended, or the lease's
 * socket cannot be created, and there is no lease. */
struct lease *tenant_take(struct call *call, struct gpu **gpu, uint32_t *vf,
			  struct vgpu_error *err);
/* Ends a lease without holding its VF. The caller saves the leases. */
void tenant_end(struct gpu *gpu, uint32_t vf);
/* The same, for a lease whose process goes on. What computes outside of a container loses its
 * device first, and has some seconds to end by itself. */
void tenant_take_back(struct gpu *gpu, uint32_t vf);
/* Moves a lease to another process, PROCESS: that of a container. The lease owns its pidfd. */
void tenant_hand_over(struct gpu *gpu, uint32_t vf, const struct claim *claim, uint32_t process,
		      uint64_t started, int pidfd);
/* Ends the leases of processes that have ended, and holds that have expired. To be called often. */
void tenants_look(struct control *control);
/* vgpud ends, and the leases continue: closes their sockets, which the next vgpud opens again. */
void tenants_leave(struct control *control);
