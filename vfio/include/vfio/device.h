/* SPDX-License-Identifier: MIT */
/*
 * A PCI function that this process holds: registers, memory, interrupts, reset. Drivers use this
 * interface with every transport.
 *
 * Calls may block until the transport's time-out. One thread at a time.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vgpu/types.h"

enum { VFIO_REGION_BAR0 = 0, VFIO_REGION_BAR2 = 2, VFIO_REGION_BAR5 = 5, VFIO_REGION_CONFIG = 7 };

struct vfio_region {
	uint64_t size;
	uint64_t mmap_size; /* bytes that can be mapped, from offset 0; 0: none */
};

struct vfio_device;

struct vfio_device_ops {
	const char *name;
	int (*region)(struct vfio_device *d, uint32_t region, struct vfio_region *out);
	int (*read)(struct vfio_device *d, uint32_t region, uint64_t offset, void *data,
		    uint32_t size);
	int (*write)(struct vfio_device *d, uint32_t region, uint64_t offset, const void *data,
		     uint32_t size);
	int (*write_read)(struct vfio_device *d, uint32_t region, uint64_t write_offset,
			  const void *data, uint32_t size, uint64_t read_offset, void *out,
			  uint32_t out_size);
	int (*map)(struct vfio_device *d, uint32_t region, void *wanted, void **out, size_t *size);
	int (*irqs)(struct vfio_device *d, const int *eventfds, uint32_t count);
	int (*dma_map)(struct vfio_device *d, int fd, uint64_t offset, uint64_t iova,
		       uint64_t size);
	int (*dma_unmap)(struct vfio_device *d, uint64_t iova, uint64_t size);
	int (*lock_fd)(struct vfio_device *d); /* descriptor of the file that has its locks; NULL:
						* it cannot be shared */
	int (*reset)(struct vfio_device *d);
	int (*set_vfs)(struct vfio_device *d, uint32_t n, struct vgpu_error *err);
	int (*fd)(struct vfio_device *d);
	int (*check)(struct vfio_device *d);   /* NULL: cannot check */
	void (*forget)(struct vfio_device *d); /* NULL: the store has nothing of it */
	void (*close)(struct vfio_device *d);
};

struct vfio_device {
	const struct vfio_device_ops *ops;
};

/*
 * Opens the function called NAME:
 *   vfio-user:PATH     a device of another process, such as softgpu's
 *   lease:PATH         the same, which vgpud hands out at a lease's socket (docs/protocol.md)
 *   sysfs:ADDRESS      a PF through sysfs; binds it to pci-pf-stub first
 *   resource:ADDRESS   a VF of softgpu in a VM, through the files of its BARs in sysfs: without
 *                      interrupts, DMA or a reset
 *   shared:ADDRESS     the same, beside other processes that open it so: see vfio_lock()
 *   registers:ADDRESS  the same, to read registers only: several processes may have it open, also
 *                      while one has the VF
 *   vfio:ADDRESS       a function through the kernel's VFIO; binds a PF to vfio-pci first.
 *                      ",token=UUID" or ",token-file=PATH" give the token of the host's VFs
 * Returns 0, or -errno with the reason in ERR; -EBUSY if another process holds it.
 */
int vfio_device_open(struct vfio_device **out, const char *name, struct vgpu_error *err);

/* Gets the token with which VFs of the PF NAME are opened, a UUID; "": they need none. Any
 * thread. */
#define VFIO_TOKEN_SIZE 37
void vfio_vf_token(const char *name, char out[VFIO_TOKEN_SIZE]);

/* Removes the function's descriptors from the store (vfio/store.h). Must be called before closing a
 * function that is lost, or that the kernel wants back. */
static inline void vfio_device_forget(struct vfio_device *d)
{
	if (d->ops->forget)
		d->ops->forget(d);
}

/* Closes the function, without resetting it, and frees D, which may be NULL. */
void vfio_device_close(struct vfio_device *d);

static inline int vfio_region(struct vfio_device *d, uint32_t region, struct vfio_region *out)
{
	return d->ops->region(d, region, out);
}

/* Reads SIZE bytes at OFFSET, in ascending order. Returns 0 or -errno, as do the functions
 * below. */
static inline int vfio_read(struct vfio_device *d, uint32_t region, uint64_t offset, void *data,
			    uint32_t size)
{
	return d->ops->read(d, region, offset, data, size);
}

