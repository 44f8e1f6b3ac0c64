/* SPDX-License-Identifier: MIT */
/*
 * Domain XML: claim_parse, and shape_check compared with what libxml2 finds. Two bytes that XML
 * does not allow are abbreviations, so that short inputs can exceed the limits: 1 stands for one
 * attribute more than an element may have, 2 for one namespace more than a document may have.
 */
#include <errno.h>
#include <libxml/parser.h>
#include <stdbool.h>

#include "claim.h"
#include "fuzz.h"
#include "shape.h"

#define MARKS 2u /* abbreviations that are expanded in one input */

static char text[64u << 10];

static size_t expand(const uint8_t *data, size_t size)
{
	uint32_t k, marks = 0;
	size_t n = 0, i;

	for (i = 0; i < size && n + 8192 < sizeof(text); i++) {
		bool marked = data[i] <= 2 && marks++ < MARKS;

		if (marked && data[i] == 1)
			for (k = 0; k <= SHAPE_MAX_ATTRIBUTES; k++)
				n += (size_t)snprintf(text + n, sizeof(text) - n, " a%u=''", k);
		else if (marked && data[i] == 2)
			for (k = 0; k <= SHAPE_MAX_NAMESPACES; k++)
				n += (size_t)snprintf(text + n, sizeof(text) - n, " xmlns:n%u='u'",
						      k);
		else
			text[n++] = (char)data[i];
	}
	return n;
}

struct seen {
	int attributes, namespaces;
	bool dtd;
};

static void on_element(void *data, const xmlChar *, const xmlChar *, const xmlChar *,
		       int n_namespaces, const xmlChar **namespaces, int n_attributes, int,
		       const xmlChar **attributes)
{
	struct seen *seen = ((xmlParserCtxtPtr)data)->_private;

	(void)namespaces;
	(void)attributes;
	if (n_attributes + n_namespaces > seen->attributes)
		seen->attributes = n_attributes + n_namespaces;
	seen->namespaces += n_namespaces;
}

static void on_dtd(void *data, const xmlChar *, const xmlChar *, const xmlChar *)
{
	struct seen *seen = ((xmlParserCtxtPtr)data)->_private;

	seen->dtd = true;
}

/* Counts everything that libxml2 reports before it gives up. */
static struct seen look(size_t n)
{
	struct seen seen = {.attributes = 0};
	xmlParserCtxtPtr parser = xmlNewParserCtxt();

	HOLDS(parser);
	memset(parser->sax, 0, sizeof(*parser->sax));
	parser->sax->initialized = XML_SAX2_MAGIC;
	parser->sax->startElementNs = on_element;
	parser->sax->internalSubset = on_dtd;
	parser->_private = &seen;
	xmlFreeDoc(xmlCtxtReadMemory(parser, text, (int)n, NULL, "UTF-8",
				     XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING));
	xmlFreeParserCtxt(parser);
	return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n = expand(data, size);
	char *exact = malloc(n + 1);
	struct vgpu_error err = {.text = ""};
	struct claim claim;
	struct seen seen;
	int r;

	HOLDS(exact);
	memcpy(exact + 1, text, n);
	if (shape_check(exact + 1, n, &err) == 0) {
		seen = look(n);
		HOLDS(seen.attributes <= (int)SHAPE_MAX_ATTRIBUTES);
		HOLDS(seen.namespaces <= (int)SHAPE_MAX_NAMESPACES);
		HOLDS(!seen.dtd);
	} else {
		HOLDS(err.text[0]);
	}
	err.text[0] = '\0';
	r = claim_parse(&claim, exact + 1, n, &err);
	HOLDS(r == 0 || ((r == -EINVAL || r == -E2BIG) && err.text[0]));
	HOLDS(claim.n_vfs <= CLAIM_MAX_VFS && claim.n_hostdevs <= CLAIM_MAX_HOSTDEVS);
	free(exact);
	return 0;
}
