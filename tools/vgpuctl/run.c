/* SPDX-License-Identifier: MIT */
/*
 * vgpud gives the VF to the process that asks, and takes it back when that process ends. So this
 * one asks, and becomes the program: whoever waits for it waits for the program itself.
 *
 * The layer is an explicit one, in a directory of its own: the loader has it only where this file
 * names it.
 */
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"
#include "control_client.h"
#include "exit_code.h"
#include "session.h"
#include "vgpu/gate.h"
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
	json_object_object_add(args, "params", json_object_get(params));
	add_text(args, "gpu", o->gpu);
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

static int become(char **words, const char *directory, const char *door)
{
	int r = setenv(GATE_DOOR, door, 1) < 0 ? -errno : 0;

	if (r == 0)
		r = prepend("VK_ADD_LAYER_PATH", directory);
	if (r == 0)
		r = prepend("VK_INSTANCE_LAYERS", GATE_LAYER);
	if (r == 0)
		execvp(words[0], words);
	fprintf(stderr, "vgpuctl: %s: %s\n", words[0], strerror(r ? -r : errno));
	return EXIT_FAILED;
}

int run(const struct options *o, char **words)
{
	struct json_object *params = json_object_new_object(), *args, *answer = NULL;
	struct vgpu_error err = {""};
	const char *directory = layers();
	int fd, r;

	words += take_params(words, params);
	if (!words[0])
		fputs("vgpuctl: run: want [NAME=VALUE...] -- PROGRAM [ARGUMENT...]\n", stderr);
	args = words[0] && directory ? claim(o, words[0], params) : NULL;
	json_object_put(params);
	if (!args)
		return words[0] && !directory ? EXIT_FAILED : EXIT_USAGE;
	fd = client_connect(session_path(o), &err);
	if (fd < 0)
		json_object_put(args);
	r = fd < 0 ? fd : client_call(fd, "program.start", args, &answer, &err);
	if (r < 0) {
		fprintf(stderr, "vgpuctl: %s\n", err.text);
		return exit_code_of(r);
	}
	/* The connection closes when the program begins. */
	r = become(words, directory, get_text(answer, "door"));
	json_object_put(answer);
	close(fd);
	return r;
}
