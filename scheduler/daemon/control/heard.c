/* SPDX-License-Identifier: MIT */
#include "heard.h"

#include <string.h>

/* Copies as much of a name as fits, without cutting a UTF-8 character. */
static void copy_name(char *to, size_t size, const char *from)
{
	size_t n = strlen(from);

	if (n >= size)
		for (n = size - 1; n > 0 && ((unsigned char)from[n] & 0xc0) == 0x80; n--)
			;
	memcpy(to, from, n);
	to[n] = '\0';
}

void heard_add(struct gpu *gpu, const struct vgpu_record *record)
{
	char *name = gpu->heard.names[trail_end(&gpu->heard.events) % EVENTS];
	bool is_had = record->vf < VGPU_GPU_MAX_VFS && gpu->leases[record->vf].state != LEASE_NONE;

	copy_name(name, sizeof(gpu->heard.names[0]), is_had ? gpu->leases[record->vf].domain : "");
	trail_add(&gpu->heard.events, record);
}

const char *heard_name(const struct gpu *gpu, uint64_t i)
{
	return gpu->heard.names[i % EVENTS];
}
