/* SPDX-License-Identifier: MIT */
#include "heard.h"

#include <stdio.h>

void heard_add(struct gpu *gpu, const struct vgpu_record *record)
{
	char *name = gpu->heard.names[trail_end(&gpu->heard.events) % EVENTS];
	bool is_had = record->vf < VGPU_GPU_MAX_VFS && gpu->leases[record->vf].state != LEASE_NONE;

	snprintf(name, sizeof(gpu->heard.names[0]), "%s",
		 is_had ? gpu->leases[record->vf].domain : "");
	trail_add(&gpu->heard.events, record);
}

const char *heard_name(const struct gpu *gpu, uint64_t i)
{
	return gpu->heard.names[i % EVENTS];
}
