/* SPDX-License-Identifier: MIT */
/*
 * Opens a function through VFIO and maps memory for its DMA: by its group and a container, or by
 * its own node and an iommufd where the kernel has them. iommu_open() chooses. One thread.
 */
#pragma once

#include "vfio/pci.h"

struct iommu {
	int control; /* the container, or the iommufd */
	int group;   /* -1: iommufd */
	uint32_t ioas;
};

/* Opens the function, which resets it, with TOKEN (36 characters; NULL: none). *DEVICE is its
 * descriptor, owned by the caller. Returns 0, or -errno with the reason in ERR. */
int iommu_open(struct iommu *m, const struct pci_info *info, const char *token, int *device,
	       struct vgpu_error *err);
/* Takes over a PF that an earlier process opened, with its descriptors in M and DEVICE. */
int iommu_resume(struct iommu *m, const struct pci_info *info, const char *token, int device,
		 struct vgpu_error *err);
void iommu_close(struct iommu *m);
const char *iommu_name(const struct iommu *m);

/* iommu_map() lets the device access SIZE bytes at MEMORY at the address IOVA, iommu_unmap() ends
 * that; all are multiples of pages. MEMORY must stay allocated until then. Both return 0 or
 * -errno. */
int iommu_map(const struct iommu *m, void *memory, uint64_t iova, uint64_t size);
int iommu_unmap(const struct iommu *m, uint64_t iova, uint64_t size);
