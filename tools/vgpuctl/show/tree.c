/* SPDX-License-Identifier: MIT */
#include "tree.h"

#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "placement_api.h"
#include "session.h"

/* The provider in place I of an answer; NULL: there is none. */
static struct json_object *provider_at(struct json_object *answer, size_t i)
{
	struct json_object *o = at(api_list(answer, "resource_providers"), i);

	return json_object_is_type(o, json_type_object) ? o : NULL;
}

/* Finds the provider of that name. */
static int find_host(const char *url, const char *host, struct json_object **answer)
{
	char path[1000], name[900];
	int code;

	api_escape(host, name, sizeof(name));
	snprintf(path, sizeof(path), "resource_providers?name=%s", name);
	code = api_must(url, "GET", path, NULL, "to list providers", answer);
	if (code != EXIT_OK || provider_at(*answer, 0))
		return code;
	if (api_list(*answer, "resource_providers"))
		fprintf(stderr,
			"vgpuctl: placement has no provider %s: start nova-compute on the host, or "
			"name its provider with --provider (the hypervisor's host name)\n",
			host);
	else
		api_not_understood(url);
	json_object_put(*answer);
	return EXIT_FAILED;
}

int tree_read(const char *url, const char *host, struct tree *out)
{
	struct json_object *answer;
	char path[1000], uuid[200];
	size_t i;
	int code;

	*out = (struct tree){.host = host};
	code = find_host(url, host, &answer);
	if (code != EXIT_OK)
		return code;
	api_escape(get_text(provider_at(answer, 0), "uuid"), uuid, sizeof(uuid));
	json_object_put(answer);
	snprintf(path, sizeof(path), "resource_providers?in_tree=%s", uuid);
	code = api_must(url, "GET", path, NULL, "to list the host's providers", &out->answer);
	if (code != EXIT_OK)
		return code;
	for (i = 0; i < tree_size(out); i++) {
		struct json_object *provider = tree_at(out, i);

		if (provider && strcmp(get_text(provider, "name"), host) == 0)
			out->own = provider;
	}
	if (out->own)
		return EXIT_OK;
	tree_free(out);
	return api_not_understood(path);
}

void tree_free(struct tree *tree)
{
	json_object_put(tree->answer);
	*tree = (struct tree){.host = NULL};
}

size_t tree_size(const struct tree *tree)
{
	return count(api_list(tree->answer, "resource_providers"));
}

struct json_object *tree_at(const struct tree *tree, size_t i)
{
	return provider_at(tree->answer, i);
}

const char *tree_gpu(const struct tree *tree, struct json_object *provider)
{
	const char *name = provider ? get_text(provider, "name") : "";
	size_t n = strlen(tree->host);

	if (!provider ||
	    strcmp(get_text(provider, "parent_provider_uuid"), get_text(tree->own, "uuid")) != 0 ||
	    strncmp(name, tree->host, n) != 0 ||
	    strncmp(name + n, TREE_INFIX, strlen(TREE_INFIX)) != 0)
		return NULL;
	return name + n + strlen(TREE_INFIX);
}

struct json_object *tree_find(const struct tree *tree, const char *gpu)
{
	const char *is;
	size_t i;

	for (i = 0; i < tree_size(tree); i++) {
		is = tree_gpu(tree, tree_at(tree, i));
		if (is && strcmp(is, gpu) == 0)
			return tree_at(tree, i);
	}
	return NULL;
}
