/* SPDX-License-Identifier: MIT */
#include "outside.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exit_code.h"
#include "slot.h"
#include "vgpu/descriptor.h"

/* How long mounting may take: a path in a container may lead to a file system that never answers.
 */
#define PATIENCE_MS 10000

/* Unmounts DIR, a worker's, from the container's slot. */
static int clear(int container, const char *dir, struct vgpu_error *err)
{
	if (access(dir, F_OK) == 0)
		return slot_clear(container, dir, err);
	if (errno == ENOENT) /* it was killed: there is no socket any more */
		return 0;
	return vgpu_error_set(err, -errno, "%s: %s", dir, strerror(errno));
}

/* Mounts DIR over the container's slot, or unmounts it. A child does that, because nobody leaves a
 * container's mount namespace again. Returns an exit code, with the reason on stderr. */
static int move(int container, const char *dir, bool away)
{
	struct vgpu_error *err =
		mmap(NULL, sizeof(*err), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct pollfd end = {.fd = -1, .events = POLLIN};
	int status = 0, n;
	pid_t child;

	child = err == MAP_FAILED ? -1 : fork();
	if (child == 0)
		_exit((away ? clear(container, dir, err)
			    : slot_fill(container, NULL, dir, false, err)) < 0);
	end.fd = child < 0 ? -1 : (int)syscall(SYS_pidfd_open, child, 0);
	if (end.fd < 0) {
		fprintf(stderr, "vgpuctl: no process that mounts: %s\n", strerror(errno));
		return EXIT_FAILED;
	}
	n = poll(&end, 1, PATIENCE_MS);
	if (n <= 0)
		kill(child, SIGKILL);
	/* One that waits for a file system of the container may end later. */
	if (waitpid(child, &status, n > 0 ? 0 : WNOHANG) != child || n <= 0)
		fprintf(stderr, "vgpuctl: the container's file system does not answer\n");
	else if (status != 0)
		fprintf(stderr, "vgpuctl: %s\n", err->text);
	vgpu_close(&end.fd);
	munmap(err, sizeof(*err));
	return n > 0 && status == 0 ? EXIT_OK : EXIT_FAILED;
}

int outside_begin(struct outside *out, int pid)
{
	struct vgpu_error err = {""};

	out->render = (struct render){.orders = -1};
	out->container = (int)syscall(SYS_pidfd_open, pid, 0);
	if (out->container < 0)
		vgpu_error_set(&err, -errno, "process %d: %s", pid, strerror(errno));
	else if (render_begin(&out->render, out->container, pid, &err) == 0)
		return EXIT_OK;
	fprintf(stderr, "vgpuctl: %s\n", err.text);
	return EXIT_FAILED;
}

int outside_serve(struct outside *out, const char *door)
{
	struct vgpu_error err;

	if (render_serve(&out->render, door, &err) == 0) {
		if (out->render.warning[0])
			fprintf(stderr, "vgpuctl: %s\n", out->render.warning);
		return move(out->container, out->render.dir, false);
	}
	fprintf(stderr, "vgpuctl: %s\n", err.text);
	return EXIT_FAILED;
}

void outside_leave(struct outside *out, bool is_used)
{
	render_leave(&out->render, is_used);
	vgpu_close(&out->container);
}

int outside_unmount(int pid, int worker)
{
	VGPU_AUTO_CLOSE int container = (int)syscall(SYS_pidfd_open, pid, 0);
	char dir[32];

	if (container < 0) /* it has ended, and its mounts with it */
		return EXIT_OK;
	snprintf(dir, sizeof(dir), "/proc/%d/cwd", worker);
	return move(container, dir, true);
}
