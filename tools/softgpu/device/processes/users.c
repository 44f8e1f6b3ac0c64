/* SPDX-License-Identifier: MIT */
#include "users.h"

#include <stdio.h>

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
	/* There are more users than processes, so this ends. */
	do
		uid = c->worker_uid + gpu->next_user++ % c->n_users;
	while (is_taken(gpu, uid));
	gpu->vfs[vf].users[of] = uid;
	*group = (gid_t)uid;
	return uid;
}

/* Returns whether the map, as user_namespaces(7) describes it, has all N numbers from FIRST on. */
static bool has_all(const char *map, uint64_t first, uint64_t n)
{
	unsigned long long inside, outside, length;
	FILE *f = fopen(map, "re");
	bool has = false;

	while (f && !has && fscanf(f, "%llu %llu %llu", &inside, &outside, &length) == 3)
		has = inside <= first && first + n <= inside + length;
	if (f)
		fclose(f);
	return has;
}

bool users_are_mapped(uid_t first, uint32_t n)
{
	return has_all("/proc/self/uid_map", first, n) && has_all("/proc/self/gid_map", first, n);
}
