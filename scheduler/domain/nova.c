/* SPDX-License-Identifier: MIT */
/*
 * Nova's flavor as a claim. It is converted to a <vgpu> element, which claim.c parses like an
 * operator's: there is one parser, one set of limits, one set of messages.
 *
 * Only the flavor is read, because only the cloud's administrator writes flavors. A tenant writes
 * the server's name and the properties of its image, which are in the same metadata.
 */
#include "nova.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "claim.h"
#include "document.h"
#include "vgpu/number.h"

#define RESOURCES "resources"
#define CLASSES ":CUSTOM_VGPUD_"
#define KEYS "vgpud:"
#define PARAM "param."
/* Up to Nova 31 only the flavor's name is in the metadata: "vgpud.NAME" stands for a profile. */
#define FLAVORS "vgpud."
/* The name of the VF whose resources are in Nova's group without a suffix. */
#define UNNAMED "vgpu"

/* Where the value of "vgpud:KEY" goes in a <vf>. */
static const struct place {
	const char *key;
	const char *parent;    /* NULL: the <vf> itself */
	const char *element;   /* NULL: the parent */
	const char *attribute; /* NULL: the element's content */
} places[] = {
	{"profile", NULL, "profile", NULL},
	{"pool", NULL, "device", "pool"},
	{"policy", "sched", NULL, "policy"},
	{"weight", "sched", "weight", NULL},
	{"latency_slice_us", "sched", "latency-slice", NULL},
	{"share_max", "sched", "share", "max"},
	{"budget_us", "sched", "deadline", "budget-us"},
	{"period_us", "sched", "deadline", "period-us"},
	{"priority", "sched", "priority", NULL},
	{"on_hang", NULL, "lifecycle", "on-hang"},
};
static const struct place share_min = {"", "sched", "share", "min"};
static const struct place memory = {"", NULL, "memory", NULL};

/* One extra spec. */
struct spec {
	xmlNode *node;
	char key[128], value[128];
};

static bool is(const xmlNode *node, const char *name)
{
	return node->type == XML_ELEMENT_NODE && node->ns &&
	       strcmp((const char *)node->ns->href, NOVA_URI) == 0 &&
	       strcmp((const char *)node->name, name) == 0;
}

static xmlNode *child_of(xmlNode *node, const char *name)
{
	xmlNode *n = node ? node->children : NULL;

	while (n && !is(n, name))
		n = n->next;
	return n;
}

static int wrong(const struct spec *s, struct vgpu_error *err, const char *what)
{
	return vgpu_error_set(err, -EINVAL, "line %ld: %s = '%s': %s", xmlGetLineNo(s->node),
			      s->key, s->value, what);
}

/* Finds a child of NODE, or makes it, at the line of AT. Returns NULL when memory is out. */
static xmlNode *descend(xmlNode *node, const char *name, const xmlNode *at)
{
	xmlNode *n = node ? node->children : NULL;

	while (n && strcmp((const char *)n->name, name) != 0)
		n = n->next;
	if (n || !node)
		return n;
	n = xmlNewChild(node, NULL, (const xmlChar *)name, NULL);
	if (n)
		n->line = at->line;
	return n;
}

static int out_of_memory(struct vgpu_error *err)
{
	return vgpu_error_set(err, -ENOMEM, "out of memory");
}

static int put_spec(xmlNode *vf, const struct place *p, const struct spec *s, const char *value,
		    struct vgpu_error *err)
{
	xmlNode *n = p->parent ? descend(vf, p->parent, s->node) : vf;
	const xmlChar *text = (const xmlChar *)value;

	n = p->element ? descend(n, p->element, s->node) : n;
	if (!n)
		return out_of_memory(err);
	if (p->attribute ? xmlHasProp(n, (const xmlChar *)p->attribute) != NULL
			 : n->children != NULL)
		return wrong(s, err, "given twice for one VF");
	if (p->attribute)
		xmlSetProp(n, (const xmlChar *)p->attribute, text);
	else
		xmlNodeAddContent(n, text);
	return 0;
}

/* Writes a parameter that has no element of its own. */
static int put_param(xmlNode *vf, const char *name, const struct spec *s, struct vgpu_error *err)
{
	xmlNode *sched = descend(vf, "sched", s->node);
	xmlNode *n = sched ? xmlNewChild(sched, NULL, (const xmlChar *)"param", NULL) : NULL;

	if (!n)
		return out_of_memory(err);
	n->line = s->node->line;
	xmlSetProp(n, (const xmlChar *)"name", (const xmlChar *)name);
	xmlSetProp(n, (const xmlChar *)"value", (const xmlChar *)s->value);
	return 0;
}

