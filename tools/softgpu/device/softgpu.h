/* SPDX-License-Identifier: MIT */
/*
 * softgpu's device library: a complete SR-IOV GPU in user space, without a bus. Its carrier (the
 * vfio-user front end here, a machine emulator elsewhere) forwards accesses to its functions and
 * delivers its interrupts. VFs compute in processes of their own.
 *
 * Any thread may make all calls except softgpu_create() and softgpu_destroy(). Callbacks are made
 * without the device's lock, from the device's threads or from the thread whose access caused them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "softgpu/registers.h"
#include "softgpu/packets.h"
#include "vfio/gpuiov.h"
#include "vgpu/types.h"

#define SOFTGPU_PF (-1)
#define SOFTGPU_MAX_VFS 31u
#define SOFTGPU_MAX_FAULTS 16u
/* Twice as many as there can be processes of VFs. */
#define SOFTGPU_LEAST_USERS (4u * SOFTGPU_MAX_VFS)

/* A latency: constant (b == 0), uniform in [a, b], or lognormal with median a and sigma. */
struct softgpu_latency {
	vgpu_nsec a, b;
	double sigma;
};

enum softgpu_timed {
	SOFTGPU_T_IDLE = 0,
	SOFTGPU_T_SAVE,
	SOFTGPU_T_LOAD,
	SOFTGPU_T_RUN,
	SOFTGPU_T_INIT,
	SOFTGPU_T_SHUTDOWN,
	SOFTGPU_T_CONFIG,
	SOFTGPU_T_FLR,
	SOFTGPU_T_GPU_RESET,
	SOFTGPU_TIMED,
};

enum softgpu_fault_kind {
	SOFTGPU_FAULT_HANG = 0,	    /* a command never ends */
	SOFTGPU_FAULT_LATE_IDLE,    /* IDLE is acknowledged late */
	SOFTGPU_FAULT_LOSE_IRQ,	    /* an interrupt of the PF is lost */
	SOFTGPU_FAULT_REFUSE_RESET, /* a VF reset has no effect */
	SOFTGPU_FAULT_DIE,	    /* the device stops answering: all ones */
	SOFTGPU_FAULT_BRICK,	    /* the same, after a reset of the whole GPU */
	SOFTGPU_FAULT_SKIP_CLEAR,   /* memory is reported as cleared, and is not */
	SOFTGPU_FAULT_REFUSE_PLAN,  /* a plan of turns is not put into force */
	SOFTGPU_FAULT_FREEZE,	    /* the VFs' counters stand still */
};

struct softgpu_fault {
	enum softgpu_fault_kind kind;
	int vf;		    /* -1: any */
	int command;	    /* enum softgpu_timed; -1: any */
	uint32_t skip;	    /* occasions to skip at first */
	uint32_t count;	    /* how often the fault happens; UINT32_MAX: no limit */
	uint32_t ppm;	    /* chance at each occasion; 1000000: always */
	vgpu_nsec min, max; /* LATE_IDLE: how late; DIE, FREEZE: when */
};

struct softgpu_config {
	uint32_t n_vfs; /* TotalVFs, 1 to 31 */
	uint64_t vram;	/* bytes, a multiple of 16 MiB; 0: the device's free memory, or 1 GiB */
	const struct gpuiov_layout *layout;
	struct softgpu_latency latency[SOFTGPU_TIMED];
	struct softgpu_fault faults[SOFTGPU_MAX_FAULTS];
	uint32_t n_faults;
	uint64_t seed;
	bool schedules; /* has a scheduler of its own, instead of world switches by the PF */
	int fifo;	/* SCHED_FIFO priority of the threads that answer the PF; 0: ordinary */
	/* What computes. NULL: the VFs' processes. "cuda" or "host": worker processes, on the GPU
	 * with the number device_index (in the order of PCI addresses), or on this CPU. WINDOW:
	 * with workers, the bytes of a partition that BAR 0 shows. */
	const char *device;
	uint32_t device_index;
	uint64_t window;
	uint64_t module_memory; /* bytes of GPU memory beside its partition that each VF's modules
				 * and the local memory of its GPU kernels may take */
	/* Bytes of the host's memory that a worker may take for its guest; 0: no limit. */
	uint64_t worker_memory;
	/* How long a worker may take to stop, if no worker starts or ends meanwhile; 0: a multiple
	 * of what the test at the start has measured. */
	vgpu_nsec kill_after;
	/* Work that cannot be stopped goes on with the shortest time slice, if it has at most this
	 * part of the GPU beside other work, per cent; 0: it is killed instead. */
	uint32_t soft_stop;
	/* The user of VF processes and workers, if this process runs as root; 0: root. Or the first
	 * of N_USERS, SOFTGPU_LEAST_USERS at least, of which each process has one of its own. */
	uid_t worker_uid;
	gid_t worker_gid;
	uint32_t n_users; /* 0: the one user */
	/* The control groups of VF processes, which must live as long as the device; or NULL. */
	struct groups *groups;
};

