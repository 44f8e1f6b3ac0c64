/* SPDX-License-Identifier: MIT */
/*
 * How a function is opened by VFIO, and what its DMA goes through: the container of its group, or
 * an iommufd where the kernel has one. Chosen when it is opened.
 */
#ifndef VFIO_IOMMU_H
#define VFIO_IOMMU_H

#include "vfio/pci.h"

struct iommu {
	int control; /* the container, or the iommufd */
	int group;   /* -1: iommufd */
	uint32_t ioas;
};

/* A token as text of 36 characters, or NULL: none is given. Opens the function, which resets it;
 * *DEVICE is its descriptor. 0 or -errno with the reason. */
int iommu_open(struct iommu *m, const struct pci_info *info, const char *token, int *device,
	       struct vgpu_error *err);
/* The same for a PF that has been opened by an earlier process, with its descriptors. */
int iommu_resume(struct iommu *m, const struct pci_info *info, const char *token, int device,
		 struct vgpu_error *err);
void iommu_close(struct iommu *m);
const char *iommu_name(const struct iommu *m);

int iommu_map(const struct iommu *m, void *memory, uint64_t iova, uint64_t size);
int iommu_unmap(const struct iommu *m, uint64_t iova, uint64_t size);

#endif
