/* SPDX-License-Identifier: MIT */
#include "vm_door.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "control/log.h"
#include "vgpu/gate.h"

static void path_of(const struct gpu *gpu, const struct lease *l, char *out, size_t size)
{
	const char *socket = gpu->control->config->socket, *slash = strrchr(socket, '/');

	snprintf(out, size, "%.*s" GATE_DOOR_OF_VM, slash ? (int)(slash + 1 - socket) : 0, socket,
		 l->uuid);
}

void vm_door_link(struct gpu *gpu, uint32_t vf)
{
	struct lease *l = &gpu->leases[vf];
	char path[400];

	if (l->by != CLAIM_BY_VM || !config_is_gated(gpu->config))
		return;
	path_of(gpu, l, path, sizeof(path));
	unlink(path); /* left by an earlier vgpud */
	l->linked = true;
	if (symlink(gpu->config->door, path) < 0)
		log_about(about_vf(gpu, vf, LOG_PLAIN), LOG_ERR, "%s: %s", path, strerror(errno));
}

void vm_door_unlink(struct gpu *gpu, uint32_t vf)
{
	struct lease *l = &gpu->leases[vf];
	char path[400];

	if (!l->linked)
		return;
	path_of(gpu, l, path, sizeof(path));
	unlink(path);
	l->linked = false;
}