/* Finds the <vf> of that name, or creates it. */
static int vf_named(xmlNode *root, const char *name, const struct spec *s, xmlNode **out,
		    struct vgpu_error *err)
{
	uint32_t count = 0;
	xmlNode *n;

	for (n = root->children; n; n = n->next, count++) {
		*out = n;
		if (document_has(n, "name", name))
			return 0;
	}
	if (count == CLAIM_MAX_VFS)
		return wrong(s, err, "one VF too many; a VM can have 8");
	*out = xmlNewChild(root, NULL, (const xmlChar *)"vf", NULL);
	if (!*out)
		return out_of_memory(err);
	(*out)->line = s->node->line;
	xmlSetProp(*out, (const xmlChar *)"name", (const xmlChar *)name);
	return 0;
}

/* _private belongs to the application: it marks a VF that was counted. Nova books "resourcesA" and
 * "resources_A" apart, and both are named A. */
static int put_vf(xmlNode *vf, const struct spec *s, int64_t amount, struct vgpu_error *err)
{
	if (amount != 1)
		return wrong(s, err,
			     "want 1; for several VFs give each a group of its own, such as "
			     "resources_A and resources_B");
	if (vf->_private)
		return wrong(s, err, "given twice for one VF");
	vf->_private = vf;
	return 0;
}

static int put_share(xmlNode *vf, const struct spec *s, int64_t amount, struct vgpu_error *err)
{
	char percent[24];

	if (amount > 1000)
		return wrong(s, err, "want per mille of one GPU, 1 to 1000");
	snprintf(percent, sizeof(percent), "%" PRId64 ".%" PRId64, amount / 10, amount % 10);
	return put_spec(vf, &share_min, s, percent, err);
}

static int put_memory(xmlNode *vf, const struct spec *s, int64_t, struct vgpu_error *err)
{
	xmlNode *n;
	int r;

	r = put_spec(vf, &memory, s, s->value, err);
	n = r == 0 ? descend(vf, memory.element, s->node) : NULL;
	if (n)
		xmlSetProp(n, (const xmlChar *)"unit", (const xmlChar *)"MiB");
	return r;
}

/* The resource classes that vgpuctl inventory offers to placement. */
static const struct class
{
	const char *name;
	int (*put)(xmlNode *vf, const struct spec *s, int64_t amount, struct vgpu_error *err);
} classes[] = {{"VF", put_vf}, {"SHARE", put_share}, {"MEMORY_MB", put_memory}};

/* Reads "resources" SUFFIX ":CUSTOM_VGPUD_" CLASS. The resources with one suffix are a group, which
 * placement takes from one provider: one VF. */
static int read_resources(xmlNode *root, const struct spec *s, struct vgpu_error *err)
{
	const char *suffix = s->key + strlen(RESOURCES), *class = strstr(s->key, CLASSES);
	char name[sizeof(s->key)];
	int64_t amount;
	xmlNode *vf;
	size_t i;
	int r;

	suffix += strspn(suffix, "_-"); /* no name may begin with these */
	snprintf(name, sizeof(name), "%.*s", class > suffix ? (int)(class - suffix) : 0, suffix);
	r = vf_named(root, name[0] ? name : UNNAMED, s, &vf, err);
	class += strlen(CLASSES);
	if (r < 0)
		return r;
	if (vgpu_parse_between(s->value, 1, INT32_MAX, &amount) < 0)
		return wrong(s, err, "want a whole number above 0");
	for (i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		if (strcmp(classes[i].name, class) == 0)
			return classes[i].put(vf, s, amount, err);
	return wrong(s, err, "vgpud knows the classes CUSTOM_VGPUD_VF, _SHARE and _MEMORY_MB");
}

/* Gives "vgpud:KEY" to one VF. */
static int put_key(xmlNode *vf, const struct spec *s, struct vgpu_error *err)
{
	const char *key = s->key + strlen(KEYS);
	char known[200] = "";
	size_t i, used = 0;

	if (strncmp(key, PARAM, strlen(PARAM)) == 0)
		return put_param(vf, key + strlen(PARAM), s, err);
	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (strcmp(places[i].key, key) == 0)
			return put_spec(vf, &places[i], s, s->value, err);
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s, ", places[i].key);
	}
	return vgpu_error_set(err, -EINVAL, "line %ld: %s is not known: want one of %s%sNAME",
			      xmlGetLineNo(s->node), s->key, known, PARAM);
}

