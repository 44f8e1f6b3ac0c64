/* SPDX-License-Identifier: MIT */
/*
 * Placement gives each provider a generation, which every change of the provider makes greater; a
 * change that names an older one gets 409 with the code placement.concurrent_update. Then the
 * provider is read again, and the change is made for what it is now.
 * docs.openstack.org/api-ref/placement
 */
#include "providers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "offer.h"
#include "placement_api.h"
#include "session.h"
#include "tree.h"

#define TRIES 5
#define CONFLICT 409

struct keeper {
	const char *url;
	bool check;
	uint32_t changes;
	struct tree tree;
};

/* Says what is changed, or would be. */
static void note(struct keeper *k, const char *name, const char *what)
{
	printf("%s: %s%s\n", name, k->check ? "would be " : "", what);
	k->changes++;
}

/* What the GPU offers, as placement writes it. What somebody has reserved stays reserved, and what
 * else the provider has, it keeps: placement replaces all of it together. */
static struct json_object *wanted_inventories(struct json_object *gpu, struct json_object *has)
{
	struct json_object *all = json_object_new_object(), *one;
	struct offer_class classes[BOOKED];
	int64_t reserved;
	char name[64];
	int c;

	if (json_object_is_type(has, json_type_object)) {
		json_object_object_foreach(has, class, inventory)
		{
			if (strncmp(class, OFFER_PREFIX "_", strlen(OFFER_PREFIX "_")) != 0)
				json_object_object_add(all, class, json_object_get(inventory));
		}
	}
	offer_classes(gpu, classes);
	for (c = 0; c < BOOKED; c++) {
		if (classes[c].total <= 0)
			continue;
		snprintf(name, sizeof(name), OFFER_PREFIX "_%s", placement_classes[c]);
		reserved = get_int(api_object(has, name), "reserved");
		if (reserved > classes[c].total)
			reserved = classes[c].total;
		one = json_object_new_object();
		json_object_object_add(one, "total", json_object_new_int64(classes[c].total));
		json_object_object_add(one, "reserved", json_object_new_int64(reserved));
		json_object_object_add(one, "min_unit", json_object_new_int64(classes[c].least));
		json_object_object_add(one, "max_unit", json_object_new_int64(classes[c].most));
		json_object_object_add(one, "step_size", json_object_new_int64(classes[c].step));
		json_object_object_add(one, "allocation_ratio", json_object_new_double(1.0));
		json_object_object_add(all, name, one);
	}
	return all;
}

/* Adds a trait to LIST unless it is there. */
static void add_trait(struct json_object *list, const char *trait)
{
	size_t i;

	for (i = 0; i < count(list); i++)
		if (strcmp(api_text(at(list, i)), trait) == 0)
			return;
	json_object_array_add(list, json_object_new_string(trait));
}

static int by_text(const void *a, const void *b)
{
	struct json_object *const *x = a, *const *y = b;

	return strcmp(api_text(*x), api_text(*y));
}

/* The GPU's traits (NULL: none), and those that somebody else gave to the provider. */
static struct json_object *wanted_traits(struct json_object *gpu, struct json_object *has)
{
	struct json_object *list = json_object_new_array();
	char text[OFFER_TRAIT_SIZE];
	size_t i;
	int t;

	if (gpu)
		add_trait(list, OFFER_PREFIX);
	for (t = 0; gpu && t < OFFER_TRAITS; t++)
		if (offer_trait(gpu, t, text))
			add_trait(list, text);
	for (i = 0; i < count(has); i++) {
		const char *trait = api_text(at(has, i));

		if (trait[0] && strncmp(trait, OFFER_PREFIX, strlen(OFFER_PREFIX)) != 0)
			add_trait(list, trait);
	}
	json_object_array_sort(list, by_text);
	return list;
}

/* One of the two things that a provider has. */
struct aspect {
	const char *key, *what;
	enum json_type type;
	/* GPU: whose provider it is; NULL: the host's own */
	struct json_object *(*wanted)(struct json_object *gpu, struct json_object *has);
	const char *names; /* where placement keeps their names */
};

static const struct aspect aspects[] = {
	{"inventories", "given its inventory", json_type_object, wanted_inventories,
	 "resource_classes"},
	{"traits", "given its traits", json_type_array, wanted_traits, "traits"},
};

