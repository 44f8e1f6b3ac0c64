/* SPDX-License-Identifier: MIT */
/*
 * A container that runs gets its lease by the number of its first process, which its engine knows.
 * vgpud gives the lease, and vgpud-mount mounts its directory, which vgpud itself must not. What
 * was attached is lost when the container is restarted.
 */
#include "container.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "answer.h"
#include "control_client.h"
#include "exit_code.h"
#include "session.h"
#include "tenant.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"

/* Engines, by preference. All of them know this format. */
static const char *const engines[] = {"podman", "docker", "nerdctl"};
#define FORMAT "{{.Id}} {{.State.Pid}}"

/* Runs an engine, and reads the line that it prints. False: it is not there, or has no such
 * container. */
static bool ask_engine(const char *engine, const char *id, char *line, size_t size)
{
	char *const words[] = {(char *)engine,
			       (char *)"inspect",
			       (char *)"--format",
			       (char *)FORMAT,
			       (char *)"--",
			       (char *)id,
			       NULL};
	posix_spawn_file_actions_t actions;
	size_t have = 0;
	int ends[2], status = 0;
	ssize_t n = 1;
	pid_t pid;

	if (pipe(ends) < 0)
		return false;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&actions, ends[0]);
	posix_spawn_file_actions_addclose(&actions, ends[1]);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0);
	if (posix_spawnp(&pid, engine, &actions, NULL, words, environ) != 0)
		pid = -1;
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	while (pid > 0 && n > 0 && have < size - 1) {
		n = read(ends[0], line + have, size - 1 - have);
		have += n > 0 ? (size_t)n : 0;
	}
	close(ends[0]);
	line[have] = '\0';
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* The container's own id and its first process. Several engines may have one of this name: the one
 * that runs is meant. An exit code. */
