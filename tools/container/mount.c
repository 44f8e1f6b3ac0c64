/* SPDX-License-Identifier: MIT */
/*
 * vgpud-mount: mounts the directory of a lease into a running container, or unmounts it. systemd
 * starts one process for each order. Standard input is the socket on which the order arrives; its
 * sender is taken from the kernel alone (SO_PEERCRED).
 *
 *     {"method": "attach" | "detach", "args": {"lease": NAME}}
 *
 * vgpud tells the lease's owner and its process; the caller names neither. The caller may be the
 * lease's owner, or root of this host. vgpud has several threads, so it cannot enter other mount
 * namespaces: this program does only that, and ends.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control_client.h"
#include "slot.h"
#include "vgpu/about.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"

#define DOOR "/run/vgpud-tenant/tenant.sock"
#define LONGEST_ORDER 4096
/* How long a client may take to send its order, seconds. */
#define SECONDS_TO_READ 2
/* How long an order may take, seconds. Without a limit it could block for ever, because a path in a
 * container may lead to a file system that never answers. */
#define SECONDS 10

static const char help[] =
	"usage: vgpud-mount < SOCKET\n"
	"Called by vgpud-mount.socket for \"vgpuctl container attach\" and \"detach\": mounts the\n"
	"directory of a lease into a container that runs. vgpud-mount(8)\n";

static const char *door(void)
{
	const char *path = getenv("VGPUD_TENANT_SOCKET");

	return path && *path ? path : DOOR;
}

