/* SPDX-License-Identifier: MIT */
/*
 * libxml2 finds the elements; the four values of each address are then replaced in the text itself,
 * so that nothing else can change. A second way to the same result verifies that: libxml2 sets the
 * values in the document that it parsed first, and that document must equal the parsed result.
 */
#include "redirect.h"

#include <errno.h>
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "document.h"
#include "shape.h"

#define PARTS 4u /* of an address */

/* As libvirt writes them. */
static const char *const part_names[PARTS] = {"domain", "bus", "slot", "function"};
static const int part_digits[PARTS] = {4, 2, 2, 1};

struct address {
	unsigned parts[PARTS];
};

/* A value to be replaced: its place in the text, and its replacement. */
struct edit {
	const char *at;
	size_t length;
	char value[12];
};

struct work {
	const char *text;
	size_t size;
	struct edit edits[REDIRECT_MAX * PARTS];
	uint32_t n_edits;
	struct vgpu_error *err;
};

static bool read_address(const char *text, struct address *out)
{
	struct pci_address a;

	if (pci_address_read(text, &a) < 0)
		return false;
	*out = (struct address){{a.domain, a.bus, a.device, a.function}};
	return true;
}

static bool is_at(xmlNode *node, const struct address *where)
{
	uint32_t i;

	for (i = 0; i < PARTS; i++) {
		xmlChar *text = xmlGetNoNsProp(node, (const xmlChar *)part_names[i]);
		unsigned value;
		bool same = text && sscanf((const char *)text, "%x", &value) == 1 &&
			    value == where->parts[i];

		xmlFree(text);
		if (!same)
			return false;
	}
	return true;
}

/* Finds the source address of the device at FROM; NULL: there is none, or more than one. */
static xmlNode *find(xmlNode *root, const struct address *from)
{
	xmlNode *devices = document_child(root, "devices"), *n, *address, *found = NULL;

	for (n = devices ? devices->children : NULL; n; n = n->next) {
		if (!document_is(n, "hostdev") || !document_has(n, "type", "pci"))
			continue;
		address = document_child(document_child(n, "source"), "address");
		if (!address || !is_at(address, from))
			continue;
		if (found)
			return NULL;
		found = address;
	}
	return found;
}

/* The node after N in the order of the text. */
static xmlNode *next_node(xmlNode *n)
{
	if (n->children && n->type == XML_ELEMENT_NODE)
		return n->children;
	while (n && !n->next)
		n = n->parent;
	return n ? n->next : NULL;
}

/* How many elements begin before TO. */
static uint32_t number_of(xmlNode *root, const xmlNode *to)
{
	uint32_t n = 0;
	xmlNode *at;

	for (at = root; at && at != to; at = next_node(at))
		n += at->type == XML_ELEMENT_NODE;
	return n;
}

static const char space[] = " \t\r\n";

/* Finds the attribute NAME's value in a start tag, which is well-formed. */
static bool find_value(const char *tag, size_t length, const char *name, struct edit *out)
{
	const char *end = tag + length, *at = tag + strcspn(tag, " \t\r\n/>"), *value, *close;
	size_t n;

	while (at < end && *at != '>' && *at != '/') {
		at += strspn(at, space);
		n = strcspn(at, " \t\r\n=/>");
		value = at + n + strspn(at + n, space);
		if (*value != '=')
			return false;
		value += 1 + strspn(value + 1, space);
		if (*value != '"' && *value != '\'')
			return false;
		close = strchr(value + 1, *value);
		if (!close || close >= end)
			return false;
		if (strlen(name) == n && strncmp(at, name, n) == 0) {
			out->at = value + 1;
			out->length = (size_t)(close - out->at);
			return true;
		}
		at = close + 1 + strspn(close + 1, space);
	}
	return false;
}

