/* SPDX-License-Identifier: MIT */
/*
 * The contract of a driver: a table with faces. A face is a group of calls that a kind of GPU has.
 * The engine thread of the GPU makes all calls except probe(). All calls except open() and close()
 * return at once; what takes time is answered later, by an event from dispatch().
 *
 * When a driver goes away, its GPU continues as it is: the VF that runs keeps running. open() reads
 * the state of the GPU and adopts it; it resets nothing.
 */
#ifndef VGPU_DRIVER_H
#define VGPU_DRIVER_H

#include "vgpu/core.h"
#include "vgpu/partition.h"

struct vgpu_driver;

/* The range of a setting of a GPU's firmware, nanoseconds. */
struct vgpu_setting {
	vgpu_nsec min, max, step;
};

/* Who decides which VF is on the engine. */
enum vgpu_driver_kind {
	VGPU_DRIVER_SWITCHED = 0, /* vgpud, by commands to the GPU */
	VGPU_DRIVER_PROGRAMMED,	  /* the GPU's firmware, by a schedule that vgpud programs */
	VGPU_DRIVER_DECLARED,	  /* its vendor's scheduler, by a policy that vgpud chooses */
};

/* What the GPU can do, and what it can bound. */
struct vgpu_driver_caps {
	enum vgpu_driver_kind kind; /* the driver then has the face of that kind */
	const char *driver;	    /* the driver's name, static */
	char model[64];
	char layout[16];
	char transport[16];
	uint32_t max_vfs;
	uint64_t memory;  /* bytes */
	uint64_t host;	  /* bytes of host memory that the GPU reaches, addressed after its own */
	uint64_t granule; /* bytes */
	uint64_t context; /* bytes of its own memory in which it keeps the state of a VF */
	uint32_t reset_levels; /* bit n: enum vgpu_reset_level n */
	uint32_t chain;	       /* how many commands it takes at once */
	/* How the GPU, by its own account, stops work that does not end by itself, and how long
	 * that took when it was measured (0: it was not measured). "submission": not at all, but
	 * nothing begins after what was submitted. */
	const char *preemption; /* "tile", "block", "hard", "soft", "kill", "submission" or
				 * "unknown", static */
	vgpu_nsec preempt_typical, preempt_longest;
	uint32_t preempt_leak; /* soft: the part of the GPU that stopped work keeps, millionths */
	/* Only for GPUs whose firmware schedules. */
	struct vgpu_setting quantum, timeout;
	bool keeps_turns; /* the firmware can let the turn of a VF without work pass unused */
	bool always_keeps_turns; /* and does so whatever is programmed */
	/* No counter says what VFs use: usage() is always 0, and the policy's shares are not
	 * corrected. */
	bool no_usage;
	/* The GPU does not report whose guest driver is up: VFs look available while VMs use them.
	 */
	bool hides_guests;
	bool counts;	  /* it tells what VFs have spent */
	const char *note; /* a note for the operator about how it schedules; static, or NULL */
};

/* What a GPU with policies of its own is to do. */
struct vgpu_declaration {
	const char *policy; /* "strict", "equal" or "best-effort", static */
	vgpu_nsec slice;    /* 0: the GPU's own default */
};

/* What each VF has used of the host's CPUs, in its processes, and the pieces of work that it has
 * completed, as it counts them itself; since some instant before open(). */
struct vgpu_spent {
	vgpu_nsec cpu[VGPU_GPU_MAX_VFS];
	uint64_t jobs[VGPU_GPU_MAX_VFS];
};

