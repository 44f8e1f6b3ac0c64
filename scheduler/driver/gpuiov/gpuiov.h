/* SPDX-License-Identifier: MIT */
/*
 * The GPU-IOV driver: the PF of an AMD SR-IOV GPU, or of softgpu. registers.c finds each register,
 * open.c sets a GPU up or adopts it, commands.c carries actions out, plan.c
 * programs GPUs that schedule themselves, dispatch.c finds out what happened, place.c partitions,
 * clears and copies.
 */
#pragma once

#include "vfio/device.h"
#include "softgpu/registers.h"
#include "vfio/gpuiov.h"
#include "vfio/host_memory.h"
#include "vgpu/driver.h"

/* Number of the device's descriptor in the epoll set, after the vectors. */
#define GPUIOV_DEVICE GPUIOV_PF_VECTORS

/* The commands in flight: the first DONE of the N orders have been answered. */
struct gpuiov_pending {
	bool active;
	struct vgpu_order orders[VGPU_CHAIN];
	uint32_t n, done;
	vgpu_nsec issued;
	vgpu_nsec poll_at;
	uint32_t polls;
	bool interrupts; /* reports its end by an interrupt */
};

struct vgpu_driver {
	struct vgpu_driver_config config;
	struct vfio_device *device;
	const struct gpuiov_layout *layout;
	const char *model; /* static */
	uint16_t sriov, cap, block;
	uint16_t decode;		 /* the memory bit of its PCI command register */
	struct vgpu_partition partition; /* as in the GPU's table */
	uint64_t memory;		 /* GPU memory, bytes; higher addresses are host memory */
	struct vfio_host_memory host;
	vgpu_event_sink *sink;
	void *data;

	/* The status page, or NULL; and the GPU's count of commands once it has taken all of this
	 * driver's. */
	const _Atomic uint32_t *page;
	uint32_t taken;

	bool expels;	/* the GPU ends VFs' clients when it is asked */
	bool schedules; /* the GPU gives VFs the engine by itself */
	struct {
		bool active; /* not answered yet */
		int error;   /* 0; -EIO: the GPU has refused the last one */
		vgpu_nsec began, look_at;
		struct vgpu_program applied;
	} plan;

	int epoll, vectors[GPUIOV_PF_VECTORS];
	struct gpuiov_pending command;
	uint8_t slow[VGPU_CMD_COUNT]; /* number of further commands of a kind that use interrupts */
	bool kills;    /* the GPU kills long work to stop it, and can tell that there is some */
	uint32_t busy; /* bitmaps by VF, from here on */
	uint32_t told; /* guests' resets that this round has reported in place of a command */
	uint32_t resetting; /* requested by vgpud */
	uint32_t gates[3];
	uint32_t late[VGPU_GPU_MAX_VFS]; /* number of late stops of each VF, as last reported */
	uint32_t up;			 /* guest drivers that are up, on GPUs that schedule */
	uint32_t overlaps;		 /* VFs whose partitions overlap, as last reported */
	bool counts, has_counted;	 /* the GPU counts VFs' CPU time; SPENT is new */
	struct vgpu_spent spent;
	vgpu_nsec spent_at; /* time of the next reading */
	bool gpu_resetting;
	uint32_t gpu_reset_vf;
	vgpu_nsec look_at; /* time of the next full check */
	vgpu_nsec look_takes, put_off_to;
	vgpu_nsec planned;  /* time of the next command, as announced by the engine */
	vgpu_nsec check_at; /* the next check of the device itself */
	vgpu_nsec slow_at;  /* time of the next check of resets */
};

/* Access a register of the layout, in its width of 1 to 4 bytes. Return 0 or -errno. */
int gpuiov_read(struct vgpu_driver *d, enum gpuiov_register reg, uint32_t *value);
int gpuiov_write(struct vgpu_driver *d, enum gpuiov_register reg, uint32_t value);
bool gpuiov_has(const struct vgpu_driver *d, enum gpuiov_register reg);
/* Finds a register. */
void gpuiov_place(const struct vgpu_driver *d, enum gpuiov_register reg, uint32_t *region,
		  uint64_t *offset);
/* Reads bitmaps of the VFs with a reset in progress, and of those whose reset has ended since the
 * last acknowledgement. In this order, a reset that ends between the two reads is in both bitmaps;
 * in the other order it would be in neither, and look failed. Returns 0 or -errno. */
int gpuiov_read_resets(struct vgpu_driver *d, uint32_t *going_on, uint32_t *ended);
/* Reads a register of softgpu's own, in BAR 5. Returns 0 or -errno. */
int gpuiov_read_own(struct vgpu_driver *d, uint32_t offset, uint32_t *value);

/* Sets the GPU up with the configured VFs, all gates closed. ENABLE makes the VFs: vfio_set_vfs,
 * which may block, or vfio_enable_vfs, if the kernel still has them. Returns 0, or -errno with the
 * reason in ERR. */
