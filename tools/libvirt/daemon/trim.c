/* SPDX-License-Identifier: MIT */
#include "trim.h"

/* What a request has beside the XMLs: its other members, and for each domain its UUID, twice if its
 * CPUs do not run. */
#define FIXED 1024u
#define FOR_EACH 100u

static size_t size_of(struct json_object *xml)
{
	size_t size = 4;

	if (xml)
		json_object_to_json_string_length(xml, JSON_C_TO_STRING_PLAIN, &size);
	return size;
}

void trim(struct json_object *domains, size_t most)
{
	const char *longest;
	size_t all, n;

	do {
		n = 0;
		all = FIXED;
		longest = NULL;
		json_object_object_foreach(domains, uuid, xml)
		{
			all += FOR_EACH + size_of(xml);
			if (xml && size_of(xml) > n) {
				n = size_of(xml);
				longest = uuid;
			}
		}
		if (all > most && longest)
			json_object_object_add(domains, longest, NULL);
	} while (all > most && longest);
}
