/* SPDX-License-Identifier: MIT */
#include "users.h"

#include "gpu.h"

static bool is_taken(const struct softgpu *gpu, uid_t uid)
{
	uint32_t i, k;

	for (i = 0; i < gpu->config.n_vfs; i++)
		for (k = 0; k < USERS_KINDS; k++)
			if (gpu->vfs[i].users[k] == uid)
				return true;
	return false;
}

uid_t users_next(struct softgpu *gpu, int vf, enum users_of of, gid_t *group)
{
	const struct softgpu_config *c = &gpu->config;
	uid_t uid = c->worker_uid;

	*group = c->worker_gid;
	if (c->n_users == 0)
		return uid;
	/* There are more of them than processes. */
	do
		uid = c->worker_uid + gpu->next_user++ % c->n_users;
	while (is_taken(gpu, uid));
	gpu->vfs[vf].users[of] = uid;
	*group = (gid_t)uid;
	return uid;
}