typedef int gpuiov_enable(struct vfio_device *device, uint32_t n, struct vgpu_error *err);
int gpuiov_bring_up(struct vgpu_driver *d, gpuiov_enable *enable, struct vgpu_error *err);

/* Issues N orders, as the operation of the face `switched` in vgpu/driver.h. */
int gpuiov_commands(struct vgpu_driver *d, const struct vgpu_order *orders, uint32_t n,
		    vgpu_nsec now);
/* Checks command and status as read, and reports the answer if there is one. */
int gpuiov_command_done(struct vgpu_driver *d, uint32_t cmd, uint32_t status, vgpu_nsec now);
/* The same for commands that were issued as a chain: reads where it is. */
int gpuiov_chain_look(struct vgpu_driver *d, vgpu_nsec now);
/* A chain's status, and the time that each command took. */
struct gpuiov_progress {
	uint32_t status, took[SOFTGPU_CHAIN_LENGTH];
};
/* The same, of what was read. */
int gpuiov_chain_done(struct vgpu_driver *d, const struct gpuiov_progress *at, vgpu_nsec now);

/* page.c: maps the status page, if the GPU has one. Returns 0 or -errno. */
int gpuiov_map_page(struct vgpu_driver *d, uint32_t features);
/* Reads the status page as it was at one instant. Returns false if there is none, or if it is
 * always being written. */
bool gpuiov_read_page(const struct vgpu_driver *d, uint32_t words[SOFTGPU_STATUS_WORDS]);
int gpuiov_reset(struct vgpu_driver *d, uint32_t vf, enum vgpu_reset_level level, vgpu_nsec now);
int gpuiov_expel(struct vgpu_driver *d, uint32_t vf);
int gpuiov_gates(struct vgpu_driver *d, uint32_t vf, enum vgpu_access access);
int gpuiov_notice(struct vgpu_driver *d, uint32_t vf, enum vgpu_notice notice);

/* place.c */
/* Sets the GPU's aperture to host memory. Returns 0, or -errno; -EOPNOTSUPP: it has none. */
int gpuiov_set_aperture(struct vgpu_driver *d);
int gpuiov_read_table(struct vgpu_driver *d, struct vgpu_partition *out);
int gpuiov_place_vf(struct vgpu_driver *d, uint32_t vf, struct vgpu_extent where);
int gpuiov_clear(struct vgpu_driver *d, struct vgpu_extent where);
int gpuiov_copy(struct vgpu_driver *d, struct vgpu_extent from, uint64_t to);
int gpuiov_memory_busy(struct vgpu_driver *d, bool *failed);
int gpuiov_look_for_violations(struct vgpu_driver *d, vgpu_nsec now);
int gpuiov_memory_read(struct vgpu_driver *d, uint64_t offset, void *data, uint32_t size);

/* plan.c: GPUs that schedule themselves. Return 0 or -errno. */
int gpuiov_read_turns(struct vgpu_driver *d, struct vgpu_driver_caps *caps);
/* Reads the plan in force into plan.applied. */
int gpuiov_read_plan(struct vgpu_driver *d);
/* Lets the GPU schedule, unless it does; -EIO: it refuses. */
int gpuiov_begin_turns(struct vgpu_driver *d);
/* Reports guests' drivers that have come up or gone; finds out whether a plan is in force. */
int gpuiov_look_at_drivers(struct vgpu_driver *d, vgpu_nsec now);
/* A VF was reset: reports a hang if it did not stop, or end a window, in time. */
int gpuiov_look_at_late(struct vgpu_driver *d, uint32_t vf, vgpu_nsec now);
int gpuiov_look_at_plan(struct vgpu_driver *d, vgpu_nsec now);
int gpuiov_program(struct vgpu_driver *d, const struct vgpu_program *program, vgpu_nsec now);
int gpuiov_programmed(struct vgpu_driver *d, struct vgpu_program *applied);
int gpuiov_usage(struct vgpu_driver *d, vgpu_nsec *active, vgpu_nsec now);
int gpuiov_stop(struct vgpu_driver *d, uint32_t vf, vgpu_nsec now);

/* Operations of the driver's table, as vgpu/driver.h describes them. Engine thread. */
bool gpuiov_spent(struct vgpu_driver *d, struct vgpu_spent *out);
int gpuiov_fd(const struct vgpu_driver *d);
void gpuiov_expect(struct vgpu_driver *d, vgpu_nsec planned);
vgpu_nsec gpuiov_deadline(const struct vgpu_driver *d);
int gpuiov_dispatch(struct vgpu_driver *d, vgpu_nsec now);

static inline void gpuiov_emit(struct vgpu_driver *d, enum vgpu_event_type type, uint32_t vf,
			       uint32_t code, int64_t value, vgpu_nsec now)
{
	d->sink(d->data, &(struct vgpu_event){
				 .now = now, .type = type, .vf = vf, .code = code, .value = value});
}
