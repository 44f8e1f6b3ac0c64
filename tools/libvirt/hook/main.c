/* SPDX-License-Identifier: MIT */
/*
 * vgpud-hook: libvirt's hook for QEMU. It passes its arguments and the domain's XML to vgpud; if
 * vgpud refuses, it prints the reason on stderr in one sentence, which virsh shows. It lets a
 * domain without a claim pass without asking vgpud. It refuses only starts, saved states and
 * incoming migrations: if a "reconnect" failed, libvirt would kill a running VM.
 *
 * What it prints on stdout for "migrate" and "restore", libvirt takes for the domain's XML: it
 * prints that, with the addresses of other VFs, if vgpud has given the VM other ones, and nothing
 * in all other cases.
 *
 *     vgpud-hook DOMAIN OPERATION SUB-OPERATION EXTRA < XML      (libvirt.org/hooks.html)
 *
 * It parses the claim as vgpud does. It never calls libvirt, which waits for it, and it has a
 * deadline, because libvirt has none: a hook that hangs would block libvirt's other VMs.
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
#include "host.h"
#include "redirect.h"
#include "silence.h"
#include "vgpu/about.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"
#include "vgpu/note.h"

#define SOCKET "/run/vgpud/hook.sock"
#define MAX_ANSWER 65536u
/* Longer than a restart of vgpud takes. */
#define RESTART_MS 2000
#define RETRY_MS 20

/* For each operation how long to wait for vgpud, whether it may be refused, and whether libvirt
 * takes the hook's output for the domain's XML. */
static const struct operation {
	const char *name;
	int seconds;
	bool refusable, filters;
} operations[] = {
	{"prepare", 10, true, false}, {"start", 10, true, false}, {"migrate", 10, true, true},
	{"restore", 10, true, true},  {"", 2, false, false},
};

static long long deadline; /* milliseconds of CLOCK_MONOTONIC */
/* What keeps vgpud from answering, as far as it has shown; "": nothing. */
static struct vgpu_error silent;

static long long now_ms(void)
{
	return (long long)(vgpu_now() / VGPU_MSEC);
}

/* Waits until FD can be read or written. Returns false if the deadline has passed. */
static bool wait_for(int fd, short what)
{
	struct pollfd p = {.fd = fd, .events = what};
	long long left = deadline - now_ms();

	return left > 0 && poll(&p, 1, (int)left) == 1;
}

/* The same for vgpud, which may work on the request until the deadline, but not while a signal has
 * stopped it. */
static bool wait_for_vgpud(int fd, short what)
{
	const long long look_ms = SILENCE_ASK / VGPU_MSEC;
	struct pollfd p = {.fd = fd, .events = what};
	long long left;

	while ((left = deadline - now_ms()) > 0) {
		if (poll(&p, 1, (int)(left < look_ms ? left : look_ms)) == 1)
			return true;
		if (silence_of(fd) == SILENCE_FROZEN)
			break;
	}
	silence_on(fd, &silent);
	return false;
}

/* Reads FD to its end or to END (0: none), as READY lets it. Returns the text, zero-terminated,
 * which the caller frees; NULL: errno, EFBIG for more than MAX bytes. */
static char *slurp(int fd, size_t max, char end, bool (*ready)(int fd, short what))
{
	char *text = malloc(max + 2);
	size_t size = 0;
	ssize_t n = 1;

	while (text && n > 0 && !(end && size && text[size - 1] == end)) {
		errno = ETIMEDOUT;
		n = ready(fd, POLLIN) ? read(fd, text + size, max + 1 - size) : -1;
		size += n > 0 ? (size_t)n : 0;
		if (size > max) {
			errno = EFBIG;
			n = -1;
		}
	}
	if (!text || n < 0) {
		free(text);
		return NULL;
	}
	text[size] = '\0';
	return text;
}

static char *question(char **argv, const char *host, const char *xml)
{
	struct json_object *args = json_object_new_object();

	json_object_object_add(args, "host", json_object_new_string(host));
	json_object_object_add(args, "operation", json_object_new_string(argv[2]));
	json_object_object_add(args, "reason", json_object_new_string(argv[4]));
	json_object_object_add(args, "xml", json_object_new_string(xml));
	return client_request("hook", args);
}