/* Reads "vgpud:KEY", which holds for all VFs of the flavor. */
static int read_key(xmlNode *root, const struct spec *s, struct vgpu_error *err)
{
	xmlNode *vf;
	int r = root->children ? 0 : vf_named(root, UNNAMED, s, &vf, err);

	for (vf = root->children; vf && r == 0; vf = vf->next)
		r = put_key(vf, s, err);
	return r;
}

/* Reads an <extraSpec>. Returns whether it is for vgpud, or -EINVAL. */
static int read_spec(xmlNode *node, struct spec *s, struct vgpu_error *err)
{
	xmlChar *key = xmlGetNoNsProp(node, (const xmlChar *)"name");
	xmlChar *value = xmlNodeGetContent(node);
	const char *k = key ? (const char *)key : "", *v = value ? (const char *)value : "";
	const char *class = strncmp(k, RESOURCES, strlen(RESOURCES)) == 0 ? strchr(k, ':') : NULL;
	int r = strncmp(k, KEYS, strlen(KEYS)) == 0 ||
		(class && strncmp(class, CLASSES, strlen(CLASSES)) == 0);

	s->node = node;
	snprintf(s->key, sizeof(s->key), "%s", k);
	snprintf(s->value, sizeof(s->value), "%s", v);
	if (r && (strlen(k) >= sizeof(s->key) || strlen(v) >= sizeof(s->value)))
		r = wrong(s, err, "too long");
	xmlFree(key);
	xmlFree(value);
	return r;
}

/* Reads all extra specs of one kind: first the resources, each group of which is a VF, then the
 * keys that hold for all of these. */
static int read_specs(xmlNode *specs, xmlNode *root, bool keys, struct vgpu_error *err)
{
	struct spec s;
	xmlNode *n;
	int r = 0;

	for (n = specs ? specs->children : NULL; n && r >= 0; n = n->next) {
		if (!is(n, "extraSpec"))
			continue;
		r = read_spec(n, &s, err);
		if (r == 1 && keys == (strncmp(s.key, KEYS, strlen(KEYS)) == 0))
			r = keys ? read_key(root, &s, err) : read_resources(root, &s, err);
	}
	return r < 0 ? r : 0;
}

/* Parses the flavor's name, the only information about it before Nova 32. */
static int read_name(xmlNode *flavor, const char *name, xmlNode *root, struct vgpu_error *err)
{
	static const struct place profile = {"", NULL, "profile", NULL};
	struct spec s = {.node = flavor, .key = "name"};
	xmlNode *vf;
	int r;

	if (strncmp(name, FLAVORS, strlen(FLAVORS)) != 0)
		return 0;
	snprintf(s.value, sizeof(s.value), "%s", name);
	if (strlen(name) >= sizeof(s.value))
		return wrong(&s, err, "too long");
	r = vf_named(root, UNNAMED, &s, &vf, err);
	return r < 0 ? r : put_spec(vf, &profile, &s, name + strlen(FLAVORS), err);
}

int nova_claim(xmlNode *instance, xmlNode **out, struct vgpu_error *err)
{
	xmlNode *flavor = child_of(instance, "flavor"), *specs = child_of(flavor, "extraSpecs");
	xmlNode *root = xmlNewDocNode(instance->doc, NULL, (const xmlChar *)"vgpu", NULL);
	xmlChar *name = flavor ? xmlGetNoNsProp(flavor, (const xmlChar *)"name") : NULL;
	int r = root ? 0 : out_of_memory(err);

	if (r == 0)
		r = read_specs(specs, root, false, err);
	if (r == 0)
		r = read_specs(specs, root, true, err);
	if (r == 0 && name && !root->children)
		r = read_name(flavor, (const char *)name, root, err);
	if (r < 0 && name)
		r = vgpu_error_prefix(err, r, "Nova's flavor %.64s", name);
	xmlFree(name);
	if (r == 0 && root->children) {
		root->line = flavor->line;
		xmlSetProp(root, (const xmlChar *)"version", (const xmlChar *)"1");
		*out = root;
		return 0;
	}
	xmlFreeNode(root);
	*out = NULL;
	return r;
}
