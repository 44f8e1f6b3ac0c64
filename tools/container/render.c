/* SPDX-License-Identifier: MIT */
#include "render.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "place.h"
#include "venus.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/gate.h"
#include "vgpu/local_socket.h"
#include "vgpu/process.h"

#define SERVER "/usr/bin/virgl_test_server"
#define NOBODY 65534
#define NAME "vgpud-render."
#define PROCESS "vgpud-render"
#define NODE "/dev/dri/renderD%d"
#define NODES 128     /* number of the first render node */
#define MOST_NODES 64 /* how many render nodes Linux has at most */
/* Numbers of the worker's descriptors. */
enum { ORDERS = 3, CONTAINER, LOCK };
/* Begins a message that is no reason for an end. */
#define WARNS '!'
/* How long the server may take until it listens, ns. */
#define START_WITHIN (8 * VGPU_SEC)

static const char *named(const char *variable, const char *else_this)
{
	const char *value = getenv(variable);

	return value && *value ? value : else_this;
}

static bool has_ended(int process)
{
	struct pollfd p = {.fd = process, .events = POLLIN};

	return poll(&p, 1, 0) != 0;
}

/* Returns 1 if this process is root of this host, 0 if it is not (root in a container engine's user
 * namespace is not), or -errno if that is unknown. */
static int is_root(void)
{
	unsigned long inside, outside;
	FILE *f;
	int r;

	if (geteuid() != 0)
		return 0;
	f = fopen("/proc/self/uid_map", "re");
	if (!f)
		return -errno;
	r = fscanf(f, "%lu %lu", &inside, &outside) == 2 ? inside == 0 && outside == 0 : -EIO;
	fclose(f);
	return r;
}

/* Writes to OUT at most ROOM groups, never root's, that own a GPU's render node or /dev/udmabuf.
 * Returns how many. */
static size_t find_groups(gid_t *out, size_t room)
{
	char path[32] = "/dev/udmabuf";
	struct stat node;
	size_t n = 0, i;
	int minor;

	for (minor = NODES - 1; minor < NODES + MOST_NODES; minor++) {
		if (minor >= NODES)
			snprintf(path, sizeof(path), NODE, minor);
		if (stat(path, &node) < 0 || !S_ISCHR(node.st_mode) || node.st_gid == 0)
			continue;
		for (i = 0; i < n && out[i] != node.st_gid; i++)
			;
		if (i == n && n < room)
			out[n++] = node.st_gid;
	}
	return n;
}

/* Checks that this process can open a GPU's render node, if this host has one. Returns 0, or -errno
 * with the reason. */
static int find_node(struct vgpu_error *err)
{
	char path[32];
	bool any = false;
	int minor;

	for (minor = NODES; minor < NODES + MOST_NODES; minor++) {
		snprintf(path, sizeof(path), NODE, minor);
		if (faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) == 0)
			return 0;
		any = any || errno != ENOENT;
	}
	return any ? vgpu_error_set(err, -EACCES,
				    "user %u can open no /dev/dri/renderD*: give the node to a "
				    "group other than root's, such as render, and add a user whose "
				    "containers compute to that group (usermod -a -G render USER)",
				    geteuid())
		   : 0;
}

/* Gives up all rights but the user's. If the user is root, the process becomes nobody, with the
 * groups of find_groups(). Returns 0, or -errno with the reason. */
static int drop_rights(struct vgpu_error *err)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
	gid_t groups[16];
	int root = is_root();

	if (root < 0)
		return vgpu_error_set(
			err, root,
			"cannot read whether this user is root of the host: /proc/self/uid_map: %s",
			strerror(-root));
	if ((root &&
	     (setgroups(find_groups(groups, 16), groups) < 0 ||
	      setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0)) ||
	    syscall(SYS_capset, &head, none) < 0)
		return vgpu_error_set(err, -errno, "cannot give up root's rights: %s",
				      strerror(errno));
	return find_node(err);
}

/* Puts this process and its future children into a Landlock domain (landlock(7)): they can neither
 * inspect, change nor signal any process outside. Older kernels support only a part of that.
 * Returns 0, or -errno with the reason. */
