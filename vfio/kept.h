/* SPDX-License-Identifier: MIT */
/* The descriptors of a PF held by VFIO, over a restart. */
#ifndef VFIO_KEPT_H
#define VFIO_KEPT_H

#include <stdbool.h>

#include "iommu.h"

/* Has all of them kept, or none: then a restart of vgpud opens the PF anew. */
void kept_put(const char *address, const struct iommu *m, int device);
/* Those of an earlier process, if all are there and the device is: true. */
bool kept_take(const char *address, struct iommu *m, int *device);
void kept_drop(const char *address);

#endif
