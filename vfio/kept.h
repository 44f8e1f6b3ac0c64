/* SPDX-License-Identifier: MIT */
/* Keeps the descriptors of a PF that VFIO holds in the store (vfio/store.h) over a restart. */
#pragma once

#include <stdbool.h>

#include "iommu.h"

/* Keeps copies of all of them, or none: then a restart of vgpud resets the PF. */
void kept_put(const char *address, const struct iommu *m, int device);
/* Takes the descriptors that an earlier process kept, if there are all and the device still
 * answers. Returns whether it did; the descriptors are then the caller's. */
bool kept_take(const char *address, struct iommu *m, int *device);
/* Removes them from the store. */
void kept_drop(const char *address);