static int fence(struct vgpu_error *err)
{
	int version = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, 1u);
	/* Landlock denies what a rule set handles. A rule set must handle something, so this one
	 * denies making block devices, which the server never does. */
	struct {
		uint64_t files, net, scoped;
	} rules = {.files = 1u << 11 /* MAKE_BLOCK */, .scoped = 3 /* sockets, signals */};
	VGPU_AUTO_CLOSE int set = -1;

	if (version < 6)
		syslog(LOG_WARNING,
		       "Landlock %d: what breaks out of a container's render process can %s its "
		       "user's processes; Linux 6.12 with Landlock prevents it",
		       version < 0 ? 0 : version, version < 1 ? "change and end" : "end");
	if (version < 1)
		return 0;
	rules.files = version < 6 ? rules.files : 0;
	set = (int)syscall(SYS_landlock_create_ruleset, &rules,
			   version < 6 ? sizeof(rules.files) : sizeof(rules), 0);
	if (set < 0 || syscall(SYS_landlock_restrict_self, set, 0) < 0)
		return vgpu_error_set(err, -errno, "Landlock: %s", strerror(errno));
	return 0;
}

/* SIGTERM: the container has lost its VF. */
static void block_end(bool blocks)
{
	sigset_t end;

	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	sigprocmask(blocks ? SIG_BLOCK : SIG_UNBLOCK, &end, NULL);
}

/* Turns this process into the server of the worker PARENT; if that fails, reports the reason on
 * ORDERS. Does not return. */
static void become_server(const char *door, int orders, pid_t parent, pid_t container)
{
	const char *server = named("VGPUD_VTEST", SERVER);
	char warning[sizeof(((struct render *)0)->warning)] = {WARNS};
	struct vgpu_error err = {""};
	int r;

	signal(SIGCHLD, SIG_DFL);
	block_end(false);
	umask(077);
	place_beside(container, warning + 1, sizeof(warning) - 1);
	if (warning[1])
		send(orders, warning, strlen(warning) + 1, MSG_NOSIGNAL);
	r = drop_rights(&err);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (r == 0 && (getppid() != parent || has_ended(CONTAINER)))
		_exit(1);
	if (r == 0 && (setenv(GATE_DOOR, door, 1) < 0 ||
		       setenv("VK_ADD_LAYER_PATH", named("VGPUD_LAYERS", LAYERS), 1) < 0 ||
		       venus_clean_environment() < 0))
		r = vgpu_error_set(&err, -ENOMEM, "out of memory");
	if (r == 0)
		r = venus_gate(&err);
	if (r == 0)
		r = fence(&err); /* after the wall, so that the wall's keeper is outside the
				  * domain */
	if (r == 0) {
		execl(server, server, "--venus", "--socket-path", RENDER_SOCKET, (char *)NULL);
		vgpu_error_set(&err, -errno, "%s: %s (Debian: virgl-server)", server,
			       strerror(errno));
	}
	send(orders, err.text, strlen(err.text) + 1, MSG_NOSIGNAL);
	_exit(1);
}

/* Waits until the server listens in the present directory, and lets the container's users connect
 * there. Returns 0 or -errno. */
