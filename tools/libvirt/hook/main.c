/* SPDX-License-Identifier: MIT */
/*
 * vgpud-hook: libvirt's hook for QEMU. It hands what it was called with to vgpud, and says on
 * stderr, in one sentence that virsh shows, why a VM must not start. A domain without a claim is
 * let through without asking anybody; and nothing but a start, or a VM that comes from another
 * host, is ever refused: a failing "reconnect" would kill a VM that runs.
 *
 *     vgpud-hook DOMAIN OPERATION SUB-OPERATION EXTRA < XML      (libvirt.org/hooks.html)
 *
 * It reads the claim as vgpud does, calls nothing of libvirt, and has a deadline: libvirt has none,
 * and keeps the whole host waiting.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <json-c/json.h>

#include "claim.h"
#include "control_client.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"

#define SOCKET "/run/vgpud/hook.sock"
#define MAX_ANSWER 65536u
/* A vgpud that is being restarted is back by then. */
#define RESTART_MS 2000
#define RETRY_MS 20

/* How long vgpud may take, and whether the operation can be refused. */
static const struct operation {
	const char *name;
	int seconds;
	bool refusable;
} operations[] = {
	{"prepare", 10, true},
	{"start", 10, true},
	{"migrate", 10, true},
	{"", 2, false},
};

static long long deadline; /* milliseconds of CLOCK_MONOTONIC */

static long long now_ms(void)
{
	return (long long)(vgpu_now() / VGPU_MSEC);
}

/* Until FD can be read or written; false: the time is over. */
static bool wait_for(int fd, short what)
{
	struct pollfd p = {.fd = fd, .events = what};
	long long left = deadline - now_ms();

	return left > 0 && poll(&p, 1, (int)left) == 1;
}

/* All of it, NUL-terminated, or NULL with errno. */
static char *slurp(int fd, size_t max, char end)
{
	char *text = malloc(max + 1);
	size_t size = 0;
	ssize_t n = 1;

	while (text && n > 0 && size < max && !(end && size && text[size - 1] == end)) {
		errno = ETIMEDOUT;
		n = wait_for(fd, POLLIN) ? read(fd, text + size, max - size) : -1;
		size += n > 0 ? (size_t)n : 0;
	}
	if (!text || n < 0) {
		free(text);
		return NULL;
	}
	text[size] = '\0';
	return text;
}

static char *question(char **argv, const char *xml)
{
	struct json_object *args = json_object_new_object();

	json_object_object_add(args, "operation", json_object_new_string(argv[2]));
	json_object_object_add(args, "reason", json_object_new_string(argv[4]));
	json_object_object_add(args, "xml", json_object_new_string(xml));
	return client_request("hook", args);
}

/* Sends TEXT to vgpud, and reads a line that answers it. 0 or -errno; -EAGAIN: too many wait in
 * front of us. */
static int ask_once(const char *path, const char *text, char **answer)
{
	struct iovec rest = {(void *)text, strlen(text)};
	VGPU_AUTO_CLOSE int fd = vgpu_socket_connect(path, SOCK_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return fd;
	while (rest.iov_len > 0) {
		if (!wait_for(fd, POLLOUT))
			return -ETIMEDOUT;
		n = vgpu_socket_send(fd, &rest, 1, NULL, 0, 0);
		if (n < 0)
			return (int)n;
		rest.iov_base = (char *)rest.iov_base + n;
		rest.iov_len -= (size_t)n;
	}
	*answer = slurp(fd, MAX_ANSWER, '\n');
	if (!*answer)
		return -errno;
	if (!strchr(*answer, '\n')) { /* vgpud ended in the middle of it */
		free(*answer);
		return -ECONNRESET;
	}
	return 0;
}

/* Whether it is worth another try, at this instant: vgpud may be about to start, or be busy. */
static bool may_try_again(int r, long long restarted_by)
{
	switch (r) {
	case -ENOENT:
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -EPIPE:
		return now_ms() <= restarted_by;
	case -EAGAIN:
		return true;
	default:
		return false;
	}
}

/* An answer, and be it the next vgpud's. */
static int ask(const char *path, const char *text, char **answer)
{
	struct timespec pause = {0, RETRY_MS * 1000000};
	long long restarted_by = now_ms() + RESTART_MS;
	int r;

	while (now_ms() < deadline) {
		r = ask_once(path, text, answer);
		if (!may_try_again(r, restarted_by))
			return r;
		nanosleep(&pause, NULL);
	}
	return -ETIMEDOUT;
}

/* What vgpud says: 0; 1: it refuses, and WHY, in one line; -errno: nobody knows. */
static int consult(char **argv, const char *xml, struct vgpu_error *why)
{
	const char *path = getenv("VGPUD_HOOK_SOCKET");
	struct json_object *result = NULL;
	char *text = question(argv, xml), *answer = NULL, *p;
	int refusal, r = text ? ask(path ? path : SOCKET, text, &answer) : -ENOMEM;

	free(text);
	if (r < 0)
		return r;
	r = client_answer(answer, &result, &refusal, why);
	free(answer);
	json_object_put(result);
	for (p = why->text; r > 0 && *p; p++)
		*p = *p == '\n' ? ' ' : *p;
	return r;
}

/* What a domain needs by the claim in its XML. One that is not as the schema has it is for vgpud to
 * judge. */
enum need { NEED_NOTHING, NEED_OPTIONAL, NEED_REQUIRED };
static enum need need_of(const char *xml)
{
	static struct claim claim;
	int r = claim_parse(&claim, xml, strlen(xml), NULL);

	if (r == 0 && claim.n_vfs == 0)
		return NEED_NOTHING;
	return (r == 0 || r == -EINVAL) && !claim.required ? NEED_OPTIONAL : NEED_REQUIRED;
}

/* Whether the VM may go on; if not, why has been said. */
static bool allows(const struct operation *o, char **argv, const char *xml)
{
	enum need need = NEED_NOTHING;
	struct vgpu_error why;
	int r;

	/* VMs of a user's own session have no VFs. Most domains do not name our namespace. */
	if (geteuid() == 0 && strstr(xml, CLAIM_URI))
		need = need_of(xml);
	if (need == NEED_NOTHING)
		return true;
	r = consult(argv, xml, &why);
	if (r == 0 || !o->refusable || (r < 0 && need == NEED_OPTIONAL))
		return true;
	if (r > 0)
		fprintf(stderr, "vgpud: %s\n", why.text);
	else
		fprintf(stderr,
			"vgpud: %s: a GPU is required, and vgpud %s (systemctl status vgpud)\n",
			argv[1],
			r == -ETIMEDOUT			     ? "does not answer"
			: r == -ENOENT || r == -ECONNREFUSED ? "is not running"
			: r == -EPROTO			     ? "gives no sensible answer"
							     : strerror(-r));
	return false;
}

int main(int argc, char **argv)
{
	const struct operation *o = operations;
	bool allowed;
	char *xml;

	if (argc != 5) {
		fputs("usage: vgpud-hook DOMAIN OPERATION SUB-OPERATION EXTRA < DOMAIN-XML\n"
		      "libvirt calls it: /etc/libvirt/hooks/qemu.d/50-vgpud is a link to it.\n",
		      stderr);
		return 2;
	}
	while (o->name[0] && strcmp(o->name, argv[2]) != 0)
		o++;
	deadline = now_ms() + o->seconds * 1000LL;
	xml = slurp(STDIN_FILENO, CLAIM_MAX_BYTES, '\0');
	allowed = !xml || allows(o, argv, xml);
	free(xml);
	return allowed ? 0 : 1;
}
