/* SPDX-License-Identifier: MIT */
/*
 * The contract of a driver: a table with faces, each a group of calls that a kind of GPU has. But
 * for probe() everything is called from the engine thread of its GPU, and returns at once, but for
 * open and close: what takes time is answered later, as an event from dispatch().
 *
 * A GPU goes on as it is when its driver goes away: the VF that runs keeps running. open() finds
 * out which state the GPU is in, and adopts it; it resets nothing.
 */
#ifndef VGPU_DRIVER_H
#define VGPU_DRIVER_H

#include "vgpu/core.h"
#include "vgpu/partition.h"

struct vgpu_driver;

/* What a setting of a GPU's firmware may be, nanoseconds: MIN to MAX in steps of STEP. */
struct vgpu_setting {
	vgpu_nsec min, max, step;
};

/* What the GPU can do, and what it can bound. */
struct vgpu_driver_caps {
	const char *driver; /* its name, static */
	char model[64];
	char layout[16];
	char transport[16];
	uint32_t max_vfs;
	uint64_t memory; /* bytes */
	uint64_t host; /* bytes of host memory that it reaches, at addresses that follow its own */
	uint64_t granule;
	uint32_t reset_levels; /* bit n: enum vgpu_reset_level n */
	/* How the GPU makes work stop that does not end by itself, as it says: in a word, and how
	 * long that took when it was tried (0: it was not). */
	const char *preemption; /* "tile", "block", "hard" or "kill", static */
	vgpu_nsec preempt_typical, preempt_longest;
	/* Of a GPU whose firmware schedules. */
	struct vgpu_setting quantum, timeout;
	bool keeps_turns; /* it can let the turn of a VF without work pass unused */
};

struct vgpu_driver_config {
	const char *device; /* for vfio_device_open */
	const char *layout; /* NULL: find out */
	uint32_t n_vfs;
	uint64_t pf_reserve;		  /* bytes */
	uint64_t sizes[VGPU_GPU_MAX_VFS]; /* bytes of each VF, as in vgpu/partition.h */
	enum vgpu_placement placement;
	uint64_t host;	 /* bytes of host memory, a multiple of the granule; 0: none */
	bool huge_pages; /* of them */
	int host_node;	 /* where they are; -1: on the GPU's NUMA node */
	uint32_t pinned; /* VFs that are never swapped out */
	bool interrupts; /* completion by interrupt; else by polling alone */
};

/* What open() found. */
struct vgpu_driver_found {
	bool adopted; /* VFs were enabled already; else all is new */
	enum vgpu_context contexts[VGPU_GPU_MAX_VFS];
	bool driver_up[VGPU_GPU_MAX_VFS];
	struct vgpu_partition partition; /* as it is */
	struct vgpu_partition planned;	 /* as it is configured */
	bool host_is_new;		 /* nothing was ever in host memory */
};

/* Takes events as they come; called from within dispatch() and the calls below that say so. */
typedef void vgpu_event_sink(void *data, const struct vgpu_event *event);

/* Who decides which VF is on the engine. */
enum vgpu_driver_kind {
	VGPU_DRIVER_SWITCHED = 0, /* vgpud, by commands: the GPU does as it is told */
	VGPU_DRIVER_PROGRAMMED,	  /* its firmware, by a schedule that vgpud programs */
};

/* What every driver has. */
struct vgpu_device_face {
	/* Whether it drives DEVICE: 1; 0: the name is of another driver; -errno with the reason: it
	 * knows such names, and that GPU is none of its own. Looks, and touches nothing: a GPU that
	 * is refused keeps what driver it has. Any thread. */
	int (*probe)(const char *device, struct vgpu_error *err);

	/* Opens the GPU, enables its VFs and partitions its memory, or adopts it. Blocks. 0 or
	 * -errno with the reason. */
	int (*open)(struct vgpu_driver **out, const struct vgpu_driver_config *config,
		    struct vgpu_driver_caps *caps, struct vgpu_driver_found *found,
		    vgpu_event_sink *sink, void *data, struct vgpu_error *err);
	/* Lets go of the GPU, which goes on as it is; of one that is LOST nothing is kept for a
	 * next life of this process. */
	void (*close)(struct vgpu_driver *driver, bool lost);

