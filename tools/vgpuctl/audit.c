/* SPDX-License-Identifier: MIT */
/*
 * Compares three sources: vgpud's leases, the kernel's processes and podman's list, which is
 * outdated if a container's monitor was killed. Containers start and end meanwhile, so this program
 * compares twice, and reports only differences that it found both times.
 */
#include "audit.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "answer.h"
#include "engine.h"
#include "exit_code.h"
#include "session.h"
#include "tenant.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"

/* Time between the two comparisons, microseconds: longer than an engine needs to notice a start or
 * an end. */
#define AGAIN_US 700000
#define SLOT "/run/vgpud/gpu"
#define LEASE_LENGTH 36

struct look {
	struct json_object *leases;	/* running leases from tenant.list */
	struct json_object *containers; /* podman's list; NULL: podman was not asked */
	struct json_object *found;	/* the differences, as texts */
};

__attribute__((format(printf, 2, 3))) static void differs(struct look *l, const char *format, ...)
{
	char text[400];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	json_object_array_add(l->found, json_object_new_string(text));
}

static bool lives(int64_t process)
{
	VGPU_AUTO_CLOSE int fd = process > 0 ? (int)syscall(SYS_pidfd_open, process, 0) : -1;
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return fd >= 0 && poll(&p, 1, 0) == 0;
}

static bool is_container(struct json_object *lease)
{
	return strcmp(get_text(lease, "kind"), "container") == 0;
}

/* Returns the container with the id ID from podman's list of the caller's containers, or NULL. */
static struct json_object *container_of(const struct look *l, const char *id)
{
	size_t i;

	for (i = 0; i < count(l->containers); i++)
		if (strcmp(get_text(at(l->containers, i), "Id"), id) == 0)
			return at(l->containers, i);
	return NULL;
}

static bool runs(struct json_object *container)
{
	return strcmp(get_text(container, "State"), "running") == 0 ||
	       strcmp(get_text(container, "State"), "paused") == 0;
}

static void look_at_lease(struct look *l, struct json_object *lease)
{
	const char *name = get_text(lease, "name"), *id = get_text(lease, "id");
	int64_t process = get_int(lease, "process");
	struct json_object *container;

	if (!lives(process))
		differs(l, "%s %s: vgpud has a lease of process %" PRId64 ", which has ended",
			get_text(lease, "kind"), name, process);
	if (!l->containers || !is_container(lease) || get_int(lease, "owner") != (int64_t)geteuid())
		return; /* podman of root does not list users' containers */
	container = container_of(l, id);
	if (!container)
		differs(l, "container %s: it has a lease, and podman has no container %.12s", name,
			id);
	else if (!runs(container))
		differs(l, "container %s: it has a lease, and podman says that it is %s", name,
			get_text(container, "State"));
	else if (get_int(container, "Pid") != process)
		differs(l,
			"container %s: its lease is of process %" PRId64
			", and podman says that it is process %" PRId64,
			name, process, get_int(container, "Pid"));
}

/* Writes the lease whose directory is mounted in the slot of PROCESS; "" if none is. */
static void find_mounted(int64_t process, char lease[LEASE_LENGTH + 1])
{
	char path[64], line[4096], root[4096], at[4096], *end, *next;
	FILE *f;

	lease[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%" PRId64 "/mountinfo", process);
	f = fopen(path, "re");
	/* The last mount is on top. The kernel appends "//deleted" to a directory that was
	 * removed. */
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %*s %*s %4095s %4095s", root, at) != 2 ||
		    strcmp(at, SLOT) != 0)
			continue;
		for (end = root; (next = strstr(end + 1, "/gpu")); end = next)
			;
		lease[0] = '\0';
		if (end - root > LEASE_LENGTH && end[-LEASE_LENGTH - 1] == '/')
			snprintf(lease, LEASE_LENGTH + 1, "%s", end - LEASE_LENGTH);
	}
	if (f)
		fclose(f);
}

static bool is_lease_of(const struct look *l, const char *lease, int64_t process)
{
	size_t i;

	for (i = 0; i < count(l->leases); i++)
		if (strcmp(get_text(at(l->leases, i), "lease"), lease) == 0)
			return get_int(at(l->leases, i), "process") == process;
	return false;
}

