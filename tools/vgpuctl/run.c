/* SPDX-License-Identifier: MIT */
/*
 * vgpud gives the VF to the process that asks, and takes it back when that process ends. So this
 * process asks, and then becomes the program by exec: its parent waits for the program itself.
 *
 * The layer of gated GPUs is an explicit layer in a directory of its own, which the loader searches
 * only because this file names it in the environment. The same is true for the CUDA library for VFs
 * of softgpu.
 */
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"
#include "exit_code.h"
#include "tenant.h"
#include "vgpu/gate.h"
#include "vgpu/local_socket.h"
#include "vgpu/number.h"
#include "wall.h"

#define MANIFEST "VkLayer_vgpud_gate.json"

/* Returns the directory of the layer's manifest; NULL if the layer is not installed, with the
 * reason on stderr. */
static const char *layers(void)
{
	const char *at = getenv("VGPUD_LAYERS");
	char path[4096];

	if (!at || !*at)
		at = LAYERS;
	snprintf(path, sizeof(path), "%s/" MANIFEST, at);
	if (access(path, R_OK) == 0)
		return at;
	fprintf(stderr,
		"vgpuctl: %s: %s: vgpud's Vulkan layer is not installed there; $VGPUD_LAYERS names "
		"another directory\n",
		path, strerror(errno));
	return NULL;
}

/* Prepends WHAT to a list in the environment variable NAME. */
static int prepend(const char *name, const char *what)
{
	const char *before = getenv(name);
	char *list;
	int r;

	if (asprintf(&list, "%s%s%s", what, before && *before ? ":" : "", before ? before : "") < 0)
		return -ENOMEM;
	r = setenv(name, list, 1) < 0 ? -errno : 0;
	free(list);
	return r;
}

/* Returns whether the program is QEMU for a VM: then vgpud-qemu installs the wall, which lets
 * QEMU's own calls pass. */
static bool is_qemu(char *const *words)
{
	const char *slash;

	for (; *words; words++) {
		slash = strrchr(*words, '/');
		if (strcmp(slash ? slash + 1 : *words, "vgpud-qemu") == 0)
			return true;
	}
	return false;
}

/* Puts this process behind the GPU's wall, if the GPU has one; but not QEMU, for which vgpud-qemu
 * does it. Returns 0, or -errno with the reason on stderr. */
static int wall(struct json_object *answer, char *const *words)
{
	const char *door = get_text(answer, "door");
	struct vgpu_error err;
	int r = *door && !is_qemu(words) ? wall_take_up(door, false, &err) : 0;

	if (r < 0)
		fprintf(stderr, "vgpuctl: %s\n", err.text);
	return r;
}

/* Sets the environment variables by which the program finds its VF. Returns 0 or -errno. */
static int tell(struct json_object *answer)
{
	const char *door = get_text(answer, "door"), *socket = get_text(answer, "socket"),
		   *directory;
	char vf[VGPU_SOCKET_PATH + 8];
	int r = setenv("VGPUD_LEASE", get_text(answer, "lease"), 1) < 0 ? -errno : 0;

	if (r == 0 && *socket) {
		snprintf(vf, sizeof(vf), "lease:%s", socket);
		r = setenv("VGPU_CUDA_VF", vf, 1) < 0 ? -errno : 0;
	}
	if (r == 0 && *socket && access(CUDA, X_OK) == 0)
		r = prepend("LD_LIBRARY_PATH", CUDA);
	if (r < 0 || !*door)
		return r;
	directory = layers();
	if (!directory)
		return -ENOENT;
	r = setenv(GATE_DOOR, door, 1) < 0 ? -errno : 0;
	if (r == 0)
		r = prepend("VK_ADD_LAYER_PATH", directory);
	return r < 0 ? r : prepend("VK_INSTANCE_LAYERS", GATE_LAYER);
}

/* Returns the words of a container engine's "run" with the annotation that passes the lease to the
 * container; for other programs, WORDS. The caller must not free the words. */
static char **for_engine(char **words, const char *lease)
{
	static const char *const engines[] = {"podman", "docker", "nerdctl", NULL};
	const char *slash = strrchr(words[0], '/'), *name = slash ? slash + 1 : words[0];
	char **all, *annotation;
	size_t n, i;

	for (i = 0; engines[i] && strcmp(engines[i], name) != 0; i++)
		;
	if (!engines[i] || !words[1] || strcmp(words[1], "run") != 0)
		return words;
	for (n = 0; words[n]; n++)
		;
	all = calloc(n + 2, sizeof(*all));
	if (!all || asprintf(&annotation, "--annotation=vgpud.dev/lease=%s", lease) < 0)
		return words;
	all[0] = words[0];
	all[1] = words[1];
	all[2] = annotation;
	memcpy(all + 3, words + 2, (n - 2) * sizeof(*all));
	return all;
}

int run(const struct options *o, char **words)
{
	struct json_object *args = tenant_claim(o, &words), *answer = NULL;
	const char *slash;
	int fd, r;

	if (!words[0])
		fputs("vgpuctl: run: want [NAME=VALUE...] -- PROGRAM [ARGUMENT...]\n", stderr);
	if (!args || !words[0]) {
		json_object_put(args);
		return EXIT_USAGE;
	}
	slash = strrchr(words[0], '/');
	json_object_object_add(args, "name",
			       json_object_new_string(slash && slash[1] ? slash + 1 : words[0]));
	fd = tenant_call(o, "tenant.start", args, &answer);
	if (fd < 0)
		return -fd;
	r = tell(answer);
	if (r == 0 && wall(answer, words) < 0) {
		json_object_put(answer);
		close(fd);
		return EXIT_FAILED;
	}
	if (r == 0) {
		words = for_engine(words, get_text(answer, "lease"));
		execvp(words[0], words); /* exec closes the connection */
		r = -errno;
	}
	fprintf(stderr, "vgpuctl: %s: %s\n", words[0], strerror(-r));
	json_object_put(answer);
	close(fd);
	return EXIT_FAILED;
}