static int await_server(int server)
{
	vgpu_nsec until = vgpu_now() + START_WITHIN;
	struct timespec breath = {0, 2000000};
	VGPU_AUTO_CLOSE int at = -1;
	struct stat st;
	char path[32];
	int fd = -1;

	while (fd < 0 && !has_ended(server) && vgpu_now() < until) {
		fd = vgpu_socket_connect(RENDER_SOCKET, 0);
		if (fd < 0)
			nanosleep(&breath, NULL);
	}
	if (fd < 0)
		return -ETIMEDOUT;
	close(fd);
	/* The server owns the directory and may have put anything there, so links are not
	 * followed. */
	at = open(RENDER_SOCKET, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
	if (at < 0 || fstat(at, &st) < 0 || !S_ISSOCK(st.st_mode) || chmod(path, 0666) < 0)
		return -EIO;
	return 0;
}

/* Waits until the container or the server has ended, the container has lost its VF (SIGTERM), or
 * whoever started the worker has ended without having left it running (render_leave()). */
static void stay(int server)
{
	sigset_t end;
	VGPU_AUTO_CLOSE int told = -1;
	struct pollfd ends[4] = {{.fd = CONTAINER, .events = POLLIN},
				 {.fd = server, .events = POLLIN},
				 {.events = POLLIN},
				 {.fd = ORDERS, .events = POLLIN}};
	char byte;

	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	ends[2].fd = told = signalfd(-1, &end, SFD_CLOEXEC);
	for (;;) {
		if (poll(ends, 4, -1) < 0)
			continue;
		if (ends[0].revents || ends[1].revents || ends[2].revents ||
		    recv(ORDERS, &byte, 1, 0) <= 0)
			return;
		ends[3].fd = -1;
	}
}

/* Kills all descendants; those whose parents have ended become children of this process. */
static void end_all(void)
{
	struct timespec breath = {0, 1000000};
	char path[64];
	FILE *f;
	int child;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	while (waitpid(-1, NULL, WNOHANG | __WALL) >= 0 || errno != ECHILD) {
		f = fopen(path, "re");
		while (f && fscanf(f, "%d", &child) == 1)
			kill(child, SIGKILL);
		if (f)
			fclose(f);
		nanosleep(&breath, NULL);
	}
}

static void serve(pid_t container)
{
	static const char late[] = "virglrenderer's server has ended, or does not listen";
	char door[VGPU_SOCKET_PATH] = "";
	pid_t self = getpid(), server;
	int process;

	if (recv(ORDERS, door, sizeof(door) - 1, 0) <= 0)
		return;
	server = fork();
	if (server == 0)
		become_server(door, ORDERS, self, container);
	process = server < 0 ? -1 : (int)syscall(SYS_pidfd_open, server, 0);
	if (process >= 0 && await_server(process) == 0) {
		send(ORDERS, "", 1, MSG_NOSIGNAL);
		stay(process);
	} else {
		send(ORDERS, late, sizeof(late), MSG_NOSIGNAL);
	}
	end_all();
}

/* Removes what make_dir() made. */
static void remove_dir(const char *dir)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/" RENDER_SOCKET, dir);
	unlink(path);
	snprintf(path, sizeof(path), "%.*s", (int)(strrchr(dir, '/') - dir), dir);
	if (rmdir(dir) == 0 || errno == ENOENT)
		rmdir(path);
}

/* Closes all of the hook's descriptors but ORDERS, CONTAINER and LOCK, because the runtime may wait
 * until the others are closed. Returns 0 or -errno. */
static int keep_only(int orders, int container, int lock)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), kept[] = {orders, container, lock}, i;

	closelog();
	for (i = 0; i < 3; i++) {
		if (null < 0 || dup2(null, i) < 0)
			return -1;
		kept[i] = fcntl(kept[i], F_DUPFD, LOCK + 1);
		if (kept[i] < 0)
			return -1;
	}
	for (i = 0; i < 3; i++)
		if (dup3(kept[i], ORDERS + i, O_CLOEXEC) < 0)
			return -1;
	return (int)syscall(SYS_close_range, LOCK + 1u, ~0u, 0);
}

static void work(const char *dir, int orders, int container, int lock, pid_t pid)
{
	setsid();
	block_end(true);
	prctl(PR_SET_NAME, PROCESS, 0, 0, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	alarm(0);
	signal(SIGCHLD, SIG_IGN); /* of processes that this subreaper inherits: the kernel reaps
				   * them */
	if (keep_only(orders, container, lock) == 0 && chdir(dir) == 0)
		serve(pid);
	remove_dir(dir);
	_exit(0);
}

/* Removes this user's directories that no process has locked, because their worker was killed. */
static void sweep(void)
{
	DIR *tmp = opendir("/tmp");
	struct dirent *e;
	struct stat st;
	char dir[64];

	while (tmp && (e = readdir(tmp))) {
		VGPU_AUTO_CLOSE int fd = -1;

		if (strncmp(e->d_name, NAME, strlen(NAME)) != 0 ||
		    strlen(e->d_name) != strlen(NAME) + 6)
			continue;
		fd = openat(dirfd(tmp), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() ||
		    flock(fd, LOCK_EX | LOCK_NB) < 0)
			continue;
		snprintf(dir, sizeof(dir), "/tmp/%.40s/gpu", e->d_name);
		remove_dir(dir);
	}
	if (tmp)
		closedir(tmp);
}

/* Makes a directory, locked while it is used, so that neither sweep() nor systemd-tmpfiles removes
 * it. Returns the descriptor of the lock, or -errno. */
static int make_parent(char *parent)
{
	VGPU_AUTO_CLOSE int lock = -1;
	struct stat st;

	if (!mkdtemp(parent))
		return -errno;
	lock = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lock < 0 || flock(lock, LOCK_EX) < 0 || fstat(lock, &st) < 0)
		return -errno;
	return st.st_nlink == 0 ? -EAGAIN : vgpu_take(&lock); /* -EAGAIN: the sweep() of another
							       * hook has removed it */
}

