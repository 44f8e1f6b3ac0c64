/* SPDX-License-Identifier: MIT */
/*
 * The data that would migrate with a running VM (travel.h). vgpud-libvirt fetches it regularly and
 * puts it into the domain, because libvirt calls no hook on the source host. Control thread.
 */
#pragma once

#include "control/call.h"

/* The method "vm.travel". */
int vm_travel_begin(struct control *control, struct call *call, struct vgpu_error *err);
