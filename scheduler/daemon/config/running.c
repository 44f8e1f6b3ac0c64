/* SPDX-License-Identifier: MIT */
#include "running.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"

#define REQUEST "{\"id\":1,\"method\":\"config.diff\"}\n"
#define ANSWER_TIMEOUT_S 5
#define MOST_ANSWER (1u << 20)

/* Sends a request, and returns the answer, which the caller frees; NULL: none came. */
static json_object *ask_vgpud(const char *socket)
{
	struct timeval timeout = {.tv_sec = ANSWER_TIMEOUT_S};
	VGPU_AUTO_CLOSE int fd = vgpu_socket_connect_within(socket, ANSWER_TIMEOUT_S * VGPU_SEC);
	json_object *answer = NULL;
	size_t size = 0;
	ssize_t n = 1;
	char *text;

	if (fd < 0 || vgpu_socket_send_all(fd, REQUEST, strlen(REQUEST)) < 0)
		return NULL;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	text = malloc(MOST_ANSWER);
	while (text && n > 0 && size + 1 < MOST_ANSWER && !memchr(text, '\n', size)) {
		n = recv(fd, text + size, MOST_ANSWER - 1 - size, 0);
		size += n > 0 ? (size_t)n : 0;
	}
	if (text && n > 0) {
		text[size] = '\0';
		answer = json_tokener_parse(text);
	}
	free(text);
	return answer;
}

/* A text in an object within an object; "": there is none. */
static const char *text_in(json_object *o, const char *outer, const char *inner)
{
	json_object *in = json_object_object_get(json_object_object_get(o, outer), inner);

	return in ? json_object_get_string(in) : "";
}

int running_takes(const struct config *config, FILE *errors)
{
	json_object *answer = ask_vgpud(config->socket);
	const char *mistakes = text_in(answer, "error", "message");
	int r = -ENOENT;

	if (strcmp(text_in(answer, "result", "file"), config->file) == 0) {
		r = 0;
	} else if (strncmp(mistakes, config->file, strlen(config->file)) == 0) {
		fputs(mistakes, errors); /* lines */
		r = 1;
	}
	json_object_put(answer);
	return r;
}
