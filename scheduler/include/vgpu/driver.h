/* SPDX-License-Identifier: MIT */
/*
 * The contract of a driver: a table with faces. A face is a group of calls that one kind of GPU
 * supports. The engine thread of the GPU makes all calls except probe(). All calls except open()
 * and close() return at once; dispatch() reports the outcome of longer operations as events.
 *
 * A GPU keeps its state when its driver is closed: a running VF keeps running. open() reads the
 * state of the GPU and adopts it; it resets nothing.
 */
#pragma once

#include "vgpu/core.h"
#include "vgpu/partition.h"

struct vgpu_driver;

/* The range of a firmware setting, nanoseconds. */
struct vgpu_setting {
	vgpu_nsec min, max, step;
};

/* The party that decides which VF is on the engine. */
enum vgpu_driver_kind {
	VGPU_DRIVER_SWITCHED = 0, /* vgpud, by commands to the GPU */
	VGPU_DRIVER_PROGRAMMED,	  /* the GPU's firmware, by a schedule that vgpud programs */
	VGPU_DRIVER_DECLARED,	  /* the GPU vendor's scheduler, by a policy that vgpud chooses */
};

/* The capabilities of a GPU. */
struct vgpu_driver_caps {
	enum vgpu_driver_kind kind; /* the driver has the face of that kind */
	const char *driver;	    /* the driver's name, static */
	char model[64];
	char layout[16];
	char transport[16];
	uint32_t max_vfs;
	uint64_t memory;  /* bytes */
	uint64_t host;	  /* bytes of host memory that the GPU can address, after its own memory */
	uint64_t granule; /* bytes */
	uint64_t context; /* bytes of the GPU's own memory that hold the state of one VF */
	uint32_t reset_levels; /* bit n: enum vgpu_reset_level n */
	uint32_t chain;	       /* largest number of commands in flight */
	/* How the GPU reports that it stops endless work, and how long that took when measured (0:
	 * not measured). "submission": it cannot stop submitted work, but starts no further
	 * work. */
	const char *preemption; /* "tile", "block", "hard", "soft", "kill", "submission" or
				 * "unknown", static */
	vgpu_nsec preempt_typical, preempt_longest;
	uint32_t preempt_leak; /* preemption "soft": the fraction of the GPU that stopped work
				  keeps, millionths */
	/* Only for GPUs whose firmware schedules. */
	struct vgpu_setting quantum, timeout;
	bool keeps_turns;	 /* the firmware can leave the turn of a VF without work unused */
	bool always_keeps_turns; /* the firmware always does so */
	/* No counter shows the VFs' use of the engine: usage() is always 0, and the policy's shares
	 * are not corrected. */
	bool no_usage;
	/* The GPU does not report whose guest driver is up: VFs look available while VMs use them.
	 */
	bool hides_guests;
	bool counts;	  /* spent() tells host CPU time and jobs */
	bool watches;	  /* spent() tells what the kernel's driver counts for VFs */
	const char *note; /* a note for the operator about the GPU's scheduling; static, or NULL */
};

/* The policy that a GPU with a scheduler of its own is to apply. */
struct vgpu_declaration {
	const char *policy; /* "strict", "equal" or "best-effort", static */
	vgpu_nsec slice;    /* 0: the GPU's own default */
};

/* The host CPU time of each VF's processes, and the work items that each VF reports as completed;
 * both counted since some instant before open(). */
struct vgpu_spent {
	vgpu_nsec cpu[VGPU_GPU_MAX_VFS];
	uint64_t jobs[VGPU_GPU_MAX_VFS];
	/* Engine time as the kernel's driver counts it, and the part beyond the VF's turns. */
	vgpu_nsec driver[VGPU_GPU_MAX_VFS], beyond[VGPU_GPU_MAX_VFS];
};

/* What is done with VFs whose processes compute past their gate, as the kernel counts. */
enum vgpu_watch { VGPU_WATCH_OFF = 0, VGPU_WATCH_COUNT, VGPU_WATCH_END };

