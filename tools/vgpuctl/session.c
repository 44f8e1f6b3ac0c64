/* SPDX-License-Identifier: MIT */
#include "session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "answer.h"
#include "clean.h"
#include "control_client.h"
#include "remote.h"
#include "screen.h"
#include "vgpu/names.h"
#include "vgpu/number.h"

#define SSH_ENDS_MS 2000
#define DEFAULT_SOCKET "/run/vgpud/control.sock"

void print_json(struct json_object *o)
{
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY));
}

int session_call(struct session *s, const char *method, struct json_object *args,
		 struct json_object **result)
{
	struct vgpu_error err = {""};
	char skipped[100] = "";
	int r = s->ssh ? client_call_beyond(s->fd, method, args, result, skipped, sizeof(skipped),
					    &err)
		       : client_call(s->fd, method, args, result, &err);

	clean_text(skipped);
	clean_text(err.text);
	if (r == 0 && !json_object_is_type(*result, json_type_object)) {
		json_object_put(*result);
		*result = NULL;
		r = vgpu_error_set(&err, -EPROTO, "%s: not what vgpud answers", method);
	}
	if (r == 0 && skipped[0])
		fprintf(stderr,
			"vgpuctl: %s: skipped what the remote shell prints, beginning with "
			"\"%s\"\n",
			s->options->host, skipped);
	if (r == 0) {
		clean_answer(*result);
		return EXIT_OK;
	}
	screen_end();
	if (s->ssh)
		fprintf(stderr, "vgpuctl: %s: %s\n", s->options->host, err.text);
	else
		fprintf(stderr, "vgpuctl: %s\n", err.text);
	return exit_code_of(r);
}

int session_call_gpu(struct session *s, size_t i, const char *method, struct json_object *args,
		     struct json_object **result)
{
	const char *name = get_text(at(s->gpus, i), "gpu");
	int r;

	if (!args)
		args = json_object_new_object();
	json_object_object_add(args, "gpu", json_object_new_string(name));
	r = session_call(s, method, args, result);
	if (r == EXIT_OK && !get(*result, "gpu"))
		json_object_object_add(*result, "gpu", json_object_new_string(name));
	return r;
}

/* Returns whether WORD is the place ADDRESS: a PCI address in any form of vgpu/names.h, or a
 * path. */
static bool is_address(const char *address, const char *word)
{
	char normal[PCI_ADDRESS_SIZE];

	return strcmp(address, pci_address_normal(word, normal) == 0 ? normal : word) == 0;
}

/* Returns whether WORD is the name of the GPU, or its PCI address: "sysfs:ADDRESS",
 * "vfio:ADDRESS,...". */
static bool is_gpu(struct json_object *gpu, const char *word)
{
	const char *device = strchr(get_text(gpu, "device"), ':');
	char address[64];

	if (strcmp(get_text(gpu, "gpu"), word) == 0)
		return true;
	snprintf(address, sizeof(address), "%.*s", device ? (int)strcspn(device + 1, ",") : 0,
		 device ? device + 1 : "");
	return is_address(address, word);
}

static int find_gpus(struct session *s)
{
	const char *word = s->named ? s->named : s->options->gpu;
	struct json_object *answer = NULL, *list;
	int r = session_call(s, "gpu.list", NULL, &answer);
	size_t i;

	s->gpus = json_object_new_array();
	list = get(answer, "gpus");
	for (i = 0; i < count(list); i++)
		if (!word || is_gpu(at(list, i), word))
			json_object_array_add(s->gpus, json_object_get(at(list, i)));
	json_object_put(answer);
	if (r == EXIT_OK && word && count(s->gpus) == 0) {
		fprintf(stderr, "vgpuctl: gpu %s: no such GPU; 'vgpuctl gpu list' shows them\n",
			word);
		return EXIT_NOT_FOUND;
	}
	return r;
}

const char *session_path(const struct options *o)
{
	return o->socket ? o->socket : DEFAULT_SOCKET;
}

/* Waits for the ssh of a closed connection, but no longer than a program at the other end needs to
 * end with the connection. Returns 0 or -errno. */
static int wait_for_ssh(pid_t ssh, int *status)
{
	struct pollfd p = {pidfd_open(ssh, 0), POLLIN, 0};

	if (p.fd >= 0 && poll(&p, 1, SSH_ENDS_MS) == 0)
		kill(ssh, SIGTERM);
	if (p.fd >= 0)
		close(p.fd);
	return waitpid(ssh, status, 0) == ssh ? 0 : -errno;
}

/* Ends the connection. Returns the exit code of the vgpuctl on the other host; 0 if there is
 * none. */
static int hang_up(struct session *s)
{
	int status = 0;

	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	if (s->ssh && wait_for_ssh(s->ssh, &status) < 0)
		status = 0;
	s->ssh = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/* Connects to another host's vgpud. A failure is only noticed when the first answer is read.
 * Returns an exit code. */
static int open_there(struct session *s)
{
	int r;

	s->fd = remote_connect(s->options->host, s->options->socket, &s->ssh);
	if (s->fd < 0) {
		fprintf(stderr, "vgpuctl: ssh: %s\n", strerror(-s->fd));
		return EXIT_NO_DAEMON;
	}
	r = find_gpus(s);
	if (r == EXIT_NO_DAEMON && hang_up(s) == EXIT_DENIED)
		r = EXIT_DENIED;
	return r;
}

int session_open(struct session *s)
{
	const char *path = session_path(s->options);
	struct vgpu_error err = {""};

	if (s->fd >= 0)
		return EXIT_OK;
	if (s->options->host)
		return open_there(s);
	s->fd = client_connect(path, &err);
	if (s->fd < 0) {
		fprintf(stderr, "vgpuctl: %s\n", err.text);
		return s->fd == -EACCES ? EXIT_DENIED : EXIT_NO_DAEMON;
	}
	return find_gpus(s);
}

void session_close(struct session *s)
{
	json_object_put(s->gpus);
	hang_up(s);
}

int session_find_vf(struct session *s, const char *word, struct json_object *args)
{
	struct json_object *answer, *vf;
	int64_t number;
	struct pci_address address;
	size_t g, i;
	int r;

	if (vgpu_parse_between(word, 0, 1000000, &number) == 0) {
		json_object_object_add(args, "vf", json_object_new_int64(number));
		return EXIT_OK;
	}
	if (pci_address_read(word, &address) < 0 && !strchr(word, '/')) {
		fprintf(stderr,
			"vgpuctl: %s: want the number or the address of a VF, as in 'vgpuctl vf "
			"list'\n",
			word);
		return EXIT_USAGE;
	}
	r = session_open(s);
	if (r != EXIT_OK)
		return r;
	for (g = 0; g < count(s->gpus); g++) {
		r = session_call_gpu(s, g, "vf.list", NULL, &answer);
		if (r != EXIT_OK)
			return r;
		for (i = 0; i < count(get(answer, "vfs")); i++) {
			vf = at(get(answer, "vfs"), i);
			if (!is_address(get_text(vf, "address"), word))
				continue;
			json_object_object_add(args, "gpu", json_object_get(get(answer, "gpu")));
			json_object_object_add(args, "vf", json_object_get(get(vf, "vf")));
			json_object_put(answer);
			return EXIT_OK;
		}
		json_object_put(answer);
	}
	fprintf(stderr, "vgpuctl: %s: no GPU has a VF at that address\n", word);
	return EXIT_NOT_FOUND;
}