/* What the carrier provides. */
struct softgpu_carrier {
	/* Raises an MSI-X vector of a function. */
	void (*irq)(void *opaque, int fn, uint32_t vector);
	/* Copies between the memory of a function's client and BUFFER. 0 or negative. */
	int (*dma)(void *opaque, int fn, uint64_t iova, void *buffer, uint64_t size,
		   bool to_client);
	/* VFs 0 .. n-1 exist from now on, and no others. */
	void (*vfs_changed)(void *opaque, uint32_t n);
	/* A VF has got a client, or has lost it: softgpu_used() has changed. May be NULL. */
	void (*used)(void *opaque);
	/* Returns a listening socket for the process of VF, which becomes the device's; or -errno
	 * with one sentence. A process serves one client and ends with it; then another process is
	 * started. NULL: the carrier itself is the client of all VFs. It accesses them by
	 * softgpu_read() and softgpu_write(), which wait for the VF's process, and gets their
	 * interrupts and DMA. */
	int (*listen)(void *opaque, int vf, struct vgpu_error *err);
};

struct softgpu_region {
	uint64_t size;
	int mmap_fd; /* stays the device's; -1: the region cannot be mapped */
	uint64_t mmap_size;
};

struct softgpu;

/* Makes the device and starts its threads. CARRIER must live as long as the device; its functions
 * get OPAQUE. Returns 0 or -errno with one sentence. */
int softgpu_create(struct softgpu **out, const struct softgpu_config *config,
		   const struct softgpu_carrier *carrier, void *opaque, struct vgpu_error *err);
void softgpu_destroy(struct softgpu *gpu);

/* Returns the bytes of GPU memory. */
uint64_t softgpu_vram(const struct softgpu *gpu);
/* Returns the VFs that have a client, a mask, as their processes say. */
uint32_t softgpu_used(struct softgpu *gpu);
/* Returns the name of the device that computes. */
const char *softgpu_computes_on(const struct softgpu *gpu);

/* Accesses, by VFIO region index. A read of a missing register gives zeros, and a read behind a
 * closed gate all ones; writes there have no effect. */
void softgpu_region(struct softgpu *gpu, int fn, uint32_t region, struct softgpu_region *out);
void softgpu_read(struct softgpu *gpu, int fn, uint32_t region, uint64_t offset, void *data,
		  uint32_t size);
void softgpu_write(struct softgpu *gpu, int fn, uint32_t region, uint64_t offset, const void *data,
		   uint32_t size);

/* A function-level reset by the function's client. It has no effect on the PF, whose reset must not
 * happen by accident: the PF's driver requests it by RESET_CONTROL. */
void softgpu_function_reset(struct softgpu *gpu, int fn);

/* The client of a VF has gone: the VF is reset and its memory replaced, so that old mappings do not
 * show what a later client writes. The PF stays as it is, for its driver to come back to. */
void softgpu_function_closed(struct softgpu *gpu, int fn);

/* Parse "idle=30,save=60-120,flr=~20000/0.3" (microseconds) and "hang,cmd=idle,vf=1,skip=3" into
 * CONFIG. Returns 0 or -EINVAL with the reason. */
int softgpu_parse_latency(struct softgpu_config *config, const char *text, struct vgpu_error *err);
int softgpu_parse_fault(struct softgpu_config *config, const char *text, struct vgpu_error *err);
