/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"
#include "vgpu/descriptor.h"

#define MOST_ARGS 24u
#define MOST_FDS 8u

extern char **environ;

/* Looks for NAME relative to FILE, which has softgpu's own code: where it is installed, then where
 * the build puts it, which has softgpu-FOLDER in FOLDER. */
static bool find_from(const char *file, const char *name, char *path, size_t size)
{
	static const char *const places[] = {"/../libexec/vgpud", "/..", "/../../tools/softgpu",
					     "/../../../tools/softgpu"};
	const char *folder = strchr(name, '-') + 1, *end = strrchr(file, '/');
	int n = end ? (int)(end - file) : 0, length;
	size_t i;

	for (i = 0; i < sizeof(places) / sizeof(places[0]) && n > 0; i++) {
		length = snprintf(path, size, "%.*s%s/%s%s%s", n, file, places[i],
				  i == 0 ? "" : folder, i == 0 ? "" : "/", name);
		if ((size_t)length < size && access(path, X_OK) == 0)
			return true;
	}
	return false;
}

/* Looks for NAME relative to the running program, then to the object with this code, such as a
 * module of QEMU's, and last where it is installed. */
static int find_program(const char *name, char *path, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	Dl_info object;

	self[n < 0 ? 0 : n] = 0;
	if (find_from(self, name, path, size) ||
	    (dladdr(find_from, &object) && find_from(object.dli_fname, name, path, size)))
		return 0;
	snprintf(path, size, "%s/%s", PROGRAMS_INSTALLED, name);
	return access(path, X_OK) == 0 ? 0 : -ENOENT;
}

/* Duplicates FDS to numbers above those that the program expects, so that none is overwritten. */
static int lift(const int *fds, uint32_t n, int *high)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, PROGRAM_FIRST_FD + (int)MOST_FDS);
		if (high[i] < 0)
			return -errno;
	}
	return 0;
}

/* This process's environment, but for LD_PRELOAD: what was loaded into QEMU, such as this library,
 * does not fit another program. NULL without memory; freed by the caller, the strings are not. */
static char **child_environment(void)
{
	char **out;
	size_t n = 0, i;

	while (environ[n])
		n++;
	out = calloc(n + 1, sizeof(*out));
	if (!out)
		return NULL;
	for (n = 0, i = 0; environ[i]; i++)
		if (strncmp(environ[i], "LD_PRELOAD=", strlen("LD_PRELOAD=")) != 0)
			out[n++] = environ[i];
	return out;
}

static int start(const char *path, const char *const *args, const int *high, uint32_t n, pid_t *pid)
{
	char **environment = child_environment();
	char *argv[MOST_ARGS + 2] = {(char *)path};
	struct sched_param param = {0};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	uint32_t i;
	int r;

	if (!environment)
		return -ENOMEM;
	for (i = 0; i < MOST_ARGS && args[i]; i++)
		argv[i + 1] = (char *)args[i];
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setschedpolicy(&attr, SCHED_OTHER);
	posix_spawnattr_setschedparam(&attr, &param);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
						POSIX_SPAWN_SETSCHEDULER);
	for (i = 0; i < n; i++)
		posix_spawn_file_actions_adddup2(&actions, high[i], PROGRAM_FIRST_FD + (int)i);
	r = posix_spawn(pid, path, &actions, &attr, argv, environment);
	free(environment);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

int program_start(const char *name, const char *const *args, const int *fds, uint32_t n, pid_t *pid,
		  int *pidfd, struct vgpu_error *err)
{
	int high[MOST_FDS] = {-1, -1, -1, -1, -1, -1, -1, -1}, r;
	char path[PATH_MAX];
	uint32_t i;

	if (find_program(name, path, sizeof(path)) < 0)
		return vgpu_error_set(
			err, -ENOENT,
			"%s is neither in ../libexec/vgpud, relative to this program, "
			"nor in " PROGRAMS_INSTALLED ": install it",
			name);
	r = lift(fds, n, high);
	if (r == 0)
		r = start(path, args, high, n, pid);
	for (i = 0; i < n; i++)
		vgpu_close(&high[i]);
	if (r < 0)
		return vgpu_error_set(err, r, "%s: %s", path, strerror(-r));
	*pidfd = pidfd_open(*pid, 0);
	if (*pidfd < 0) {
		r = -errno;
		kill(*pid, SIGKILL);
		waitpid(*pid, NULL, 0);
		return vgpu_error_set(err, r, "pidfd_open: %s", strerror(-r));
	}
	return 0;
}
