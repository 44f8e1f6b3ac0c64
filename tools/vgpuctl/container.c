/* SPDX-License-Identifier: MIT */
/*
 * A running container gets its lease by the number of its first process, which vgpuctl gets from
 * the container engine. vgpud grants the lease; vgpud-mount mounts the lease's directory, which
 * vgpud has no right to do. For a VF of a gated GPU, vgpuctl mounts (outside.h).
 */
#include "container.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "answer.h"
#include "container_name.h"
#include "control_client.h"
#include "engine.h"
#include "exit_code.h"
#include "outside.h"
#include "session.h"
#include "tenant.h"
#include "view.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"

/* Asks vgpud-mount to carry out WHAT, "attach" or "detach", for a lease. Returns an exit code. */
static int order(const struct options *o, const char *what, const char *lease)
{
	const char *given = getenv("VGPUD_MOUNT_SOCKET");
	char directory[VGPU_SOCKET_PATH], path[VGPU_SOCKET_PATH + 16];
	struct json_object *args = json_object_new_object(), *answer = NULL;
	struct vgpu_error err = {""};
	VGPU_AUTO_CLOSE int fd = -1;
	int r;

	tenant_directory(o, directory);
	snprintf(path, sizeof(path), "%s/mount.sock", directory);
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

/* Takes the lease that ARGS ask for, which it frees, and mounts it. Returns an exit code. */
static int take(const struct options *o, struct json_object *args, struct outside *outside)
{
	struct json_object *answer = NULL;
	int fd = tenant_call(o, "tenant.start", args, &answer), code;

	if (fd < 0)
		return -fd;
	close(fd);
	code = get_text(answer, "door")[0] ? outside_serve(outside, get_text(answer, "door"))
					   : order(o, "attach", get_text(answer, "lease"));
	if (code != EXIT_OK)
		stop(o, get_text(answer, "lease"));
	json_object_put(answer);
	return code;
}

static int attach(const struct options *o, const char *name, char **words)
{
	struct json_object *args = tenant_claim(o, &words), *of;
	struct outside outside = {.container = -1, .render = {.orders = -1}};
	char id[160];
	int pid, code;

	if (!args)
		return EXIT_USAGE;
	code = words[0] ? EXIT_USAGE : engine_find(name, id, &pid);
	if (words[0])
		fprintf(stderr, "vgpuctl: container attach: want NAME=VALUE, not %s\n", words[0]);
	/* Whether the GPU is gated is known when it is given. */
	if (code == EXIT_OK && o->gpu)
		code = outside_begin(&outside, pid);
	if (code == EXIT_OK) {
		of = json_object_new_object();
		json_object_object_add(of, "id", json_object_new_string(id));
		json_object_object_add(of, "pid", json_object_new_int(pid));
		json_object_object_add(of, "attach", json_object_new_boolean(true));
		if (outside.render.worker > 0)
			json_object_object_add(of, "worker",
					       json_object_new_int(outside.render.worker));
		json_object_object_add(args, "container", of);
		if (strncmp(id, name, strlen(name)) != 0)
			json_object_object_add(args, "name", json_object_new_string(name));
		code = take(o, json_object_get(args), &outside);
	}
	json_object_put(args);
	outside_leave(&outside, code == EXIT_OK);
	return code;
}

/* A lease of a container that runs. */
struct found {
	char lease[64];
	int process, worker; /* worker: 0: none */
	uint64_t worker_started;
};

/* Finds the lease of the container called NAME, or whose id begins so. Returns an exit code; if
 * there is none, or several, with the reason on stderr if it SAYS so. */
static int find_lease(const struct options *o, const char *name, struct found *out, bool says)
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
		snprintf(out->lease, sizeof(out->lease), "%s", get_text(one, "lease"));
		out->process = (int)get_int(one, "process");
		out->worker = (int)get_int(one, "worker");
		out->worker_started = (uint64_t)get_int(one, "worker_started");
		n++;
	}
	json_object_put(answer);
	if (n == 1)
		return EXIT_OK;
	if (says)
		fprintf(stderr,
			n ? "vgpuctl: %s: several have this name: name one by its id\n"
			  : "vgpuctl: %s has no VF; see vgpuctl tenant list\n",
			name);
	return EXIT_NOT_FOUND;
}

/* Waits until the processes outside of the container have lost their VF, which vgpud bounds.
 * Returns an exit code; if it is not known whether they have, with the reason on stderr. */
static int await_end(const struct options *o, const struct found *l)
{
	struct timespec breath = {0, 20000000};
	struct found now;
	int code;

	while ((code = find_lease(o, l->lease, &now, false)) == EXIT_OK)
		nanosleep(&breath, NULL);
	return code == EXIT_NOT_FOUND ? EXIT_OK : code;
}

/* Ends the lease, whether or not it could be unmounted: its VF is free then. Returns an exit code.
 */
static int detach(const struct options *o, const struct found *l)
{
	int code =
		l->worker ? outside_unmount(l->process, l->worker) : order(o, "detach", l->lease);
	int r = stop(o, l->lease);

	if (r == EXIT_OK && l->worker) {
		r = await_end(o, l);
		if (r == EXIT_OK)
			render_end(l->worker, l->worker_started);
	}
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
	if (o->json)
		print_json(answer);
	else
		view_params(answer);
	json_object_put(answer);
	close(fd);
	return EXIT_OK;
}

int container(const struct options *o, const struct command *c, char **words)
{
	bool names = strcmp(c->verb, "name") == 0, sets = strcmp(c->verb, "set") == 0,
	     attaches = strcmp(c->verb, "attach") == 0;
	struct found found;
	int code;

	if (names && !words[0])
		return container_name(o);
	if (names || !words[0] || (sets && !words[1]) || (!sets && !attaches && words[1])) {
		fprintf(stderr, "vgpuctl: container %s: want %s\n", c->verb,
			*c->words ? c->words : "no argument");
		return EXIT_USAGE;
	}
	if (attaches)
		return attach(o, words[0], words + 1);
	code = find_lease(o, words[0], &found, true);
	if (code != EXIT_OK)
		return code;
	return sets ? set(o, found.lease, words + 1) : detach(o, &found);
}
