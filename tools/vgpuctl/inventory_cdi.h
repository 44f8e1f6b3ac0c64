/* SPDX-License-Identifier: MIT */
/* What containers can ask for, as a file of the Container Device Interface: docs/containers.md. */
#ifndef VGPUCTL_INVENTORY_CDI_H
#define VGPUCTL_INVENTORY_CDI_H

#include <json-c/json.h>
#include <stdio.h>

/* Prints the file to TO: GPUS are answers of gpu.capacity. */
void inventory_cdi(struct json_object *gpus, FILE *to);

#endif