/* Nova never takes a trait away: those of a provider configuration stay after it is removed. */
static const struct aspect host_traits = {"traits", "rid of old traits of vgpud's", json_type_array,
					  wanted_traits, "traits"};

/* Makes the names of classes or traits known to placement; it knows most of them already. */
static int make_names(const struct keeper *k, const struct aspect *a, struct json_object *wanted)
{
	char path[300];
	int code = EXIT_OK;
	size_t i;

	for (i = 0; i < count(json_object_is_type(wanted, json_type_array) ? wanted : NULL) &&
		    code == EXIT_OK;
	     i++) {
		const char *trait = api_text(at(wanted, i));

		snprintf(path, sizeof(path), "%s/%s", a->names, trait);
		if (strncmp(trait, OFFER_PREFIX, strlen(OFFER_PREFIX)) == 0)
			code = api_tell(k->url, "PUT", path, "a trait");
	}
	if (!json_object_is_type(wanted, json_type_object))
		return code;
	json_object_object_foreach(wanted, name, unused)
	{
		(void)unused;
		snprintf(path, sizeof(path), "%s/%s", a->names, name);
		if (code == EXIT_OK && strncmp(name, OFFER_PREFIX, strlen(OFFER_PREFIX)) == 0)
			code = api_tell(k->url, "PUT", path, "a resource class");
	}
	return code;
}

/* Reads an aspect of a provider, and writes it if it is not what it should be. Returns the status
 * of the last request, with the answer, which the caller frees; 0: it is as it should be. */
static int put_aspect(struct keeper *k, const struct aspect *a, struct json_object *provider,
		      struct json_object *gpu, struct json_object **answer)
{
	struct json_object *wanted, *has, *body;
	char path[200];
	int status;

	snprintf(path, sizeof(path), "resource_providers/%s/%s", get_text(provider, "uuid"),
		 a->key);
	status = api_request(k->url, "GET", path, NULL, answer);
	if (!api_is_good(status))
		return status;
	has = a->type == json_type_array ? api_list(*answer, a->key) : api_object(*answer, a->key);
	if (!has) {
		api_not_understood(path);
		return -1;
	}
	if (a->type == json_type_array)
		json_object_array_sort(has, by_text);
	wanted = a->wanted(gpu, has);
	if (json_object_equal(wanted, has) || k->check) {
		if (!json_object_equal(wanted, has))
			note(k, get_text(provider, "name"), a->what);
		json_object_put(wanted);
		return 0;
	}
	if (make_names(k, a, wanted) != EXIT_OK) {
		json_object_put(wanted);
		return -1;
	}
	body = json_object_new_object();
	json_object_object_add(body, a->key, wanted);
	json_object_object_add(body, "resource_provider_generation",
			       json_object_get(get(*answer, "resource_provider_generation")));
	json_object_put(*answer);
	status = api_request(k->url, "PUT", path, body, answer);
	json_object_put(body);
	return status;
}

static bool is_stale(int status, struct json_object *answer)
{
	return status == CONFLICT &&
	       strcmp(api_fault(answer, "code"), "placement.concurrent_update") == 0;
}

/* Makes an aspect of a provider what it should be, whoever changes the provider meanwhile. */
static int keep_aspect(struct keeper *k, const struct aspect *a, struct json_object *provider,
		       struct json_object *gpu)
{
	const char *name = get_text(provider, "name");
	struct json_object *answer = NULL;
	int status = 0, i, code = EXIT_OK;
	char what[400];

	for (i = 0; i == 0 || (i < TRIES && is_stale(status, answer)); i++) {
		json_object_put(answer);
		status = put_aspect(k, a, provider, gpu, &answer);
	}
	if (api_is_good(status)) {
		note(k, name, a->what);
	} else if (status != 0) {
		snprintf(what, sizeof(what), "the %s of %s", a->key, name);
		code = api_refused(what, status, answer);
	}
	json_object_put(answer);
	return code;
}