/* Writes SIZE bytes. The write has reached the device when the next read or write_read returns. */
static inline int vfio_write(struct vfio_device *d, uint32_t region, uint64_t offset,
			     const void *data, uint32_t size)
{
	return d->ops->write(d, region, offset, data, size);
}

/* Writes, then reads in the same region, in one message if the transport can. */
static inline int vfio_write_read(struct vfio_device *d, uint32_t region, uint64_t write_offset,
				  const void *data, uint32_t size, uint64_t read_offset, void *out,
				  uint32_t out_size)
{
	return d->ops->write_read(d, region, write_offset, data, size, read_offset, out, out_size);
}

/* Maps the mappable part of a region, which stays mapped until the device is closed. */
static inline int vfio_map(struct vfio_device *d, uint32_t region, void **out, size_t *size)
{
	return d->ops->map(d, region, NULL, out, size);
}

/* As vfio_map(), at the address WANTED if that is free in this process, and the region is not
 * mapped yet; otherwise elsewhere. */
static inline int vfio_map_at(struct vfio_device *d, uint32_t region, void *wanted, void **out,
			      size_t *size)
{
	return d->ops->map(d, region, wanted, out, size);
}

/* Makes the device signal eventfds[i] for MSI-X vector i. The caller keeps the eventfds, and closes
 * them. */
static inline int vfio_irqs(struct vfio_device *d, const int *eventfds, uint32_t count)
{
	return d->ops->irqs(d, eventfds, count);
}

static inline int vfio_dma_map(struct vfio_device *d, int fd, uint64_t offset, uint64_t iova,
			       uint64_t size)
{
	return d->ops->dma_map(d, fd, offset, iova, size);
}

static inline int vfio_dma_unmap(struct vfio_device *d, uint64_t iova, uint64_t size)
{
	return d->ops->dma_unmap(d, iova, size);
}

/* Takes lock N of a function that was opened as shared if ON, else releases it. Returns 0; -EAGAIN:
 * another process has the lock; -ENOTSUP: the function is not shared; or another -errno. When a
 * process ends, for any reason, its locks are released. Never waits. */
int vfio_lock(struct vfio_device *d, uint32_t n, bool on);

/*
 * A shared function also has numbered marks, each of which any number of descriptors may hold.
 * Returns a new descriptor, owned by the caller, that holds mark N until its last copy is closed,
 * in any process or in a message between two; exec closes it. Otherwise returns -errno; -ENOTSUP:
 * the function is not shared. Never waits.
 */
int vfio_mark(struct vfio_device *d, uint32_t n);
/* Gets the number of the mark that FD holds, which may come from another process. Returns 0;
 * -EINVAL: FD holds no mark, or one of another function; or -ENOTSUP. */
int vfio_mark_of(struct vfio_device *d, int fd, uint32_t *n);
/* Returns whether a descriptor holds mark N; true also if that is unknown. */
bool vfio_is_marked(struct vfio_device *d, uint32_t n);

static inline int vfio_reset(struct vfio_device *d)
{
	return d->ops->reset(d);
}

/* Makes exactly N VFs of a PF, bound to the driver that tenants need; may block for seconds.
 * Returns 0, or -errno with the reason in ERR; -EBUSY if a VF that must be removed is in use. */
static inline int vfio_set_vfs(struct vfio_device *d, uint32_t n, struct vgpu_error *err)
{
	return d->ops->set_vfs(d, n, err);
}

/* Enables N VFs in the PF's registers only: for a device that the kernel does not manage, and after
 * a GPU reset that the kernel does not know about. Takes a few register accesses. Returns 0, or
 * -errno with the reason in ERR. */
int vfio_enable_vfs(struct vfio_device *d, uint32_t n, struct vgpu_error *err);

/* Returns a descriptor, owned by the device, that becomes readable when vfio_check() has something
 * to report; -1 if the transport has none. */
static inline int vfio_fd(struct vfio_device *d)
{
	return d->ops->fd(d);
}

/* Returns 0 while the device can be used. -ENODEV: it was removed. -ESTALE: the kernel wants it
 * back, and waits until it is closed. -EREMOTEIO: PCI Express reported an uncorrectable error
 * (AER). */
static inline int vfio_check(struct vfio_device *d)
{
	return d->ops->check ? d->ops->check(d) : 0;
}

/*
 * Finds the next extended capability with ID in a function's 4 KiB of configuration space, after
 * *AT (0: from the start). Returns true and its offset in *AT. The search ends for any content.
 */
bool vfio_find_ext_cap(const uint8_t *config, uint16_t id, uint16_t *at);
