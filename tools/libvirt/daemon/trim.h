/* SPDX-License-Identifier: MIT */
/* Shortens reports: vgpud accepts requests up to a size, and one VM with a large XML must not keep
 * the other VMs from being reported. */
#pragma once

#include <json-c/json.h>
#include <stddef.h>

/* Makes a request with DOMAINS, XML by UUID, no longer than MOST bytes as JSON: replaces the
 * longest XML by null, and goes on so. The null is vgpud's word for an XML that was too long. */
void trim(struct json_object *domains, size_t most);