static void look_at_container(struct look *l, struct json_object *container)
{
	const char *name = text_of(at(get(container, "Names"), 0));
	int64_t process = get_int(container, "Pid");
	char lease[LEASE_LENGTH + 1];

	if (!runs(container))
		return;
	if (!lives(process)) {
		differs(l,
			"container %s: podman says that it runs, and its process %" PRId64
			" has ended",
			name, process);
		return;
	}
	find_mounted(process, lease);
	if (lease[0] && !is_lease_of(l, lease, process))
		differs(l, "container %s: it has the directory of lease %s, which is not its own",
			name, lease);
}

/* Adds vgpud's running leases of programs and containers to L. Returns an exit code. */
static int take_leases(const struct options *o, struct look *l)
{
	struct json_object *answer = NULL, *list, *lease;
	int fd = tenant_call(o, "tenant.list", NULL, &answer);
	size_t i;

	if (fd < 0)
		return -fd;
	close(fd);
	list = get(answer, "tenants");
	for (i = 0; i < count(list); i++) {
		lease = at(list, i);
		if (strcmp(get_text(lease, "kind"), "vm") != 0 &&
		    strcmp(get_text(lease, "state"), "running") == 0)
			json_object_array_add(l->leases, json_object_get(lease));
	}
	json_object_put(answer);
	return EXIT_OK;
}

/* Collects all three sources in L. Returns an exit code; the caller must free L's members in any
 * case. */
static int look(const struct options *o, struct look *l)
{
	size_t i;
	int code;

	*l = (struct look){.leases = json_object_new_array(), .found = json_object_new_array()};
	/* podman takes the longest, so it is asked first: a lease that ends meanwhile is not in
	 * vgpud's answer. */
	if (o->podman && !(l->containers = engine_podman())) {
		fputs("vgpuctl: audit: podman is not installed, or fails: see podman ps -a\n",
		      stderr);
		return EXIT_FAILED;
	}
	code = take_leases(o, l);
	for (i = 0; code == EXIT_OK && i < count(l->leases); i++)
		look_at_lease(l, at(l->leases, i));
	for (i = 0; code == EXIT_OK && i < count(l->containers); i++)
		look_at_container(l, at(l->containers, i));
	return code;
}

static void drop(struct look *l)
{
	json_object_put(l->leases);
	json_object_put(l->containers);
	json_object_put(l->found);
}

static bool has_found(const struct look *l, struct json_object *text)
{
	size_t i;

	for (i = 0; i < count(l->found); i++)
		if (strcmp(text_of(at(l->found, i)), text_of(text)) == 0)
			return true;
	return false;
}

/* Prints the differences that both comparisons have found. Returns whether there were any. */
static bool report(const struct options *o, const struct look *first, const struct look *l)
{
	struct json_object *both = json_object_new_array(), *answer = json_object_new_object();
	size_t i, n;

	for (i = 0; i < count(l->found); i++)
		if (has_found(first, at(l->found, i)))
			json_object_array_add(both, json_object_get(at(l->found, i)));
	n = count(both);
	json_object_object_add(answer, "leases", json_object_new_int64((int64_t)count(l->leases)));
	json_object_object_add(answer, "containers",
			       l->containers ? json_object_new_int64((int64_t)count(l->containers))
					     : NULL);
	json_object_object_add(answer, "differences", both);
	if (o->json) {
		print_json(answer);
	} else {
		for (i = 0; i < n; i++)
			printf("%s\n", text_of(at(both, i)));
		printf("%zu lease%s of programs and containers", count(l->leases),
		       count(l->leases) == 1 ? "" : "s");
		if (l->containers)
			printf(", %zu container%s of podman", count(l->containers),
			       count(l->containers) == 1 ? "" : "s");
		printf(": %zu difference%s\n", n, n == 1 ? "" : "s");
	}
	json_object_put(answer);
	return n > 0;
}

int audit(const struct options *o, char **words)
{
	struct look first, second = {0};
	bool differ = false;
	int code;

	if (words[0]) {
		fprintf(stderr, "vgpuctl: audit: want no argument, not %s\n", words[0]);
		return EXIT_USAGE;
	}
	code = look(o, &first);
	if (code == EXIT_OK && count(first.found) > 0) {
		usleep(AGAIN_US);
		code = look(o, &second);
	}
	if (code == EXIT_OK)
		differ = report(o, &first, second.found ? &second : &first);
	drop(&second);
	drop(&first);
	return code != EXIT_OK ? code : differ ? EXIT_FAILED : EXIT_OK;
}
