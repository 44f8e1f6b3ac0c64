/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "null.h"
#include "vgpu/param.h"

/* The value of "hang" that stands for no VF. */
#define NOBODY (-1)

enum { MAX_VFS, MEMORY, COMMAND, BUSY, HANG };

static const struct vgpu_param options[] = {
	[MAX_VFS] = {.name = "max_vfs", .min = 1, .max = VGPU_GPU_MAX_VFS, .def = VGPU_GPU_MAX_VFS},
	[MEMORY] = {.name = "memory_mib", .min = 64, .max = 1 << 20, .def = 1024},
	[COMMAND] = {.name = "command_us", .min = 0, .max = 10000000, .def = 0},
	[BUSY] = {.name = "busy", .min = 0, .max = VGPU_GPU_MAX_VFS, .def = VGPU_GPU_MAX_VFS},
	[HANG] = {.name = "hang", .min = NOBODY, .max = VGPU_GPU_MAX_VFS - 1, .def = NOBODY},
	{.name = NULL},
};

int null_read_options(const char *device, struct null_options *out, struct vgpu_error *err)
{
	char text[160], *rest = text, *option, *value;
	int64_t v[VGPU_MAX_PARAMS];
	int r = 0;

	vgpu_param_defaults(options, v);
	snprintf(text, sizeof(text), "%s", device + strlen(NULL_PREFIX));
	while (r == 0 && (option = strsep(&rest, ","))) {
		value = strchr(option, '=');
		if (!*option)
			continue;
		if (!value)
			return vgpu_error_set(err, -EINVAL, "%s: %s: want NAME=VALUE", device,
					      option);
		*value = '\0';
		r = vgpu_param_set(options, option, value + 1, v, err);
	}
	if (r < 0)
		return vgpu_error_prefix(err, r, "device null");
	*out = (struct null_options){
		.max_vfs = (uint32_t)v[MAX_VFS],
		.memory = (uint64_t)v[MEMORY] << 20,
		.command = (vgpu_nsec)v[COMMAND] * VGPU_USEC,
		.busy = (uint32_t)((UINT64_C(1) << v[BUSY]) - 1),
		.hangs = v[HANG] == NOBODY ? 0 : 1u << v[HANG],
	};
	return 0;
}
