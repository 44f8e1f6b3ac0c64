/* SPDX-License-Identifier: MIT */
/* Pauses or stops VMs whose VF hung, as their claims say. */
#pragma once

#include <json-c/json.h>
#include <libvirt/libvirt.h>

/* Carries out ANSWER's lists of UUIDs, "pause" and "stop"; logs what libvirt refuses. ANSWER may be
 * NULL. Main thread; libvirt may block for seconds. */
void pause_and_stop(virConnectPtr libvirt, struct json_object *answer);
