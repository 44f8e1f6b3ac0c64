/* SPDX-License-Identifier: MIT */
/*
 * What a running VM would take with it to another host (travel.h). vgpud-libvirt asks for it now
 * and then and puts it into the domain, since libvirt calls no hook where a VM leaves. Control
 * thread.
 */
#ifndef DAEMON_OUTGOING_H
#define DAEMON_OUTGOING_H

#include "control/call.h"

/* The method "vm.travel". */
int vm_travel_begin(struct control *control, struct call *call, struct vgpu_error *err);

#endif
