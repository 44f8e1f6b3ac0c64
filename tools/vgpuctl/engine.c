/* SPDX-License-Identifier: MIT */
#include "engine.h"

#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exit_code.h"

/* Longer answers are truncated, bytes; this is enough for thousands of containers. */
#define LONGEST (4u << 20)

/* Container engines, by preference; LINES: the words that make an engine print a line for each of
 * its containers. */
static const struct {
	const char *name, *lines;
} engines[] = {{"podman", "{{.ID}}|{{.Names}}|{{.Image}}|{{.PodName}}"},
	       {"docker", "{{.ID}}|{{.Names}}|{{.Image}}|"},
	       {"nerdctl", "{{.ID}}|{{.Names}}|{{.Image}}|"}};

#define ENGINES (sizeof(engines) / sizeof(engines[0]))

/* Reads FD to its end. Returns a text that the caller frees. */
static char *read_text(int fd)
{
	size_t have = 0, size = 4096;
	char *text = malloc(size), *more;
	ssize_t n = text ? 1 : 0;

	while (n > 0) {
		n = read(fd, text + have, size - 1 - have);
		have += n > 0 ? (size_t)n : 0;
		if (have + 1 < size || size >= LONGEST)
			continue;
		more = realloc(text, size * 2);
		if (!more)
			break;
		text = more;
		size *= 2;
	}
	if (text)
		text[have] = '\0';
	return text;
}

/* Runs an engine. Returns its output, which the caller frees; NULL if it is not installed, or
 * fails. */
static char *output_of(const char *const *words)
{
	posix_spawn_file_actions_t actions;
	char *text = NULL;
	int ends[2], status = 1;
	pid_t pid;

	if (pipe(ends) < 0)
		return NULL;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&actions, ends[0]);
	posix_spawn_file_actions_addclose(&actions, ends[1]);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0);
	if (posix_spawnp(&pid, words[0], &actions, NULL, (char *const *)words, environ) != 0)
		pid = -1;
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	if (pid > 0)
		text = read_text(ends[0]);
	close(ends[0]); /* ends an engine that prints more than LONGEST */
	if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0)
		return text;
	free(text);
	return NULL;
}

int engine_find(const char *name, char id[160], int *pid)
{
	char *line;
	bool known = false;
	size_t i;
	int n;

	for (i = 0; i < ENGINES; i++) {
		const char *const words[] = {engines[i].name,
					     "inspect",
					     "--format",
					     "{{.Id}} {{.State.Pid}}",
					     "--",
					     name,
					     NULL};

		line = output_of(words);
		n = line ? sscanf(line, "%159s %d", id, pid) : 0;
		free(line);
		if (n != 2)
			continue;
		if (*pid > 0)
			return EXIT_OK;
		known = true;
	}
	if (known) {
		fprintf(stderr, "vgpuctl: container %s does not run\n", name);
		return EXIT_FAILED;
	}
	fprintf(stderr,
		"vgpuctl: neither podman, docker nor nerdctl has a container %s of this user\n",
		name);
	return EXIT_NOT_FOUND;
}

/* Adds the container of the line "ID|NAME|IMAGE|POD" to ALL. */
static void add_line(struct json_object *all, char *line)
{
	static const char *const keys[] = {"name", "image", "pod"};
	char *id = strsep(&line, "|"), *value;
	struct json_object *o = json_object_new_object();
	size_t i;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		value = strsep(&line, "|");
		if (value && *value)
			json_object_object_add(o, keys[i], json_object_new_string(value));
	}
	json_object_object_add(all, id, o);
}

struct json_object *engine_names(void)
{
	struct json_object *all = json_object_new_object();
	char *text, *rest, *line;
	size_t i;

	for (i = 0; i < ENGINES; i++) {
		const char *const words[] = {engines[i].name,  "ps", "-a", "--no-trunc", "--format",
					     engines[i].lines, NULL};

		rest = text = output_of(words);
		while ((line = strsep(&rest, "\n")))
			if (*line)
				add_line(all, line);
		free(text);
	}
	return all;
}

struct json_object *engine_podman(void)
{
	static const char *const words[] = {"podman",	"ps",	"-a", "--no-trunc",
					    "--format", "json", NULL};
	char *text = output_of(words);
	struct json_object *list = text ? json_tokener_parse(text) : NULL;

	free(text);
	return list;
}
