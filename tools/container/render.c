/* SPDX-License-Identifier: MIT */
#include "render.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "venus.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/gate.h"
#include "vgpu/local_socket.h"

#define SERVER "/usr/bin/virgl_test_server"
#define NOBODY 65534
#define NODE "/dev/dri/renderD128"
/* Until it listens. */
#define START_WITHIN (8 * VGPU_SEC)

static const char *named(const char *variable, const char *else_this)
{
	const char *value = getenv(variable);

	return value && *value ? value : else_this;
}

/* Root of this host, and not the user who is root in a container engine's user namespace. */
static bool is_root(void)
{
	unsigned long inside = 1, outside = 1;
	FILE *f = geteuid() == 0 ? fopen("/proc/self/uid_map", "re") : NULL;
	bool is = f && fscanf(f, "%lu %lu", &inside, &outside) == 2 && inside == 0 && outside == 0;

	if (f)
		fclose(f);
	return is;
}

/* The server has no more rights than the user has; root's is nobody, with the GPU's group. */
static int drop_rights(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
	struct stat node;
	int has = stat(NODE, &node) == 0;

	if (is_root() &&
	    (setgroups((size_t)has, &node.st_gid) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
	     setresuid(NOBODY, NOBODY, NOBODY) < 0))
		return -errno;
	return syscall(SYS_capset, &head, none) < 0 ? -errno : 0;
}

/* The server, of a worker with the number PARENT. It says on ORDERS why it cannot be. */
static void become_server(const char *door, int orders, pid_t parent)
{
	const char *server = named("VGPUD_VTEST", SERVER);
	struct vgpu_error err = {""};
	int r = drop_rights();

	setsid(); /* what it starts ends with it */
	umask(0); /* whoever the container's processes are */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (r < 0)
		vgpu_error_set(&err, r, "rights cannot be dropped: %s", strerror(-r));
	else if (getppid() != parent)
		_exit(1);
	if (r == 0 && (setenv(GATE_DOOR, door, 1) < 0 ||
		       setenv("VK_ADD_LAYER_PATH", named("VGPUD_LAYERS", LAYERS), 1) < 0 ||
		       venus_clean_environment() < 0))
		r = vgpu_error_set(&err, -ENOMEM, "out of memory");
	if (r == 0)
		r = venus_gate(&err);
	if (r == 0) {
		execl(server, server, "--venus", "--socket-path", RENDER_SOCKET, (char *)NULL);
		vgpu_error_set(&err, -errno, "%s: %s (Debian: virgl-server)", server,
			       strerror(errno));
	}
	send(orders, err.text, strlen(err.text) + 1, MSG_NOSIGNAL);
	_exit(1);
}

static bool has_ended(int process)
{
	struct pollfd p = {.fd = process, .events = POLLIN};

	return poll(&p, 1, 0) != 0;
}

/* Waits until the server listens, in this directory. */
static int await_server(int server)
{
	vgpu_nsec until = vgpu_now() + START_WITHIN;
	struct timespec breath = {0, 2000000};
	int fd = -1;

	while (fd < 0 && !has_ended(server) && vgpu_now() < until) {
		fd = vgpu_socket_connect(RENDER_SOCKET, 0);
		if (fd < 0)
			nanosleep(&breath, NULL);
	}
	if (fd < 0)
		return -ETIMEDOUT;
	close(fd);
	return 0;
}

static void serve(int orders, int container)
{
	static const char late[] = "virglrenderer's server has ended, or does not listen";
	char door[VGPU_SOCKET_PATH] = "";
	struct pollfd ends[2] = {{.fd = container, .events = POLLIN}, {.events = POLLIN}};
	pid_t self = getpid(), server;

	if (recv(orders, door, sizeof(door) - 1, 0) <= 0)
		return;
	server = fork();
	if (server == 0)
		become_server(door, orders, self);
	ends[1].fd = server < 0 ? -1 : (int)syscall(SYS_pidfd_open, server, 0);
	if (ends[1].fd < 0)
		return;
	if (await_server(ends[1].fd) < 0) {
		send(orders, late, sizeof(late), MSG_NOSIGNAL);
	} else {
		send(orders, "", 1, MSG_NOSIGNAL);
		while (poll(ends, 2, -1) < 0)
			;
	}
	kill(-server, SIGKILL);
	kill(server, SIGKILL);
}

/* The worker. Nothing of the hook's stays: the runtime may wait for the end of what it gave. */
static void work(const char *dir, int orders, int container)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), i;
	char parent[64];

	setsid();
	prctl(PR_SET_NAME, "vgpud-render", 0, 0, 0);
	for (i = 0; i < 3; i++)
		dup2(null, i);
	orders = fcntl(orders, F_DUPFD, 200);
	container = fcntl(container, F_DUPFD_CLOEXEC, 200);
	syscall(SYS_close_range, 3u, 199u, 0);
	syscall(SYS_close_range, 202u, ~0u, 0);
	fcntl(orders, F_SETFD, FD_CLOEXEC);
	if (chdir(dir) == 0)
		serve(orders, container);
	unlink(RENDER_SOCKET);
	snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(dir, '/') - dir), dir);
	if (rmdir(dir) == 0)
		rmdir(parent);
	_exit(0);
}

/* A directory that others cannot pass, with the one that is mounted. */
static int make_dir(struct render *r)
{
	char parent[] = "/tmp/vgpud-render.XXXXXX";

	if (!mkdtemp(parent))
		return -errno;
	snprintf(r->dir, sizeof(r->dir), "%s/gpu", parent);
	if (mkdir(r->dir, 0700) < 0 || (is_root() && chown(r->dir, NOBODY, NOBODY) < 0) ||
	    chmod(r->dir, 0755) < 0) {
		rmdir(r->dir);
		rmdir(parent);
		return -EIO;
	}
	return 0;
}

int render_begin(struct render *out, int container, struct vgpu_error *err)
{
	int ends[2], r = make_dir(out);

	if (r < 0)
		return vgpu_error_set(err, r, "no directory can be made in /tmp: %s", strerror(-r));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return vgpu_error_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	out->worker = fork();
	if (out->worker == 0)
		work(out->dir, ends[1], container);
	close(ends[1]);
	out->orders = ends[0];
	return out->worker < 0 ? vgpu_error_set(err, -errno, "fork: %s", strerror(errno)) : 0;
}

int render_serve(struct render *r, const char *door, struct vgpu_error *err)
{
	char why[sizeof(err->text)] = "";

	if (send(r->orders, door, strlen(door) + 1, MSG_NOSIGNAL) < 0 ||
	    recv(r->orders, why, sizeof(why) - 1, 0) <= 0)
		return vgpu_error_set(err, -EPIPE, "the container's render worker has ended");
	return why[0] ? vgpu_error_set(err, -EIO, "%s", why) : 0;
}

void render_leave(struct render *r, bool serves)
{
	if (!serves)
		shutdown(r->orders, SHUT_RDWR);
	vgpu_close(&r->orders);
}
