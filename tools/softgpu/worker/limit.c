/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "limit.h"

#define TOOL "nvidia-smi"
#define TOOL_MS 10000

extern char **environ;

int limit_own_group(char *path, size_t size, struct vgpu_error *err)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX];
	int r = -ENOENT;

	while (f && r < 0 && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (strncmp(line, "0::/", 4) == 0 &&
		    (size_t)snprintf(path, size, "%s", line + 3) < size)
			r = 0;
	}
	if (f)
		fclose(f);
	if (r < 0)
		return vgpu_error_set(err, r, "this host has no control groups of version 2");
	return 0;
}

/* Writes the VF's control group, below that of this process: its name, and its directory below
 * ROOT. */
static int group_of(const char *root, pid_t owner, uint32_t vf, char *group, char *dir,
		    struct vgpu_error *err)
{
	char own[PATH_MAX];
	int r = limit_own_group(own, sizeof(own), err);

	if (r < 0)
		return r;
	if (strcmp(own, "/") == 0)
		own[0] = 0;
	if (snprintf(group, PATH_MAX, "%s/softgpu-%d-vf%u", own, (int)owner, vf) >= PATH_MAX ||
	    snprintf(dir, PATH_MAX, "%s%s", root, group) >= PATH_MAX - 16)
		return vgpu_error_set(err, -ENAMETOOLONG,
				      "%s: the control group's name is too long", own);
	return 0;
}

void limit_forget(const char *root, pid_t owner, uint32_t vf)
{
	char group[PATH_MAX], dir[PATH_MAX];

	if (group_of(root, owner, vf, group, dir, NULL) == 0)
		rmdir(dir);
}

static int enter(const char *root, pid_t owner, uint32_t vf, char *group, struct vgpu_error *err)
{
	char dir[PATH_MAX], file[PATH_MAX + 16];
	int fd, r = group_of(root, owner, vf, group, dir, err);

	if (r < 0)
		return r;
	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return vgpu_error_set(err, -errno, "no control group %s: %s", dir, strerror(errno));
	snprintf(file, sizeof(file), "%s/cgroup.procs", dir);
	fd = open(file, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) < 0) {
		r = vgpu_error_set(err, -errno, "a worker cannot enter control group %s: %s", dir,
				   strerror(errno));
		if (fd >= 0)
			close(fd);
		rmdir(dir);
		return r;
	}
	close(fd);
	return 0;
}

/* Runs the tool. Returns its exit status, or -errno if it does not start or does not end. */
static int run(char *const argv[])
{
	posix_spawn_file_actions_t actions;
	struct pollfd p = {.events = POLLIN};
	siginfo_t info = {0};
	pid_t pid;
	int r;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	r = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return -r;
	p.fd = pidfd_open(pid, 0);
	if (p.fd < 0 || poll(&p, 1, TOOL_MS) <= 0) {
		kill(pid, SIGKILL);
		r = -ETIMEDOUT;
	}
	waitid(P_PID, (id_t)pid, &info, WEXITED);
	if (p.fd >= 0)
		close(p.fd);
	if (r < 0)
		return r;
	return info.si_code == CLD_EXITED ? info.si_status : -EINTR;
}

int limit_memory(const char *root, uint32_t gpu, pid_t owner, uint32_t vf, uint64_t bytes,
		 struct vgpu_error *err)
{
	char group[PATH_MAX], number[16], mib[32];
	char *argv[] = {(char *)TOOL,
			(char *)"memory-limits",
			(char *)"--set",
			(char *)"-n",
			group,
			(char *)"--hard-limit",
			mib,
			(char *)"-i",
			number,
			NULL};
	int r;

	snprintf(number, sizeof(number), "%u", gpu);
	snprintf(mib, sizeof(mib), "%llu", (unsigned long long)((bytes + (1 << 20) - 1) >> 20));
	r = enter(root, owner, vf, group, err);
	if (r < 0)
		return r;
	r = run(argv);
	if (r < 0)
		return vgpu_error_set(err, r, TOOL ": %s", strerror(-r));
	if (r > 0)
		return vgpu_error_set(err, -EOPNOTSUPP,
				      TOOL " refuses: this driver has no memory limits "
					   "(R615 or newer has them)");
	return 0;
}
