/* SPDX-License-Identifier: MIT */
/*
 * vgpud-oci-hook: the hook that OCI runtimes call, by CDI, for a container with a GPU of vgpud.
 *
 *     vgpud-oci-hook createRuntime [--gpu NAME | --profile NAME | --later] [--render] < STATE
 *     vgpud-oci-hook poststop < STATE
 *
 * createRuntime asks vgpud for a lease for the container's first process, and mounts the lease's
 * directory into the container. Without a lease the container does not start. A runtime may show
 * only that this program failed: the reason is in the journal, and vgpud keeps it for "vgpuctl
 * container explain". With --later, for a slot that is filled while the container runs,
 * createRuntime mounts what was attached before a restart, and never fails. poststop tells vgpud
 * that the container has ended; it never fails, because vgpud also notices that by itself.
 *
 * The program has the rights of the user who starts the container, and a deadline, because runtimes
 * wait for it.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "control_client.h"
#include "render.h"
#include "slot.h"
#include "state.h"
#include "vgpu/about.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/file.h"

#define DOOR "/run/vgpud-tenant/tenant.sock"
/* How long a container waits for vgpud at most, seconds; CDI's time-out is longer. */
#define SECONDS 20
/* Further seconds in which the time-out can be reported. */
#define SECONDS_MORE 4

static const char help[] =
	"usage: vgpud-oci-hook createRuntime [--gpu NAME | --profile NAME | --later] [--render] < "
	"STATE\n"
	"       vgpud-oci-hook poststop < STATE\n"
	"OCI runtimes call it, as vgpud's CDI file tells them: asks vgpud for a container's VF\n"
	"and mounts it; without a VF the container does not start. vgpud-oci-hook(8)\n";

struct order {
	const char *gpu, *profile;
	bool later;
	bool render; /* the GPU may be gated: then the container's work runs outside of it */
	struct state state;
	/* Shared memory with the child, which may block: its result so far. */
	struct {
		char lease[64];
		struct vgpu_error err;
	} * said;
};

static const char *door(void)
{
	const char *path = getenv("VGPUD_TENANT_SOCKET");

	return path && *path ? path : DOOR;
}

static void add(struct json_object *to, const char *name, const char *value)
{
	if (value)
		json_object_object_add(to, name, json_object_new_string(value));
}

static struct json_object *claim(const struct order *o, const struct render *render)
{
	struct json_object *args = json_object_new_object(), *container = json_object_new_object();

	add(container, "id", o->state.id);
	json_object_object_add(container, "later", json_object_new_boolean(o->later));
	json_object_object_add(container, "pid", json_object_new_int(o->state.pid));
	if (o->render)
		json_object_object_add(container, "worker", json_object_new_int(render->worker));
	json_object_object_add(container, "annotations", json_object_get(o->state.annotations));
	if (json_object_object_length(o->state.names) > 0)
		json_object_object_add(container, "names", json_object_get(o->state.names));
	json_object_object_add(args, "container", container);
	add(args, "gpu", o->gpu);
	add(args, "profile", o->profile);
	return args;
}

/* Returns the text member NAME of an answer, owned by the answer; "" if it has none. */
static const char *text_of(struct json_object *o, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(o, name, &value) &&
			       json_object_is_type(value, json_type_string)
		       ? json_object_get_string(value)
		       : "";
}

/* Finds the path of the container's file system while its hooks run. Returns 0, or -errno with the
 * reason. */
static int find_root(struct state *s, struct vgpu_error *err)
{
	char path[STATE_PATH_SIZE + 16], *text;
	size_t size;
	int r;

	if (s->root[0])
		return 0;
	snprintf(path, sizeof(path), "%s/config.json", s->bundle);
	r = vgpu_file_read(path, STATE_MAX, &text, &size);
	if (r < 0)
		return vgpu_error_set(err, r, "%s: %s", path, strerror(-r));
	r = state_read_config(s, text, size, err);
	free(text);
	return r;
}

