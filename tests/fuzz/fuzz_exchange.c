/* SPDX-License-Identifier: MIT */
/*
 * What vgpud-hook and vgpud-libvirt exchange with vgpud. A question is one line, whatever the
 * domain is called and whatever its XML has in it, and vgpud reads in it what was put in: no text
 * hides a claim or adds another request. Whatever vgpud answers, in whatever pieces, is a result, a
 * refusal with a reason, or an error that says what is wrong.
 */
#include <json-c/json.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control_client.h"
#include "fuzz.h"
#include "vgpu/local_socket.h"

#define MAX_TEXT 4096u
#define MAX_ANSWER 65536u

static struct json_object *arg(struct json_object *root, const char *key)
{
	return json_object_object_get(json_object_object_get(root, "args"), key);
}

/* Asks as the hook does, and reads the line as vgpud does. */
static void question(struct input *in)
{
	static const char *const keys[] = {"operation", "reason", "xml"};
	static char texts[3][MAX_TEXT];
	struct json_object *args = json_object_new_object(), *root;
	char *line;
	uint32_t i;

	for (i = 0; i < 3; i++) {
		size_t n = input_number(in, 2) % MAX_TEXT;

		n = n < in->left ? n : in->left;
		input_bytes(in, texts[i], n);
		texts[i][n] = '\0'; /* what the hook reads ends at the first zero, too */
		json_object_object_add(args, keys[i], json_object_new_string(texts[i]));
	}
	line = client_request("hook", args);
	HOLDS(line && strchr(line, '\n') == line + strlen(line) - 1);
	root = json_tokener_parse(line);
	HOLDS(root);
	HOLDS(strcmp(json_object_get_string(json_object_object_get(root, "method")), "hook") == 0);
	for (i = 0; i < 3; i++)
		HOLDS(strcmp(json_object_get_string(arg(root, keys[i])), texts[i]) == 0);
	json_object_put(root);
	free(line);
}

/* Calls a vgpud that sends the rest of the input, up to its first end of a line or to its end. */
static void answer(struct input *in)
{
	static char text[MAX_ANSWER];
	size_t n = in->left < MAX_ANSWER ? in->left : MAX_ANSWER;
	struct json_object *result = NULL;
	struct vgpu_error err = {.text = ""};
	int pair[2], r;

	input_bytes(in, text, n);
	HOLDS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	HOLDS(vgpu_socket_send_all(pair[1], text, n) == 0);
	shutdown(pair[1], SHUT_WR);
	r = client_call(pair[0], "vm.hung", json_object_new_object(), &result, &err);
	HOLDS(r <= 0);
	HOLDS(r == 0 || (!result && err.text[0] && r > -4096));
	if (r == 0) /* what the callers do with a result of any type */
		json_object_put(json_object_get(json_object_object_get(result, "attach")));
	json_object_put(result);
	close(pair[0]);
	close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};

	if (input_number(&in, 1) & 1)
		question(&in);
	answer(&in);
	return 0;
}
