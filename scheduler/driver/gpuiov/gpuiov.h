/* SPDX-License-Identifier: MIT */
/*
 * The GPU-IOV driver: the PF of an AMD SR-IOV GPU, or of softgpu. registers.c knows where each
 * register lies, open.c brings a GPU up or adopts it, commands.c carries actions out, dispatch.c
 * finds out what has happened, memory.c partitions, clears and copies.
 */
#ifndef GPUIOV_DRIVER_H
#define GPUIOV_DRIVER_H

#include "vfio/device.h"
#include "vfio/gpuiov.h"
#include "vfio/host_memory.h"
#include "vgpu/driver.h"

/* Beside its vectors, in the set of what may become readable. */
#define GPUIOV_DEVICE GPUIOV_PF_VECTORS

struct gpuiov_pending {
	bool active;
	uint32_t vf;
	enum vgpu_command command;
	vgpu_nsec poll_at;
	uint32_t polls;
	bool interrupts; /* when it is done */
};

struct vgpu_driver {
	struct vgpu_driver_config config;
	struct vfio_device *device;
	const struct gpuiov_layout *layout;
	const char *model; /* static */
	uint16_t sriov, cap, block;
	uint16_t decode; /* of its command register: whether it answers to memory accesses */
	struct vgpu_partition partition; /* as the GPU's table has it */
	uint64_t memory;		 /* the GPU's own; addresses from there on are the host's */
	struct vfio_host_memory host;
	vgpu_event_sink *sink;
	void *data;

	int epoll, vectors[GPUIOV_PF_VECTORS];
	struct gpuiov_pending command;
	uint8_t slow[VGPU_CMD_COUNT]; /* how many more of a kind are left to their interrupts */
	uint32_t busy;		      /* bitmaps by VF, from here on */
	uint32_t resetting;	      /* asked for by us */
	uint32_t gates[3];
	uint32_t overlaps; /* VFs whose partitions do, as last told */
	bool gpu_resetting;
	uint32_t gpu_reset_vf;
	vgpu_nsec look_at;  /* the next look at everything */
	vgpu_nsec check_at; /* the next look at the device as such */
	vgpu_nsec slow_at;  /* the next look at resets */
};

/* A register of the layout: 4 bytes, or what it has. 0 or negative. */
int gpuiov_read(struct vgpu_driver *d, enum gpuiov_register reg, uint32_t *value);
int gpuiov_write(struct vgpu_driver *d, enum gpuiov_register reg, uint32_t value);
bool gpuiov_has(const struct vgpu_driver *d, enum gpuiov_register reg);
/* Where a register lies. */
void gpuiov_place(const struct vgpu_driver *d, enum gpuiov_register reg, uint32_t *region,
		  uint64_t *offset);
/* Bitmaps of the VFs that are being reset, and of those whose reset has ended since that was last
 * acknowledged. Read in this order: a reset that ends between the two reads is in both bitmaps, and
 * not in neither, which would mean that it has failed. 0 or negative. */
int gpuiov_read_resets(struct vgpu_driver *d, uint32_t *going_on, uint32_t *ended);
/* softgpu's own, in BAR 5 */
int gpuiov_read_own(struct vgpu_driver *d, uint32_t offset, uint32_t *value);

/* From no VFs to as many as are configured, all gates closed. ENABLE makes them: vfio_set_vfs,
 * which may block, or vfio_enable_vfs, where the kernel has them still. 0 or -errno with the
 * reason. */
typedef int gpuiov_enable(struct vfio_device *device, uint32_t n, struct vgpu_error *err);
int gpuiov_bring_up(struct vgpu_driver *d, gpuiov_enable *enable, struct vgpu_error *err);

int gpuiov_command(struct vgpu_driver *d, uint32_t vf, enum vgpu_command command, vgpu_nsec now);
int gpuiov_command_done(struct vgpu_driver *d, uint32_t cmd, uint32_t status, vgpu_nsec now);
int gpuiov_reset(struct vgpu_driver *d, uint32_t vf, enum vgpu_reset_level level, vgpu_nsec now);
int gpuiov_gates(struct vgpu_driver *d, uint32_t vf, enum vgpu_access access);
int gpuiov_notice(struct vgpu_driver *d, uint32_t vf, enum vgpu_notice notice);

/* memory.c */
/* Opens the way to host memory. */
int gpuiov_set_aperture(struct vgpu_driver *d);
int gpuiov_read_table(struct vgpu_driver *d, struct vgpu_partition *out);
int gpuiov_place_vf(struct vgpu_driver *d, uint32_t vf, struct vgpu_extent where);
int gpuiov_clear(struct vgpu_driver *d, struct vgpu_extent where);
int gpuiov_copy(struct vgpu_driver *d, struct vgpu_extent from, uint64_t to);
int gpuiov_memory_busy(struct vgpu_driver *d, bool *failed);
int gpuiov_look_for_violations(struct vgpu_driver *d, vgpu_nsec now);
int gpuiov_memory_read(struct vgpu_driver *d, uint64_t offset, void *data, uint32_t size);

int gpuiov_fd(const struct vgpu_driver *d);
vgpu_nsec gpuiov_deadline(const struct vgpu_driver *d);
int gpuiov_dispatch(struct vgpu_driver *d, vgpu_nsec now);

static inline void gpuiov_emit(struct vgpu_driver *d, enum vgpu_event_type type, uint32_t vf,
			       uint32_t code, int64_t value, vgpu_nsec now)
{
	d->sink(d->data, &(struct vgpu_event){
				 .now = now, .type = type, .vf = vf, .code = code, .value = value});
}

#endif
