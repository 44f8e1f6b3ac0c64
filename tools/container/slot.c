/* SPDX-License-Identifier: MIT */
#include "slot.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vgpu/descriptor.h"

/* The header of libc that declares it conflicts with linux/mount.h. */
int umount2(const char *path, int flags);
#define DETACH 2 /* MNT_DETACH */

/* Returns a descriptor of a copy of the mount of DIR, read-only, without execution and propagation;
 * or -errno. */
static int copy_mount(const char *dir)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
					      MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
				  .propagation = 1u << 18 /* MS_PRIVATE */};
	VGPU_AUTO_CLOSE int tree =
		(int)syscall(SYS_open_tree, AT_FDCWD, dir,
			     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);

	if (tree < 0 ||
	    syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return -errno;
	return vgpu_take(&tree);
}

static bool has_ended(int process)
{
	struct pollfd p = {.fd = process, .events = POLLIN};

	return poll(&p, 1, 0) != 0;
}

/* Returns the process number of a pidfd; -1 if the process has ended. */
static int number_of(int process)
{
	char path[64], line[64];
	int pid = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", process);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Pid: %d", &pid) == 1)
			break;
	if (f)
		fclose(f);
	return pid;
}

/* Returns whether the process of a pidfd is in this process's mount namespace or in the host's,
 * which may differ for a service. An ordinary user can neither read the host's namespace nor mount
 * anything in it. */
static bool is_here(int process)
{
	struct stat ours, hosts, theirs;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", number_of(process));
	if (stat("/proc/self/ns/mnt", &ours) < 0 || stat(path, &theirs) < 0)
		return true;
	if (stat("/proc/1/ns/mnt", &hosts) < 0)
		hosts = ours;
	return theirs.st_ino == ours.st_ino || theirs.st_ino == hosts.st_ino;
}

/* Refuses a PROCESS, a pidfd, that is not a container's. Gives a user without rights those that the
 * owner of the container's user namespace has in it, and a copy of the present mount namespace in
 * which they hold. Returns 0, or -errno with the reason. */
static int prepare(int process, struct vgpu_error *err)
{
	if (has_ended(process))
		return vgpu_error_set(err, -ESRCH, "the container has ended");
	if (is_here(process))
		return vgpu_error_set(
			err, -EINVAL,
			"the lease's process is in the mount namespace of this program or of the "
			"host, so it is not a container: nothing was mounted");
	if (geteuid() != 0 && (setns(process, CLONE_NEWUSER) < 0 || unshare(CLONE_NEWNS) < 0))
		return vgpu_error_set(err, -errno, "the container's user namespace: %s",
				      strerror(errno));
	return 0;
}

/* Moves this thread into the mount namespace of PROCESS. Returns 0, or -errno with the reason. */
static int enter(int process, struct vgpu_error *err)
{
	int r;

	if (setns(process, CLONE_NEWNS) < 0) {
		r = errno == ESRCH ? -ESRCH : -errno;
		return vgpu_error_set(err, r, "the container's mount namespace: %s", strerror(-r));
	}
	return 0;
}

static bool has(int top, const char *path)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	VGPU_AUTO_CLOSE int fd = (int)syscall(SYS_openat2, top, path, &how, sizeof(how));

	return fd >= 0;
}

/* Refuses an image without glibc, which the mounted libraries need: the loader's error would name
 * missing functions instead of the reason. */
static int refuse_musl(int top, struct vgpu_error *err)
{
	if (!has(top, "/lib/ld-musl-x86_64.so.1") || has(top, "/lib64/ld-linux-x86-64.so.2"))
		return 0;
	return vgpu_error_set(
		err, -ENOTSUP,
		"the image's C library is musl: libcuda.so.1 of vgpud needs glibc "
		"2.28 or later; take an image of Debian, Ubuntu, Fedora or their like");
}

/* Opens the slot, which must be a mount that CDI made. Returns its descriptor, or -errno with the
 * reason. */
static int open_slot(const char *root, bool libraries, struct vgpu_error *err)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS |
					  RESOLVE_NO_MAGICLINKS};
	VGPU_AUTO_CLOSE int top = open(root ? root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	VGPU_AUTO_CLOSE int slot = -1;
	struct statx at;
	int r;

	if (top < 0)
		return vgpu_error_set(err, -errno, "%s: %s", root ? root : "/", strerror(errno));
	slot = (int)syscall(SYS_openat2, top, SLOT_PATH, &how, sizeof(how));
	if (slot < 0 && errno == ELOOP)
		return vgpu_error_set(err, -ELOOP,
				      SLOT_PATH " leads through a symbolic link in this image");
	if (slot < 0 && errno != ENOENT && errno != ENOTDIR)
		return vgpu_error_set(err, -errno, SLOT_PATH " in the container: %s",
				      strerror(errno));
	if (slot < 0 || statx(slot, "", AT_EMPTY_PATH, 0, &at) < 0 ||
	    !(at.stx_attributes_mask & at.stx_attributes & STATX_ATTR_MOUNT_ROOT))
		return vgpu_error_set(err, -ENOENT,
				      "the container was not started with a slot: start it with "
				      "--device vgpud.dev/gpu=later, or =NAME of a GPU");
	r = libraries ? refuse_musl(top, err) : 0;
	return r < 0 ? r : vgpu_take(&slot);
}

/* Returns whether FD is the directory of FIRST. */
static bool is_same(int fd, const struct stat *first)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_dev == first->st_dev && st.st_ino == first->st_ino;
}

int slot_fill(int process, const char *root, const char *dir, bool libraries,
	      struct vgpu_error *err)
{
	VGPU_AUTO_CLOSE int tree = -1, slot = -1;
	struct stat st;
	int r = prepare(process, err);

	if (r < 0)
		return r;
	tree = copy_mount(dir);
	if (tree < 0 || fstat(tree, &st) < 0) {
		r = tree < 0 ? tree : -errno;
		return vgpu_error_set(err, r, "%s: %s", dir, strerror(-r));
	}
	r = enter(process, err);
	if (r < 0)
		return r;
	slot = open_slot(root, libraries, err);
	if (slot < 0)
		return slot;
	if (is_same(slot, &st))
		return 0;
	if (syscall(SYS_move_mount, tree, "", slot, "",
		    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return vgpu_error_set(err, -errno, "mounting over " SLOT_PATH ": %s",
				      strerror(errno));
	/* If the process has ended, its number may have been another process's, and the namespace
	 * entered above that process's. */
	if (has_ended(process))
		return vgpu_error_set(err, -ESRCH, "the container has ended");
	return 0;
}

int slot_clear(int process, const char *dir, struct vgpu_error *err)
{
	/* The container's /proc cannot be trusted: use this process's own, opened before it enters
	 * the container. */
	VGPU_AUTO_CLOSE int own = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	VGPU_AUTO_CLOSE int slot = -1;
	struct stat st;
	char name[16];
	int r;

	if (own < 0 || stat(dir, &st) < 0)
		return vgpu_error_set(err, -errno, "%s: %s", own < 0 ? "/proc/self/fd" : dir,
				      strerror(errno));
	r = prepare(process, err);
	r = r < 0 ? r : enter(process, err);
	if (r < 0)
		return r;
	slot = open_slot(NULL, false, err);
	if (slot < 0)
		return slot;
	if (!is_same(slot, &st))
		return 0;
	snprintf(name, sizeof(name), "%d", slot);
	if (fchdir(own) < 0 || umount2(name, DETACH) < 0)
		return vgpu_error_set(err, -errno, "unmounting " SLOT_PATH ": %s", strerror(errno));
	return 0;
}