/* Sends TEXT to vgpud and reads the line that answers it, which the caller frees. Returns 0 or
 * -errno; -EAGAIN: vgpud's queue of connections is full. */
static int ask_once(const char *path, const char *text, char **answer)
{
	struct iovec rest = {(void *)text, strlen(text)};
	VGPU_AUTO_CLOSE int fd = vgpu_socket_connect(path, SOCK_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return fd;
	while (rest.iov_len > 0) {
		if (!wait_for_vgpud(fd, POLLOUT))
			return -ETIMEDOUT;
		n = vgpu_socket_send(fd, &rest, 1, NULL, 0, 0);
		if (n < 0)
			return (int)n;
		rest.iov_base = (char *)rest.iov_base + n;
		rest.iov_len -= (size_t)n;
	}
	*answer = slurp(fd, MAX_ANSWER, '\n', wait_for_vgpud);
	if (!*answer)
		return -errno;
	if (!strchr(*answer, '\n')) { /* vgpud ended before it had answered */
		free(*answer);
		return -ECONNRESET;
	}
	return 0;
}

/* Returns whether to try again after the error R: vgpud may be starting, or be busy. */
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

/* Returns whether no process listens at PATH because vgpud was stopped or could not start, by its
 * own note, which is copied to SILENT: the hook then does not wait for a restart. */
static bool is_down(const char *path, int r)
{
	char note[sizeof(silent.text)];
	enum vgpu_note what;

	if (r != -ENOENT && r != -ECONNREFUSED)
		return false;
	what = vgpu_note_read(path, note, sizeof(note));
	if (what)
		silence_at(path, r, &silent);
	return what == VGPU_NOTE_FAILED || what == VGPU_NOTE_STOPPED;
}

/* Asks until there is an answer, perhaps of a restarted vgpud. Returns 0 or -errno; then SILENT may
 * say more. */
static int ask_vgpud(const char *path, const char *text, char **answer)
{
	struct timespec pause = {0, RETRY_MS * 1000000};
	long long restarted_by = now_ms() + RESTART_MS;
	int r;

	while (now_ms() < deadline) {
		r = ask_once(path, text, answer);
		if (is_down(path, r) || !may_try_again(r, restarted_by))
			return r;
		nanosleep(&pause, NULL);
	}
	return -ETIMEDOUT;
}

/* Asks vgpud. Returns 0: it agrees, with its answer in *RESULT, which the caller frees; 1: it
 * refuses, with the reason in WHY, one line; -errno: no answer. */
static int consult(char **argv, const char *host, const char *xml, struct json_object **result,
		   struct vgpu_error *why)
{
	const char *path = getenv("VGPUD_HOOK_SOCKET");
	char *text = question(argv, host, xml), *answer = NULL, *p;
	int refusal, r = text ? ask_vgpud(path ? path : SOCKET, text, &answer) : -ENOMEM;

	free(text);
	if (r < 0)
		return r;
	r = client_answer(answer, result, &refusal, why);
	free(answer);
	for (p = why->text; r > 0 && *p; p++)
		*p = *p == '\n' ? ' ' : *p;
	return r;
}

/* Whether a domain needs a VF, by the claim in its XML. An invalid claim counts as one: vgpud then
 * refuses it with the reason. */
enum need { NEED_NOTHING, NEED_OPTIONAL, NEED_REQUIRED };
static enum need need_of(const char *xml)
{
	static struct claim claim;
	int r = claim_parse(&claim, xml, strlen(xml), NULL);

	if (r == 0 && claim.n_vfs == 0)
		return NEED_NOTHING;
	return (r == 0 || r == -EINVAL) && !claim.required ? NEED_OPTIONAL : NEED_REQUIRED;
}

static const char *member(struct json_object *o, const char *name)
{
	const char *text = json_object_get_string(json_object_object_get(o, name));

	return text ? text : "";
}

/* Makes the domain's XML with the VFs that vgpud's answer names. Returns 0; 1: the XML or the
 * answer does not allow that, with the reason in WHY. *OUT, which the caller frees, is NULL if all
 * VFs are where they were. */
static int redirected(struct json_object *answer, const char *xml, char **out,
		      struct vgpu_error *why)
{
	struct json_object *devices = json_object_object_get(answer, "devices"), *o;
	size_t i, n = json_object_is_type(devices, json_type_array)
			      ? json_object_array_length(devices)
			      : 0;
	struct redirect list[REDIRECT_MAX];

	*out = NULL;
	if (n > REDIRECT_MAX) {
		vgpu_error_set(why, -EPROTO, "vgpud moves more than %u VFs", REDIRECT_MAX);
		return 1;
	}
	for (i = 0; i < n; i++) {
		o = json_object_array_get_idx(devices, i);
		snprintf(list[i].from, sizeof(list[i].from), "%s", member(o, "from"));
		snprintf(list[i].to, sizeof(list[i].to), "%s", member(o, "to"));
	}
	return n > 0 && redirect_devices(xml, strlen(xml), list, (uint32_t)n, out, why) < 0;
}

/* Gives libvirt the XML of a domain with other VFs. Returns as consult does. */
static int pass_on(const struct operation *o, struct json_object *answer, const char *xml,
		   struct vgpu_error *why)
{
	char *out = NULL;
	int r = o->filters ? redirected(answer, xml, &out, why) : 0;

	if (r == 0 && out && (fputs(out, stdout) == EOF || fflush(stdout) == EOF)) {
		vgpu_error_set(why, -EIO, "cannot give libvirt the domain's XML: %s",
			       strerror(errno));
		r = 1;
	}
	free(out);
	return r;
}

/* Returns whether the VM may go on; if not, prints the reason on stderr. */
static bool allows(const struct operation *o, char **argv, const char *xml)
{
	struct json_object *answer = NULL;
	enum need need = NEED_NOTHING;
	char host[CLIENT_HOST_SIZE];
	struct vgpu_error why;
	int r, named;

	/* Only the system's libvirt, as root, can give VFs to VMs. */
	if (geteuid() == 0 && claim_is_possible(xml))
		need = need_of(xml);
	if (need == NEED_NOTHING)
		return true;
	named = client_host(NULL, host, &why);
	r = named < 0 ? named : consult(argv, host, xml, &answer, &why);
	if (r == 0)
		r = pass_on(o, answer, xml, &why);
	json_object_put(answer);
	if (r == 0 || !o->refusable || (r < 0 && need == NEED_OPTIONAL))
		return true;
	if (r > 0 || named < 0)
		fprintf(stderr, "vgpud: %s\n", why.text);
	else if (silent.text[0])
		fprintf(stderr, "vgpud: domain %s requires a GPU, and %s\n", argv[1], silent.text);
	else
		fprintf(stderr,
			"vgpud: domain %s requires a GPU, and vgpud %s (systemctl status vgpud)\n",
			argv[1],
			r == -ETIMEDOUT			     ? "does not answer"
			: r == -ENOENT || r == -ECONNREFUSED ? "is not running"
			: r == -EPROTO			     ? "sent an invalid answer"
							     : strerror(-r));
	return false;
}

static const char help[] =
	"usage: vgpud-hook DOMAIN OPERATION SUB-OPERATION EXTRA < DOMAIN-XML\n"
	"       vgpud-hook --help | --version\n"
	"libvirt's hook that asks vgpud for VFs; libvirt runs it through the link\n"
	"/etc/libvirt/hooks/qemu.d/50-vgpud.\n";

int main(int argc, char **argv)
{
	const struct operation *o = operations;
	bool allowed;
	char *xml;

	if (vgpu_about(argc, argv, "vgpud-hook", help))
		return 0;
	if (argc != 5) {
		fputs(help, stderr);
		return 2;
	}
	while (o->name[0] && strcmp(o->name, argv[2]) != 0)
		o++;
	deadline = now_ms() + o->seconds * 1000LL;
	xml = slurp(STDIN_FILENO, CLAIM_MAX_BYTES, '\0', wait_for);
	allowed = xml ? allows(o, argv, xml) : !o->refusable;
	if (!xml && !allowed)
		fprintf(stderr,
			"vgpud: %s: cannot read the domain's XML, and whether it claims a VF: %s "
			"(at most %u KiB are read)\n",
			argv[1], strerror(errno), CLAIM_MAX_BYTES >> 10);
	free(xml);
	return allowed ? 0 : 1;
}