struct vgpu_driver_config {
	const char *device; /* for vfio_device_open */
	const char *layout; /* register layout; NULL: detect it */
	uint32_t n_vfs;
	uint64_t pf_reserve;		  /* bytes */
	uint64_t sizes[VGPU_GPU_MAX_VFS]; /* bytes of each VF, as in vgpu/partition.h */
	enum vgpu_placement placement;
	uint64_t host;	    /* bytes of host memory, a multiple of the granule; 0: none */
	bool huge_pages;    /* host memory is made of huge pages */
	int host_node;	    /* its NUMA node; -1: the GPU's */
	vgpu_vf_set pinned; /* never swapped out */
	bool interrupts;    /* completion by interrupt; else by polling alone */
	uint32_t vgpu_type; /* number of the type that VFs of NVIDIA vGPU get; 0: what they have */
	struct vgpu_declaration declaration; /* only for a driver with that face */
	/* Only for a driver with the face `seats`: the path of a socket; and whose calls to the
	 * kernel wait for a turn: "auto", "off" or a driver of Linux. NULL: nobody's */
	const char *door, *wall;
};

/* What open() found. */
struct vgpu_driver_found {
	bool adopted; /* VFs were enabled already; else open() has enabled them */
	enum vgpu_context contexts[VGPU_GPU_MAX_VFS];
	bool driver_up[VGPU_GPU_MAX_VFS];
	struct vgpu_partition partition; /* as found on the GPU */
	struct vgpu_partition planned;	 /* as configured */
	bool host_is_new;		 /* host memory was never used */
};

/* Receives events, in their order; called from dispatch(), and from the calls below that say so. */
typedef void vgpu_event_sink(void *data, const struct vgpu_event *event);

/* What every driver has. */
struct vgpu_device_face {
	/* The most VFs that a GPU of this driver can have, and why; 0, NULL: VGPU_GPU_MAX_VFS. */
	uint32_t most_vfs;
	const char *why_no_more;

	/* Returns 1 if this driver drives DEVICE; 0 if the name belongs to another driver; -errno
	 * with the reason if the name is of this driver's kind, but it does not support that GPU.
	 * Reads only: a refused GPU keeps the host driver that it has. Any thread. */
	int (*probe)(const char *device, struct vgpu_error *err);

	/* Optional. Whether open() would take CONFIG, as far as this can be told without a change
	 * of the GPU. CAPS are an opened GPU's; or max_vfs is 0: then it may look at the GPU, and
	 * writes to CAPS what it has found. Returns 0; 1: only open() can tell, for the reason in
	 * ERR; or -errno with the reason that open() would give. Blocks. Any thread. */
	int (*check)(const struct vgpu_driver_config *config, struct vgpu_driver_caps *caps,
		     struct vgpu_error *err);
	/* Opens the GPU, and enables its VFs and partitions its memory, or adopts both as they are.
	 * Blocks. Returns 0, or -errno with the reason. */
	int (*open)(struct vgpu_driver **out, const struct vgpu_driver_config *config,
		    struct vgpu_driver_caps *caps, struct vgpu_driver_found *found,
		    vgpu_event_sink *sink, void *data, struct vgpu_error *err);
	/* Closes the GPU, which continues as it is. If the GPU is LOST, its descriptors are dropped
	 * too; else the service manager keeps them for the next vgpud. Blocks. */
	void (*close)(struct vgpu_driver *driver, bool lost);

	/* Returns a descriptor that is readable when dispatch() has something to do. */
	int (*fd)(const struct vgpu_driver *driver);
	/* Returns when dispatch() must be called even if the descriptor is not readable. */
	vgpu_nsec (*deadline)(const struct vgpu_driver *driver);
	/* Optional. Says for when the next command is planned, or VGPU_NEVER; holds until the next
	 * call. What dispatch() can put off does not delay that command. */
	void (*expect)(struct vgpu_driver *driver, vgpu_nsec planned);
	/* Reads the GPU's state, always including whether an issued command is done, and sends what
	 * has happened as events. Accesses the GPU only: it does not wait, and makes no system
	 * call, except to drain its own descriptor. Returns 0, or a negative error if the GPU is
	 * lost: -ESTALE: Linux wants the GPU back; -EREMOTEIO: the bus has reported an error;
	 * -ECONNRESET: another program has reset it; -ENODEV: it is gone, or has lost its driver.
	 */
	int (*dispatch)(struct vgpu_driver *driver, vgpu_nsec now);

