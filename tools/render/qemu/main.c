/* SPDX-License-Identifier: MIT */
/*
 * vgpud-qemu: runs QEMU for a VM that has a VF of a gated GPU. It takes QEMU's arguments, and
 * executes QEMU. The VM's programs compute by Venus, in processes of the render server that QEMU
 * starts: those have vgpud's layer, QEMU itself does not. vgpud finds them as descendants of QEMU,
 * which has the VF.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "venus.h"
#include "vgpu/gate.h"

#define QEMU "/usr/bin/qemu-system-x86_64"

/*
 * Finds the door if vgpuctl run has not set it: then libvirt has started this process, and vgpud
 * has made a link to the door under the VM's UUID. The door itself identifies the VM by its
 * process, so a caller that passes another UUID gains nothing. Returns 0 or -errno.
 */
static int find_door(char *const *argv)
{
	const char *uuid = qemu_argument(argv, "uuid");
	char path[200];

	if (getenv(GATE_DOOR) && getenv("VK_ADD_LAYER_PATH"))
		return 0;
	snprintf(path, sizeof(path), "/run/vgpud/" GATE_DOOR_OF_VM, uuid ? uuid : "");
	if (!uuid || strchr(uuid, '/') || access(path, F_OK) < 0) {
		fprintf(stderr,
			"vgpud-qemu: the VM has no VF (%s): start it with vgpuctl run, or "
			"claim one in libvirt's XML\n",
			uuid ? path : "no -uuid");
		return -ENOENT;
	}
	return setenv(GATE_DOOR, path, 1) < 0 || setenv("VK_ADD_LAYER_PATH", LAYERS, 1) < 0
		       ? -ENOMEM
		       : 0;
}

int main(int argc, char **argv)
{
	const char *named = getenv("VGPUD_QEMU");
	char *qemu = strdup(named && *named ? named : QEMU);
	struct vgpu_error err = {""};
	bool venus;

	(void)argc;
	if (!qemu)
		return 1;
	argv[0] = qemu;
	if (qemu_arguments(argv + 1, &venus, &err) < 0) {
		fprintf(stderr, "vgpud-qemu: %s\n", err.text);
		return 2;
	}
	if ((venus && find_door(argv + 1) < 0) || venus_clean_environment() < 0)
		return 1;
	if (venus && venus_gate(&err) < 0) {
		fprintf(stderr, "vgpud-qemu: %s\n", err.text);
		return 1;
	}
	execv(qemu, argv);
	fprintf(stderr, "vgpud-qemu: %s: %s\n", qemu, strerror(errno));
	return 1;
}
