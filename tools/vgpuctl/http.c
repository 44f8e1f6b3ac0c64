/* SPDX-License-Identifier: MIT */
#include "http.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vgpu/clock.h"
#include "vgpu/file.h"
#include "vgpu/number.h"

#define TIMEOUT (30 * VGPU_SEC)
#define LONGEST_TOKEN 16384u
/* The newest of the features that are used: a new provider in the answer (1.20), codes of errors
 * (1.23), and generations of consumers in allocations (1.28). Nova has wanted more since 2019. */
#define VERSION "placement 1.28"

static vgpu_nsec deadline = VGPU_NEVER;

void http_until(vgpu_nsec instant)
{
	deadline = instant;
}

/* Writes how long a request may take, in seconds; false: no longer at all. */
static bool time_left(char out[16])
{
	vgpu_nsec now = vgpu_now(), left = deadline > now ? deadline - now : 0;

	left = left < TIMEOUT ? left : TIMEOUT;
	snprintf(out, 16, "%.3f", (double)left / 1e9);
	return left >= VGPU_MSEC;
}

/* Becomes curl, with stdin and stdout IN and OUT. Returns only if it cannot. */
static void be_curl(const char *method, const char *url, const char *body, const char *seconds,
		    int in, int out)
{
	const char *args[20] = {"curl", "-sS", "--max-time", seconds, "-H",
				"@-",	"-X",  method,	     "-w",    "\n%{http_code}"};
	int n = 10;

	if (body) {
		args[n++] = "--data-binary";
		args[n++] = body;
	}
	args[n++] = "--";
	args[n++] = url;
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	execvp("curl", (char *const *)(const void *)args);
	fprintf(stderr, "vgpuctl: cannot run curl: %s; install the package curl\n",
		strerror(errno));
}

/* Cuts off the last line, which is the status. */
static int take_status(char *text, size_t *size)
{
	char *line = text ? strrchr(text, '\n') : NULL;
	int64_t status;

	if (!line || vgpu_parse_between(line + 1, 100, 599, &status) < 0)
		return -EPROTO;
	*line = '\0';
	*size = (size_t)(line - text);
	return (int)status;
}

/* Reads the file that $OS_TOKEN_FILE names: somebody else renews the token in it. */
static int read_token(const char *path, char **out)
{
	size_t size;
	int r = vgpu_file_read(path, LONGEST_TOKEN, out, &size);

	if (r < 0) {
		fprintf(stderr, "vgpuctl: OS_TOKEN_FILE: %s: %s\n", path, strerror(-r));
		return -ECANCELED;
	}
	(*out)[strcspn(*out, " \t\r\n")] = '\0'; /* nothing in it is a header of its own */
	return 0;
}

/* The token, or NULL, which is the caller's. */
static int get_token(char **out)
{
	const char *token = getenv("OS_TOKEN"), *path = getenv("OS_TOKEN_FILE");

	*out = NULL;
	if (!token && path)
		return read_token(path, out);
	*out = token ? strdup(token) : NULL;
	return token && !*out ? -ENOMEM : 0;
}

/* Runs curl, which gets the token by stdin: arguments are for everybody to see. */
static int run(const char *method, const char *url, const char *body, const char *token,
	       char **text, size_t *size)
{
	int in[2], out[2], status = -1, r;
	char seconds[16];
	pid_t child;

	if (!time_left(seconds))
		return -ETIMEDOUT;
	if (pipe(in) < 0)
		return -errno;
	if (pipe(out) < 0) {
		r = -errno;
		close(in[0]);
		close(in[1]);
		return r;
	}
	child = fork();
	if (child == 0) {
		close(in[1]);
		close(out[0]);
		be_curl(method, url, body, seconds, in[0], out[1]);
		_exit(127);
	}
	close(out[1]);
	dprintf(in[1], "Accept: application/json\nContent-Type: application/json\n");
	dprintf(in[1], "OpenStack-API-Version: " VERSION "\n");
	if (token)
		dprintf(in[1], "X-Auth-Token: %s\n", token);
	close(in[1]);
	close(in[0]); /* not before: a curl that cannot run would raise SIGPIPE */
	r = child < 0 ? -errno : vgpu_read_all(out[0], HTTP_LONGEST, text, size);
	if (child > 0 && r < 0)
		kill(child, SIGKILL); /* it would complain of the pipe, which closes */
	close(out[0]);
	if (child > 0 && waitpid(child, &status, 0) == child && r == 0 && status != 0)
		r = -ECANCELED; /* curl has said why */
	return r;
}

const char *http_hint(int status)
{
	return status == 401 ? ": set OS_TOKEN to a token of an administrator" : "";
}

int http_request(const char *method, const char *url, const char *body, char **text, size_t *size)
{
	char *token;
	int r;

	*text = NULL;
	r = get_token(&token);
	if (r == 0)
		r = run(method, url, body, token, text, size);
	free(token);
	if (r == 0)
		r = take_status(*text, size);
	if (r > 0)
		return r;
	if (r == -E2BIG)
		fprintf(stderr, "vgpuctl: %s: longer than %u bytes, the most that are read\n", url,
			HTTP_LONGEST);
	else if (r != -ECANCELED)
		fprintf(stderr, "vgpuctl: %s: %s\n", url, strerror(-r));
	free(*text);
	*text = NULL;
	return r;
}