/* Makes the provider of a GPU, without an inventory yet. */
static int make_provider(struct keeper *k, const char *gpu, struct json_object **out)
{
	struct json_object *body = json_object_new_object();
	char name[600], what[640];
	int code = EXIT_OK;

	snprintf(name, sizeof(name), "%s" TREE_INFIX "%s", k->tree.host, gpu);
	snprintf(what, sizeof(what), "to make %s", name);
	json_object_object_add(body, "name", json_object_new_string(name));
	json_object_object_add(body, "parent_provider_uuid",
			       json_object_get(get(k->tree.own, "uuid")));
	if (!k->check)
		code = api_must(k->url, "POST", "resource_providers", body, what, out);
	if (code == EXIT_OK && !k->check && !json_object_is_type(*out, json_type_object)) {
		json_object_put(*out);
		*out = NULL;
		code = api_not_understood(what);
	}
	if (code == EXIT_OK)
		note(k, name, "made");
	json_object_put(body);
	return code;
}

static int keep_gpu(struct keeper *k, struct json_object *gpu)
{
	const char *name = get_text(gpu, "gpu");
	struct json_object *provider = json_object_get(tree_find(&k->tree, name));
	int code = EXIT_OK;
	size_t i;

	if (!provider)
		code = make_provider(k, name, &provider);
	for (i = 0; provider && code == EXIT_OK && i < sizeof(aspects) / sizeof(aspects[0]); i++)
		code = keep_aspect(k, &aspects[i], provider, gpu);
	json_object_put(provider);
	return code;
}

/* Deletes a provider whose GPU is gone. Placement keeps one that servers have booked. */
static int drop(struct keeper *k, struct json_object *provider)
{
	const char *name = get_text(provider, "name");
	char path[100], what[400];
	int code = EXIT_OK;

	snprintf(path, sizeof(path), "resource_providers/%s", get_text(provider, "uuid"));
	snprintf(what, sizeof(what), "to delete %s, whose GPU is gone", name);
	if (!k->check)
		code = api_tell(k->url, "DELETE", path, what);
	if (code == EXIT_OK)
		note(k, name, "deleted");
	return code;
}

static bool is_there(struct json_object *gpus, const char *name)
{
	size_t i;

	for (i = 0; i < count(gpus); i++)
		if (strcmp(get_text(at(gpus, i), "gpu"), name) == 0)
			return true;
	return false;
}

static int drop_gone(struct keeper *k, struct json_object *gpus)
{
	int code = EXIT_OK, r;
	const char *gpu;
	size_t i;

	for (i = 0; i < tree_size(&k->tree); i++) {
		gpu = tree_gpu(&k->tree, tree_at(&k->tree, i));
		if (!gpu || is_there(gpus, gpu))
			continue;
		r = drop(k, tree_at(&k->tree, i));
		code = r != EXIT_OK ? r : code;
	}
	return code;
}

/* Refuses if the host's own provider offers the same: it would be offered twice. */
static int check_host(const struct keeper *k)
{
	struct json_object *answer, *all;
	char path[100];
	int code;

	snprintf(path, sizeof(path), "resource_providers/%s/inventories",
		 get_text(k->tree.own, "uuid"));
	code = api_must(k->url, "GET", path, NULL, "to show the host's inventory", &answer);
	if (code != EXIT_OK)
		return code;
	all = api_object(answer, "inventories");
	if (!all) {
		json_object_put(answer);
		return api_not_understood(path);
	}
	json_object_object_foreach(all, name, unused)
	{
		(void)unused;
		if (strncmp(name, OFFER_PREFIX "_", strlen(OFFER_PREFIX "_")) != 0)
			continue;
		fprintf(stderr,
			"vgpuctl: the provider %s has %s itself, and the GPUs would be offered "
			"twice: remove Nova's provider configuration (vgpud.yaml) and restart "
			"nova-compute first\n",
			k->tree.host, name);
		code = EXIT_FAILED;
		break;
	}
	json_object_put(answer);
	return code;
}

int providers_keep(const char *url, const char *host, struct json_object *gpus, bool check)
{
	struct keeper k = {.url = url, .check = check};
	int code = tree_read(url, host, &k.tree), r;
	size_t i;

	if (code == EXIT_OK)
		code = check_host(&k);
	if (code == EXIT_OK) {
		code = keep_aspect(&k, &host_traits, k.tree.own, NULL);
		for (i = 0; i < count(gpus) && code == EXIT_OK; i++)
			code = keep_gpu(&k, at(gpus, i));
		r = drop_gone(&k, gpus);
		code = code != EXIT_OK ? code : r;
	}
	if (code == EXIT_OK && k.changes == 0)
		printf("%s: up to date\n", host);
	tree_free(&k.tree);
	return code == EXIT_OK && check && k.changes ? EXIT_FAILED : code;
}
