/* SPDX-License-Identifier: MIT */
#include "attach.h"

#include <libvirt/virterror.h>
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "vgpu/names.h"

static const char *text_of(struct json_object *o, const char *key)
{
	const char *text = json_object_get_string(json_object_object_get(o, key));

	return text ? text : "";
}

static void tell(int level, virDomainPtr d, const char *alias, const char *what, const char *why)
{
	char text[400];

	snprintf(text, sizeof(text), "%s: %s %s", virDomainGetName(d), alias, what);
	log_line(level, text, why);
}

#define MAX_TROUBLES 32u

/* Failures that were logged: vgpud-libvirt tries again every minute, and logs each once. */
static struct trouble {
	char uuid[VIR_UUID_STRING_BUFLEN], alias[80], why[200];
} troubles[MAX_TROUBLES];
static unsigned next_trouble;

/* Notes the failure WHY of a device; WHY "" forgets it. Returns whether it was not noted yet. */
static bool note_failure(const char *uuid, const char *alias, const char *why)
{
	struct trouble *t = troubles;
	bool news;

	while (t < troubles + MAX_TROUBLES &&
	       (strcmp(t->uuid, uuid) != 0 || strcmp(t->alias, alias) != 0))
		t++;
	if (t == troubles + MAX_TROUBLES && !why[0])
		return true;
	if (t == troubles + MAX_TROUBLES)
		t = &troubles[next_trouble++ % MAX_TROUBLES];
	news = strncmp(t->why, why, sizeof(t->why) - 1) != 0;
	snprintf(t->uuid, sizeof(t->uuid), "%s", why[0] ? uuid : "");
	snprintf(t->alias, sizeof(t->alias), "%s", alias);
	snprintf(t->why, sizeof(t->why), "%s", why);
	return news;
}

/* Attaches a VF to a domain, with managed='no': vgpud has bound the VF to its VFIO driver, and
 * libvirt must leave it there. */
static int attach(virDomainPtr d, const char *alias, const char *address)
{
	struct pci_address at;
	char xml[400];

	if (pci_address_read(address, &at) < 0)
		return -1;
	snprintf(xml, sizeof(xml),
		 "<hostdev mode='subsystem' type='pci' managed='no'><source>"
		 "<address domain='0x%04x' bus='0x%02x' slot='0x%02x' function='0x%x'/></source>"
		 "<alias name='%s'/></hostdev>",
		 at.domain, at.bus, at.device, at.function, alias);
	return virDomainAttachDeviceFlags(d, xml, VIR_DOMAIN_AFFECT_LIVE);
}

/* Attaches or detaches the devices of LIST. Returns whether libvirt did, or began to, with any. */
static bool each(virConnectPtr libvirt, struct json_object *list, bool add)
{
	size_t i, n = list ? json_object_array_length(list) : 0;
	bool any = false;

	for (i = 0; i < n; i++) {
		struct json_object *o = json_object_array_get_idx(list, i);
		const char *alias = text_of(o, "alias"), *address = text_of(o, "address");
		virDomainPtr d = virDomainLookupByUUIDString(libvirt, text_of(o, "uuid"));
		char why[200];
		bool news;
		int r;

		if (!d)
			continue; /* the domain has just ended */
		r = add ? attach(d, alias, address)
			: virDomainDetachDeviceAlias(d, alias, VIR_DOMAIN_AFFECT_LIVE);
		/* A copy: virDomainGetName frees libvirt's last error. */
		snprintf(why, sizeof(why), "%s", r < 0 ? virGetLastErrorMessage() : "");
		news = note_failure(text_of(o, "uuid"), alias, why);
		if (r == 0)
			tell(6, d, alias,
			     add ? "attached" : "detach requested; waiting for the guest",
			     add ? address : NULL);
		else if (news)
			tell(4, d, alias, add ? "cannot be attached" : "cannot be detached", why);
		any |= r == 0;
		virDomainFree(d);
	}
	return any;
}

bool attach_and_detach(virConnectPtr libvirt, struct json_object *answer)
{
	each(libvirt, json_object_object_get(answer, "detach"), false);
	return each(libvirt, json_object_object_get(answer, "attach"), true);
}

int on_device_removed(virConnectPtr, virDomainPtr d, const char *alias, void *look)
{
	tell(6, d, alias, "detached", NULL);
	*(bool *)look = true;
	return 0;
}

int on_device_kept(virConnectPtr, virDomainPtr d, const char *alias, void *)
{
	tell(4, d, alias, "not released by the guest; the VM keeps the VF until it ends", NULL);
	return 0;
}
