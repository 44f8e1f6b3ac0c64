/* SPDX-License-Identifier: MIT */
/*
 * vgpud gives the VF to the process that asks, and takes it back when that process ends. So this
 * one asks, and becomes the program: whoever waits for it waits for the program itself.
 *
 * The layer of gated GPUs is an explicit one, in a directory of its own: the loader has it only
 * where this file names it. So it is with the CUDA library for VFs of softgpu.
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

#define MANIFEST "VkLayer_vgpud_gate.json"

/* The directory of the layer's manifest; NULL: the layer is not there, and stderr says so. */
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

static void add_text(struct json_object *to, const char *name, const char *value)
{
	if (value)
		json_object_object_add(to, name, json_object_new_string(value));
}

/* Takes parameters of the policy, NAME=VALUE, from WORDS. Returns how many there are. */
static int take_params(char **words, struct json_object *params)
{
	char name[64];
	int n;

	for (n = 0; words[n] && strchr(words[n], '='); n++) {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(words[n], "="), words[n]);
		add_text(params, name, strchr(words[n], '=') + 1);
	}
	return n;
}

static struct json_object *claim(const struct options *o, const char *program,
				 struct json_object *params)
{
	struct json_object *args = json_object_new_object();
	const char *slash = strrchr(program, '/');
	uint64_t memory;

	add_text(params, "weight", o->weight);
	add_text(params, "max", o->limit);
	json_object_object_add(args, "params", json_object_get(params));
	add_text(args, "gpu", o->gpu);
	add_text(args, "profile", o->profile);
	add_text(args, "name", slash && slash[1] ? slash + 1 : program);
	if (!o->memory)
		return args;
	if (vgpu_parse_size(o->memory, INT64_MAX, &memory) < 0) {
		fprintf(stderr, "vgpuctl: --memory %s: want a size: 512M, 2G\n", o->memory);
		json_object_put(args);
		return NULL;
	}
	json_object_object_add(args, "memory_bytes", json_object_new_int64((int64_t)memory));
	return args;
}

/* Puts WHAT in front of a list in the environment. */
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

/* What the program finds its VF by. Returns 0 or -errno. */
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

/* The words of a container engine's "run", with the annotation that hands the lease to the
 * container; else WORDS themselves. The caller frees neither. */
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
	struct json_object *params = json_object_new_object(), *args, *answer = NULL;
	int fd, r;

	words += take_params(words, params);
	if (!words[0])
		fputs("vgpuctl: run: want [NAME=VALUE...] -- PROGRAM [ARGUMENT...]\n", stderr);
	args = words[0] ? claim(o, words[0], params) : NULL;
	json_object_put(params);
	if (!args)
		return EXIT_USAGE;
	fd = tenant_call(o, "tenant.start", args, &answer);
	if (fd < 0)
		return -fd;
	r = tell(answer);
	if (r == 0) {
		words = for_engine(words, get_text(answer, "lease"));
		execvp(words[0], words); /* the connection closes then */
		r = -errno;
	}
	fprintf(stderr, "vgpuctl: %s: %s\n", words[0], strerror(-r));
	json_object_put(answer);
	close(fd);
	return EXIT_FAILED;
}
