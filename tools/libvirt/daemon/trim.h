/* SPDX-License-Identifier: MIT */
/* vgpud takes requests up to a size, and whoever may change a VM may write much into its XML: that
 * must not keep vgpud from hearing of the other VMs. */
#ifndef LIBVIRT_TRIM_H
#define LIBVIRT_TRIM_H

#include <json-c/json.h>
#include <stddef.h>

/* Makes a request with DOMAINS, XML by UUID, no longer than MOST bytes as JSON: replaces the
 * longest XML by null, and goes on so. The null is vgpud's word for an XML that was too long. */
void trim(struct json_object *domains, size_t most);

#endif