/* Sends vgpud the reason of a failure, for "vgpuctl container explain": only this program knows
 * it. */
static void note(int fd, const struct order *o, const char *why)
{
	struct json_object *args = json_object_new_object(), *container = json_object_new_object();
	struct json_object *answer = NULL;
	struct vgpu_error err;

	add(container, "id", o->state.id);
	json_object_object_add(container, "names", json_object_get(o->state.names));
	json_object_object_add(args, "container", container);
	add(args, "why", why);
	if (client_call(fd, "tenant.note", args, &answer, &err) == 0)
		json_object_put(answer);
}

/* Ends the lease NAME, or reports the end of the container NAME; WHAT is "lease" or "container". */
static void stop(int fd, const char *what, const char *name)
{
	struct json_object *args = json_object_new_object(), *answer = NULL;
	struct vgpu_error err;

	add(args, what, name);
	if (client_call(fd, "tenant.stop", args, &answer, &err) == 0)
		json_object_put(answer);
}

static int give(const struct order *o, int process, struct json_object *lease,
		struct render *render, struct vgpu_error *err)
{
	const char *door = text_of(lease, "door"),
		   *dir = door[0] ? render->dir : text_of(lease, "dir");
	int r = door[0] ? render_serve(render, door, err) : 0;

	if (r < 0)
		return r;
	if (!dir[0])
		return vgpu_error_set(err, -ENOTSUP,
				      "VFs of GPU %s have no socket, so containers cannot use "
				      "them: choose another GPU",
				      text_of(lease, "gpu"));
	return slot_fill(process, o->state.root, dir, !door[0], err);
}

static int take_for(struct order *o, int process, struct render *render, struct vgpu_error *err)
{
	VGPU_AUTO_CLOSE int fd = -1;
	struct json_object *lease = NULL;
	int r = fd = client_connect(door(), err);

	if (r >= 0)
		r = client_call(fd, "tenant.start", claim(o, render), &lease, err);
	if (r < 0)
		return r;
	if (!text_of(lease, "lease")[0]) { /* an answer without a lease: nothing was attached before
					    * the restart */
		json_object_put(lease);
		return 0;
	}
	snprintf(o->said->lease, sizeof(o->said->lease), "%s", text_of(lease, "lease"));
	r = give(o, process, lease, render, err);
	if (r < 0) {
		note(fd, o, err->text);
		stop(fd, "lease", text_of(lease, "lease"));
	}
	json_object_put(lease);
	return r;
}

static int take(struct order *o, struct vgpu_error *err)
{
	VGPU_AUTO_CLOSE int process = -1;
	struct render render = {.orders = -1};
	int r;

	if (o->state.pid == 0)
		return vgpu_error_set(err, -EINVAL,
				      "the runtime's state names no process: this hook is for "
				      "createRuntime");
	process = (int)syscall(SYS_pidfd_open, o->state.pid, 0);
	if (process < 0)
		return vgpu_error_set(err, -errno, "process %d: %s", o->state.pid, strerror(errno));
	r = find_root(&o->state, err);
	if (r == 0 && o->render)
		r = render_begin(&render, process, o->state.pid, err);
	if (r == 0)
		r = take_for(o, process, &render, err);
	if (o->render)
		render_leave(&render, r == 0);
	return r;
}

/* Waits for the child. Returns false if that took too long; the child is killed then. */
static bool await_end(pid_t child, int *status)
{
	VGPU_AUTO_CLOSE int process = (int)syscall(SYS_pidfd_open, child, 0);
	struct pollfd p = {.fd = process, .events = POLLIN};
	vgpu_nsec until = vgpu_now() + SECONDS * VGPU_SEC, now = 0;
	int n = 0;

	while (process >= 0 && n <= 0 && (now = vgpu_now()) < until)
		n = poll(&p, 1, (int)((until - now) / VGPU_MSEC) + 1);
	if (n <= 0)
		kill(child, SIGKILL);
	/* A killed child that waits for a file system of the container may end only later. */
	return waitpid(child, status, n > 0 ? 0 : WNOHANG) == child && n > 0;
}

