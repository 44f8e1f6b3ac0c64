/* SPDX-License-Identifier: MIT */
/*
 * Inside softgpu. One lock guards everything but the context that the engine executes, which is
 * the engine thread's between RUN and the acknowledgement of IDLE.
 */
#ifndef SOFTGPU_GPU_H
#define SOFTGPU_GPU_H

#include <pthread.h>
#include <stdatomic.h>

#include "packet.h"
#include "sha256.h"
#include "softgpu.h"

#define CONFIG_SIZE 4096u
#define BAR5_SIZE 0x40000u
#define BAR2_SIZE 0x1000u
#define BAR4_SIZE 0x1000u /* MSI-X table and pending bits */

/* A function's configuration space: its bytes, and which bits of them a write changes. */
struct pci_function {
	uint8_t bytes[CONFIG_SIZE];
	uint8_t writable[CONFIG_SIZE];
};

/* How far the packet at hand has come. It is saved and loaded as it is. */
struct job {
	struct softgpu_packet packet;
	uint64_t at; /* in units of the packet's own */
	uint64_t inner;
	uint32_t active, pad;
	union {
		uint32_t sha[8];
		float acc[256];
		struct {
			double x, y;
		} z;
	};
};

/* What SAVE writes and LOAD verifies. */
struct context {
	uint64_t magic, vf, serial;
	uint64_t ring_base, ring_size, rptr, fence_addr;
	struct job job;
	uint64_t checksum;
};

/* In the order of their registers. */
enum gate { GATE_REGISTERS = 0, GATE_DOORBELL, GATE_MEMORY, GATES };

enum context_state { CONTEXT_NONE = 0, CONTEXT_LOADED, CONTEXT_SAVED };

/* One direction of a mailbox. */
struct channel {
	uint32_t words[4];
	bool valid, acked;
};

struct vf {
	struct pci_function pci;
	uint64_t fb_offset, fb_size; /* as the table says */
	int memfd;
	uint8_t *memory; /* memory_size bytes; only the engine goes through this mapping */
	uint64_t memory_size;
	uint64_t *page_hashes; /* of what was last copied to host memory; 0: nothing yet */
	uint8_t *pages_back;   /* whether it has come back as it went */

	bool renew; /* the memory, as soon as the VF has been reset */

	enum context_state state;
	struct context live; /* the engine's while it executes this VF */
	_Atomic uint64_t wptr;
	bool busy; /* as VM_BUSY has it */
	bool dead; /* stopped with an error: no work counts */
	uint64_t error, error_at;

	uint32_t int_enable;
	struct channel to_vf, to_pf;
	vgpu_nsec reset_at; /* when the reset in progress ends, VGPU_NEVER: none */
	bool reset_waits;   /* for the engine to let go of it */
};

struct command {
	bool in_flight, hung;
	bool interrupt;
	uint32_t code;
	int vf;
	vgpu_nsec done_at; /* VGPU_NEVER: when the engine has stopped */
};

/* A file that no VF has any more. */
struct discarded {
	uint8_t *memory;
	uint64_t size;
	int fd;
};

struct softgpu {
	struct softgpu_config config;
	const struct gpuiov_layout *layout;
	const struct softgpu_carrier *carrier;
	void *opaque;
	pthread_mutex_t lock;

	struct pci_function pf;
	uint16_t sriov, cap, block;
	uint32_t enabled; /* VFs */
	bool dead;
	vgpu_nsec began; /* what events count from */
	vgpu_nsec die_at;
	int memfd; /* the PF's part; sparse, of VRAM size */
	uint64_t rng;

	/* registers */
	uint32_t cmd_dword, status, active_status;
	int active; /* VF, or -1 */
	uint32_t intr_enable, intr_status, reset_notification, gates[GATES], mbox_index, mbox_int;
	uint32_t context_reg, hang_info, dropped, gate_drops;
	uint32_t violators, violations;
	uint32_t fb_entries[SOFTGPU_MAX_VFS]; /* of the memory table, as they are in force */
	uint32_t hvvm_vf, hvvm_waits;	      /* which VF DW0 is about; VFs whose queues drained */
	uint64_t fill_offset, fill_size, copy_from;
	uint64_t host_base, host_size;
	uint32_t fill_status;
	bool fill_copies;
	struct discarded discarded[SOFTGPU_MAX_VFS]; /* to be given back by the filler */
	uint32_t n_discarded;
	uint64_t drop_offset, drop_size; /* of the PF's file: hidden by a VF that was moved there */
	struct command command;
	uint64_t serial;
	struct vf vfs[SOFTGPU_MAX_VFS];

	/* interrupts to deliver when the lock is given up */
	uint32_t irqs_pf, irqs_vf[SOFTGPU_MAX_VFS];
	bool vfs_changed;
	uint32_t vfs_changing;		      /* calls of the carrier's vfs_changed under way */
	vgpu_nsec busy_irq_at, busy_irq_last; /* moderation */
	vgpu_nsec gpu_reset_at;

