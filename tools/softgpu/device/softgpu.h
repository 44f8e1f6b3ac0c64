/* SPDX-License-Identifier: MIT */
/*
 * softgpu's device library: a complete SR-IOV GPU in user space, without a bus. Whoever carries it
 * (the vfio-user front end here, a machine emulator elsewhere) forwards accesses of its functions
 * and delivers its interrupts. It computes on threads of its own.
 *
 * All calls may come from any thread, but destroy. Callbacks are made without the device's lock,
 * from the device's threads or from the thread whose access caused them.
 */
#ifndef SOFTGPU_H
#define SOFTGPU_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "vfio/gpuiov.h"
#include "vgpu/types.h"

#define SOFTGPU_PF (-1)
#define SOFTGPU_MAX_VFS 31u
#define SOFTGPU_MAX_FAULTS 16u

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
	SOFTGPU_FAULT_BRICK,	    /* it does so after a reset of the whole GPU */
	SOFTGPU_FAULT_SKIP_CLEAR,   /* it says that it has cleared memory, and has not */
};

struct softgpu_fault {
	enum softgpu_fault_kind kind;
	int vf;		    /* -1: any */
	int command;	    /* enum softgpu_timed; -1: any */
	uint32_t skip;	    /* occasions before the first */
	uint32_t count;	    /* how often; UINT32_MAX: for ever */
	uint32_t ppm;	    /* chance at each occasion, 1000000: always */
	vgpu_nsec min, max; /* how late; when to die */
};

struct softgpu_config {
	uint32_t n_vfs; /* TotalVFs, 1 to 31 */
	uint64_t vram;	/* bytes, a multiple of 16 MiB; 0: what there is, or 1 GiB */
	const struct gpuiov_layout *layout;
	struct softgpu_latency latency[SOFTGPU_TIMED];
	struct softgpu_fault faults[SOFTGPU_MAX_FAULTS];
	uint32_t n_faults;
	uint64_t seed;
	int fifo; /* SCHED_FIFO priority of the threads that answer, 0: none */
	/* What computes: NULL, a thread here; else worker processes, on "cuda", a GPU (which one:
	 * device_index, by PCI address) or "host", this CPU. WINDOW: how much of a VF's partition
	 * its owner sees then, bytes. */
	const char *device;
	uint32_t device_index;
	uint64_t window;
	vgpu_nsec kill_after; /* of a worker that does not stop */
	/* Who workers are, where this process is root's; 0: root, too. */
	uid_t worker_uid;
	gid_t worker_gid;
};

/* What the carrier provides. */
struct softgpu_carrier {
	/* MSI-X vector of a function. */
	void (*irq)(void *opaque, int fn, uint32_t vector);
	/* Between the memory of a function's client and ours. 0 or negative. */
	int (*dma)(void *opaque, int fn, uint64_t iova, void *buffer, uint64_t size,
		   bool to_client);
	/* VFs 0 .. n-1 exist from now on, and no others. */
	void (*vfs_changed)(void *opaque, uint32_t n);
	/* A listening socket for the process of VF, which becomes the device's; or -errno with one
	 * sentence. A process serves one client, and is followed by another when that has gone.
	 * NULL: the carrier itself is the client of all VFs; it then has their accesses by
	 * softgpu_read() and softgpu_write(), which wait for the VF's process, and their interrupts
	 * and DMA. */
	int (*listen)(void *opaque, int vf, struct vgpu_error *err);
};

struct softgpu_region {
	uint64_t size;
	int mmap_fd; /* -1: none; the device's */
	uint64_t mmap_size;
};

struct softgpu;

int softgpu_create(struct softgpu **out, const struct softgpu_config *config,
		   const struct softgpu_carrier *carrier, void *opaque, struct vgpu_error *err);
void softgpu_destroy(struct softgpu *gpu);

/* Bytes of GPU memory. */
uint64_t softgpu_vram(const struct softgpu *gpu);
/* What computes: a device's name. */
const char *softgpu_computes_on(const struct softgpu *gpu);

/* Accesses, by VFIO region index. Reads of what is not there give zeros, or all ones where a gate
 * is closed; writes there have no effect. */
void softgpu_region(struct softgpu *gpu, int fn, uint32_t region, struct softgpu_region *out);
void softgpu_read(struct softgpu *gpu, int fn, uint32_t region, uint64_t offset, void *data,
		  uint32_t size);
void softgpu_write(struct softgpu *gpu, int fn, uint32_t region, uint64_t offset, const void *data,
		   uint32_t size);

/* A function-level reset from the function's own side. For the PF it has no effect: a PF's reset
 * must not happen by accident; its driver asks for it by RESET_CONTROL. */
void softgpu_function_reset(struct softgpu *gpu, int fn);

/* The user of a VF has gone: the VF is reset, and its memory is replaced, so that whoever kept the
 * old mapped holds nothing that a later user writes. The PF is left as it is, for its driver to
 * come back to. */
void softgpu_function_closed(struct softgpu *gpu, int fn);

/* Parse "idle=30,save=60-120,flr=~20000/0.3" (microseconds) and "hang,cmd=idle,vf=1,skip=3"; they
 * set one or more entries of CONFIG. 0 or -EINVAL with the reason. */
int softgpu_parse_latency(struct softgpu_config *config, const char *text, struct vgpu_error *err);
int softgpu_parse_fault(struct softgpu_config *config, const char *text, struct vgpu_error *err);

#endif
