/* SPDX-License-Identifier: MIT */
#include "hung.h"

#include <libvirt/virterror.h>
#include <stdio.h>

#include "log.h"

static void each(virConnectPtr libvirt, struct json_object *uuids, int (*act)(virDomainPtr d),
		 const char *done, const char *failed)
{
	size_t i, n = uuids ? json_object_array_length(uuids) : 0;
	char text[400];

	for (i = 0; i < n; i++) {
		virDomainPtr d = virDomainLookupByUUIDString(
			libvirt, json_object_get_string(json_object_array_get_idx(uuids, i)));
		const char *name;

		if (!d)
			continue;	    /* the domain has just ended */
		name = virDomainGetName(d); /* it frees libvirt's last error */
		if (act(d) == 0) {
			snprintf(text, sizeof(text), "domain %s: its VF hung; %s", name, done);
			log_line(4, text, NULL);
		} else {
			snprintf(text, sizeof(text), "domain %s: its VF hung; %s", name, failed);
			log_line(3, text, virGetLastErrorMessage());
		}
		virDomainFree(d);
	}
}

void pause_and_stop(virConnectPtr libvirt, struct json_object *answer)
{
	each(libvirt, json_object_object_get(answer, "pause"), virDomainSuspend,
	     "paused, as its claim says (virsh resume)", "it cannot be paused");
	each(libvirt, json_object_object_get(answer, "stop"), virDomainDestroy,
	     "stopped, as its claim says", "it cannot be stopped");
}
