/* SPDX-License-Identifier: MIT */
/*
 * VMs that bring the state of their VFs, from another host or from a file: libvirt's migrate and
 * restore. Each gets VFs that can take over the state (fit.h), perhaps at other addresses, and that
 * wait for the VM (hold.h). Control thread.
 */
#pragma once

#include "control/call.h"
#include "claim.h"

/* Begins the call's reservation, whose claim is parsed, for the domain XML. RESTORES: the VM comes
 * from a file. Returns 0, or -errno with the reason in ERR. */
int incoming_begin(struct control *control, struct call *call, const char *xml, bool restores,
		   struct vgpu_error *err);
/* Returns whether the incoming VM has leases for the devices in the claim's XML. */
bool incoming_is_expected(struct control *control, const struct claim *claim);
