/* SPDX-License-Identifier: MIT */
/*
 * podman and docker do not tell hooks a container's name. So vgpuctl, run by the container's user,
 * asks them after the start; nothing waits for the answer. With --follow, vgpuctl watches the
 * directory of vgpud's socket, in which vgpud makes a directory for each new lease.
 */
#include "container_name.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "answer.h"
#include "engine.h"
#include "exit_code.h"
#include "tenant.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"

/* Returns whether LEASE is of a running container whose name or image vgpud does not know yet. */
static bool is_unnamed(struct json_object *lease)
{
	const char *id = get_text(lease, "id"), *name = get_text(lease, "name");

	return strcmp(get_text(lease, "kind"), "container") == 0 &&
	       strcmp(get_text(lease, "state"), "running") == 0 &&
	       (strncmp(id, name, 12) == 0 || !*get_text(lease, "image"));
}

static int tell(const struct options *o, struct json_object *lease, struct json_object *names)
{
	struct json_object *args = json_object_new_object(), *answer = NULL;
	int fd;

	json_object_object_add(args, "lease", json_object_new_string(get_text(lease, "lease")));
	json_object_object_add(args, "names", json_object_get(names));
	fd = tenant_call(o, "tenant.name", args, &answer);
	if (fd < 0)
		return fd == -EXIT_NOT_FOUND ? EXIT_OK : -fd; /* the container has ended */
	json_object_put(answer);
	close(fd);
	return EXIT_OK;
}

static int name_all(const struct options *o)
{
	struct json_object *answer = NULL, *list, *names = NULL, *of;
	int fd = tenant_call(o, "tenant.list", NULL, &answer), code = EXIT_OK;
	size_t i;

	if (fd < 0)
		return -fd;
	close(fd);
	list = get(answer, "tenants");
	for (i = 0; i < count(list) && code == EXIT_OK; i++) {
		if (!is_unnamed(at(list, i)))
			continue;
		names = names ? names : engine_names();
		of = get(names, get_text(at(list, i), "id"));
		code = of ? tell(o, at(list, i), of) : EXIT_OK;
	}
	json_object_put(names);
	json_object_put(answer);
	return code;
}

int container_name(const struct options *o)
{
	char directory[VGPU_SOCKET_PATH], changes[4096];
	VGPU_AUTO_CLOSE int fd = -1;
	int code;

	tenant_directory(o, directory);
	if (o->follow)
		fd = inotify_init1(IN_CLOEXEC);
	if (o->follow && (fd < 0 || inotify_add_watch(fd, directory, IN_CREATE) < 0)) {
		fprintf(stderr, "vgpuctl: %s: %s\n", directory, strerror(errno));
		return EXIT_FAILED;
	}
	do
		code = name_all(o);
	while (code == EXIT_OK && o->follow && read(fd, changes, sizeof(changes)) > 0);
	return code;
}
