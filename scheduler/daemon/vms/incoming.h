/* SPDX-License-Identifier: MIT */
/*
 * VMs that come with the state of their VFs, from another host or from a file: libvirt's migrate
 * and restore. Each gets VFs that can take the state over (fit.h), perhaps at other addresses, and
 * which wait for the VM (hold.h). Control thread.
 */
#ifndef DAEMON_INCOMING_H
#define DAEMON_INCOMING_H

#include "control/call.h"
#include "claim.h"

/* Begins the reservation of the call, whose claim is read, for the domain XML. RESTORES: it comes
 * from a file. Returns 0, or -errno with the reason in ERR. */
int incoming_begin(struct control *control, struct call *call, const char *xml, bool restores,
		   struct vgpu_error *err);
/* Whether the VM has leases as it comes, for the devices that it has in the claim's XML. */
bool incoming_is_expected(struct control *control, const struct claim *claim);

#endif
