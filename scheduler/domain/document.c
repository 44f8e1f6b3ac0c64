/* SPDX-License-Identifier: MIT */
#include "document.h"

#include <errno.h>
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <string.h>

#include "shape.h"

bool document_is(const xmlNode *node, const char *name)
{
	return node->type == XML_ELEMENT_NODE && strcmp((const char *)node->name, name) == 0;
}

xmlNode *document_child(xmlNode *node, const char *name)
{
	xmlNode *n = node ? node->children : NULL;

	while (n && !document_is(n, name))
		n = n->next;
	return n;
}

bool document_has(xmlNode *node, const char *attribute, const char *value)
{
	xmlChar *text = xmlGetNoNsProp(node, (const xmlChar *)attribute);
	bool same = text && strcmp((const char *)text, value) == 0;

	xmlFree(text);
	return same;
}

int document_read(xmlDoc **out, const char *text, size_t size, struct vgpu_error *err)
{
	const xmlError *error;
	xmlParserCtxt *parser;
	xmlDoc *doc;
	int r;

	if (size > DOCUMENT_MAX_BYTES)
		return vgpu_error_set(err, -E2BIG,
				      "the domain's XML has %zu bytes; at most %u are accepted",
				      size, DOCUMENT_MAX_BYTES);
	r = shape_check(text, size, err);
	if (r < 0)
		return r;
	parser = xmlNewParserCtxt();
	if (!parser)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	/* Without XML_PARSE_HUGE, libxml2 limits depth and entities. The document cannot choose its
	 * encoding: shape_check has read it as UTF-8. */
	doc = xmlCtxtReadMemory(parser, text, (int)size, NULL, "UTF-8",
				XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
	error = xmlCtxtGetLastError(parser);
	if (doc && xmlDocGetRootElement(doc)) {
		*out = doc;
	} else {
		r = vgpu_error_set(err, -EINVAL, "line %d: not XML: %.*s", error ? error->line : 1,
				   (int)strcspn(error ? error->message : "empty", "\n"),
				   error ? error->message : "empty");
		xmlFreeDoc(doc);
	}
	xmlFreeParserCtxt(parser);
	return r;
}
