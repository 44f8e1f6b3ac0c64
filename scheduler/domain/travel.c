/* SPDX-License-Identifier: MIT */
#include "travel.h"

#include <errno.h>
#include <inttypes.h>
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <stdio.h>
#include <string.h>

#include "document.h"
#include "vgpu/number.h"

/* Letters, digits and a few signs: text that needs no escape in XML, logs and messages. */
static bool is_plain(const char *text)
{
	return text[0] && !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					     "0123456789_.:-")];
}

static int wrong(const xmlNode *node, const char *name, struct vgpu_error *err)
{
	return vgpu_error_set(err, -EINVAL,
			      "line %ld: <travel>, which vgpud of the other host wrote: its <vf> "
			      "has no usable %s",
			      xmlGetLineNo(node), name);
}

/* Reads an attribute of plain text that fits. */
static int read_text(xmlNode *node, const char *name, char *out, size_t size,
		     struct vgpu_error *err)
{
	xmlChar *value = xmlGetNoNsProp(node, (const xmlChar *)name);
	bool usable = value && strlen((const char *)value) < size && is_plain((const char *)value);

	snprintf(out, size, "%s", usable ? (const char *)value : "");
	xmlFree(value);
	return usable ? 0 : wrong(node, name, err);
}

static int read_number(xmlNode *node, const char *name, uint64_t most, uint64_t *out,
		       struct vgpu_error *err)
{
	char text[24];
	int r = read_text(node, name, text, sizeof(text), err);

	if (r == 0 && vgpu_parse_unsigned(text, most, out) < 0)
		r = wrong(node, name, err);
	return r;
}

static int read_vf(struct travel *out, xmlNode *node, struct vgpu_error *err)
{
	struct travel_vf *vf = &out->vfs[out->n_vfs];
	uint64_t owed = 0, vfs = 0;
	int r;

	if (out->n_vfs == TRAVEL_MAX_VFS)
		return vgpu_error_set(err, -EINVAL, "line %ld: <travel> has more than %u VFs",
				      xmlGetLineNo(node), TRAVEL_MAX_VFS);
	r = read_text(node, "name", vf->name, sizeof(vf->name), err);
	if (r == 0)
		r = read_text(node, "gpu", vf->gpu, sizeof(vf->gpu), err);
	if (r == 0)
		r = read_text(node, "driver", vf->driver, sizeof(vf->driver), err);
	if (r == 0)
		r = read_number(node, "memory", INT64_MAX, &vf->memory, err);
	if (r == 0)
		r = read_number(node, "vfs", VGPU_GPU_MAX_VFS, &vfs, err);
	if (r == 0)
		r = read_number(node, "owed-us", TRAVEL_MAX_OWED / VGPU_USEC, &owed, err);
	if (r < 0)
		return r;
	if (travel_of(out, vf->name))
		return vgpu_error_set(err, -EINVAL, "line %ld: <travel> has two VFs '%s'",
				      xmlGetLineNo(node), vf->name);
	vf->vfs = (int64_t)vfs;
	vf->owed = owed * VGPU_USEC;
	out->n_vfs++;
	return 0;
}

static int read_travel(struct travel *out, xmlNode *travel, struct vgpu_error *err)
{
	xmlNode *n;
	int r = 0;

	if (out->n_vfs > 0)
		return vgpu_error_set(err, -EINVAL, "line %ld: a second <travel>",
				      xmlGetLineNo(travel));
	for (n = travel->children; n && r == 0; n = n->next)
		if (document_is(n, "vf"))
			r = read_vf(out, n, err);
	return r;
}

int travel_read(struct travel *out, const char *text, size_t size, struct vgpu_error *err)
{
	xmlNode *metadata, *n;
	xmlDoc *doc;
	int r;

	*out = (struct travel){.n_vfs = 0};
	r = document_read(&doc, text, size, err);
	if (r < 0)
		return r;
	metadata = document_child(xmlDocGetRootElement(doc), "metadata");
	for (n = metadata ? metadata->children : NULL; n && r == 0; n = n->next)
		if (document_is(n, "travel") && n->ns &&
		    strcmp((const char *)n->ns->href, TRAVEL_URI) == 0)
			r = read_travel(out, n, err);
	xmlFreeDoc(doc);
	if (r < 0)
		out->n_vfs = 0;
	return r;
}

void travel_write(const struct travel *travel, char *text)
{
	size_t n = (size_t)snprintf(text, TRAVEL_TEXT_MAX, "<travel xmlns='" TRAVEL_URI "'>");
	uint32_t i;

	for (i = 0; i < travel->n_vfs; i++) {
		const struct travel_vf *vf = &travel->vfs[i];

		n += (size_t)snprintf(text + n, TRAVEL_TEXT_MAX - n,
				      "<vf name='%s' gpu='%s' driver='%s' memory='%" PRIu64
				      "' vfs='%" PRId64 "' owed-us='%" PRIu64 "'/>",
				      vf->name, vf->gpu, vf->driver, vf->memory, vf->vfs,
				      vf->owed / VGPU_USEC);
	}
	snprintf(text + n, TRAVEL_TEXT_MAX - n, "</travel>");
}

const struct travel_vf *travel_of(const struct travel *travel, const char *name)
{
	uint32_t i;

	for (i = 0; i < travel->n_vfs; i++)
		if (strcmp(travel->vfs[i].name, name) == 0)
			return &travel->vfs[i];
	return NULL;
}
