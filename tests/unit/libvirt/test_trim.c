/* SPDX-License-Identifier: MIT */
/* What vgpud-libvirt tells vgpud fits into a request, whatever some VMs' XML is: the longest are
 * left out, and no other. */
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"
#include "trim.h"

#define MOST 100000u

static struct json_object *domains;

/* LETTER, N times. */
static void add(const char *uuid, char letter, size_t n)
{
	char *text = malloc(n + 1);

	memset(text, letter, n);
	text[n] = 0;
	json_object_object_add(domains, uuid, json_object_new_string(text));
	free(text);
}

static bool is_told(const char *uuid)
{
	return json_object_object_get(domains, uuid) != NULL;
}

static bool fits(void)
{
	trim(domains, MOST);
	return strlen(json_object_to_json_string_ext(domains, JSON_C_TO_STRING_PLAIN)) <= MOST;
}

TEST(longest, "the longest XML is left out")
{
	domains = json_object_new_object();
	add("honest", 'x', 20000);
	add("empty", 'x', 0);
	CU_ASSERT(fits());
	CU_ASSERT(is_told("honest") && is_told("empty"));
	/* each quote has two bytes as JSON */
	add("quotes", '"', 49000);
	add("much", 'x', 60000);
	add("more", 'x', 5000000);
	CU_ASSERT(fits());
	CU_ASSERT(is_told("honest") && is_told("empty") && is_told("much"));
	CU_ASSERT(!is_told("more") && !is_told("quotes"));
	CU_ASSERT(json_object_object_get_ex(domains, "more", NULL));
	json_object_put(domains);
}

/* Where one has many, each of his is longer than the others'. */
TEST(many, "many that are long leave out none that is short")
{
	char uuid[16];
	int i;

	domains = json_object_new_object();
	add("honest", 'x', 20000);
	for (i = 0; i < 100; i++) {
		snprintf(uuid, sizeof(uuid), "%d", i);
		add(uuid, 'x', 30000);
	}
	CU_ASSERT(fits());
	CU_ASSERT(is_told("honest"));
	json_object_put(domains);
}

SUITE_MAIN("what is told of domains fits")
