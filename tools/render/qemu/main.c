/* SPDX-License-Identifier: MIT */
/*
 * vgpud-qemu: QEMU for a VM that has a VF of a gated GPU. It takes QEMU's arguments, and becomes
 * QEMU. The VM's programs compute by Venus, in processes of the render server that QEMU starts:
 * these have vgpud's layer, and QEMU itself has not. vgpud knows them by QEMU, which is their
 * ancestor and has the VF.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "arguments.h"
#include "vgpu/gate.h"
#include "wall.h"

#define QEMU "/usr/bin/qemu-system-x86_64"
#define LIBRARY "libvgpud-venus-only.so"

/* All that QEMU and the render server get of the environment: what the loader of Vulkan or of
 * programs would read could take the layer out. */
static const char *const kept[] = {"PATH",
				   "LANG",
				   "LC_ALL",
				   "TMPDIR",
				   "XDG_RUNTIME_DIR",
				   "XDG_CACHE_HOME",
				   "LIBVIRT_LOG_OUTPUTS",
				   "QEMU_AUDIO_DRV",
				   GATE_DOOR,
				   "VK_ADD_LAYER_PATH",
				   "VK_DRIVER_FILES",
				   "VK_ICD_FILENAMES",
				   NULL};

static int clean_environment(void)
{
	char *values[sizeof(kept) / sizeof(kept[0])];
	size_t i;
	int r = 0;

	for (i = 0; kept[i]; i++) {
		const char *value = getenv(kept[i]);

		values[i] = value ? strdup(value) : NULL;
		if (value && !values[i])
			return -ENOMEM;
	}
	clearenv();
	for (i = 0; kept[i]; i++) {
		if (values[i] && setenv(kept[i], values[i], 1) < 0)
			r = -ENOMEM;
		free(values[i]);
	}
	/* The loader reads settings there, too. */
	return setenv("HOME", "/nonexistent", 1) < 0 ? -ENOMEM : r;
}

/* The layer and the wall, for the render server's processes and not for this one, and what switches
 * virgl off. */
static int gate(void)
{
	struct vgpu_error err = {""};
	const char *layers = getenv("VK_ADD_LAYER_PATH");
	char pid[16], library[4096];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	snprintf(library, sizeof(library), "%.*s/" LIBRARY, (int)strcspn(layers, ":"), layers);
	/* What the loader cannot load, it leaves out, and goes on. It ends a name at a blank or a
	 * colon, and puts other words for what follows a dollar. */
	if (strpbrk(library, " :$")) {
		fprintf(stderr, "vgpud-qemu: %s: want a path without blank, colon and dollar\n",
			library);
		return -EINVAL;
	}
	if (!dlopen(library, RTLD_NOW)) {
		fprintf(stderr, "vgpud-qemu: %s\n", dlerror());
		return -ENOENT;
	}
	if (setenv(GATE_SPARES, pid, 1) < 0 || setenv("LD_PRELOAD", library, 1) < 0 ||
	    setenv("VK_INSTANCE_LAYERS", GATE_LAYER, 1) < 0)
		return -ENOMEM;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if (wall_take_up(getenv(GATE_DOOR), true, &err) == 0)
		return 0;
	fprintf(stderr, "vgpud-qemu: %s\n", err.text);
	return -EPERM;
}

/*
 * Without vgpuctl run it is libvirt that has started this, and the VM's lease is found by the UUID:
 * vgpud makes a link to the door under it. The door itself knows the VM by its process; so whoever
 * says another UUID gains nothing.
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
	if ((venus && find_door(argv + 1) < 0) || clean_environment() < 0 || (venus && gate() < 0))
		return 1;
	execv(qemu, argv);
	fprintf(stderr, "vgpud-qemu: %s: %s\n", qemu, strerror(errno));
	return 1;
}
