/* SPDX-License-Identifier: MIT */
/*
 * What root allows a user's programs and containers: the sections [tenant WHO] of the
 * configuration. Each refusal says what was asked, what is allowed, and where that is written.
 * Control thread.
 */
#ifndef DAEMON_LIMITS_H
#define DAEMON_LIMITS_H

#include "control/caller.h"
#include "vms/reserve.h"

/* Returns what is allowed to the one who is charged, when CALLER has asked at FD: his own section,
 * else that of the first group of which CALLER is a member, else that of all others, else the
 * usual. NULL: root without a section, who may have anything. Valid until the next call. */
const struct tenant_config *limits_of(const struct control *control, const struct caller *caller,
				      int fd, uid_t owner);
/* Checks the claim of a reservation that begins, beside the owner's other leases, and notes in it
 * what bounds the choice of its VF. Returns 0, or -EDQUOT with the reason in ERR. */
int limits_check(const struct control *control, const struct tenant_config *limits,
		 struct reservation *job, struct vgpu_error *err);
/* Checks changed parameters of the lease of a VF, beside all that its owner has and is about to
 * get, and notes them in the lease as being set. Returns 0, or -EDQUOT with the reason in ERR. */
int limits_check_change(const struct tenant_config *limits, struct gpu *gpu, uint32_t vf,
			const struct claim_vf *claimed, struct vgpu_error *err);
/* Checks what a lease has got, beside the owner's others: they may have got theirs meanwhile, and
 * only now it is known which VF it is. Returns 0, or -EDQUOT with the reason in ERR. */
int limits_check_given(const struct tenant_config *limits, const struct gpu *gpu, uint32_t vf,
		       struct vgpu_error *err);

#endif
