/* SPDX-License-Identifier: MIT */
#include "caller.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "listen.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"
#include "vgpu/process.h"

/* Nesting depth of user namespaces; the kernel allows 32. */
#define DEEPEST 33

static int open_pid(uint32_t pid)
{
	int fd = pid ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	return fd < 0 ? -ESRCH : fd;
}

bool caller_has_ended(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return pidfd < 0 || poll(&p, 1, 0) > 0;
}

int caller_reopen(uint32_t pid, uint64_t started)
{
	VGPU_AUTO_CLOSE int fd = open_pid(pid);
	struct vgpu_process p;

	if (fd < 0 || vgpu_process_read(pid, &p) < 0 || p.started != started ||
	    caller_has_ended(fd))
		return -ESRCH;
	return vgpu_take(&fd);
}

static bool is_ours(int fd, const char *name)
{
	struct stat s, own;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	return stat(path, &own) == 0 && fstat(fd, &s) == 0 && s.st_dev == own.st_dev &&
	       s.st_ino == own.st_ino;
}

/* Opens a namespace of a process. Returns a descriptor or -errno. */
static int open_namespace(uint32_t pid, const char *name)
{
	char path[48];
	int fd;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/ns/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static bool shares(uint32_t pid, const char *name)
{
	VGPU_AUTO_CLOSE int fd = open_namespace(pid, name);

	return fd >= 0 && is_ours(fd, name);
}

/* Sets OWNER to the owner of the outermost user namespace below vgpud's that contains a process; to
 * OTHERWISE if the process is in vgpud's own. */
static int find_owner(uint32_t pid, uid_t otherwise, uid_t *owner)
{
	VGPU_AUTO_CLOSE int fd = open_namespace(pid, "user");
	int i, parent;

	*owner = otherwise;
	if (fd < 0)
		return fd;
	if (is_ours(fd, "user"))
		return 0;
	*owner = (uid_t)-1;
	for (i = 0; i < DEEPEST; i++) {
		parent = ioctl(fd, NS_GET_PARENT);
		if (parent < 0)
			return -EPERM; /* the namespace is not below vgpud's */
		if (is_ours(parent, "user")) {
			close(parent);
			return ioctl(fd, NS_GET_OWNER_UID, owner) < 0 ? -errno : 0;
		}
		close(fd);
		fd = parent;
	}
	return -ELOOP;
}

static bool may_be_root(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

int caller_read(int fd, struct caller *out)
{
	struct vgpu_process p = {0};
	struct ucred peer;
	int r = listen_peer(fd, &peer);

	*out = (struct caller){.uid = (uid_t)-1, .pidfd = -1, .owner = (uid_t)-1};
	if (r < 0)
		return r;
	out->uid = peer.uid;
	out->gid = peer.gid;
	out->pid = peer.pid > 0 ? (uint32_t)peer.pid : 0;
	out->pidfd = vgpu_socket_peer(fd, peer.pid);
	if (out->pidfd < 0 || vgpu_process_read(out->pid, &p) < 0 ||
	    find_owner(out->pid, peer.uid, &out->owner) < 0)
		out->owner = (uid_t)-1;
	out->started = p.started;
	out->is_here = out->pid && shares(out->pid, "pid");
	out->is_root = may_be_root(peer.uid) && out->is_here && shares(out->pid, "user");
	/* The owner of a namespace that root has made is not charged. */
	if (out->owner == 0 && !out->is_root)
		out->owner = (uid_t)-1;
	/* All values read by number belong to this process. */
	if (caller_has_ended(out->pidfd)) {
		if (out->pidfd >= 0)
			vgpu_close(&out->pidfd);
		out->pidfd = -1;
		out->is_root = out->is_here = false;
		out->owner = (uid_t)-1;
	}
	return 0;
}

bool caller_is_root(int fd, uid_t uid)
{
	struct caller c;
	bool is;

	if (!may_be_root(uid) || caller_read(fd, &c) < 0)
		return false;
	is = c.is_root;
	if (c.pidfd >= 0)
		close(c.pidfd);
	return is;
}

/* Returns the user whose processes may look into the process, the one as whom it runs, if it is in
 * vgpud's user namespace; root, if it has or had more rights than its user. */
static uid_t user_of(uint32_t pid)
{
	struct stat st;
	char path[32];

	/* The process's directory always has its user, its files not. */
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/status", pid);
	return stat(path, &st) < 0 ? (uid_t)-1 : st.st_uid;
}

/* Opens a process of CALLER's: in a user namespace that CALLER owns or, if ANY, outside of one. */
static int open_of(const struct caller *caller, uint32_t pid, bool any, struct caller *out,
		   struct vgpu_error *err)
{
	VGPU_AUTO_CLOSE int fd = -1;
	struct vgpu_process p;
	uid_t owner;

	if (!caller->is_here)
		return vgpu_error_set(err, -EPERM,
				      "the caller is in another PID namespace, so the number of a "
				      "process that it gives means another one here");
	fd = open_pid(pid);
	if (fd < 0 || vgpu_process_read(pid, &p) < 0)
		return vgpu_error_set(err, -ESRCH, "there is no process %" PRIu32, pid);
	/* A process whose namespace vgpud may not read has no known owner. */
	if (find_owner(pid,
		       caller->is_root ? caller->owner
		       : any	       ? user_of(pid)
				       : (uid_t)-1,
		       &owner) < 0)
		owner = (uid_t)-1;
	if (caller_has_ended(fd))
		return vgpu_error_set(err, -ESRCH, "there is no process %" PRIu32, pid);
	if (owner == (uid_t)-1 || (!caller->is_root && owner != caller->owner))
		return vgpu_error_set(err, -EPERM, "process %" PRIu32 " is not %s user %u", pid,
				      any ? "one of" : "in a user namespace of",
				      (unsigned)caller->owner);
	*out = (struct caller){.uid = owner,
			       .pid = pid,
			       .started = p.started,
			       .pidfd = vgpu_take(&fd),
			       .owner = owner};
	return 0;
}

int caller_open(const struct caller *caller, uint32_t pid, struct caller *out,
		struct vgpu_error *err)
{
	return open_of(caller, pid, false, out, err);
}

int caller_open_any(const struct caller *caller, uint32_t pid, struct caller *out,
		    struct vgpu_error *err)
{
	return open_of(caller, pid, true, out, err);
}
