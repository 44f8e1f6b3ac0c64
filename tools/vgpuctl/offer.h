/* SPDX-License-Identifier: MIT */
/* What one GPU offers, from vgpud's answer to gpu.capacity, in the terms of OpenStack's
 * placement. */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#define OFFER_PREFIX "CUSTOM_VGPUD"
#define OFFER_TRAIT_SIZE 256
#define OFFER_TRAITS 3

/* The resource classes. offer_names: their names without the prefix CUSTOM_VGPUD_. */
enum { OFFER_VFS, OFFER_SHARE, OFFER_MEMORY, OFFER_CLASSES };
extern const char *const offer_names[OFFER_CLASSES];

/* A resource class: its total, and the least and the most that one VM can book, in steps of STEP.
 * Total 0: the class is not offered. */
struct offer_class {
	int64_t total, least, most, step;
};

/* Writes the resources of GPU, a row of vgpud's gpu.list, in each class to OUT. */
void offer_classes(struct json_object *gpu, struct offer_class out[OFFER_CLASSES]);

/* Writes the GPU's trait number I, 0 to OFFER_TRAITS - 1: its policy, its pool or its model.
 * Returns false if the GPU has none. Each GPU also has the trait OFFER_PREFIX. */
bool offer_trait(struct json_object *gpu, int i, char out[OFFER_TRAIT_SIZE]);
