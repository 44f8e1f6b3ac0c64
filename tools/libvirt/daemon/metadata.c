/* SPDX-License-Identifier: MIT */
#include "metadata.h"

#include <libvirt/virterror.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "log.h"

#define URI "urn:vgpud:xmlns:travel:1"
#define KEY "travel"

static struct json_object *noted; /* by the last call; NULL: none */

static bool is_at_work(virDomainPtr d)
{
	virDomainJobInfo job;

	return virDomainGetJobInfo(d, &job) == 0 && job.type != VIR_DOMAIN_JOB_NONE;
}

/* TEXT NULL: takes the element out. Returns false if that must be tried again. */
static bool write_element(virConnectPtr libvirt, const char *uuid, const char *text)
{
	virDomainPtr d = virDomainLookupByUUIDString(libvirt, uuid);
	const char *name;
	char said[200];

	if (!d)
		return true;	    /* the domain has just ended */
	name = virDomainGetName(d); /* it frees libvirt's last error */
	if (is_at_work(d)) {
		virDomainFree(d);
		return false;
	}
	if (virDomainSetMetadata(d, VIR_DOMAIN_METADATA_ELEMENT, text, text ? KEY : NULL, URI,
				 VIR_DOMAIN_AFFECT_LIVE) < 0) {
		snprintf(said, sizeof(said), "%s: cannot record what its VF needs for a migration",
			 name);
		log_line(4, said, virGetLastErrorMessage());
	}
	virDomainFree(d);
	return true;
}

void metadata_update(virConnectPtr libvirt, struct json_object *want)
{
	struct json_object *had;

	/* "" stands for what must be done by the next call: it is no element. */
	json_object_object_foreach(want, uuid, text)
	{
		had = json_object_object_get(noted, uuid);
		if (!text)
			json_object_object_add(want, uuid, json_object_get(had));
		else if ((!had ||
			  strcmp(json_object_get_string(had), json_object_get_string(text)) != 0) &&
			 !write_element(libvirt, uuid, json_object_get_string(text)))
			json_object_object_add(want, uuid, json_object_new_string(""));
	}
	if (noted) {
		json_object_object_foreach(noted, before, unused)
		{
			(void)unused;
			if (!json_object_object_get_ex(want, before, NULL) &&
			    !write_element(libvirt, before, NULL))
				json_object_object_add(want, before, json_object_new_string(""));
		}
	}
	json_object_put(noted);
	noted = want;
}
