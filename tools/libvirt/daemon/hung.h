/* SPDX-License-Identifier: MIT */
/* VMs whose VF has hung are paused or stopped, as their claim says. */
#ifndef AGENT_HUNG_H
#define AGENT_HUNG_H

#include <json-c/json.h>
#include <libvirt/libvirt.h>

/* ANSWER's lists "pause" and "stop" of UUIDs; what libvirt refuses is logged. NULL is allowed. Main
 * thread. */
void pause_and_stop(virConnectPtr libvirt, struct json_object *answer);

#endif
