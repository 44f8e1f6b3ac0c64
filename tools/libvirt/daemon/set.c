/* SPDX-License-Identifier: MIT */
#include "set.h"

#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "claim.h"

#define KEY "vgpu"

static bool is(const xmlNode *n, const char *name)
{
	return n->type == XML_ELEMENT_NODE && strcmp((const char *)n->name, name) == 0;
}

static bool has(xmlNode *n, const char *attribute, const char *value)
{
	xmlChar *text = xmlGetNoNsProp(n, (const xmlChar *)attribute);
	bool same = text && strcmp((const char *)text, value) == 0;

	xmlFree(text);
	return same;
}

/* Finds the <vf> with that name; "": the first. */
static xmlNode *find_vf(xmlNode *root, const char *name)
{
	xmlNode *n;

	for (n = root->children; n; n = n->next)
		if (is(n, "vf") && (!name[0] || has(n, "name", name)))
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
		if (is(n, "param") && has(n, "name", name)) {
			xmlUnlinkNode(n);
			xmlFreeNode(n);
			continue;
		}
		for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			if (strcmp(names[i].param, name) != 0 || !is(n, names[i].element))
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
	for (sched = s->children; sched && !is(sched, "sched"); sched = sched->next)
		;
	if (!sched)
		sched = xmlNewChild(s, s->ns, (const xmlChar *)"sched", NULL);
	remove_named(sched, name);
	p = xmlNewChild(sched, s->ns, (const xmlChar *)"param", NULL);
	xmlNewProp(p, (const xmlChar *)"name", (const xmlChar *)name);
	xmlNewProp(p, (const xmlChar *)"value", (const xmlChar *)equals + 1);
	return true;
}

/* Reads, changes, checks and writes the claim in one of the domain's definitions: persistent or
 * live. False: it cannot, with the reason on stderr. */
static bool change_one(virDomainPtr d, unsigned flags, int n, char **changes)
{
	char *old = virDomainGetMetadata(d, VIR_DOMAIN_METADATA_ELEMENT, CLAIM_URI, flags);
	xmlDoc *doc =
		old ? xmlReadMemory(old, (int)strlen(old), NULL, NULL, XML_PARSE_NONET) : NULL;
	struct vgpu_error err = {"out of memory"};
	struct claim claim;
	xmlChar *text = NULL;
	int i;
	bool ok = doc != NULL;

	if (!old) {
		/* virDomainGetName overwrites libvirt's last error. */
		snprintf(err.text, sizeof(err.text), "%s", virGetLastErrorMessage());
		fprintf(stderr, "vgpud-libvirt: domain %s has no claim to change: %s\n",
			virDomainGetName(d), err.text);
	}
	for (i = 0; i < n && ok; i++)
		ok = change(xmlDocGetRootElement(doc), changes[i]);
	if (ok) {
		xmlNode *root = xmlDocGetRootElement(doc);
		xmlBuffer *buffer = xmlBufferCreate();

		/* Without the XML declaration, because the text becomes a part of the domain's
		 * XML. */
		xmlNodeDump(buffer, doc, root, 0, 0);
		text = xmlBufferDetach(buffer);
		xmlBufferFree(buffer);
		ok = claim_parse(&claim, (const char *)text, strlen((const char *)text), &err) == 0;
		if (!ok)
			fprintf(stderr, "vgpud-libvirt: %s: %s\n", virDomainGetName(d), err.text);
	}
	if (ok && virDomainSetMetadata(d, VIR_DOMAIN_METADATA_ELEMENT, (const char *)text, KEY,
				       CLAIM_URI, flags) < 0) {
		snprintf(err.text, sizeof(err.text), "%s", virGetLastErrorMessage());
		fprintf(stderr, "vgpud-libvirt: %s: %s\n", virDomainGetName(d), err.text);
		ok = false;
	}
	xmlFree(text);
	xmlFreeDoc(doc);
	free(old);
	return ok;
}

int set(const char *uri, int argc, char **argv)
{
	virConnectPtr c = virConnectOpen(uri);
	virDomainPtr d = c && argc > 1 ? virDomainLookupByName(c, argv[0]) : NULL;
	bool ok = d != NULL;

	if (argc < 2)
		fputs("vgpud-libvirt: set: want DOMAIN [VF:]NAME=VALUE...\n", stderr);
	else if (!d)
		fprintf(stderr, "vgpud-libvirt: %s: %s\n", argv[0], virGetLastErrorMessage());
	ok = ok && (!virDomainIsPersistent(d) ||
		    change_one(d, VIR_DOMAIN_AFFECT_CONFIG, argc - 1, argv + 1));
	ok = ok && (virDomainIsActive(d) != 1 ||
		    change_one(d, VIR_DOMAIN_AFFECT_LIVE, argc - 1, argv + 1));
	if (d)
		virDomainFree(d);
	if (c)
		virConnectClose(c);
	return argc < 2 ? 2 : ok ? 0 : 1;
}
