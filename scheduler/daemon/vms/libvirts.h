/* SPDX-License-Identifier: MIT */
/*
 * The libvirts that still report their running VMs. A recreated libvirt, as in a restarted
 * container, has another name, and the old name never reports again. Control thread.
 */
#pragma once

#include "control/state.h"

/* Records a report of the libvirt HOST. */
void libvirts_note(struct control *control, const char *host);
/* Returns the time since its last report; counts from now if it never reported. */
vgpu_nsec libvirts_silent(struct control *control, const char *host);
