/* SPDX-License-Identifier: MIT */
/* The parts of the kernel's iommufd interface that are used here: the headers of the oldest system
 * that we build on lack them (include/uapi/linux/iommufd.h and vfio.h, Linux 6.6 and later). */
#ifndef VFIO_IOMMUFD_API_H
#define VFIO_IOMMUFD_API_H

#include <linux/vfio.h>
#include <stdint.h>

#define IOMMUFD_BIND _IO(VFIO_TYPE, VFIO_BASE + 18)
#define IOMMUFD_ATTACH _IO(VFIO_TYPE, VFIO_BASE + 19)
#define IOMMUFD_IOAS_ALLOC _IO(VFIO_TYPE, 0x81)
#define IOMMUFD_IOAS_MAP _IO(VFIO_TYPE, 0x85)
#define IOMMUFD_IOAS_UNMAP _IO(VFIO_TYPE, 0x86)

#define IOMMUFD_BIND_TOKEN 1u /* 6.17 */
struct iommufd_bind {
	uint32_t argsz, flags;
	int32_t iommufd;
	uint32_t out_devid;
	uint64_t token; /* address of 16 bytes */
};
#define IOMMUFD_BIND_SIZE_WITHOUT_TOKEN 16u

struct iommufd_attach {
	uint32_t argsz, flags, pt_id;
};

struct iommufd_ioas_alloc {
	uint32_t size, flags, out_ioas_id;
};

/* VFIO_DEVICE_FEATURE with a token of 16 bytes */
struct token_feature {
	uint32_t argsz, flags;
	uint8_t token[16];
};

#define IOMMUFD_MAP_FIXED_IOVA 1u
#define IOMMUFD_MAP_WRITE 2u
#define IOMMUFD_MAP_READ 4u
struct iommufd_ioas_map {
	uint32_t size, flags, ioas_id, reserved;
	uint64_t user_va, length, iova;
};

struct iommufd_ioas_unmap {
	uint32_t size, ioas_id;
	uint64_t iova, length;
};

#endif
