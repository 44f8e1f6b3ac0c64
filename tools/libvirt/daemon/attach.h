/* SPDX-License-Identifier: MIT */
/* Attaches VFs to running VMs and detaches them, as vgpud's answer to vm.sync asks. */
#pragma once

#include <json-c/json.h>
#include <libvirt/libvirt.h>
#include <stdbool.h>

/* Carries out ANSWER's lists "attach" and "detach". What libvirt refuses is logged once; vgpud asks
 * for it again next time. Returns whether anything was attached. Main thread; libvirt may block for
 * seconds. */
bool attach_and_detach(virConnectPtr libvirt, struct json_object *answer);

/* Callbacks that log that a guest released a device, or refused to. LOOK is a bool that is set. */
int on_device_removed(virConnectPtr c, virDomainPtr d, const char *alias, void *look);
int on_device_kept(virConnectPtr c, virDomainPtr d, const char *alias, void *unused);