struct vgpu_driver_config {
	const char *device; /* the device's name for vfio_device_open */
	const char *layout; /* register layout; NULL: detect it */
	uint32_t n_vfs;
	uint64_t pf_reserve;		  /* bytes */
	uint64_t sizes[VGPU_GPU_MAX_VFS]; /* bytes of each VF, as in vgpu/partition.h */
	enum vgpu_placement placement;
	uint64_t host;	    /* bytes of host memory, a multiple of the granule; 0: none */
	bool huge_pages;    /* back host memory with huge pages */
	int host_node;	    /* NUMA node of the host memory; -1: the GPU's */
	vgpu_vf_set pinned; /* VFs that are never swapped out */
	bool interrupts;    /* use interrupts for completion, else polling alone */
	uint32_t vgpu_type; /* number of the NVIDIA vGPU type to give to VFs; 0: keep the present
			       type */
	struct vgpu_declaration declaration; /* only for a driver with that face */
	/* Only for a driver with the face `seats`: the path of its socket (NULL: none), and the
	 * wall: "auto", "off" or a driver of Linux. */
	const char *door, *wall;
	enum vgpu_watch watch; /* likewise */
};

/* The state that open() found. */
struct vgpu_driver_found {
	bool adopted; /* VFs were enabled already; else open() has enabled them */
	enum vgpu_context contexts[VGPU_GPU_MAX_VFS];
	bool driver_up[VGPU_GPU_MAX_VFS];
	struct vgpu_partition partition; /* as found on the GPU */
	struct vgpu_partition planned;	 /* as configured */
	bool host_is_new;		 /* host memory was never used */
};

/* Receives events in order. A driver calls it from dispatch(), and from the calls below that say
 * so. */
typedef void vgpu_event_sink(void *data, const struct vgpu_event *event);

/* The calls that every driver has. */
struct vgpu_device_face {
	/* The largest number of VFs that a GPU of this driver can have, and the reason; 0, NULL:
	 * VGPU_GPU_MAX_VFS. */
	uint32_t most_vfs;
	const char *why_no_more;

	/* Returns 1 if this driver drives DEVICE; 0 if the name belongs to another driver; -errno
	 * with the reason if the name belongs to this driver, which does not support that GPU. Only
	 * reads: a refused GPU keeps its present host driver. Any thread. */
	int (*probe)(const char *device, struct vgpu_error *err);

	/* Optional. Returns whether open() would accept CONFIG, as far as the driver can tell
	 * without changing the GPU. CAPS are those of an open GPU; with max_vfs 0, the driver may
	 * read the GPU and writes its capabilities to CAPS. Returns 0; 1: only open() can tell, for
	 * the reason in ERR; or -errno with the reason that open() would give. Blocks. Any
	 * thread. */
	int (*check)(const struct vgpu_driver_config *config, struct vgpu_driver_caps *caps,
		     struct vgpu_error *err);
	/* Opens the GPU. Enables its VFs and partitions its memory, or adopts both as found.
	 * Blocks. Returns 0, or -errno with the reason. */
	int (*open)(struct vgpu_driver **out, const struct vgpu_driver_config *config,
		    struct vgpu_driver_caps *caps, struct vgpu_driver_found *found,
		    vgpu_event_sink *sink, void *data, struct vgpu_error *err);
	/* Closes the GPU, which keeps its state. If the GPU is LOST, its descriptors are closed
	 * too; otherwise the service manager keeps them for the next vgpud. Blocks. */
	void (*close)(struct vgpu_driver *driver, bool lost);

	/* Returns a descriptor that is readable when dispatch() has something to do. */
	int (*fd)(const struct vgpu_driver *driver);
	/* Returns when dispatch() must be called even if the descriptor is not readable. */
	vgpu_nsec (*deadline)(const struct vgpu_driver *driver);
	/* Optional. Announces the instant of the next planned command, or VGPU_NEVER; valid until
	 * the next call. dispatch() defers work that would delay that command. */
	void (*expect)(struct vgpu_driver *driver, vgpu_nsec planned);
	/* Reads the GPU's state, always including whether an issued command is done, and sends all
	 * changes as events. Accesses the GPU only: it does not wait, and makes no system call,
	 * except to drain its own descriptor. Returns 0, or a negative error if the GPU is lost:
	 * -ESTALE: Linux requests the GPU back; -EREMOTEIO: the bus has reported an error;
	 * -ECONNRESET: another program has reset it; -ENODEV: it is gone, or has lost its
	 * driver. */
	int (*dispatch)(struct vgpu_driver *driver, vgpu_nsec now);

	/* Only if caps.counts or caps.watches is set. Writes the VFs' totals as dispatch() last
	 * read them, about five times a second. Returns whether they are newer than in the last
	 * call. */
	bool (*spent)(struct vgpu_driver *driver, struct vgpu_spent *out);