	/* Becomes readable when dispatch has something to do. */
	int (*fd)(const struct vgpu_driver *driver);
	/* When dispatch is to be called even if nothing has become readable. */
	vgpu_nsec (*deadline)(const struct vgpu_driver *driver);
	/* Looks at the GPU and hands out what has happened, by accesses to the GPU alone: it waits
	 * for nothing, and asks nothing of the kernel. Always also whether a command that was
	 * issued is done. Beside plain loss: -ESTALE, the kernel wants it back; -EREMOTEIO, the bus
	 * has reported an error; -ECONNRESET, others have reset it. */
	int (*dispatch)(struct vgpu_driver *driver, vgpu_nsec now);

	/* Begins a reset, of which VGPU_EV_RESET_DONE tells the end. Negative: the GPU is gone
	 * (here and below). */
	int (*reset)(struct vgpu_driver *driver, uint32_t vf, enum vgpu_reset_level level,
		     vgpu_nsec now);
};

/* What a GPU has whose worlds vgpud switches. */
struct vgpu_switched_face {
	/* Issues a command. If it is done at once, its VGPU_EV_DONE comes before this returns. */
	int (*command)(struct vgpu_driver *driver, uint32_t vf, enum vgpu_command command,
		       vgpu_nsec now);
	int (*gates)(struct vgpu_driver *driver, uint32_t vf, enum vgpu_access access);
	int (*notice)(struct vgpu_driver *driver, uint32_t vf, enum vgpu_notice notice);
};

/* A schedule of a GPU's firmware: VFs have turns one after the other, for ever. Times are
 * nanoseconds. */
struct vgpu_program {
	bool keep_turns; /* of VFs without work; else those are passed over */
	struct {
		vgpu_nsec quantum; /* how long a turn is */
		vgpu_nsec
			timeout; /* how long the VF may take to stop at its end; then it is reset */
	} vfs[VGPU_GPU_MAX_VFS];
};

/* What a GPU has whose firmware schedules it. */
struct vgpu_programmed_face {
	/* Begins to program the whole schedule; a VF has it from its next turn on. -EBUSY: another
	 * is being programmed. */
	int (*program)(struct vgpu_driver *driver, const struct vgpu_program *program,
		       vgpu_nsec now);
	/* Whether the last one is still being programmed: 1; 0: it is in force, and APPLIED is what
	 * the GPU says it has, which need not be what it was given. */
	int (*programmed)(struct vgpu_driver *driver, struct vgpu_program *applied);
	/* How long each VF has been on the engine since some instant, which may change when the GPU
	 * is reset. */
	int (*usage)(struct vgpu_driver *driver, vgpu_nsec *active, vgpu_nsec now);
	/* Ends a VF's work, until its guest's driver comes up again. */
	int (*stop)(struct vgpu_driver *driver, uint32_t vf, vgpu_nsec now);
};

/* What a GPU has whose memory vgpud partitions. */
struct vgpu_memory_face {
	/* Gives a VF another partition, of size 0 for none: of a VF that has no context, or of one
	 * that is saved and only moves. One that lies in host memory cannot be loaded. -EIO: the
	 * GPU has not taken it, and keeps the old. */
	int (*place)(struct vgpu_driver *driver, uint32_t vf, struct vgpu_extent where);
	/* Begins to clear a range, or to copy one: one at a time, until busy() says that it is
	 * over: 1 still at work, 0 done, *FAILED: not. */
	int (*clear)(struct vgpu_driver *driver, struct vgpu_extent where);
	int (*copy)(struct vgpu_driver *driver, struct vgpu_extent from, uint64_t to);
	int (*busy)(struct vgpu_driver *driver, bool *failed);
	int (*read)(struct vgpu_driver *driver, uint64_t offset, void *data, uint32_t size);
};

/* A driver, and its faces: the first it must have, of the others those that its kind of GPU has. */
struct vgpu_driver_ops {
	size_t size; /* of this table: what the driver was built against */
	const char *name;
	enum vgpu_driver_kind kind;
	const struct vgpu_device_face *device;
	const struct vgpu_switched_face *switched;
	const struct vgpu_programmed_face *programmed;
	const struct vgpu_memory_face *memory;
};

/* The registry: all drivers, and NULL. */
extern const struct vgpu_driver_ops *const vgpu_drivers[];

/* The driver of DEVICE, a name as it is configured, by probe(); NULL with the reason. Blocks for
 * some milliseconds. Any thread. */
const struct vgpu_driver_ops *vgpu_driver_for(const char *device, struct vgpu_error *err);

/* GPU-IOV: softgpu */
extern const struct vgpu_driver_ops vgpu_gpuiov_driver;
/* No GPU at all: of the kind that vgpud switches, and of the one that firmware schedules */
extern const struct vgpu_driver_ops vgpu_null_driver;
extern const struct vgpu_driver_ops vgpu_null_firmware_driver;

#endif
