/* SPDX-License-Identifier: MIT */
#include "tenant.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"
#include "clean.h"
#include "control_client.h"
#include "session.h"
#include "table.h"
#include "vgpu/local_socket.h"
#include "vgpu/number.h"

static void find_door(const struct options *o, char out[VGPU_SOCKET_PATH])
{
	const char *given = getenv("VGPUD_TENANT_SOCKET");

	if (given && *given)
		snprintf(out, VGPU_SOCKET_PATH, "%s", given);
	else
		vgpu_socket_of_tenants(session_path(o), out, VGPU_SOCKET_PATH);
}

void tenant_directory(const struct options *o, char out[VGPU_SOCKET_PATH])
{
	char *slash;

	find_door(o, out);
	slash = strrchr(out, '/');
	snprintf(slash ? slash : out, 2, "%s", slash ? "" : ".");
}

int tenant_call(const struct options *o, const char *method, struct json_object *args,
		struct json_object **answer)
{
	char path[VGPU_SOCKET_PATH];
	struct vgpu_error err = {""};
	int fd, r;

	find_door(o, path);
	fd = client_connect(path, &err);
	if (fd < 0)
		json_object_put(args);
	r = fd < 0 ? fd : client_call(fd, method, args, answer, &err);
	if (r == 0) {
		clean_answer(*answer);
		return fd;
	}
	clean_text(err.text);
	fprintf(stderr, "vgpuctl: %s\n", err.text);
	if (fd < 0)
		return r == -EACCES ? -EXIT_DENIED : -EXIT_NO_DAEMON;
	close(fd);
	return -exit_code_of(r);
}

static void add_text(struct json_object *to, const char *name, const char *value)
{
	if (value)
		json_object_object_add(to, name, json_object_new_string(value));
}

struct json_object *tenant_claim(const struct options *o, char ***words)
{
	struct json_object *args = json_object_new_object(), *params = json_object_new_object();
	uint64_t memory;
	char name[64];

	for (; **words && strchr(**words, '='); (*words)++) {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(**words, "="), **words);
		add_text(params, name, strchr(**words, '=') + 1);
	}
	add_text(params, "weight", o->weight);
	add_text(params, "max", o->limit);
	json_object_object_add(args, "params", params);
	add_text(args, "gpu", o->gpu);
	add_text(args, "profile", o->profile);
	if (!o->memory)
		return args;
	if (vgpu_parse_size(o->memory, INT64_MAX, &memory) < 0) {
		fprintf(stderr, "vgpuctl: --memory %s: want a size: 512M, 2G\n", o->memory);
		json_object_put(args);
		return NULL;
	}
	json_object_object_add(args, "memory_bytes", json_object_new_int64((int64_t)memory));
	return args;
}

/* Writes the user who is charged for a lease; "" for a VM's lease. */
static void owner_of(struct json_object *o, char *text, size_t size)
{
	const struct passwd *user;

	text[0] = '\0';
	if (!get(o, "owner"))
		return;
	user = getpwuid((uid_t)get_int(o, "owner"));
	if (user)
		snprintf(text, size, "%s", user->pw_name);
	else
		snprintf(text, size, "%" PRId64, get_int(o, "owner"));
}

static const char *or_none(const char *text)
{
	return *text ? text : "-";
}

void view_tenant_list(struct json_object *o)
{
	static const char *const heads[] = {"NAME",	"KIND",	     "OWNER",	  "GPU",
					    ">VF",	"STATE",     ">PROMISED", ">RECEIVED",
					    "?>MEMORY", "?>SINCE",   "?POD",	  "?NAMESPACE",
					    "?IMAGE",	"?>PROCESS", "?LEASE",	  NULL};
	struct json_object *list = get(o, "tenants"), *one;
	struct table *t = table_new(heads);
	char owner[40];
	size_t i;

	for (i = 0; i < count(list); i++) {
		one = at(list, i);
		owner_of(one, owner, sizeof(owner));
		cell(t, "%s", get_text(one, "name"));
		cell(t, "%s", get_text(one, "kind"));
		cell(t, "%s", owner);
		cell(t, "%s", get_text(one, "gpu"));
		cell(t, "%" PRId64, get_int(one, "vf"));
		cell(t, "%s", get_text(one, "state"));
		cell_part(t, get(one, "promised_ppm") && get_int(one, "promised_ppm")
				     ? (double)get_int(one, "promised_ppm") / 1e6
				     : -1);
		cell_part(t, get(one, "received_ppm") ? (double)get_int(one, "received_ppm") / 1e6
						      : -1);
		cell(t, "%" PRId64 "M", get_int(one, "memory_bytes") >> 20);
		cell(t, "%" PRId64 "s",
		     (get_int(o, "now_ns") - get_int(one, "since_ns")) / 1000000000);
		cell(t, "%s", or_none(get_text(one, "pod")));
		cell(t, "%s", or_none(get_text(one, "namespace")));
		cell(t, "%s", or_none(get_text(one, "image")));
		cell(t, "%" PRId64, get_int(one, "process"));
		cell(t, "%s", get_text(one, "lease"));
	}
	table_print(t);
}

void view_tenant_explain(struct json_object *o)
{
	const char *name = get_text(o, "name"), *id = get_text(o, "id");

	printf("%s%s%s%s: %s\n", *name ? name : id, *name && *id ? " (" : "",
	       *name && *id ? id : "", *name && *id ? ")" : "", get_text(o, "why"));
}

/* Makes the method's arguments from a command's words. Returns false if the words do not suit the
 * command. */
static bool read_words(const struct command *c, char **words, struct json_object *args)
{
	if (!c->words[0] || !words[0])
		return !c->words[0] && !words[0];
	json_object_object_add(args, "id", json_object_new_string(words[0]));
	return !words[1];
}

int tenant(const struct options *o, const struct command *c, char **words)
{
	struct json_object *args = json_object_new_object(), *answer = NULL;
	int fd;

	if (!read_words(c, words, args)) {
		fprintf(stderr, "vgpuctl: %s %s: want %s\n", c->noun, c->verb,
			c->words[0] ? c->words : "no argument");
		json_object_put(args);
		return EXIT_USAGE;
	}
	fd = tenant_call(o, c->method, args, &answer);
	if (fd < 0)
		return -fd;
	close(fd);
	if (o->json)
		print_json(answer);
	else
		c->view(answer);
	json_object_put(answer);
	return EXIT_OK;
}
