/* SPDX-License-Identifier: MIT */
/*
 * Untrusted XML, parsed by libxml2 without network, external entities and document type
 * definitions, and within bounds of size and shape. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "vgpu/types.h"

#define DOCUMENT_MAX_BYTES (1u << 20)

struct _xmlDoc;
struct _xmlNode;

/*
 * Parses TEXT, SIZE bytes, to *OUT, which has a root element and which the caller frees
 * (xmlFreeDoc). Returns 0; -E2BIG: more than DOCUMENT_MAX_BYTES; -EINVAL, with line and reason in
 * ERR: not XML, or shape_check refuses it; -ENOMEM.
 */
int document_read(struct _xmlDoc **out, const char *text, size_t size, struct vgpu_error *err);

/* Returns whether NODE is an element of that local name. */
bool document_is(const struct _xmlNode *node, const char *name);
/* Returns whether NODE has an attribute of that name, of no namespace, with that value. */
bool document_has(struct _xmlNode *node, const char *attribute, const char *value);
/* Returns NODE's first child element of that local name; NULL: none, or NODE is NULL. */
struct _xmlNode *document_child(struct _xmlNode *node, const char *name);
