/* SPDX-License-Identifier: MIT */
#include "edit.h"

#include <libxml/parser.h>
#include <libxml/tree.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "document.h"

/* Finds the <vf> with that name; "": the first. */
static xmlNode *find_vf(xmlNode *root, const char *name)
{
	xmlNode *n;

	for (n = root->children; n; n = n->next)
		if (document_is(n, "vf") && (!name[0] || document_has(n, "name", name)))
			return n;
	return NULL;
}

/* Removes what sets a parameter: its <param>, or the element or attribute of its own
 * (docs/domain.md). The new value becomes a <param>. */
static void remove_named(xmlNode *sched, const char *name)
{
	static const struct {
		const char *param, *element, *attribute;
	} names[] = {
		{"weight", "weight", NULL},
		{"latency_slice_us", "latency-slice", NULL},
		{"class", "priority", NULL},
		{"min_ppm", "share", "min"},
		{"max_ppm", "share", "max"},
		{"budget_us", "deadline", "budget-us"},
		{"period_us", "deadline", "period-us"},
	};
	xmlNode *n, *next;
	size_t i;

	for (n = sched->children; n; n = next) {
		next = n->next;
		if (document_is(n, "param") && document_has(n, "name", name)) {
			xmlUnlinkNode(n);
			xmlFreeNode(n);
			continue;
		}
		for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			if (strcmp(names[i].param, name) != 0 || !document_is(n, names[i].element))
				continue;
			if (names[i].attribute) {
				xmlUnsetProp(n, (const xmlChar *)names[i].attribute);
				continue;
			}
			xmlUnlinkNode(n);
			xmlFreeNode(n);
			break;
		}
	}
}

/* Applies "[VF:]NAME=VALUE" to the tree. False: it cannot, with the reason on stderr. */
static bool change(xmlNode *root, const char *text)
{
	const char *colon = strchr(text, ':'), *equals = strchr(text, '=');
	char vf[64] = "", name[32];
	xmlNode *s, *sched, *p;

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
	remove_named(sched, name);
	p = xmlNewChild(sched, s->ns, (const xmlChar *)"param", NULL);
	xmlNewProp(p, (const xmlChar *)"name", (const xmlChar *)name);
	xmlNewProp(p, (const xmlChar *)"value", (const xmlChar *)equals + 1);
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