/* Attaches a GPU. With --later, a failure does not keep the container from starting. A child does
 * the work, and finally enters the container's namespace, where a path may lead to a file system
 * that never answers. */
static int create_runtime(struct order *o, struct vgpu_error *err)
{
	VGPU_AUTO_CLOSE int fd = -1;
	int status = 0, r;
	pid_t child;

	o->said = mmap(NULL, sizeof(*o->said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	child = o->said == MAP_FAILED ? -1 : fork();
	if (child < 0)
		return vgpu_error_set(err, -errno, "cannot start the process that asks vgpud: %s",
				      strerror(errno));
	if (child == 0) {
		alarm(0);
		_exit(take(o, &o->said->err) < 0);
	}
	r = await_end(child, &status) ? status : -ETIMEDOUT;
	if (r == 0)
		return 0;
	*err = o->said->err;
	if (r < 0 || !err->text[0]) {
		if (r < 0)
			vgpu_error_set(err, r,
				       "no answer in %d seconds from vgpud, virglrenderer's server "
				       "or the container's file system",
				       SECONDS);
		else
			vgpu_error_set(err, -EIO, "the process that asks vgpud was killed");
		fd = client_connect(door(), &(struct vgpu_error){""});
		if (fd >= 0) {
			note(fd, o, err->text);
			stop(fd, "lease", o->said->lease);
		}
	}
	if (o->later)
		syslog(LOG_NOTICE, "container %.64s starts without a VF: %s", o->state.id,
		       err->text);
	return o->later ? 0 : -EIO;
}

static int poststop(struct order *o, struct vgpu_error *err)
{
	VGPU_AUTO_CLOSE int fd = client_connect(door(), err);

	if (fd >= 0)
		stop(fd, "container", o->state.id);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(struct order *o, struct vgpu_error *err);
} hooks[] = {{"createRuntime", create_runtime}, {"poststop", poststop}};

static int run(const char *name, struct order *o, struct vgpu_error *err)
{
	char *text;
	size_t size, i;
	int r = vgpu_read_all(STDIN_FILENO, STATE_MAX, &text, &size);

	if (r < 0)
		return vgpu_error_set(err, r, "the runtime's state: %s", strerror(-r));
	r = state_read(&o->state, text, size, err);
	free(text);
	if (r < 0)
		return r;
	r = vgpu_error_set(err, -EINVAL, "%s: want createRuntime or poststop", name);
	for (i = 0; i < sizeof(hooks) / sizeof(hooks[0]); i++)
		if (strcmp(name, hooks[i].name) == 0)
			r = hooks[i].run(o, err);
	return r;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"gpu", required_argument, NULL, 'g'},
		{"profile", required_argument, NULL, 'p'},
		{"later", no_argument, NULL, 'l'},
		{"render", no_argument, NULL, 'r'},
		{NULL, 0, NULL, 0},
	};
	struct order o = {0};
	struct vgpu_error err = {""};
	int option, r;

	if (vgpu_about(argc, argv, "vgpud-oci-hook", help))
		return 0;
	alarm(SECONDS + SECONDS_MORE);
	/* Opens the log's socket now, because later /dev/log may be the container's. */
	openlog("vgpud-oci-hook", LOG_NDELAY | LOG_PID, LOG_DAEMON);
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == '?')
			return 2;
		if (option == 'l' || option == 'r')
			*(option == 'l' ? &o.later : &o.render) = true;
		else
			*(option == 'g' ? &o.gpu : &o.profile) = optarg;
	}
	if (argc - optind != 1) {
		fputs(help, stderr);
		return 2;
	}
	r = run(argv[optind], &o, &err);
	if (r >= 0)
		return 0;
	fprintf(stderr, "vgpud: %s\n", err.text);
	syslog(LOG_ERR, "container %.64s: %s", o.state.id[0] ? o.state.id : "?", err.text);
	return 1;
}