/* Returns whether process PID is in the same namespace NAME as this process. */
static bool shares(pid_t pid, const char *name)
{
	struct stat own, theirs;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	if (stat(path, &own) < 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
	return stat(path, &theirs) == 0 && own.st_dev == theirs.st_dev &&
	       own.st_ino == theirs.st_ino;
}

/* Returns whether the sender of the order may mount a lease of OWNER: it must be OWNER, or root of
 * this host. uid 0 of another user namespace has no rights. */
static bool may(uid_t owner)
{
	struct pollfd process = {.events = POLLIN};
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);
	bool is;

	if (getsockopt(STDIN_FILENO, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid <= 0)
		return false;
	if (peer.uid != 0)
		return peer.uid == owner;
	process.fd = vgpu_socket_peer(STDIN_FILENO, peer.pid);
	is = process.fd >= 0 && shares(peer.pid, "user") && shares(peer.pid, "pid") &&
	     poll(&process, 1, 0) == 0; /* it still runs, so the namespaces read above were its
					 * own */
	vgpu_close(&process.fd);
	return is;
}

static const char *text_of(struct json_object *o, const char *name)
{
	const char *text = json_object_get_string(json_object_object_get(o, name));

	return text ? text : "";
}

/* Asks vgpud which process has LEASE, which must be a running container's. Returns 0 with its
 * number in *PROCESS, or -errno with the reason. */
static int ask(const char *lease, int *process, struct vgpu_error *err)
{
	VGPU_AUTO_CLOSE int fd = client_connect(door(), err);
	struct json_object *answer = NULL, *list, *o, *found = NULL;
	size_t i;
	int r = fd < 0 ? fd : client_call(fd, "tenant.list", NULL, &answer, err);

	if (r < 0)
		return r;
	list = json_object_object_get(answer, "tenants");
	for (i = 0; i < json_object_array_length(list) && !found; i++) {
		o = json_object_array_get_idx(list, i);
		if (strcmp(text_of(o, "lease"), lease) == 0 &&
		    strcmp(text_of(o, "kind"), "container") == 0 &&
		    strcmp(text_of(o, "state"), "running") == 0)
			found = o;
	}
	if (!found || !may((uid_t)json_object_get_int64(json_object_object_get(found, "owner"))))
		r = vgpu_error_set(err, -ENOENT,
				   "lease %.40s: no running container of yours has it; 'vgpuctl "
				   "tenant list' shows your leases",
				   lease);
	else
		*process = json_object_get_int(json_object_object_get(found, "process"));
	json_object_put(answer);
	return r;
}

/* Returns a pidfd of the lease's process, which the caller closes, or -errno. Asks vgpud again
 * after opening it: if the answer is the same, the pidfd is not that of a later process with the
 * same number. */
static int open_process(const char *lease, struct vgpu_error *err)
{
	VGPU_AUTO_CLOSE int fd = -1;
	int process = 0, still = 0, r = ask(lease, &process, err);

	if (r < 0)
		return r;
	fd = (int)syscall(SYS_pidfd_open, process, 0);
	if (fd < 0)
		return vgpu_error_set(err, -errno, "process %d: %s", process, strerror(errno));
	r = ask(lease, &still, err);
	if (r == 0 && still != process)
		r = vgpu_error_set(err, -ESRCH,
				   "the container was restarted meanwhile: repeat the command");
	return r < 0 ? r : vgpu_take(&fd);
}

static int find_dir(const char *lease, char *out, size_t size, struct vgpu_error *err)
{
	const char *path = door(), *slash = strrchr(path, '/');

	/* LEASE becomes part of a path, so only a UUID is accepted. */
	if (!slash || strlen(lease) != 36 || strspn(lease, "0123456789abcdef-") != 36)
		return vgpu_error_set(
			err, -EINVAL,
			"lease: want the name of a lease, as 'vgpuctl tenant list' shows it");
	snprintf(out, size, "%.*s/%s/gpu", (int)(slash - path), path, lease);
	return 0;
}

static int carry_out(struct json_object *order, struct vgpu_error *err)
{
	const char *method = text_of(order, "method"),
		   *lease = text_of(json_object_object_get(order, "args"), "lease");
	VGPU_AUTO_CLOSE int process = -1;
	char dir[VGPU_SOCKET_PATH + 64];
	int r = find_dir(lease, dir, sizeof(dir), err);

	if (r == 0 && strcmp(method, "attach") != 0 && strcmp(method, "detach") != 0)
		r = vgpu_error_set(err, -EINVAL, "method: want attach or detach");
	if (r == 0)
		r = process = open_process(lease, err);
	if (r < 0)
		return r;
	return method[0] == 'a' ? slot_fill(process, NULL, dir, true, err)
				: slot_clear(process, dir, err);
}

/* Reads the order, a line of JSON. Returns it, owned by the caller, or NULL if it is malformed. */
static struct json_object *read_order(void)
{
	char text[LONGEST_ORDER];
	size_t have = 0;
	ssize_t n = 1;

	while (n > 0 && have < sizeof(text) - 1 && !memchr(text, '\n', have)) {
		n = read(STDIN_FILENO, text + have, sizeof(text) - 1 - have);
		have += n > 0 ? (size_t)n : 0;
	}
	text[have] = '\0';
	return json_tokener_parse(text);
}

static void answer(int r, const char *why)
{
	struct json_object *o = json_object_new_object(), *error = json_object_new_object();
	const char *name = strerrorname_np(-r), *text;

	if (r < 0) {
		json_object_object_add(error, "code", json_object_new_string(name ? name : "EIO"));
		json_object_object_add(error, "message", json_object_new_string(why));
	}
	json_object_object_add(o, r < 0 ? "error" : "result", error);
	text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
	vgpu_socket_send_all(STDIN_FILENO, text, strlen(text));
	vgpu_socket_send_all(STDIN_FILENO, "\n", 1);
	json_object_put(o);
}

int main(int argc, char **argv)
{
	struct vgpu_error err = {""};
	struct json_object *order;
	int r;

	if (vgpu_about(argc, argv, "vgpud-mount", help))
		return 0;
	if (argc > 1) {
		fputs(help, stderr);
		return 2;
	}
	alarm(SECONDS_TO_READ);
	order = read_order();
	alarm(SECONDS);
	r = json_object_is_type(order, json_type_object)
		    ? carry_out(order, &err)
		    : vgpu_error_set(&err, -EINVAL, "the order is no JSON object");
	answer(r, err.text);
	json_object_put(order);
	return 0; /* a refused order is not a failure of this program */
}
