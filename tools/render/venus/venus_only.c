/* SPDX-License-Identifier: MIT */
/*
 * Loaded into QEMU, or virglrenderer's server, before virglrenderer (LD_PRELOAD): leaves guests
 * Venus alone. virgl, OpenGL that this process computes itself, would run past the gate, and QEMU
 * has no property that switches it off.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#define NO_VIRGL (1 << 7) /* virglrenderer.h: VIRGL_RENDERER_NO_VIRGL */
#define CAPSET_VIRGL 1u
#define CAPSET_VIRGL2 2u
#define CAPSET_VENUS 4u
#define CONTEXT_CAPSET 0xffu /* of the flags of a context */

#define SHOWN __attribute__((visibility("default")))
SHOWN int virgl_renderer_init(void *cookie, int flags, void *callbacks);
SHOWN void virgl_renderer_get_cap_set(uint32_t set, uint32_t *version, uint32_t *size);
SHOWN int virgl_renderer_context_create_with_flags(uint32_t context, uint32_t flags,
						   uint32_t length, const char *name);
SHOWN int virgl_renderer_context_create(uint32_t context, uint32_t length, const char *name);

/* Returns virglrenderer's own function NAME. QEMU loads virglrenderer with a module, so it is not
 * found as the next library of this program (RTLD_NEXT). */
static void *real(const char *name)
{
	void *library = dlopen("libvirglrenderer.so.1", RTLD_NOW);
	void *function = library ? dlsym(library, name) : NULL;

	if (!function) {
		fprintf(stderr, "vgpud: %s: %s\n", name, dlerror());
		abort();
	}
	return function;
}

int virgl_renderer_init(void *cookie, int flags, void *callbacks)
{
	return ((int (*)(void *, int, void *))real("virgl_renderer_init"))(cookie, flags | NO_VIRGL,
									   callbacks);
}

void virgl_renderer_get_cap_set(uint32_t set, uint32_t *version, uint32_t *size)
{
	*version = *size = 0;
	if (set != CAPSET_VIRGL && set != CAPSET_VIRGL2)
		((void (*)(uint32_t, uint32_t *, uint32_t *))real(
			"virgl_renderer_get_cap_set"))(set, version, size);
}

/* Refuses contexts for anything but Venus. */
int virgl_renderer_context_create_with_flags(uint32_t context, uint32_t flags, uint32_t length,
					     const char *name)
{
	static bool said[CONTEXT_CAPSET + 1]; /* a guest may ask for ever */
	uint32_t set = flags & CONTEXT_CAPSET;

	if (set == CAPSET_VENUS)
		return ((int (*)(uint32_t, uint32_t, uint32_t, const char *))real(
			"virgl_renderer_context_create_with_flags"))(context, flags, length, name);
	if (!said[set])
		fprintf(stderr, "vgpud: refuses contexts of capset %u: there is Venus alone\n",
			set);
	said[set] = true;
	return EINVAL;
}

int virgl_renderer_context_create(uint32_t context, uint32_t length, const char *name)
{
	return virgl_renderer_context_create_with_flags(context, CAPSET_VIRGL, length, name);
}

/* Takes the library out of the environment, because the render server does not need it. Its
 * processes run as the same user: from here on they cannot open this process's memory, nor that of
 * its forks. */
__attribute__((constructor)) static void once(void)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	unsetenv("LD_PRELOAD");
}
