/* SPDX-License-Identifier: MIT */
#include "edit.h"

#include <inttypes.h>
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "document.h"
#include "vgpu/number.h"

/* Returns the <vf> called NAME, or the first if NAME is ""; NULL if there is none. */
static xmlNode *find_vf(xmlNode *root, const char *name)
{
	xmlNode *n;

	for (n = root->children; n; n = n->next)
		if (document_is(n, "vf") && (!name[0] || document_has(n, "name", name)))
			return n;
	return NULL;
}

/* Where else than in a <param> a claim may have a parameter (docs/domain.md), and how FORM writes
 * its value there: returns false if it cannot be written so. */
struct place {
	const char *param, *element, *attribute; /* NULL: the element's text */
	bool (*form)(const char *value, char *out, size_t size);
};

static bool as_number(const char *value, char *out, size_t size)
{
	int64_t n;

	snprintf(out, size, "%s", value);
	return vgpu_parse_between(value, 1, INT64_MAX, &n) == 0;
}

/* Converts parts per million to percent; a claim accepts two decimals. Returns false if VALUE has
 * more. */
static bool as_percent(const char *value, char *out, size_t size)
{
	int64_t ppm;

	if (vgpu_parse_between(value, 0, 1000000, &ppm) < 0 || ppm % 100)
		return false;
	if (ppm % 10000 == 0)
		snprintf(out, size, "%" PRId64, ppm / 10000);
	else
		snprintf(out, size, "%" PRId64 ".%0*" PRId64, ppm / 10000, ppm % 1000 ? 2 : 1,
			 ppm % 1000 ? ppm % 10000 / 100 : ppm % 10000 / 1000);
	return true;
}

/* Copies a value in percent, without its sign. Returns false if VALUE is not one number. */
static bool as_given(const char *value, char *out, size_t size)
{
	size_t n = strcspn(value, "%");

	snprintf(out, size, "%.*s", (int)n, value);
	return n > 0 && (!value[n] || !value[n + 1]);
}

/* Converts a class of policy prio to its name; only some classes have one. */
static bool as_class(const char *value, char *out, size_t size)
{
	static const char *const words[] = {"highest", "", "high", "",
					    "normal",  "", "low",  "lowest"};
	int64_t n;

	if (vgpu_parse_between(value, 0, 7, &n) < 0)
		return false;
	snprintf(out, size, "%s", words[n]);
	return words[n][0];
}

static const struct place places[] = {
	{"weight", "weight", NULL, as_number},
	{"latency_slice_us", "latency-slice", NULL, as_number},
	{"class", "priority", NULL, as_class},
	{"min", "share", "min", as_given},
	{"max", "share", "max", as_given},
	{"min_ppm", "share", "min", as_percent},
	{"max_ppm", "share", "max", as_percent},
	{"budget_us", "deadline", "budget-us", as_number},
	{"period_us", "deadline", "period-us", as_number},
};

static const struct place *place_of(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (strcmp(places[i].param, name) == 0)
			return &places[i];
	return NULL;
}

/* Returns the <param> that sets the parameter NAME, which may be its name in percent; NULL if there
 * is none. */
static xmlNode *find_param(xmlNode *sched, const char *name)
{
	char ppm[40];
	xmlNode *n;

	snprintf(ppm, sizeof(ppm), "%s_ppm", name);
	for (n = sched->children; n; n = n->next)
		if (document_is(n, "param") &&
		    (document_has(n, "name", name) || document_has(n, "name", ppm)))
			return n;
	return NULL;
}

static void remove_node(xmlNode *n)
{
	if (n)
		xmlUnlinkNode(n);
	xmlFreeNode(n);
}

/* Sets NAME where the user wrote it, or else in the element that there is for it. Returns false if
 * it cannot be written there. */
static bool set_in_place(xmlNode *sched, const struct place *p, const char *value)
{
	const xmlChar *attribute = (const xmlChar *)p->attribute;
	xmlNode *element = document_child(sched, p->element);
	char text[32];

	if (!p->form(value, text, sizeof(text)))
		return false;
	/* A budget without a period is no element. */
	if (!element && strcmp(p->element, "deadline") == 0)
		return false;
	if (!element)
		element = xmlNewChild(sched, sched->ns, (const xmlChar *)p->element, NULL);
	if (attribute) {
		xmlSetProp(element, attribute, (const xmlChar *)text);
		return true;
	}
	xmlUnsetProp(element, (const xmlChar *)"unit");
	xmlNodeSetContent(element, (const xmlChar *)text);
	return true;
}

/* Removes the element or attribute that sets a parameter. */
static void remove_from_place(xmlNode *sched, const struct place *p)
{
	xmlNode *element = p ? document_child(sched, p->element) : NULL;

	if (element && p->attribute)
		xmlUnsetProp(element, (const xmlChar *)p->attribute);
	else
		remove_node(element);
}

static void set_param(xmlNode *sched, const char *name, const char *value)
{
	const struct place *place = place_of(name);
	xmlNode *p = find_param(sched, name);
	bool percent = place && place->form == as_given;

	if (!p || percent) {
		if (place && set_in_place(sched, place, value)) {
			remove_node(p);
			return;
		}
		remove_from_place(sched, place);
	}
	if (!p) {
		p = xmlNewChild(sched, sched->ns, (const xmlChar *)"param", NULL);
		xmlNewProp(p, (const xmlChar *)"name", (const xmlChar *)name);
	}
	xmlSetProp(p, (const xmlChar *)"value", (const xmlChar *)value);
}

/* Applies "[VF:]NAME=VALUE" to the tree. Returns false if it cannot, with the reason on stderr. */
static bool change(xmlNode *root, const char *text)
{
	const char *colon = strchr(text, ':'), *equals = strchr(text, '=');
	char vf[64] = "", name[32];
	xmlNode *s, *sched;

	if (colon && equals && colon < equals) {
		snprintf(vf, sizeof(vf), "%.*s", (int)(colon - text), text);
		text = colon + 1;
	}
	if (!equals || equals == text || !equals[1]) {
		fprintf(stderr, "vgpud-libvirt: %s: want NAME=VALUE\n", text);
		return false;
	}
	snprintf(name, sizeof(name), "%.*s", (int)(equals - text), text);
	s = find_vf(root, vf);
	if (!s) {
		fprintf(stderr, "vgpud-libvirt: the domain's claim has no <vf> %s\n", vf);
		return false;
	}
	sched = document_child(s, "sched");
	if (!sched)
		sched = xmlNewChild(s, s->ns, (const xmlChar *)"sched", NULL);
	set_param(sched, name, equals + 1);
	return true;
}

char *edit_claim(const char *claim, int n, char **changes)
{
	xmlDoc *doc = xmlReadMemory(claim, (int)strlen(claim), NULL, NULL, XML_PARSE_NONET);
	xmlNode *root = doc ? xmlDocGetRootElement(doc) : NULL;
	xmlBuffer *buffer = xmlBufferCreate();
	char *text = NULL;
	bool ok = root && buffer;
	int i;

	for (i = 0; i < n && ok; i++)
		ok = change(root, changes[i]);
	/* Without the XML declaration, because the text becomes a part of the domain's XML. */
	if (ok && xmlNodeDump(buffer, doc, root, 0, 0) >= 0)
		text = strdup((const char *)xmlBufferContent(buffer));
	xmlBufferFree(buffer);
	xmlFreeDoc(doc);
	return text;
}