	/* Only of GPUs that count. Writes what VFs had spent when dispatch() read it last, about
	 * five times a second. Returns whether that is news since the last call. */
	bool (*spent)(struct vgpu_driver *driver, struct vgpu_spent *out);

	/* Begins a reset; VGPU_EV_RESET_DONE follows when it has ended. Here and below, a negative
	 * return says that the GPU is lost. */
	int (*reset)(struct vgpu_driver *driver, uint32_t vf, enum vgpu_reset_level level,
		     vgpu_nsec now);
};

struct vgpu_order {
	uint32_t vf;
	enum vgpu_command command;
	bool unless_busy; /* of IDLE: it may be answered by VGPU_HAS_WORK */
};

/* The most commands of a world switch that can be certain at once: SAVE, LOAD, RUN. */
#define VGPU_CHAIN 3u

/* For GPUs whose worlds vgpud switches. */
struct vgpu_switched_face {
	/* Issues N commands, 1 to the GPU's `chain`, which are done one after the other. A
	 * VGPU_EV_DONE follows for each, up to the first that fails; its `now` is the instant at
	 * which the command ended if the GPU tells that, else 0. If the GPU is done at once, the
	 * events are sent before this returns. */
	int (*commands)(struct vgpu_driver *driver, const struct vgpu_order *orders, uint32_t n,
			vgpu_nsec now);
	/* Sets which registers the guest of VF may reach. */
	int (*gates)(struct vgpu_driver *driver, uint32_t vf, enum vgpu_access access);
	/* Sends a notice to the guest of VF. */
	int (*notice)(struct vgpu_driver *driver, uint32_t vf, enum vgpu_notice notice);
};

/* A schedule for a GPU's firmware: VFs have turns one after the other, for ever. Nanoseconds. */
struct vgpu_program {
	bool keep_turns; /* of VFs without work; otherwise the firmware passes those over */
	struct {
		vgpu_nsec quantum; /* length of a turn */
		vgpu_nsec timeout; /* the VF is reset if it has not stopped so long after it */
	} vfs[VGPU_GPU_MAX_VFS];
};

/* For GPUs whose firmware schedules. */
struct vgpu_programmed_face {
	/* Begins to program the whole schedule; it applies to a VF from its next turn on. -EBUSY:
	 * another one is being programmed. */
	int (*program)(struct vgpu_driver *driver, const struct vgpu_program *program,
		       vgpu_nsec now);
	/* Returns 1 while the last schedule is being programmed; 0 when it is in force, with what
	 * the GPU reports in APPLIED, which may differ from what was asked for; -EIO: the GPU has
	 * refused it or a part of it, and APPLIED is what it reports. */
	int (*programmed)(struct vgpu_driver *driver, struct vgpu_program *applied);
	/* Reads the time that each VF has spent on the engine since some instant, which may change
	 * when the GPU is reset. */
	int (*usage)(struct vgpu_driver *driver, vgpu_nsec *active, vgpu_nsec now);
	/* Ends a VF's work until its guest's driver comes up again, or the VF is reset.
	 * VGPU_EV_HANG follows if the GPU cannot. */
	int (*stop)(struct vgpu_driver *driver, uint32_t vf, vgpu_nsec now);
};

#define VGPU_RUNLISTS 64u

/* The turns that a GPU's own scheduler has given, in sums: whose a runlist is, it does not tell. */
struct vgpu_runlist {
	uint32_t id, weight;
	uint64_t turns; /* that were seen */
	vgpu_nsec run, preemption;
};

/* What a GPU with policies of its own does. */
struct vgpu_observation {
	const char *policy;  /* that it has; NULL: another one */
	vgpu_nsec slice;     /* 0: not known */
	bool waits;	     /* what was declared last is not in force */
	const char *trouble; /* why not, if it is not only for VMs that run; static, or NULL */
	const char *stale;   /* why the last look failed, so that all of this is older; or NULL */
	uint32_t running;    /* VMs' vGPUs that exist */
	uint32_t unassigned; /* of these, so many of which no VF is known */
	vgpu_vf_set up;	     /* their vGPU exists */
	vgpu_nsec wall;	     /* since open() */
	vgpu_nsec active[VGPU_GPU_MAX_VFS]; /* estimate, of percentages: the GPU worked for it */
	uint32_t n_runlists;
	struct vgpu_runlist runlists[VGPU_RUNLISTS];
};

