/* SPDX-License-Identifier: MIT */
/*
 * The limits that root sets for users' programs and containers: the sections [tenant WHO] of the
 * configuration. Each refusal names the request, the limit, and the limit's place. Control thread.
 */
#pragma once

#include "control/caller.h"
#include "vms/reserve.h"

/* Returns the limits of the user to charge, when CALLER has asked at FD: the user's own section,
 * else that of the first group of which CALLER is a member, else that of all others, else the
 * defaults. NULL: root without a section, who has no limits. Valid until the next call. */
const struct tenant_config *limits_of(const struct control *control, const struct caller *caller,
				      int fd, uid_t owner);
/* Checks the claim of a new reservation, together with the owner's other leases, and stores in it
 * the limits on the choice of its VF. Returns 0, or -EDQUOT with the reason in ERR. */
int limits_check(const struct control *control, const struct tenant_config *limits,
		 struct reservation *job, struct vgpu_error *err);
/* Checks changed parameters of the lease of a VF, together with all present and pending leases of
 * its owner, and marks them in the lease as being set. Returns 0, or -EDQUOT with the reason in
 * ERR. */
int limits_check_change(const struct tenant_config *limits, struct gpu *gpu, uint32_t vf,
			const struct claim_vf *claimed, struct vgpu_error *err);
/* Checks a lease that has got its VF, together with the owner's others: they may have got theirs
 * meanwhile, and only now the VF is known. Returns 0, or -EDQUOT with the reason in ERR. */
int limits_check_given(const struct tenant_config *limits, const struct gpu *gpu, uint32_t vf,
		       struct vgpu_error *err);
