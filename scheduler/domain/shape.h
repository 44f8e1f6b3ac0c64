/* SPDX-License-Identifier: MIT */
/*
 * Bounds on the shape of untrusted XML, checked before it is parsed. libxml2 compares the
 * attributes of an element, and the namespaces in scope, pair by pair: within 1 MiB, an element
 * with 100 000 attributes keeps it busy for 18 s. It looks every name up among all others, and
 * continues after each mistake: 1 MiB of "<a" keeps it busy for half a second.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "vgpu/types.h"

/* libvirt's own elements have fewer than 20 attributes. A domain has one namespace for each
 * application with metadata in it. */
#define SHAPE_MAX_ATTRIBUTES 256u /* of an element */
#define SHAPE_MAX_NAMESPACES 64u  /* declared in the whole document */
/* Number of '<': two for an element. libvirt's domains have a few thousand. */
#define SHAPE_MAX_MARKUP 32768u

/*
 * Returns 0, or -EINVAL with the line and the reason if TEXT, of SIZE bytes, has an element with
 * too many attributes, too many declarations of namespaces, too many '<', or a document type
 * definition. Does not check whether TEXT is XML. Takes time in proportion to SIZE. Any thread.
 */
int shape_check(const char *text, size_t size, struct vgpu_error *err);

/* Returns the start tag of element number N (0: the root, then in the order of the text) of TEXT,
 * from its '<' to its '>', and its LENGTH; NULL: there are fewer elements, or TEXT is not XML. */
const char *shape_element(const char *text, size_t size, uint32_t n, size_t *length);