/* For GPUs with policies of their own, of which vgpud chooses one. */
struct vgpu_declared_face {
	/* Begins to put WANT into force; observe() tells when it is. Returns 0, or -errno with the
	 * reason: the GPU cannot, or not now. */
	int (*declare)(struct vgpu_driver *driver, const struct vgpu_declaration *want,
		       struct vgpu_error *err);
	/* Writes what was observed last, if that is news since the last call. Returns whether it
	 * is. */
	bool (*observe)(struct vgpu_driver *driver, struct vgpu_observation *out);
};

/* For GPUs whose memory vgpud partitions. */
struct vgpu_memory_face {
	/* Gives a VF another partition; size 0: none. The VF must have no context, or a saved one
	 * if the partition is moved at its size. A VF whose partition is in host memory cannot be
	 * loaded. -EIO: the GPU has not accepted it, and keeps the old partition. */
	int (*place)(struct vgpu_driver *driver, uint32_t vf, struct vgpu_extent where);
	/* Begin to clear a range, or to copy one. Only one may be under way. */
	int (*clear)(struct vgpu_driver *driver, struct vgpu_extent where);
	int (*copy)(struct vgpu_driver *driver, struct vgpu_extent from, uint64_t to);
	/* Returns 1 while a clear or copy is under way; 0 when it is over, with *FAILED set to
	 * whether it failed. */
	int (*busy)(struct vgpu_driver *driver, bool *failed);
	/* Reads SIZE bytes of the GPU's memory at OFFSET. */
	int (*read)(struct vgpu_driver *driver, uint64_t offset, void *data, uint32_t size);
};

/* For GPUs whose VFs are seats of programs on the host. */
struct vgpu_seats_face {
	/* Gives the VF to the process with that number, which STARTED then (vgpu/process.h), and to
	 * its descendants, with that many bytes of memory (0: as much as was configured); process
	 * 0: to none. Its former processes end with the VF's next reset. */
	int (*give)(struct vgpu_driver *driver, uint32_t vf, uint32_t process, uint64_t started,
		    uint64_t memory);
};

/* A way to name a device in the configuration: PREFIX, then an ARGUMENT, up to a comma. */
struct vgpu_device_form {
	const char *prefix, *argument; /* "gim:", "ADDRESS" */
	const char *whose;	       /* for people: "AMD, driver gim"; NULL: nothing to add */
	/* The directory of the file that stands for such a device; "": the argument is its path;
	 * NULL: there is none. */
	const char *directory;
};

/* A driver and its faces. `device` is required; the others are NULL where its GPUs lack them. */
struct vgpu_driver_ops {
	size_t size; /* of this table, as the driver was built with */
	const char *name;
	const struct vgpu_device_form *forms; /* end at a NULL prefix; NULL: it has none to tell */
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
/* Writes the forms of all drivers, "sysfs:ADDRESS, ... or null:OPTIONS"; with WHOSE also for which
 * GPUs they are. Any thread. */
void vgpu_device_forms(char *out, size_t size, bool whose);
/* Returns the form of DEVICE, or NULL. Any thread. */
const struct vgpu_device_form *vgpu_device_form_of(const char *device);

/* Returns the driver that probes DEVICE, a name as in the configuration, successfully; NULL with
 * the reason if none does. Blocks for some milliseconds. Any thread. */
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
/* GPUs that do not exist, for tests and for measuring vgpud alone: one that vgpud switches, and one
 * that firmware schedules. */
extern const struct vgpu_driver_ops vgpu_null_driver;
extern const struct vgpu_driver_ops vgpu_null_firmware_driver;

#endif
