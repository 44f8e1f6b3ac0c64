/* SPDX-License-Identifier: MIT */
/*
 * The vfio-user wire format (QEMU docs/interop/vfio-user.rst): host endian, a 16-byte header and a
 * payload, file descriptors by SCM_RIGHTS. Region and IRQ indexes are VFIO's.
 */
#pragma once

#include <stdint.h>

enum vfio_user_command {
	VFIO_USER_VERSION = 1,
	VFIO_USER_DMA_MAP = 2,
	VFIO_USER_DMA_UNMAP = 3,
	VFIO_USER_GET_INFO = 4,
	VFIO_USER_GET_REGION_INFO = 5,
	VFIO_USER_GET_REGION_IO_FDS = 6,
	VFIO_USER_GET_IRQ_INFO = 7,
	VFIO_USER_SET_IRQS = 8,
	VFIO_USER_REGION_READ = 9,
	VFIO_USER_REGION_WRITE = 10,
	VFIO_USER_DEVICE_RESET = 13,
};

#define VFIO_USER_TYPE_MASK 0xfu
#define VFIO_USER_REPLY 1u
#define VFIO_USER_NO_REPLY (1u << 4)
#define VFIO_USER_ERROR (1u << 5)

struct vfio_user_header {
	uint16_t id, command;
	uint32_t size; /* with this header */
	uint32_t flags, error;
};

struct vfio_user_version {
	uint16_t major, minor;
	char json[];
};

struct vfio_user_dma_map {
	uint32_t argsz, flags;
	uint64_t offset, iova, size;
};
#define VFIO_USER_DMA_READ 1u
#define VFIO_USER_DMA_WRITE 2u

struct vfio_user_dma_unmap {
	uint32_t argsz, flags;
	uint64_t iova, size;
};

struct vfio_user_info {
	uint32_t argsz, flags, num_regions, num_irqs;
};
#define VFIO_USER_DEVICE_RESETTABLE 1u
#define VFIO_USER_DEVICE_PCI 2u

struct vfio_user_region_info {
	uint32_t argsz, flags, index, cap_offset;
	uint64_t size, offset;
};
#define VFIO_USER_REGION_CAN_READ 1u
#define VFIO_USER_REGION_CAN_WRITE 2u
#define VFIO_USER_REGION_CAN_MMAP 4u
#define VFIO_USER_REGION_HAS_CAPS 8u

#define VFIO_USER_CAP_SPARSE_MMAP 1u
/* One capability with one area: our server sends only this form. */
struct vfio_user_sparse_mmap {
	uint16_t id, version;
	uint32_t next;
	uint32_t nr_areas, reserved;
	uint64_t offset, size;
};

struct vfio_user_irq_info {
	uint32_t argsz, flags, index, count;
};
#define VFIO_USER_IRQ_EVENTFD 1u
#define VFIO_USER_IRQ_NORESIZE 8u

struct vfio_user_set_irqs {
	uint32_t argsz, flags, index, start, count;
};
#define VFIO_USER_IRQ_DATA_NONE 1u
#define VFIO_USER_IRQ_DATA_BOOL 2u
#define VFIO_USER_IRQ_DATA_EVENTFD 4u
#define VFIO_USER_IRQ_ACTION_TRIGGER 32u

struct vfio_user_access {
	uint64_t offset;
	uint32_t region, count;
};

enum {
	VFIO_USER_BAR0 = 0,
	VFIO_USER_CONFIG = 7,
	VFIO_USER_NUM_REGIONS = 9,
	VFIO_USER_IRQ_INTX = 0,
	VFIO_USER_IRQ_MSI = 1,
	VFIO_USER_IRQ_MSIX = 2,
	VFIO_USER_IRQ_ERR = 3,
	VFIO_USER_IRQ_REQ = 4,
	VFIO_USER_NUM_IRQS = 5,
};

#define VFIO_USER_MAX_FDS 8u
#define VFIO_USER_MAX_DATA (1u << 20)
#define VFIO_USER_MAX_SIZE                                                                         \
	(sizeof(struct vfio_user_header) + sizeof(struct vfio_user_access) + VFIO_USER_MAX_DATA)
#define VFIO_USER_MAX_VECTORS 32u
#define VFIO_USER_MAX_DMA_MAPS 1024u