	struct workers *workers; /* NULL: the engine thread computes by itself */
	pthread_t sequencer, filler, engine;
	uint32_t n_threads; /* of these, in this order, that run */
	pthread_cond_t sequencer_cond, engine_cond, stopped_cond, filler_cond;
	bool quit;

	/* engine */
	int running;	   /* the VF that it may execute, or -1 */
	bool executing;	   /* it is outside of the lock, with the VF's context */
	_Atomic bool stop; /* asked to stop at the next tile */
	_Atomic bool kill; /* ... even in the middle of what cannot be preempted */
	bool boosted;
};

void softgpu_lock(struct softgpu *gpu);
/* Gives the lock up, and delivers what has come up meanwhile. */
void softgpu_unlock(struct softgpu *gpu);
uint64_t softgpu_random(struct softgpu *gpu);

/* pci.c */
void pci_build_pf(struct softgpu *gpu);
void pci_build_vf(struct softgpu *gpu, struct vf *vf);
void pci_read(const struct pci_function *f, uint32_t offset, void *data, uint32_t size);
void pci_write(struct pci_function *f, uint32_t offset, const void *data, uint32_t size);

/* registers.c */
void registers_config_read(struct softgpu *gpu, uint32_t offset, void *data, uint32_t size);
void registers_config_write(struct softgpu *gpu, uint32_t offset, const void *data, uint32_t size);
uint32_t registers_mmio_read(struct softgpu *gpu, uint32_t offset);
void registers_mmio_write(struct softgpu *gpu, uint32_t offset, uint32_t value);
uint32_t registers_vf_read(struct softgpu *gpu, int vf, uint32_t offset);
void registers_vf_write(struct softgpu *gpu, int vf, uint32_t offset, uint32_t value);
void registers_doorbell(struct softgpu *gpu, int vf, uint64_t wptr);
void raise_pf(struct softgpu *gpu, uint32_t vector, uint32_t bits);
void raise_vf(struct softgpu *gpu, int vf, uint32_t vector);

/* memory.c */
int memory_create(struct softgpu *gpu, struct vgpu_error *err);
void memory_destroy(struct softgpu *gpu);
bool memory_set_partition(struct softgpu *gpu, int vf, uint64_t offset, uint64_t size);
void memory_renew(struct softgpu *gpu, int vf);
uint32_t memory_overlaps(const struct softgpu *gpu);
void memory_access(struct softgpu *gpu, uint64_t offset, void *data, uint64_t size, bool write);
void memory_vf_access(struct softgpu *gpu, int vf, uint64_t offset, void *data, uint64_t size,
		      bool write);
/* A VF has reached out of its memory, by a packet or through its window. */
void memory_violated(struct softgpu *gpu, int vf);
void *memory_filler(void *gpu);
/* Whether the VF's memory lies in the GPU's: else it is swapped out, and cannot be loaded. */
bool memory_is_here(const struct softgpu *gpu, const struct vf *vf);

/* swap.c: under the lock, but for the hash */
#define SWAP_PAGE 4096u
uint64_t swap_hash(const void *page);
/* The VF's memory has another size. False: there is no room for its hashes. */
bool swap_resize(struct vf *vf, uint64_t size);
/* N pages from AT in the VF's memory, with these hashes, have been copied to host memory, or come
 * from there. */
void swap_copied_out(struct vf *vf, uint64_t at, const uint64_t *hashes, uint64_t n);
void swap_copied_in(struct vf *vf, uint64_t at, const uint64_t *hashes, uint64_t n);
/* The VF's memory is out; it is in again, where the PF has copied it to. */
void swap_left(struct vf *vf);
void swap_came(struct softgpu *gpu, struct vf *vf, uint64_t offset);

/* commands.c */
void command_write(struct softgpu *gpu, uint32_t dword);
void command_engine_stopped(struct softgpu *gpu);
void command_vf_reset(struct softgpu *gpu, int vf);
void command_gpu_reset(struct softgpu *gpu);
void command_vfs_enabled(struct softgpu *gpu, uint32_t n);
void command_busy(struct softgpu *gpu, int vf, bool busy);
void *command_sequencer(void *gpu);

/* engine.c */
void *engine_thread(void *gpu);
void engine_run(struct softgpu *gpu, int vf);
/* Asks the engine to let go; true if it has already. */
bool engine_stop(struct softgpu *gpu, bool kill);
/* Makes the engine let go of everything, and waits until it has; gives the lock up meanwhile. */
void engine_stop_now(struct softgpu *gpu);
bool engine_has_work(struct softgpu *gpu, int vf);
/* What packets of the VF may reach. */
struct packet_limits engine_limits(const struct softgpu *gpu, const struct vf *vf);

/* kernels.c */
enum tile { TILE_MORE = 0, TILE_DONE = 1, TILE_ERROR = 2 };
enum tile kernel_tile(struct softgpu *gpu, int vf, struct job *job, uint64_t *error);

/* faults.c */
vgpu_nsec latency_draw(struct softgpu *gpu, enum softgpu_timed what);
const struct softgpu_fault *fault_strikes(struct softgpu *gpu, enum softgpu_fault_kind kind, int vf,
					  int command);

#endif
