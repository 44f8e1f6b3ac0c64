/* SPDX-License-Identifier: MIT */
/* Reads allocations of OpenStack's placement service. */
#ifndef VGPUCTL_PLACEMENT_H
#define VGPUCTL_PLACEMENT_H

#include <json-c/json.h>
#include <stdbool.h>

/* What CUSTOM_VGPUD_ resources are counted of, in this order: placement's and vgpud's. */
enum { BOOKED_VFS, BOOKED_SHARE, BOOKED_MEMORY, BOOKED };
extern const char *const placement_classes[BOOKED];

/* Whether WHERE is a URL, and no file. */
bool placement_is_url(const char *where);
/*
 * Reads the allocations of resource providers from WHERE, a file ("-": stdin) or a URL, which curl
 * fetches with the token as http.h says. Both have what placement answers to GET
 * /resource_providers/UUID/allocations, or what "openstack resource provider show --allocations"
 * prints, or a list of those. Returns, by the UUID of each server that has booked any CUSTOM_VGPUD_
 * resource, a list of BOOKED integers, which the caller frees; NULL: the reason is on stderr. May
 * block for half a minute.
 */
struct json_object *placement_read(const char *where);
/*
 * Does the same for all providers of HOST at the placement at URL. Adds to ON, by server, how many
 * VFs it has booked of each GPU that has a provider of its own: {"UUID": {"GPU": N}}.
 */
struct json_object *placement_read_host(const char *url, const char *host, struct json_object *on);
/* Adds the CUSTOM_VGPUD_ amounts among RESOURCES, of an allocation, to a list of BOOKED integers:
 * the member KEY of OUT, which is made if there are any. Returns false if one of them is no amount
 * of placement's. */
bool placement_add(struct json_object *out, const char *key, struct json_object *resources);

#endif
