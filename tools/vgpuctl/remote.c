/* SPDX-License-Identifier: MIT */
#include "remote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control_client.h"
#include "session.h"

static const char *other;

int remote_check(const char *host)
{
	if (host[0] && host[0] != '-')
		return 0;
	fprintf(stderr, "vgpuctl: --host %s: want [USER@]HOST or ssh://[USER@]HOST[:PORT]\n", host);
	return -EINVAL;
}

void remote_set(const char *host)
{
	other = host;
}

/* Appends ARG as one word of a shell, which ssh has on the other side. */
static void quote(FILE *to, const char *arg)
{
	fputs(" '", to);
	for (; *arg; arg++)
		if (*arg == '\'')
			fputs("'\\''", to);
		else
			fputc(*arg, to);
	fputc('\'', to);
}

/* Runs ARGV on HOST by ssh. -T: no terminal, which would change what is printed. */
static int run_there(const char *host, char *const *argv)
{
	char *command = NULL;
	size_t size;
	FILE *f = open_memstream(&command, &size);

	if (!f)
		return -ENOMEM;
	fputs("exec", f);
	for (; *argv; argv++)
		quote(f, *argv);
	fclose(f);
	execlp("ssh", "ssh", "-T", "--", host, command, NULL);
	free(command);
	return -errno;
}

int remote_run(char *const *argv)
{
	if (other)
		return run_there(other, argv);
	execvp(argv[0], argv);
	return -errno;
}

int remote_connect(const char *host, const char *path, pid_t *ssh)
{
	char program[] = "vgpuctl", verb[] = "bridge", option[] = "--socket", *where = NULL;
	char *argv[] = {program, verb, NULL, NULL, NULL};
	int ends[2], r;

	if (path) {
		argv[2] = option;
		argv[3] = where = strdup(path);
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		free(where);
		return -errno;
	}
	*ssh = fork();
	if (*ssh == 0) {
		dup2(ends[1], STDIN_FILENO);
		dup2(ends[1], STDOUT_FILENO);
		r = run_there(host, argv);
		fprintf(stderr, "vgpuctl: cannot run ssh: %s\n", strerror(-r));
		_exit(127);
	}
	r = -errno;
	free(where);
	close(ends[1]);
	if (*ssh > 0)
		return ends[0];
	close(ends[0]);
	return r;
}

/* Passes on what FROM has. Returns false at its end, or when TO takes no more. */
static bool pass(int from, int to)
{
	char bytes[65536];
	ssize_t n = read(from, bytes, sizeof(bytes)), w, at;

	for (at = 0; at < n; at += w) {
		w = write(to, bytes + at, (size_t)(n - at));
		if (w < 0)
			return false;
	}
	return n > 0;
}

int remote_bridge(const char *path)
{
	struct vgpu_error err = {""};
	int fd = client_connect(path, &err);
	struct pollfd ends[] = {{STDIN_FILENO, POLLIN, 0}, {fd, POLLIN, 0}};

	if (fd < 0) {
		fprintf(stderr, "vgpuctl: %s\n", err.text);
		return fd == -EACCES ? EXIT_DENIED : EXIT_NO_DAEMON;
	}
	signal(SIGPIPE, SIG_IGN);
	while (poll(ends, 2, -1) > 0 || errno == EINTR) {
		if (ends[0].revents && !pass(STDIN_FILENO, fd))
			break;
		if (ends[1].revents && !pass(fd, STDOUT_FILENO))
			break;
	}
	close(fd);
	return EXIT_OK;
}
