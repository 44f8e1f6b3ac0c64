/* SPDX-License-Identifier: MIT */
#include "control_client.h"

#include <errno.h>
#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vgpu/local_socket.h"

#define MAX_ANSWER (64u << 20)

/* The socket's own group is the one whose members may connect. */
static int deny(const char *path, struct vgpu_error *err)
{
	struct stat at;
	const struct group *group = stat(path, &at) == 0 ? getgrgid(at.st_gid) : NULL;

	if (!group || group->gr_gid == 0)
		return vgpu_error_set(err, -EACCES, "permission denied on %s: only root may use it",
				      path);
	return vgpu_error_set(err, -EACCES,
			      "permission denied on %s: you are not in group %s; 'usermod -a -G %s "
			      "USER' adds a user, from the next login on",
			      path, group->gr_name, group->gr_name);
}

int client_connect(const char *path, struct vgpu_error *err)
{
	int fd = vgpu_socket_connect(path, 0);

	if (fd == -ENAMETOOLONG)
		return vgpu_error_set(err, fd, "socket path %s: longer than %u characters", path,
				      VGPU_SOCKET_PATH - 1);
	if (fd == -EACCES)
		return deny(path, err);
	if (fd < 0)
		return vgpu_error_set(err, fd, "cannot connect to %s: %s; is vgpud running?", path,
				      strerror(-fd));
	return fd;
}

static char *read_line(int fd)
{
	size_t size = 65536, have = 0;
	char *line = malloc(size), *more;
	ssize_t n;

	while (line) {
		n = read(fd, line + have, size - have - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		have += (size_t)n;
		line[have] = '\0';
		if (line[have - 1] == '\n')
			return line;
		if (have + 1 < size)
			continue;
		size *= 2;
		more = size <= MAX_ANSWER ? realloc(line, size) : NULL;
		if (!more)
			break;
		line = more;
	}
	free(line);
	return NULL;
}

/* vgpud sends the names of errno.h, such as "EBUSY". Unknown names become EIO. */
static int error_number(const char *name)
{
	int i;

	for (i = 1; i < 134; i++)
		if (strerrorname_np(i) && strcmp(strerrorname_np(i), name) == 0)
			return i;
	return EIO;
}

char *client_request(const char *method, struct json_object *args)
{
	struct json_object *request = json_object_new_object();
	char *line;

	json_object_object_add(request, "id", json_object_new_int(1));
	json_object_object_add(request, "method", json_object_new_string(method));
	if (args)
		json_object_object_add(request, "args", args);
	if (asprintf(&line, "%s\n",
		     json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN)) < 0)
		line = NULL;
	json_object_put(request);
	return line;
}

/* Why vgpud refuses; its negative errno. */
static int read_refusal(struct json_object *error, struct vgpu_error *err)
{
	const char *message = json_object_get_string(json_object_object_get(error, "message"));
	const char *code = json_object_get_string(json_object_object_get(error, "code"));

	return vgpu_error_set(err, code ? -error_number(code) : -EIO, "%s",
			      message && *message ? message : "refused, without a reason");
}

int client_answer(const char *line, struct json_object **result, int *refusal,
		  struct vgpu_error *err)
{
	struct json_object *answer = json_tokener_parse(line), *part;
	int r = 0;

	if (!json_object_is_type(answer, json_type_object)) {
		r = vgpu_error_set(err, -EPROTO,
				   "vgpud's answer is not a JSON object; is it of the same version "
				   "as this program?");
	} else if (json_object_object_get_ex(answer, "error", &part)) {
		*refusal = read_refusal(part, err);
		r = 1;
	} else if (json_object_object_get_ex(answer, "result", &part)) {
		*result = json_object_get(part);
	} else {
		r = vgpu_error_set(err, -EPROTO,
				   "vgpud's answer has neither result nor error; is it of the same "
				   "version as this program?");
	}
	json_object_put(answer);
	return r;
}

/* Sends a line, and reads the one that answers it; that is the caller's. NULL: there is none.
 * vgpud may have said why it refuses the connection, and closed it, before the line was sent. */
static char *exchange(int fd, const char *request)
{
	if (!request)
		return NULL;
	vgpu_socket_send_all(fd, request, strlen(request));
	return read_line(fd);
}

/* Reads the refusal or the result from ANSWER, which it frees; NULL: none came. */
static int take_answer(char *answer, struct json_object **result, struct vgpu_error *err)
{
	int refusal = 0, r;

	if (!answer)
		return vgpu_error_set(err, -ECONNRESET,
				      "vgpud closed the connection without an answer: it has "
				      "stopped, or is out of memory");
	r = client_answer(answer, result, &refusal, err);
	free(answer);
	return r > 0 ? refusal : r;
}

int client_call(int fd, const char *method, struct json_object *args, struct json_object **result,
		struct vgpu_error *err)
{
	char *request = client_request(method, args), *answer = exchange(fd, request);

	free(request);
	return take_answer(answer, result, err);
}

/* Removes what comes before an object, and copies the first line of it that is not empty to
 * SKIPPED. Returns whether any of TEXT is left. */
static bool skip_lines(char *text, char *skipped, size_t size)
{
	char *object = strchrnul(text, '{'), *line = text + strspn(text, "\r\n");

	if (line < object && !skipped[0])
		snprintf(skipped, size, "%.*s", (int)strcspn(line, "\r\n{"), line);
	memmove(text, object, strlen(object) + 1);
	return *text;
}

int client_call_beyond(int fd, const char *method, struct json_object *args,
		       struct json_object **result, char *skipped, size_t size,
		       struct vgpu_error *err)
{
	char *request = client_request(method, args), *answer = exchange(fd, request);
	struct vgpu_error why;
	int r;

	free(request);
	skipped[0] = '\0';
	while (answer && !skip_lines(answer, skipped, size)) {
		free(answer);
		answer = read_line(fd);
	}
	r = take_answer(answer, result, &why);
	if (r == -ECONNRESET && skipped[0])
		return vgpu_error_set(err, r,
				      "the remote shell prints \"%.80s\", and no vgpud answers",
				      skipped);
	return r < 0 ? vgpu_error_set(err, r, "%s", why.text) : r;
}
