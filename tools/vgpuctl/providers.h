/* SPDX-License-Identifier: MIT */
/* Keeps a resource provider for each GPU of a host at OpenStack's placement: docs/fleet.md. */
#ifndef VGPUCTL_PROVIDERS_H
#define VGPUCTL_PROVIDERS_H

#include <json-c/json.h>
#include <stdbool.h>

/*
 * Makes the providers of the host whose own provider is called HOST, at the placement at URL, what
 * GPUS say, which are answers of gpu.capacity: one for each GPU, named HOST_vgpud_GPU, below the
 * host's. Deletes those of GPUs that are gone. Touches no other provider, and keeps what somebody
 * else has added to these: amounts that are reserved, and traits without vgpud's prefix. Prints
 * each change; with CHECK it only prints what would be changed. Returns an exit code: EXIT_FAILED
 * after an error, whose reason is on stderr and after which another call goes on, and with CHECK if
 * anything would be changed. May block for half a minute for each request.
 */
int providers_keep(const char *url, const char *host, struct json_object *gpus, bool check);

#endif
