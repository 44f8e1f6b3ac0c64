/* SPDX-License-Identifier: MIT */
/* The devices that containers can request, as a file of the Container Device Interface:
 * docs/containers.md. */
#pragma once

#include <json-c/json.h>
#include <stdio.h>

/* Writes the file to TO. GPUS: answers of gpu.capacity. */
void inventory_cdi(struct json_object *gpus, FILE *to);
