/* SPDX-License-Identifier: MIT */
#include "travel.h"

#include <libvirt/virterror.h>
#include <stdio.h>
#include <string.h>

#include "log.h"

#define URI "urn:vgpud:xmlns:travel:1"
#define KEY "travel"

static struct json_object *noted; /* by the last call; NULL: none */

/* TEXT NULL: takes the element out. */
static void put(virConnectPtr libvirt, const char *uuid, const char *text)
{
	virDomainPtr d = virDomainLookupByUUIDString(libvirt, uuid);
	char said[200];

	if (!d)
		return; /* the domain has just ended */
	if (virDomainSetMetadata(d, VIR_DOMAIN_METADATA_ELEMENT, text, text ? KEY : NULL, URI,
				 VIR_DOMAIN_AFFECT_LIVE) < 0) {
		snprintf(said, sizeof(said), "%s: cannot note what its VF takes to another host",
			 virDomainGetName(d));
		log_line(4, said, virGetLastErrorMessage());
	}
	virDomainFree(d);
}

void travel_update(virConnectPtr libvirt, struct json_object *want)
{
	struct json_object *had;

	json_object_object_foreach(want, uuid, text)
	{
		if (!json_object_object_get_ex(noted, uuid, &had) ||
		    strcmp(json_object_get_string(had), json_object_get_string(text)) != 0)
			put(libvirt, uuid, json_object_get_string(text));
	}
	if (noted) {
		json_object_object_foreach(noted, before, unused)
		{
			(void)unused;
			if (!json_object_object_get_ex(want, before, NULL))
				put(libvirt, before, NULL);
		}
	}
	json_object_put(noted);
	noted = want;
}
