/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "null.h"
#include "vgpu/param.h"

/* Value of "hang": no VF hangs. */
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

/* Parses the options that follow PREFIX, by TABLE. */
static int read_options(const char *device, const char *prefix, const struct vgpu_param *table,
			int64_t *values, struct vgpu_error *err)
{
	char text[160], *rest = text, *option, *value;
	int r = 0;

	vgpu_param_defaults(table, values);
	snprintf(text, sizeof(text), "%s", device + strlen(prefix));
	while (r == 0 && (option = strsep(&rest, ","))) {
		value = strchr(option, '=');
		if (!*option)
			continue;
		if (!value)
			return vgpu_error_set(err, -EINVAL, "%s: %s: want NAME=VALUE", device,
					      option);
		*value = '\0';
		r = vgpu_param_set(table, option, value + 1, values, err);
	}
	return r < 0 ? vgpu_error_prefix(err, r, "device %.*s", (int)strlen(prefix) - 1, prefix)
		     : 0;
}

int null_read_options(const char *device, struct null_options *out, struct vgpu_error *err)
{
	int64_t v[VGPU_MAX_PARAMS];
	int r = read_options(device, NULL_PREFIX, options, v, err);

	if (r < 0)
		return r;
	*out = (struct null_options){
		.max_vfs = (uint32_t)v[MAX_VFS],
		.memory = (uint64_t)v[MEMORY] << 20,
		.command = (vgpu_nsec)v[COMMAND] * VGPU_USEC,
		.busy = vgpu_first_vfs((uint32_t)v[BUSY]),
		.hangs = v[HANG] == NOBODY ? 0 : VGPU_VF_BIT(v[HANG]),
	};
	return 0;
}

enum { F_MAX_VFS, F_BUSY, F_LATE_VF, F_LATE, F_PROGRAM, F_FREEZE, F_SERVED };

static const struct vgpu_param firmware_options[] = {
	[F_MAX_VFS] = {.name = "max_vfs",
		       .min = 1,
		       .max = VGPU_GPU_MAX_VFS,
		       .def = VGPU_GPU_MAX_VFS},
	[F_BUSY] = {.name = "busy", .min = 0, .max = VGPU_GPU_MAX_VFS, .def = VGPU_GPU_MAX_VFS},
	[F_LATE_VF] = {.name = "late_vf",
		       .min = NOBODY,
		       .max = VGPU_GPU_MAX_VFS - 1,
		       .def = NOBODY},
	[F_LATE] = {.name = "late_us", .min = 0, .max = 10000000, .def = 1000},
	[F_PROGRAM] = {.name = "program_us", .min = 0, .max = 10000000, .def = 0},
	[F_FREEZE] = {.name = "freeze_ms", .min = 0, .max = INT32_MAX, .def = 0},
	[F_SERVED] = {.name = "served_ms", .min = 0, .max = INT32_MAX, .def = 0},
	{.name = NULL},
};

int null_read_firmware_options(const char *device, struct null_firmware_options *out,
			       struct vgpu_error *err)
{
	int64_t v[VGPU_MAX_PARAMS];
	int r = read_options(device, NULL_FIRMWARE_PREFIX, firmware_options, v, err);

	if (r < 0)
		return r;
	*out = (struct null_firmware_options){
		.max_vfs = (uint32_t)v[F_MAX_VFS],
		.busy = vgpu_first_vfs((uint32_t)v[F_BUSY]),
		.late_vf = v[F_LATE_VF] == NOBODY ? VGPU_NO_VF : (uint32_t)v[F_LATE_VF],
		.late = (vgpu_nsec)v[F_LATE] * VGPU_USEC,
		.program = (vgpu_nsec)v[F_PROGRAM] * VGPU_USEC,
		.freeze = v[F_FREEZE] ? (vgpu_nsec)v[F_FREEZE] * VGPU_MSEC : VGPU_NEVER,
		.served = (vgpu_nsec)v[F_SERVED] * VGPU_MSEC,
	};
	return 0;
}
