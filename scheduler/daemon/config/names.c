/* SPDX-License-Identifier: MIT */
#include "names.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

/* The first argument of these processes. Pairs follow: the number of a section, and its name. */
#define ARGUMENT "--find-names"
#define MOST_S 10

struct answer {
	uint32_t section, number;
};

/* Starts the process that starts the others and ends. Its standard output is TO. */
static int start(const struct config *config, int to)
{
	char *argv[2 * CONFIG_MAX_TENANTS + 3] = {(char *)"vgpud", (char *)ARGUMENT};
	char numbers[CONFIG_MAX_TENANTS][12];
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	uint32_t i, n = 2;
	sigset_t none;
	pid_t pid;
	int r;

	for (i = 0; i < config->n_tenants; i++) {
		if (!config->tenants[i].unanswered)
			continue;
		snprintf(numbers[i], sizeof(numbers[i]), "%u", i);
		argv[n++] = numbers[i];
		argv[n++] = (char *)config->tenants[i].name;
	}
	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	r = -posix_spawn(&pid, "/proc/self/exe", &actions, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	while (r == 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r;
}

int names_ask(const struct config *config)
{
	int ends[2], r;
	uint32_t i;

	for (i = 0; i < config->n_tenants && !config->tenants[i].unanswered; i++)
		;
	if (i == config->n_tenants)
		return -ENODATA;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	r = start(config, ends[1]);
	close(ends[1]);
	if (r < 0)
		close(ends[0]);
	return r < 0 ? r : ends[0];
}

bool names_read(int fd, struct config *config)
{
	struct answer answer;
	ssize_t n;

	do {
		n = read(fd, &answer, sizeof(answer));
		if (n == sizeof(answer) && answer.section < config->n_tenants) {
			config->tenants[answer.section].number = answer.number;
			config->tenants[answer.section].unanswered = false;
		}
	} while (n == sizeof(answer) || (n < 0 && errno == EINTR));
	return n < 0 && errno == EAGAIN;
}

void names_find(struct config *config, int ms)
{
	vgpu_nsec until = vgpu_now() + (vgpu_nsec)ms * VGPU_MSEC, now;
	struct pollfd p = {names_ask(config), POLLIN, 0};

	while (p.fd >= 0 && names_read(p.fd, config) && (now = vgpu_now()) < until)
		poll(&p, 1, (int)((until - now) / VGPU_MSEC) + 1);
	vgpu_close(&p.fd);
}

static uint32_t find(const char *name)
{
	const struct passwd *user = name[0] == '@' ? NULL : getpwnam(name);
	const struct group *group = name[0] == '@' ? getgrnam(name + 1) : NULL;

	return user ? user->pw_uid : group ? group->gr_gid : CONFIG_NOBODY;
}

bool names_main(int argc, char **argv)
{
	struct answer answer;
	int i;

	if (argc < 2 || strcmp(argv[1], ARGUMENT) != 0)
		return false;
	signal(SIGPIPE, SIG_DFL);
	for (i = 2; i + 1 < argc; i += 2) {
		if (fork() != 0)
			continue;
		alarm(MOST_S);
		answer = (struct answer){(uint32_t)atoi(argv[i]), find(argv[i + 1])};
		_exit(write(STDOUT_FILENO, &answer, sizeof(answer)) != sizeof(answer));
	}
	return true;
}
