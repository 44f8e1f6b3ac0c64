/* SPDX-License-Identifier: MIT */
/* Reads allocations of OpenStack's placement service. */
#ifndef VGPUCTL_PLACEMENT_H
#define VGPUCTL_PLACEMENT_H

#include <json-c/json.h>

/* What CUSTOM_VGPUD_ resources are counted of, in this order: placement's and vgpud's. */
enum { BOOKED_VFS, BOOKED_SHARE, BOOKED_MEMORY, BOOKED };
extern const char *const placement_classes[BOOKED];

/*
 * Reads the allocations of resource providers from WHERE, a file ("-": stdin) or a URL, which curl
 * fetches with the token in $OS_TOKEN. Both have what placement answers to GET
 * /resource_providers/UUID/allocations, or what "openstack resource provider show --allocations"
 * prints, or a list of those. Returns, by the UUID of each server that has booked any CUSTOM_VGPUD_
 * resource, a list of BOOKED integers, which the caller frees; NULL: the reason is on stderr. May
 * block for half a minute.
 */
struct json_object *placement_read(const char *where);

#endif