	/* Begins a reset; VGPU_EV_RESET_DONE follows when it has ended. Here and below, a negative
	 * return means that the GPU is lost. */
	int (*reset)(struct vgpu_driver *driver, uint32_t vf, enum vgpu_reset_level level,
		     vgpu_nsec now);
	/* Optional: for VFs that are used by connections, which can be passed on. Ends the
	 * connections of a VF that nobody has any more. */
	int (*expel)(struct vgpu_driver *driver, uint32_t vf);
};

struct vgpu_order {
	uint32_t vf;
	enum vgpu_command command;
	bool unless_busy; /* for IDLE: the GPU may answer VGPU_HAS_WORK */
};

/* The largest number of commands of a world switch that can be in flight at once: SAVE, LOAD,
 * RUN. */
#define VGPU_CHAIN 3u

/* For GPUs that vgpud switches between VFs. */
struct vgpu_switched_face {
	/* Issues N commands, 1 to the GPU's `chain`, which the GPU executes one after the other. A
	 * VGPU_EV_DONE follows for each, up to the first failure; its `now` is the instant at which
	 * the command ended if the GPU reports that, else 0. If the GPU is done at once, the driver
	 * sends the events before it returns. */
	int (*commands)(struct vgpu_driver *driver, const struct vgpu_order *orders, uint32_t n,
			vgpu_nsec now);
	/* Sets which registers the guest of VF may reach. */
	int (*gates)(struct vgpu_driver *driver, uint32_t vf, enum vgpu_access access);
	/* Sends a notice to the guest of VF. */
	int (*notice)(struct vgpu_driver *driver, uint32_t vf, enum vgpu_notice notice);
};

/* A schedule for a GPU's firmware, which gives the VFs turns in a cycle. Nanoseconds. */
struct vgpu_program {
	bool keep_turns; /* keep the turns of VFs without work; otherwise the firmware skips them */
	struct {
		vgpu_nsec quantum; /* length of a turn */
		vgpu_nsec timeout; /* the firmware resets a VF that has not stopped this long after
				      its turn */
	} vfs[VGPU_GPU_MAX_VFS];
};

/* For GPUs whose firmware schedules. */
struct vgpu_programmed_face {
	/* Begins to program the whole schedule, which applies to each VF from its next turn.
	 * -EBUSY: another schedule is being programmed. */
	int (*program)(struct vgpu_driver *driver, const struct vgpu_program *program,
		       vgpu_nsec now);
	/* Returns 1 while the last schedule is being programmed; 0 when it is in force, with the
	 * GPU's own report in APPLIED, which may differ from the request; -EIO: the GPU has refused
	 * some of it, and APPLIED is the GPU's report. */
	int (*programmed)(struct vgpu_driver *driver, struct vgpu_program *applied);
	/* Reads each VF's time on the engine, counted from some instant, which a reset of the GPU
	 * may change. */
	int (*usage)(struct vgpu_driver *driver, vgpu_nsec *active, vgpu_nsec now);
	/* Ends a VF's work until its guest's driver comes up again, or the VF is reset.
	 * VGPU_EV_HANG follows if the GPU fails to do so. */
	int (*stop)(struct vgpu_driver *driver, uint32_t vf, vgpu_nsec now);
};

#define VGPU_RUNLISTS 64u

/* Sums of the turns that a GPU's own scheduler has given. It does not report which VF owns a
 * runlist. */
struct vgpu_runlist {
	uint32_t id, weight;
	uint64_t turns; /* observed turns */
	vgpu_nsec run, preemption;
};

/* The observed state of a GPU with policies of its own. */
struct vgpu_observation {
	const char *policy;  /* the policy in force; NULL: an unknown one */
	vgpu_nsec slice;     /* 0: unknown */
	bool waits;	     /* the last declaration is not in force yet */
	const char *trouble; /* why not, unless only running VMs prevent it; static, or NULL */
	const char *stale;   /* why the last query failed, so that this state is older; or NULL */
	uint32_t running;    /* number of running VMs' vGPUs */
	uint32_t unassigned; /* of these, the vGPUs whose VF is unknown */
	vgpu_vf_set up;	     /* VFs that have a vGPU */
	vgpu_nsec wall;	     /* time since open() */
	vgpu_nsec active[VGPU_GPU_MAX_VFS]; /* estimated time that the GPU worked for the VF, from
					       percentages */
	uint32_t n_runlists;
	struct vgpu_runlist runlists[VGPU_RUNLISTS];
};

/* For GPUs with policies of their own, of which vgpud chooses one. */
struct vgpu_declared_face {
	/* Begins to put WANT into force; observe() reports when it is. Returns 0, or -errno with
	 * the reason: the GPU does not support it, or not now. */
	int (*declare)(struct vgpu_driver *driver, const struct vgpu_declaration *want,
		       struct vgpu_error *err);
	/* Writes the last observation and returns whether it is newer than in the last call. */
	bool (*observe)(struct vgpu_driver *driver, struct vgpu_observation *out);
};