static int find_container(const char *name, char id[160], int *pid)
{
	char line[400];
	bool known = false;
	size_t i;

	for (i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
		if (!ask_engine(engines[i], name, line, sizeof(line)) ||
		    sscanf(line, "%159s %d", id, pid) != 2)
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

/* Has vgpud-mount do ORDER for a lease. An exit code. */
static int order(const struct options *o, const char *what, const char *lease)
{
	const char *given = getenv("VGPUD_MOUNT_SOCKET");
	char tenants[VGPU_SOCKET_PATH], path[VGPU_SOCKET_PATH + 16];
	struct json_object *args = json_object_new_object(), *answer = NULL;
	struct vgpu_error err = {""};
	VGPU_AUTO_CLOSE int fd = -1;
	char *slash;
	int r;

	vgpu_socket_of_tenants(session_path(o), tenants, sizeof(tenants));
	slash = strrchr(tenants, '/');
	snprintf(path, sizeof(path), "%.*s/mount.sock", slash ? (int)(slash - tenants) : 1,
		 slash ? tenants : ".");
	json_object_object_add(args, "lease", json_object_new_string(lease));
	fd = vgpu_socket_connect(given && *given ? given : path, 0);
	if (fd < 0) {
		json_object_put(args);
		fprintf(stderr,
			"vgpuctl: %s: %s; 'systemctl enable --now vgpud-mount.socket' lets "
			"containers that run get a VF\n",
			path, strerror(-fd));
		return fd == -EACCES ? EXIT_DENIED : EXIT_FAILED;
	}
	r = client_call_patient(fd, what, args, &answer, &err);
	json_object_put(answer);
	if (r == -ECONNRESET)
		vgpu_error_set(&err, r,
			       "vgpud-mount ends without an answer: it took too long, or many are "
			       "at work; see 'journalctl -u vgpud-mount@*'");
	if (r < 0)
		fprintf(stderr, "vgpuctl: %s\n", err.text);
	return r < 0 ? exit_code_of(r) : EXIT_OK;
}

static int stop(const struct options *o, const char *lease)
{
	struct json_object *args = json_object_new_object(), *answer = NULL;
	int fd;

	json_object_object_add(args, "lease", json_object_new_string(lease));
	fd = tenant_call(o, "tenant.stop", args, &answer);
	if (fd < 0)
		return -fd;
	json_object_put(answer);
	close(fd);
	return EXIT_OK;
}

static int attach(const struct options *o, const char *name, char **words)
{
	struct json_object *args = tenant_claim(o, &words), *of, *answer = NULL;
	char id[160];
	int pid, fd, code;

	if (!args)
		return EXIT_USAGE;
	code = words[0] ? EXIT_USAGE : find_container(name, id, &pid);
	if (words[0])
		fprintf(stderr, "vgpuctl: container attach: want NAME=VALUE, not %s\n", words[0]);
	if (code != EXIT_OK) {
		json_object_put(args);
		return code;
	}
	of = json_object_new_object();
	json_object_object_add(of, "id", json_object_new_string(id));
	json_object_object_add(of, "pid", json_object_new_int(pid));
	json_object_object_add(args, "container", of);
	if (strncmp(id, name, strlen(name)) != 0)
		json_object_object_add(args, "name", json_object_new_string(name));
	fd = tenant_call(o, "tenant.start", args, &answer);
	if (fd < 0)
		return -fd;
	close(fd);
	code = order(o, "attach", get_text(answer, "lease"));
	if (code != EXIT_OK)
		stop(o, get_text(answer, "lease"));
	json_object_put(answer);
	return code;
}

/* Finds the lease of what is called NAME, or whose id begins so. "": there is none, or several. */
static int find_lease(const struct options *o, const char *name, char lease[64])
{
	struct json_object *answer = NULL, *list, *one;
	int fd = tenant_call(o, "tenant.list", NULL, &answer);
	size_t i, n = 0;

	if (fd < 0)
		return -fd;
	close(fd);
	list = get(answer, "tenants");
	for (i = 0; i < count(list); i++) {
		one = at(list, i);
		if (strcmp(get_text(one, "state"), "running") != 0 ||
		    strcmp(get_text(one, "kind"), "vm") == 0 ||
		    (strcmp(get_text(one, "name"), name) != 0 &&
		     strcmp(get_text(one, "lease"), name) != 0 &&
		     (strlen(name) < 6 || strncmp(get_text(one, "id"), name, strlen(name)) != 0)))
			continue;
		snprintf(lease, 64, "%s", get_text(one, "lease"));
		n++;
	}
	json_object_put(answer);
	if (n == 1)
		return EXIT_OK;
	fprintf(stderr,
		n ? "vgpuctl: %s: several have this name: name one by its id\n"
		  : "vgpuctl: %s has no VF; see vgpuctl tenant list\n",
		name);
	return EXIT_NOT_FOUND;
}

/* The lease ends, whether it could be unmounted or not: its VF is nobody's then. */
static int detach(const struct options *o, const char *lease)
{
	int code = order(o, "detach", lease), r = stop(o, lease);

	return code != EXIT_OK ? code : r;
}

static int set(const struct options *o, const char *lease, char **words)
{
	struct json_object *args = tenant_claim(o, &words), *answer = NULL;
	int fd;

	if (!args || *words) {
		if (args)
			fprintf(stderr, "vgpuctl: container set: %s: want NAME=VALUE\n", *words);
		json_object_put(args);
		return EXIT_USAGE;
	}
	json_object_object_add(args, "lease", json_object_new_string(lease));
	fd = tenant_call(o, "tenant.set", args, &answer);
	if (fd < 0)
		return -fd;
	json_object_put(answer);
	close(fd);
	return EXIT_OK;
}

int container(const struct options *o, const struct command *c, char **words)
{
	bool sets = strcmp(c->verb, "set") == 0, attaches = strcmp(c->verb, "attach") == 0;
	char lease[64];
	int code;

	if (!words[0] || (sets && !words[1]) || (!sets && !attaches && words[1])) {
		fprintf(stderr, "vgpuctl: container %s: want %s\n", c->verb, c->words);
		return EXIT_USAGE;
	}
	if (attaches)
		return attach(o, words[0], words + 1);
	code = find_lease(o, words[0], lease);
	if (code != EXIT_OK)
		return code;
	return sets ? set(o, lease, words + 1) : detach(o, lease);
}
