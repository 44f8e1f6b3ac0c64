/* SPDX-License-Identifier: MIT */
#include "venus.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "vgpu/gate.h"
#include "wall.h"

#define LIBRARY "libvgpud-venus-only.so"

/* The variables that QEMU and the render server keep. Others, which the loaders of Vulkan and of
 * programs read, could remove the layer. */
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

int venus_clean_environment(void)
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

int venus_gate(struct vgpu_error *err)
{
	const char *layers = getenv("VK_ADD_LAYER_PATH");
	char pid[16], library[4096];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	snprintf(library, sizeof(library), "%.*s/" LIBRARY, (int)strcspn(layers, ":"), layers);
	/* What the loader cannot load, it leaves out, and goes on. It ends a name at a blank or a
	 * colon, and puts other words for what follows a dollar. */
	if (strpbrk(library, " :$"))
		return vgpu_error_set(err, -EINVAL,
				      "%s: want a path without blank, colon and dollar", library);
	if (!dlopen(library, RTLD_NOW))
		return vgpu_error_set(err, -ENOENT, "%s", dlerror());
	if (setenv(GATE_SPARES, pid, 1) < 0 || setenv("LD_PRELOAD", library, 1) < 0 ||
	    setenv("VK_INSTANCE_LAYERS", GATE_LAYER, 1) < 0)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return vgpu_error_set(err, -errno, "no_new_privs: %s", strerror(errno));
	return wall_take_up(getenv(GATE_DOOR), true, err);
}
