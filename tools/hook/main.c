/* SPDX-License-Identifier: MIT */
/*
 * vgpud-hook: libvirt's hook for QEMU. It hands what it was called with to vgpud, and says on
 * stderr, in one sentence that virsh shows, why a VM must not start. A domain without a wish is let
 * through without asking anybody; and nothing but a start, or a VM that comes from another host, is
 * ever refused: a failing "reconnect" would kill a VM that runs.
 *
 *     vgpud-hook DOMAIN OPERATION SUB-OPERATION EXTRA < XML      (libvirt.org/hooks.html)
 *
 * It links nothing but the C library, calls nothing of libvirt, and has a deadline: libvirt has
 * none, and keeps the whole host waiting.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SOCKET "/run/vgpud/hook.sock"
#define URI "urn:vgpud:xmlns:domain:1"
#define MAX_XML (1u << 20)
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
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
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

/* A JSON string (RFC 8259). */
static void put_string(FILE *to, const char *text)
{
	fputc('"', to);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', to);
		if ((unsigned char)*text < ' ')
			fprintf(to, "\\u%04x", (unsigned char)*text);
		else
			fputc(*text, to);
	}
	fputc('"', to);
}

static int ask_once(const char *path, char **argv, const char *xml, char **answer)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char *text = NULL;
	size_t size = 0, sent = 0;
	FILE *f = open_memstream(&text, &size);
	ssize_t n = 0;

	if (fd < 0 || !f)
		return -errno;
	fputs("{\"id\":1,\"method\":\"hook\",\"args\":{\"operation\":", f);
	put_string(f, argv[2]);
	fputs(",\"reason\":", f);
	put_string(f, argv[4]);
	fputs(",\"xml\":", f);
	put_string(f, xml);
	fputs("}}\n", f);
	fclose(f);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		n = -errno;
	while (n == 0 && sent < size) {
		errno = ETIMEDOUT;
		if (wait_for(fd, POLLOUT))
			n = send(fd, text + sent, size - sent, MSG_NOSIGNAL);
		else
			n = -1;
		sent += n > 0 ? (size_t)n : 0;
		n = n < 0 ? -errno : 0;
	}
	if (n == 0) {
		*answer = slurp(fd, MAX_ANSWER, '\n');
		n = *answer ? 0 : -errno;
	}
	if (n == 0 && !strchr(*answer, '\n')) { /* vgpud ended in the middle of it */
		free(*answer);
		n = -ECONNRESET;
	}
	free(text);
	close(fd);
	return (int)n;
}

/* An answer, and be it the next vgpud's. */
static int ask(const char *path, char **argv, const char *xml, char **answer)
{
	struct timespec pause = {0, RETRY_MS * 1000000};
	long long until = now_ms() + RESTART_MS;
	int r;

	until = until < deadline ? until : deadline;
	for (;;) {
		r = ask_once(path, argv, xml, answer);
		if ((r != -ENOENT && r != -ECONNREFUSED && r != -ECONNRESET && r != -EPIPE) ||
		    now_ms() > until)
			return r;
		nanosleep(&pause, NULL);
	}
}

/* "message":"..." of an error, unescaped in place; NULL: the answer is no error. */
static const char *message_of(char *answer)
{
	static const char key[] = "\"message\":\"";
	char *from, *to, *text = strstr(answer, key);

	if (!strstr(answer, "\"error\"") || !text)
		return NULL;
	text += sizeof(key) - 1;
	for (from = to = text; *from && *from != '"'; from++) {
		if (*from == '\\' && from[1])
			from++;
		*to++ = *from == '\n' ? ' ' : *from;
	}
	*to = '\0';
	return text;
}

/* Whether the VM may start without: the element that names our namespace says required='no'. */
static bool may_go_without(const char *xml, const char *uri)
{
	const char *end = strchr(uri, '>'), *attribute;

	while (uri > xml && *uri != '<')
		uri--;
	attribute = strstr(uri, "required=");
	return end && attribute && attribute < end && strncmp(attribute + 10, "no", 2) == 0;
}

/* Whether the VM may go on; if not, why has been said. */
static bool allows(const struct operation *o, char **argv, const char *xml)
{
	const char *path = getenv("VGPUD_HOOK_SOCKET"), *uri = strstr(xml, URI), *message;
	char *answer = NULL;
	bool allowed;
	int r;

	if (!uri || geteuid() != 0) /* no wish; or VMs of a user's own session, which have no VFs */
		return true;
	r = ask(path ? path : SOCKET, argv, xml, &answer);
	message = r == 0 ? message_of(answer) : NULL;
	allowed = !o->refusable || (r == 0 ? !message : may_go_without(xml, uri));
	if (!allowed && message)
		fprintf(stderr, "vgpud: %s\n", message);
	else if (!allowed)
		fprintf(stderr,
			"vgpud: %s: a GPU is required, and vgpud %s (systemctl status vgpud)\n",
			argv[1],
			r == -ETIMEDOUT			     ? "does not answer"
			: r == -ENOENT || r == -ECONNREFUSED ? "is not running"
							     : strerror(-r));
	if (r == 0)
		free(answer);
	return allowed;
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
	xml = slurp(STDIN_FILENO, MAX_XML, '\0');
	allowed = !xml || allows(o, argv, xml);
	free(xml);
	return allowed ? 0 : 1;
}
