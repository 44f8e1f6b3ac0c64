/* SPDX-License-Identifier: MIT */
#include "trim.h"

#include <stdlib.h>
#include <string.h>

/* What a request has beside the XMLs: its other members, and for each domain its UUID, twice if its
 * CPUs do not run. */
#define FIXED 1024u
#define FOR_EACH 100u

static size_t size_of(struct json_object *xml)
{
	size_t size = strlen("null");

	if (xml)
		json_object_to_json_string_length(xml, JSON_C_TO_STRING_PLAIN, &size);
	return size;
}

struct told {
	const char *uuid;
	size_t size;
};

static int by_size(const void *a, const void *b)
{
	const struct told *x = a, *y = b;

	return (x->size < y->size) - (x->size > y->size);
}

void trim(struct json_object *domains, size_t most)
{
	size_t n = (size_t)json_object_object_length(domains), all = FIXED, i = 0;
	struct told *told = calloc(n + 1, sizeof(*told));

	if (!told)
		return;
	json_object_object_foreach(domains, uuid, xml)
	{
		told[i] = (struct told){uuid, xml ? size_of(xml) : 0};
		all += FOR_EACH + size_of(NULL) + told[i++].size;
	}
	qsort(told, n, sizeof(*told), by_size);
	for (i = 0; i < n && all > most && told[i].size > 0; i++) {
		all -= told[i].size;
		json_object_object_add(domains, told[i].uuid, NULL);
	}
	free(told);
}
