/* SPDX-License-Identifier: MIT */
/* The rare records of a GPU, each with the name of the VF's tenant at that time. Control thread. */
#pragma once

#include "state.h"

/* Stores a record with the name of its VF's present tenant. */
void heard_add(struct gpu *gpu, const struct vgpu_record *record);
/* Returns the tenant of the VF of record I of the GPU's events, which must be readable; "": none.
 * Owned by the GPU, until the next record. */
const char *heard_name(const struct gpu *gpu, uint64_t i);
