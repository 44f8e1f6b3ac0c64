/* SPDX-License-Identifier: MIT */
/*
 * libvirt looks for hooks when it starts and when it reloads, and does not report the result. So
 * this asks libvirt to start a VM that the hook must refuse, whether vgpud runs or not: its claim
 * has an element that does not exist. If libvirt does not call the hook, it refuses the VM by
 * itself, a step later: its disk does not exist. The VM leaves nothing behind in either case.
 */
#include "probe.h"

#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <stdio.h>
#include <string.h>

#define NO_DISK "/nonexistent/vgpud-hook-probe"

/* A type of VM that this libvirt has: TCG needs no KVM, but some builds of QEMU lack it. */
static virDomainPtr start(virConnectPtr c, const char *type)
{
	char xml[1024];

	snprintf(xml, sizeof(xml),
		 "<domain type='%s'><name>vgpud-hook-probe</name><metadata>"
		 "<v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1' required='yes'>"
		 "<v:probe/></v:vgpu></metadata><memory unit='MiB'>16</memory><vcpu>1</vcpu>"
		 "<os><type>hvm</type></os><devices><disk type='file' device='disk'>"
		 "<source file='" NO_DISK "'/><target dev='vda' bus='virtio'/></disk></devices>"
		 "</domain>",
		 type);
	return virDomainCreateXML(c, xml, VIR_DOMAIN_START_PAUSED | VIR_DOMAIN_START_AUTODESTROY);
}

int probe_hook(const char *uri)
{
	static const char *const types[] = {"qemu", "kvm"};
	virConnectPtr c = virConnectOpen(uri);
	virDomainPtr d;
	const char *said = "";
	int result = 3;
	size_t i;

	for (i = 0; c && i < sizeof(types) / sizeof(types[0]) && result == 3; i++) {
		d = start(c, types[i]);
		said = virGetLastErrorMessage();
		if (d) { /* neither refused it; it must not stay */
			virDomainDestroy(d);
			virDomainFree(d);
			said = "a VM that cannot start has started";
		} else if (strstr(said, "vgpud: ")) {
			result = 0;
		} else if (strstr(said, NO_DISK)) {
			result = 1;
		}
	}
	if (!c)
		said = virGetLastErrorMessage();
	puts(result == 0   ? "libvirt calls vgpud's hook"
	     : result == 1 ? "libvirt does not call vgpud's hook"
			   : said);
	if (c)
		virConnectClose(c);
	return result;
}
