/* SPDX-License-Identifier: MIT */
/* Keeps the descriptors of a PF that VFIO holds in the store (vfio/store.h) over a restart. */
#pragma once

#include <stdbool.h>

#include "iommu.h"

/* Stores copies of all descriptors, or of none: then a restart of vgpud resets the PF. */
void kept_put(const char *address, const struct iommu *m, int device);
/* Takes the descriptors that an earlier process stored, if there are all and the device still
 * answers. Returns whether it did; the caller then owns them. */
bool kept_take(const char *address, struct iommu *m, int *device);
/* Removes the descriptors from the store. */
void kept_drop(const char *address);
