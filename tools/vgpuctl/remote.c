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
#include <sys/wait.h>
#include <unistd.h>

#include "control_client.h"
#include "session.h"
#include "silence.h"
#include "vgpu/file.h"

#define SSH_FAILED 255 /* ssh's own exit code: no connection */
/* Exit codes of a shell from here on: the command could not be run, or was killed. */
#define SHELL_FAILED 126

#define MOST_OUTPUT (1u << 24)

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

/* Appends ARG as one word for the shell that ssh starts on the other host. */
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

/* Runs ARGV on HOST by ssh. -T: without a terminal, which would change the output. */
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

/* Runs ARGV, here or on the host of remote_set(). Returns only if that is impossible: -errno. */
static int remote_run(char *const *argv)
{
	if (other)
		return run_there(other, argv);
	execvp(argv[0], argv);
	return -errno;
}

/* Waits for CHILD. Returns its exit code; -1 if it had none. */
static int code_of(pid_t child)
{
	int status;

	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int remote_code(int code)
{
	if (other && code == SSH_FAILED)
		return EXIT_NO_DAEMON;
	return code < 0 || code >= SHELL_FAILED ? EXIT_FAILED : code;
}

/* Called in a child: executes ARGV, or prints the reason and CURE. */
_Noreturn static void become(char *const *argv, const char *cure)
{
	int r = remote_run(argv);

	fprintf(stderr, "vgpuctl: cannot run %s: %s%s%s\n", other ? "ssh" : argv[0], strerror(-r),
		other ? "" : "; ", other ? "" : cure);
	_exit(SHELL_FAILED);
}

int remote_wait(char *const *argv, const char *cure)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0)
		become(argv, cure);
	if (child > 0)
		return remote_code(code_of(child));
	fprintf(stderr, "vgpuctl: cannot run %s: %s\n", argv[0], strerror(errno));
	return EXIT_FAILED;
}

char *remote_output(char *const *argv, const char *cure, size_t *size, int *code)
{
	char *text = NULL;
	int ends[2], r;
	pid_t child;

	*code = -1;
	if (pipe(ends) < 0)
		return NULL;
	child = fork();
	if (child == 0) {
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		become(argv, cure);
	}
	close(ends[1]);
	r = child < 0 ? -errno : vgpu_read_all(ends[0], MOST_OUTPUT, &text, size);
	close(ends[0]);
	if (child > 0)
		*code = code_of(child);
	errno = -r;
	return r < 0 ? NULL : text;
}

size_t remote_skip(char *text, char first)
{
	char *line = text;

	while (line && *line != first) {
		line = strchr(line, '\n');
		line += line != NULL;
	}
	if (line)
		memmove(text, line, strlen(line) + 1);
	return strlen(text);
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

/* Copies available bytes from FROM to TO. Returns false at the end of FROM, or if TO accepts no
 * more bytes. */
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

/* Copies bytes in both directions until one end closes, or until vgpud at FD is stopped by a signal
 * before it has answered, which the client on the other host cannot notice. Returns an exit
 * code. */
static int bridge(int fd)
{
	struct pollfd ends[] = {{STDIN_FILENO, POLLIN, 0}, {fd, POLLIN, 0}};
	struct vgpu_error err;
	bool asked = false;
	int n;

	while ((n = poll(ends, 2, asked ? (int)(SILENCE_ASK / VGPU_MSEC) : -1)) >= 0 ||
	       errno == EINTR) {
		if (n == 0 && silence_of(fd) == SILENCE_FROZEN) {
			silence_on(fd, &err);
			fprintf(stderr, "vgpuctl: %s\n", err.text);
			return EXIT_NO_DAEMON;
		}
		if (n <= 0)
			continue;
		if (ends[0].revents && !pass(STDIN_FILENO, fd))
			break;
		asked = ends[0].revents ? true : asked;
		if (ends[1].revents && !pass(fd, STDOUT_FILENO))
			break;
		asked = ends[1].revents ? false : asked;
	}
	return EXIT_OK;
}

int remote_bridge(const char *path)
{
	struct vgpu_error err = {""};
	int fd = client_connect(path, &err), r;

	if (fd < 0) {
		fprintf(stderr, "vgpuctl: %s\n", err.text);
		return fd == -EACCES ? EXIT_DENIED : EXIT_NO_DAEMON;
	}
	signal(SIGPIPE, SIG_IGN);
	r = bridge(fd);
	close(fd);
	return r;
}