/* Finds one device's address, as *NODE, and notes its four edits. */
static int redirect_one(struct work *w, xmlNode *root, const struct redirect *r, xmlNode **node)
{
	struct address from, to;
	const char *tag;
	size_t length = 0;
	uint32_t i;

	if (!read_address(r->from, &from) || !read_address(r->to, &to))
		return vgpu_error_set(w->err, -EINVAL, "%s, %s: not PCI addresses", r->from, r->to);
	*node = find(root, &from);
	if (!*node)
		return vgpu_error_set(w->err, -EINVAL,
				      "the domain has no PCI device at %s, or more than one",
				      r->from);
	tag = shape_element(w->text, w->size, number_of(root, *node), &length);
	for (i = 0; i < PARTS; i++) {
		struct edit *e = &w->edits[w->n_edits++];

		if (!tag || !find_value(tag, length, part_names[i], e))
			return vgpu_error_set(w->err, -EINVAL,
					      "the source address of the device at %s has no %s",
					      r->from, part_names[i]);
		snprintf(e->value, sizeof(e->value), "0x%0*x", part_digits[i], to.parts[i]);
	}
	return 0;
}

static void set_in_document(xmlNode *node, const struct edit *edits)
{
	uint32_t i;

	for (i = 0; i < PARTS; i++)
		xmlSetProp(node, (const xmlChar *)part_names[i], (const xmlChar *)edits[i].value);
}

static int by_place(const void *a, const void *b)
{
	const struct edit *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static char *splice(struct work *w)
{
	char *out = malloc(w->size + sizeof(w->edits) + 1), *to = out;
	const char *from = w->text;
	uint32_t i;

	if (!out)
		return NULL;
	qsort(w->edits, w->n_edits, sizeof(w->edits[0]), by_place);
	for (i = 0; i < w->n_edits; i++) {
		to = mempcpy(to, from, (size_t)(w->edits[i].at - from));
		to = stpcpy(to, w->edits[i].value);
		from = w->edits[i].at + w->edits[i].length;
	}
	to = mempcpy(to, from, (size_t)(w->text + w->size - from));
	*to = '\0';
	return out;
}

static bool are_equal(xmlDoc *a, xmlDoc *b)
{
	xmlChar *of_a = NULL, *of_b = NULL;
	int n_a = 0, n_b = 0;
	bool equal;

	xmlDocDumpMemory(a, &of_a, &n_a);
	xmlDocDumpMemory(b, &of_b, &n_b);
	equal = of_a && of_b && n_a == n_b && memcmp(of_a, of_b, (size_t)n_a) == 0;
	xmlFree(of_a);
	xmlFree(of_b);
	return equal;
}

/* Checks that OUT is the document DOC. */
static int prove(xmlDoc *doc, const char *out, struct vgpu_error *err)
{
	xmlDoc *proof;
	int r = document_read(&proof, out, strlen(out), err);

	if (r < 0)
		return r;
	if (!are_equal(doc, proof))
		r = vgpu_error_set(err, -EINVAL,
				   "the addresses of its devices cannot be changed exactly");
	xmlFreeDoc(proof);
	return r;
}

static int redirect_all(struct work *w, xmlDoc *doc, const struct redirect *list, uint32_t n,
			char **out)
{
	xmlNode *root = xmlDocGetRootElement(doc), *nodes[REDIRECT_MAX];
	uint32_t i, k;
	int r;

	for (i = 0; i < n; i++) {
		r = redirect_one(w, root, &list[i], &nodes[i]);
		for (k = 0; k < i && r == 0; k++)
			if (nodes[k] == nodes[i])
				r = vgpu_error_set(w->err, -EINVAL, "%s is given twice",
						   list[i].from);
		if (r < 0)
			return r;
	}
	/* Only now, because a device may get the former address of another one. */
	for (i = 0; i < n; i++)
		set_in_document(nodes[i], &w->edits[i * PARTS]);
	*out = splice(w);
	if (!*out)
		return vgpu_error_set(w->err, -ENOMEM, "out of memory");
	r = prove(doc, *out, w->err);
	if (r < 0) {
		free(*out);
		*out = NULL;
	}
	return r;
}

int redirect_devices(const char *text, size_t size, const struct redirect *list, uint32_t n,
		     char **out, struct vgpu_error *err)
{
	struct work w = {.text = text, .size = size, .err = err};
	xmlDoc *doc = NULL;
	int r;

	*out = NULL;
	if (n > REDIRECT_MAX)
		return vgpu_error_set(err, -EINVAL, "more than %u devices", REDIRECT_MAX);
	r = document_read(&doc, text, size, err);
	if (r < 0)
		return r;
	r = redirect_all(&w, doc, list, n, out);
	xmlFreeDoc(doc);
	return r;
}
