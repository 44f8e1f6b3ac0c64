/* SPDX-License-Identifier: MIT */
#include "placement.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"
#include "http.h"
#include "placement_api.h"
#include "session.h"
#include "tree.h"
#include "vgpu/file.h"

#define PREFIX "CUSTOM_VGPUD_"

const char *const placement_classes[BOOKED] = {"VF", "SHARE", "MEMORY_MB"};

/* Returns 0, or -errno; -ECANCELED: the reason is on stderr. */
static int fetch(const char *url, char **text, size_t *size)
{
	int status = http_request("GET", url, NULL, text, size);

	if (status == 200)
		return 0;
	if (status > 0)
		fprintf(stderr, "vgpuctl: %s: HTTP %d%s\n", url, status, http_hint(status));
	free(*text);
	*text = NULL;
	return -ECANCELED;
}

bool placement_is_url(const char *where)
{
	return strncmp(where, "http://", 7) == 0 || strncmp(where, "https://", 8) == 0;
}

static char *slurp(const char *where, size_t *size)
{
	char *text = NULL;
	int r;

	if (placement_is_url(where))
		r = fetch(where, &text, size);
	else if (strcmp(where, "-") == 0)
		r = vgpu_read_all(STDIN_FILENO, HTTP_LONGEST, &text, size);
	else
		r = vgpu_file_read(where, HTTP_LONGEST, &text, size);
	if (r >= 0)
		return text;
	if (r == -E2BIG)
		fprintf(stderr, "vgpuctl: %s: longer than %u bytes, the most that are read\n",
			where, HTTP_LONGEST);
	else if (r != -ECANCELED)
		fprintf(stderr, "vgpuctl: %s: %s\n", where, strerror(-r));
	free(text);
	return NULL;
}

bool placement_add(struct json_object *out, const char *key, struct json_object *resources)
{
	struct json_object *list = get(out, key);
	int64_t more;
	int i;

	if (!json_object_is_type(resources, json_type_object))
		return true;
	json_object_object_foreach(resources, name, amount)
	{
		if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		more = json_object_get_int64(amount);
		if (!json_object_is_type(amount, json_type_int) || more < 0 || more > INT32_MAX)
			return false; /* placement's are INTEGERs of SQL */
		if (!list) {
			list = json_object_new_array();
			for (i = 0; i < BOOKED; i++)
				json_object_array_add(list, json_object_new_int64(0));
			json_object_object_add(out, key, list);
		}
		for (i = 0; i < BOOKED; i++)
			if (strcmp(name + strlen(PREFIX), placement_classes[i]) == 0)
				json_object_array_put_idx(
					list, (size_t)i,
					json_object_new_int64(
						json_object_get_int64(at(list, (size_t)i)) + more));
	}
	return true;
}

/* Reads the allocations of one provider: by server. Those of one server, by provider, name a
 * project, and are refused: nobody could tell them apart later. */
static bool read_provider(struct json_object *out, struct json_object *provider)
{
	struct json_object *all = get(provider, "allocations");

	if (!json_object_is_type(provider, json_type_object) ||
	    !json_object_is_type(all, json_type_object) || get(provider, "project_id"))
		return false;
	json_object_object_foreach(all, uuid, allocation)
	{
		if (!placement_add(out, uuid, get(allocation, "resources")))
			return false;
	}
	return true;
}

struct json_object *placement_read(const char *where)
{
	struct json_object *out = NULL, *root = NULL;
	size_t size = 0, i, n;
	char *text = slurp(where, &size);
	bool ok, list;

	if (!text)
		return NULL;
	root = json_tokener_parse(text);
	free(text);
	out = json_object_new_object();
	list = json_object_is_type(root, json_type_array);
	n = list ? count(root) : 1;
	ok = n > 0;
	for (i = 0; i < n && ok; i++)
		ok = read_provider(out, list ? at(root, i) : root);
	json_object_put(root);
	if (ok)
		return out;
	fprintf(stderr,
		"vgpuctl: %s: not what placement answers to GET "
		"/resource_providers/UUID/allocations\n",
		where);
	json_object_put(out);
	return NULL;
}

/* Adds how many VFs the servers have booked of GPU, whose provider has these allocations. */
static void add_vfs(struct json_object *on, const char *gpu, struct json_object *answer)
{
	struct json_object *amounts = json_object_new_object(), *server;

	read_provider(amounts, answer);
	json_object_object_foreach(amounts, uuid, list)
	{
		server = get(on, uuid);
		if (!server) {
			server = json_object_new_object();
			json_object_object_add(on, uuid, server);
		}
		json_object_object_add(server, gpu, json_object_get(at(list, BOOKED_VFS)));
	}
	json_object_put(amounts);
}

/* Adds what is booked of one provider, and of GPU if it is a GPU's. Returns an exit code. */
static int add_provider(const char *url, const char *uuid, const char *gpu, struct json_object *out,
			struct json_object *on)
{
	struct json_object *answer;
	char path[300], name[200];
	int code;

	api_escape(uuid, name, sizeof(name));
	snprintf(path, sizeof(path), "resource_providers/%s/allocations", name);
	code = api_must(url, "GET", path, NULL, "to list what is booked", &answer);
	if (code != EXIT_OK)
		return code;
	if (!read_provider(out, answer))
		code = api_not_understood(path);
	else if (gpu)
		add_vfs(on, gpu, answer);
	json_object_put(answer);
	return code;
}

struct json_object *placement_read_host(const char *url, const char *host, struct json_object *on)
{
	struct json_object *out;
	struct tree tree;
	size_t i;
	int code = tree_read(url, host, &tree);

	if (code != EXIT_OK)
		return NULL;
	out = json_object_new_object();
	for (i = 0; i < tree_size(&tree) && code == EXIT_OK; i++) {
		struct json_object *provider = tree_at(&tree, i);

		code = provider ? add_provider(url, get_text(provider, "uuid"),
					       tree_gpu(&tree, provider), out, on)
				: api_not_understood(host);
	}
	tree_free(&tree);
	if (code == EXIT_OK)
		return out;
	json_object_put(out);
	return NULL;
}
