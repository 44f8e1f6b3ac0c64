/* SPDX-License-Identifier: MIT */
/* VFs are attached to VMs that run, and detached from them, as vgpud's answer to vm.sync says. */
#ifndef AGENT_ATTACH_H
#define AGENT_ATTACH_H

#include <json-c/json.h>
#include <libvirt/libvirt.h>

/* ANSWER's lists "attach" and "detach". What libvirt refuses is logged once, and asked for again
 * the next time. Main thread; libvirt may take seconds. */
void attach_and_detach(virConnectPtr libvirt, struct json_object *answer);

/* Logs that a guest has let a device go, or will not. */
int on_device_removed(virConnectPtr c, virDomainPtr d, const char *alias, void *look);
int on_device_kept(virConnectPtr c, virDomainPtr d, const char *alias, void *unused);

#endif
