/* SPDX-License-Identifier: MIT */
/* The parts of the kernel's iommufd interface that are used here, with the kernel's names. The
 * headers of the oldest supported system (Linux 6.1) lack them. */
#pragma once

#include <linux/vfio.h>
#include <stdint.h>

#if __has_include(<linux/iommufd.h>)
#include <linux/iommufd.h>
#else
#define IOMMU_IOAS_ALLOC _IO(VFIO_TYPE, 0x81)
#define IOMMU_IOAS_MAP _IO(VFIO_TYPE, 0x85)
#define IOMMU_IOAS_UNMAP _IO(VFIO_TYPE, 0x86)

struct iommu_ioas_alloc {
	uint32_t size, flags, out_ioas_id;
};

#define IOMMU_IOAS_MAP_FIXED_IOVA 1u
#define IOMMU_IOAS_MAP_WRITEABLE 2u
#define IOMMU_IOAS_MAP_READABLE 4u
struct iommu_ioas_map {
	uint32_t size, flags, ioas_id, __reserved;
	uint64_t user_va, length, iova;
};

struct iommu_ioas_unmap {
	uint32_t size, ioas_id;
	uint64_t iova, length;
};
#endif

#ifndef VFIO_DEVICE_BIND_IOMMUFD
#define VFIO_DEVICE_BIND_IOMMUFD _IO(VFIO_TYPE, VFIO_BASE + 18)
struct vfio_device_bind_iommufd {
	uint32_t argsz, flags;
	int32_t iommufd;
	uint32_t out_devid;
};
#endif

#ifndef VFIO_DEVICE_ATTACH_IOMMUFD_PT
#define VFIO_DEVICE_ATTACH_IOMMUFD_PT _IO(VFIO_TYPE, VFIO_BASE + 19)
struct vfio_device_attach_iommufd_pt {
	uint32_t argsz, flags, pt_id;
};
#endif

#ifndef VFIO_DEVICE_BIND_FLAG_TOKEN
#define VFIO_DEVICE_BIND_FLAG_TOKEN 1u
#endif

/* struct vfio_device_bind_iommufd since Linux 6.17. Headers from 6.6 to 6.16 lack its last
 * field. */
struct bind_with_token {
	uint32_t argsz, flags;
	int32_t iommufd;
	uint32_t out_devid;
	uint64_t token_uuid_ptr; /* address of 16 bytes */
};

/* struct vfio_device_feature with a token of 16 bytes */
struct token_feature {
	uint32_t argsz, flags;
	uint8_t token[16];
};
