/* SPDX-License-Identifier: MIT */
#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_ANSWER (64u << 20)

int client_connect(const char *path, struct vgpu_error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, r;

	if (strlen(path) >= sizeof(address.sun_path))
		return vgpu_error_set(err, -ENAMETOOLONG,
				      "socket path %s: longer than 107 characters", path);
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		if (r == -EACCES)
			return vgpu_error_set(
				err, r,
				"permission denied on %s: you are neither root nor in "
				"vgpud's group (usually vgpu)",
				path);
		return vgpu_error_set(err, r, "cannot connect to %s: %s; is vgpud running?", path,
				      strerror(-r));
	}
	return fd;
}

static int write_all(int fd, const char *data, size_t size)
{
	ssize_t n;

	while (size > 0) {
		n = send(fd, data, size, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		size -= (size_t)n;
	}
	return 0;
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

int client_call(int fd, const char *method, struct json_object *args, struct json_object **result,
		struct vgpu_error *err)
{
	struct json_object *request = json_object_new_object(), *answer, *part, *field;
	const char *text;
	char *line = NULL;
	int r;

	json_object_object_add(request, "id", json_object_new_int(1));
	json_object_object_add(request, "method", json_object_new_string(method));
	if (args)
		json_object_object_add(request, "args", args);
	text = json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN);
	r = write_all(fd, text, strlen(text));
	r = r ? r : write_all(fd, "\n", 1);
	json_object_put(request);
	if (r == 0)
		line = read_line(fd);
	if (!line)
		return vgpu_error_set(err, -ECONNRESET,
				      "vgpud closed the connection: it has stopped, has too many "
				      "clients, or you are neither root nor in its group");
	answer = json_tokener_parse(line);
	free(line);
	if (!answer)
		return vgpu_error_set(
			err, -EPROTO,
			"vgpud's answer is not JSON; are vgpuctl and vgpud of the same version?");
	if (json_object_object_get_ex(answer, "error", &part)) {
		r = -EIO;
		if (json_object_object_get_ex(part, "code", &field))
			r = -error_number(json_object_get_string(field));
		text = json_object_object_get_ex(part, "message", &field)
			       ? json_object_get_string(field)
			       : "unknown error";
		vgpu_error_set(err, r, "%s", text);
	} else if (json_object_object_get_ex(answer, "result", &part)) {
		*result = json_object_get(part);
		r = 0;
	} else {
		r = vgpu_error_set(err, -EPROTO,
				   "vgpud's answer has neither result nor error; are vgpuctl and "
				   "vgpud of the same version?");
	}
	json_object_put(answer);
	return r;
}