/* Makes a directory that other users cannot enter, and in it the directory that is mounted. Returns
 * the descriptor of the lock, or -errno. */
static int make_dir(struct render *r)
{
	VGPU_AUTO_CLOSE int lock = -EAGAIN;
	char parent[32];
	int root = is_root(), e, tries;

	for (tries = 0; tries < 8 && lock == -EAGAIN; tries++) {
		snprintf(parent, sizeof(parent), "/tmp/" NAME "XXXXXX");
		lock = make_parent(parent);
	}
	if (lock < 0 || root < 0)
		return lock < 0 ? lock : root;
	snprintf(r->dir, sizeof(r->dir), "%s/gpu", parent);
	if (mkdir(r->dir, 0700) < 0 || (root && chown(r->dir, NOBODY, NOBODY) < 0) ||
	    chmod(r->dir, 0755) < 0) {
		e = errno;
		remove_dir(r->dir);
		return -e;
	}
	return vgpu_take(&lock);
}

int render_begin(struct render *out, int container, pid_t pid, struct vgpu_error *err)
{
	VGPU_AUTO_CLOSE int lock = -1;
	int ends[2], r;

	sweep();
	r = lock = make_dir(out);
	if (r < 0)
		return vgpu_error_set(err, r, "cannot make a directory in /tmp: %s", strerror(-r));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
		r = vgpu_error_set(err, -errno, "cannot make a socket: %s", strerror(errno));
		remove_dir(out->dir);
		return r;
	}
	out->worker = fork();
	if (out->worker == 0)
		work(out->dir, ends[1], container, lock, pid);
	r = out->worker < 0 ? vgpu_error_set(err, -errno, "fork: %s", strerror(errno)) : 0;
	if (r < 0)
		remove_dir(out->dir);
	close(ends[1]);
	out->orders = ends[0];
	return r;
}

int render_serve(struct render *r, const char *door, struct vgpu_error *err)
{
	char why[sizeof(err->text)] = "";
	ssize_t n;

	r->warning[0] = '\0';
	n = send(r->orders, door, strlen(door) + 1, MSG_NOSIGNAL);
	if (n > 0)
		n = recv(r->orders, why, sizeof(why) - 1, 0);
	if (n > 0 && why[0] == WARNS) {
		snprintf(r->warning, sizeof(r->warning), "%s", why + 1);
		n = recv(r->orders, why, sizeof(why) - 1, 0);
	}
	if (n <= 0)
		return vgpu_error_set(
			err, -EPIPE,
			"the container's render worker has ended: start the container again");
	r->listens = !why[0];
	return why[0] ? vgpu_error_set(err, -EIO, "%s", why) : 0;
}

void render_leave(struct render *r, bool is_used)
{
	if (r->listens && is_used)
		send(r->orders, "", 1, MSG_NOSIGNAL);
	vgpu_close(&r->orders);
}

void render_end(int worker, uint64_t started)
{
	VGPU_AUTO_CLOSE int process = (int)syscall(SYS_pidfd_open, worker, 0);
	struct vgpu_process p;

	/* A worker that has ended may have left its number to another process. */
	if (process >= 0 && vgpu_process_read((uint32_t)worker, &p) == 0 && p.started == started)
		syscall(SYS_pidfd_send_signal, process, SIGTERM, NULL, 0);
}