/* For GPUs whose memory vgpud partitions. */
struct vgpu_memory_face {
	/* Gives a VF another partition; size 0: none. The VF must have no context, or a saved one
	 * if the partition is moved at its size. A VF whose partition is in host memory cannot be
	 * loaded. -EIO: the GPU has refused the new partition and keeps the old one. */
	int (*place)(struct vgpu_driver *driver, uint32_t vf, struct vgpu_extent where);
	/* Begin to clear or to copy a range. Only one such operation may be in progress. */
	int (*clear)(struct vgpu_driver *driver, struct vgpu_extent where);
	int (*copy)(struct vgpu_driver *driver, struct vgpu_extent from, uint64_t to);
	/* Returns 1 while a clear or copy is in progress; 0 when it has ended, with *FAILED set. */
	int (*busy)(struct vgpu_driver *driver, bool *failed);
	/* Reads SIZE bytes of the GPU's memory at OFFSET. */
	int (*read)(struct vgpu_driver *driver, uint64_t offset, void *data, uint32_t size);
};

/* For GPUs whose VFs are seats for host programs. */
struct vgpu_seats_face {
	/* Gives the VF to PROCESS, which has started at STARTED (vgpu/process.h), and to its
	 * descendants, with that many bytes of memory (0: the configured size). Process 0: takes
	 * the VF from its processes, which lose their devices; -EBUSY: some of them still run, and
	 * the VF's next reset ends them. */
	int (*give)(struct vgpu_driver *driver, uint32_t vf, uint32_t process, uint64_t started,
		    uint64_t memory);
};

/* A form of device name in the configuration: PREFIX, then an ARGUMENT, up to a comma. */
struct vgpu_device_form {
	const char *prefix, *argument; /* "gim:", "ADDRESS" */
	const char *whose; /* the vendor and driver, for messages: "AMD, driver gim"; NULL: none */
	/* The directory of the file that represents such a device; "": the argument is its path;
	 * NULL: there is no file. */
	const char *directory;
};

/* A driver and its faces. `device` is required; an absent face is NULL. */
struct vgpu_driver_ops {
	size_t size; /* size of this table when the driver was built */
	const char *name;
	const struct vgpu_device_form *forms; /* ends at a NULL prefix; NULL: no forms to list */
	const struct vgpu_device_face *device;
	const struct vgpu_switched_face *switched;
	const struct vgpu_programmed_face *programmed;
	const struct vgpu_declared_face *declared;
	const struct vgpu_memory_face *memory;
	const struct vgpu_seats_face *seats;
};

/* The registry: all drivers; NULL-terminated. */
extern const struct vgpu_driver_ops *const vgpu_drivers[];

#define VGPU_FORMS_SIZE 512u
/* Writes the forms of all drivers, "sysfs:ADDRESS, ... or null:OPTIONS"; with WHOSE also the GPUs
 * that each form is for. Any thread. */
void vgpu_device_forms(char *out, size_t size, bool whose);
/* Returns the form of DEVICE, or NULL. Any thread. */
const struct vgpu_device_form *vgpu_device_form_of(const char *device);

/* Returns the driver whose probe() accepts DEVICE, a name from the configuration; NULL with the
 * reason if there is none. Blocks for some milliseconds. Any thread. */
const struct vgpu_driver_ops *vgpu_driver_for(const char *device, struct vgpu_error *err);

/* GPU-IOV: softgpu. */
extern const struct vgpu_driver_ops vgpu_gpuiov_driver;
/* Intel GPUs, through the settings of the kernel's driver xe. */
extern const struct vgpu_driver_ops vgpu_xe_driver;
/* AMD GPUs, through the settings of AMD's driver GIM. */
extern const struct vgpu_driver_ops vgpu_gim_driver;
/* NVIDIA GPUs with vGPUs, through NVIDIA's licensed host driver. */
extern const struct vgpu_driver_ops vgpu_nvidia_driver;
/* Any GPU with a Vulkan driver, for programs on the host. */
extern const struct vgpu_driver_ops vgpu_gated_driver;
/* GPUs in software, for tests and for measuring vgpud alone: one that vgpud switches, and one that
 * firmware schedules. */
extern const struct vgpu_driver_ops vgpu_null_driver;
extern const struct vgpu_driver_ops vgpu_null_firmware_driver;
