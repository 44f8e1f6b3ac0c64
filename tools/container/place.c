/* SPDX-License-Identifier: MIT */
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "vgpu/descriptor.h"
#include "vgpu/file.h"

#define GROUPS "/sys/fs/cgroup"
/* The largest number of descriptors; vgpud ends a process on a gated GPU that has more. */
#define MOST_DESCRIPTORS 16384

static int write_text(const char *path, const char *text)
{
	VGPU_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

/* Returns how many device nodes of GPUs, and nodes that GPUs' drivers need, this process can
 * open. */
static int count_nodes(void)
{
	static const char *const patterns[] = {"/dev/dri/renderD*", "/dev/udmabuf", "/dev/nvidia*"};
	glob_t found;
	size_t i, k;
	int n = 0;

	for (i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		if (glob(patterns[i], 0, NULL, &found) != 0)
			continue;
		for (k = 0; k < found.gl_pathc; k++)
			n += faccessat(AT_FDCWD, found.gl_pathv[k], R_OK | W_OK, AT_EACCESS) == 0;
		globfree(&found);
	}
	return n;
}

/* Moves this process into the group PATH of cgroup version 2, or into its child group BELOW.
 * Returns 0 or -errno. */
static int move_two(const char *path, const char *below)
{
	char dir[4096];

	snprintf(dir, sizeof(dir), GROUPS "%s%s%s",
		 access(GROUPS "/cgroup.controllers", F_OK) == 0 ? "" : "/unified", path, below);
	if (below[0] && mkdir(dir, 0755) < 0 && errno != EEXIST)
		return -errno;
	strncat(dir, "/cgroup.procs", sizeof(dir) - strlen(dir) - 1);
	return write_text(dir, "0");
}

/*
 * Moves this process from the group of the line OWN into the group of LINE; both are lines of
 * /proc/PID/cgroup. The container's group may deny the GPU's devices: such groups of version 1 are
 * skipped, and such a group of version 2 is left again. In version 2, a group that has controllers
 * for its children (the container may create some) cannot have processes: then this process gets a
 * child group of its own.
 */
static int move(const char *line, const char *own)
{
	const char *name = strchr(line, ':'), *path = name ? strchr(name + 1, ':') : NULL;
	char dir[4096], back[2048] = "";
	int r, before;

	if (!path || strstr(path, "/.."))
		return -ENOENT;
	name += strncmp(name, ":name=", 6) == 0 ? 6 : 1;
	path++;
	if (strncmp(line, "0::", 3) == 0) {
		own = strncmp(own, "0::", 3) == 0 ? own : strstr(own, "\n0::");
		if (!own || sscanf(own + strspn(own, "\n"), "0::%2047[^\n]", back) != 1)
			return -ENOENT;
		before = count_nodes();
		r = move_two(path, "/vgpud-render");
		if (r < 0 || count_nodes() == before)
			return r;
		r = move_two(back, "");
		return r < 0 ? r : -ENODEV;
	}
	if (strncmp(name, "devices:", 8) == 0)
		return 0;
	snprintf(dir, sizeof(dir), GROUPS "/%.*s%s/cgroup.procs", (int)(path - 1 - name), name,
		 path);
	return write_text(dir, "0");
}

/* Returns whether TEXT has the line LINE. */
static bool has_line(const char *text, const char *line)
{
	const char *at = strstr(text, line);
	size_t n = strlen(line);

	while (at && ((at > text && at[-1] != '\n') || (at[n] != '\n' && at[n] != '\0')))
		at = strstr(at + 1, line);
	return at != NULL;
}

__attribute__((format(printf, 3, 4))) static void warn(char *why, size_t size, const char *format,
						       ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, size, format, args);
	va_end(args);
	syslog(LOG_WARNING, "%s", why);
}

static void join_groups(pid_t container, char *why, size_t size)
{
	char path[64], *own = NULL, *theirs = NULL, *line, *rest = NULL;
	size_t length;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)container);
	r = vgpu_file_read(path, 1u << 16, &theirs, &length);
	if (r == 0)
		r = vgpu_file_read("/proc/self/cgroup", 1u << 16, &own, &length);
	if (r < 0)
		warn(why, size,
		     "%s: %s: the container's limits do not count for its GPU's processes", path,
		     strerror(-r));
	for (line = r == 0 ? strtok_r(theirs, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		r = has_line(own, line) ? 0 : move(line, own);
		if (r < 0)
			warn(why, size,
			     "control group %.200s: %s: its limits do not count for the "
			     "container's GPU processes",
			     line, r == -ENODEV ? "it denies the GPU" : strerror(-r));
	}
	free(own);
	free(theirs);
}

void place_beside(pid_t container, char *why, size_t size)
{
	struct rlimit most;
	char path[64], *text = NULL;
	cpu_set_t cpus;
	size_t length;
	int nice;

	join_groups(container, why, size);
	/* Container engines give their own processes a score that protects them, so this process
	 * takes the container's. */
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)container);
	vgpu_file_read(path, 64, &text, &length);
	write_text("/proc/self/oom_score_adj", text ? text : "0");
	free(text);
	errno = 0;
	nice = getpriority(PRIO_PROCESS, (id_t)container);
	if (errno == 0)
		setpriority(PRIO_PROCESS, 0, nice);
	if (sched_getaffinity(container, sizeof(cpus), &cpus) == 0)
		sched_setaffinity(0, sizeof(cpus), &cpus);
	if (getrlimit(RLIMIT_NOFILE, &most) == 0) {
		most.rlim_max = most.rlim_max < MOST_DESCRIPTORS ? most.rlim_max : MOST_DESCRIPTORS;
		most.rlim_cur = most.rlim_max;
		setrlimit(RLIMIT_NOFILE, &most);
	}
}
