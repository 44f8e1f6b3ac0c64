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
#include "page.h"
#include "pci.h"
#include "softgpu.h"

#define CONFIG_SIZE PCI_CONFIG_SIZE

/* What SAVE writes and LOAD verifies; the image means something to the VF's process alone. */
struct saved {
	uint64_t magic, vf, serial;
	uint8_t image[VF_IMAGE_SIZE];
	uint64_t checksum;
};

enum context_state { CONTEXT_NONE = 0, CONTEXT_LOADED, CONTEXT_SAVED };

/* One direction of a mailbox. */
struct channel {
	uint32_t words[4];
	bool valid, acked;
};

struct leaving;
struct link;
struct local;

/* What a VF's partition, or its window, lies in. Its owner maps it, and may keep it locked for ever
 * (fallocate, or a write from memory that is never there): so the device writes it by its own
 * mapping, which needs no lock of the file, and gives it back by a process. The filler alone
 * unmaps.
 */
struct memory_file {
	struct memory_file *next;
	int fd, vf;
	uint8_t *map;
	uint64_t size;
};

struct vf {
	uint64_t fb_offset, fb_size; /* as the table says */
	struct memory_file *file;    /* NULL: no memory */
	uint64_t *page_hashes;	     /* of what was last copied to host memory; 0: nothing yet */
	uint8_t *pages_back;	     /* whether it has come back as it went */
	struct link *link;	     /* to the VF's process */
	struct local *local;	     /* its client, where the carrier is one; else NULL */

	bool renew; /* the memory, as soon as the VF has been reset */

	enum context_state state;
	bool busy; /* as VM_BUSY has it */

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
	uint32_t intr_enable, intr_status, reset_notification, gates[VF_GATES], mbox_index,
		mbox_int;
	uint32_t context_reg, hang_info, dropped, gate_drops;
	uint32_t violators, violations;
	uint32_t fb_entries[SOFTGPU_MAX_VFS]; /* of the memory table, as they are in force */
	uint32_t hvvm_vf, hvvm_waits;	      /* which VF DW0 is about; VFs whose queues drained */
	uint64_t fill_offset, fill_size, copy_from;
	uint64_t host_base, host_size;
	uint32_t fill_status;
	bool fill_copies;
	int giving_back;		 /* whose file the filler gives back now; -1: none */
	struct memory_file *discarded;	 /* of no VF any more: the filler gives them back */
	uint64_t drop_offset, drop_size; /* of the PF's file: hidden by a VF that was moved there */
	struct command command;
	uint64_t serial;
	struct vf vfs[SOFTGPU_MAX_VFS];

	/* interrupts to deliver when the lock is given up */
	uint32_t irqs_pf;
	bool vfs_changed;
	uint32_t vfs_changing;		      /* calls of the carrier's vfs_changed under way */
	vgpu_nsec busy_irq_at, busy_irq_last; /* moderation */
	vgpu_nsec gpu_reset_at;
	vgpu_nsec ask_at; /* VF processes whether they are there */

	struct leaving *leaving; /* processes that are on their way out */
	struct workers *workers; /* NULL: VF processes compute by themselves */
	pthread_t sequencer, filler;
	uint32_t n_threads; /* of these, in this order, that run */
	pthread_cond_t sequencer_cond, filler_cond;
	pthread_cond_t links_cond; /* a VF process has started, or is gone */
	bool quit;

	int running; /* the VF that may execute, or -1 */
};

void softgpu_lock(struct softgpu *gpu);
/* Gives the lock up, and delivers what has come up meanwhile. */
void softgpu_unlock(struct softgpu *gpu);
uint64_t softgpu_random(struct softgpu *gpu);

/* pci_pf.c */
void pci_build_pf(struct softgpu *gpu);

/* registers.c */
void registers_config_read(struct softgpu *gpu, uint32_t offset, void *data, uint32_t size);
void registers_config_write(struct softgpu *gpu, uint32_t offset, const void *data, uint32_t size);
uint32_t registers_mmio_read(struct softgpu *gpu, uint32_t offset);
void registers_mmio_write(struct softgpu *gpu, uint32_t offset, uint32_t value);
void raise_pf(struct softgpu *gpu, uint32_t vector, uint32_t bits);
/* What the VF's process says of its side of the mailbox. */
void registers_heard_message(struct softgpu *gpu, int vf, bool valid, const uint32_t words[4]);
void registers_heard_acknowledgement(struct softgpu *gpu, int vf);

/* memory.c */
int memory_create(struct softgpu *gpu, struct vgpu_error *err);
void memory_destroy(struct softgpu *gpu);
bool memory_set_partition(struct softgpu *gpu, int vf, uint64_t offset, uint64_t size);
void memory_renew(struct softgpu *gpu, int vf);
uint32_t memory_overlaps(const struct softgpu *gpu);
void memory_access(struct softgpu *gpu, uint64_t offset, void *data, uint64_t size, bool write);
/* A VF has reached out of its memory N times, by a packet or through its window. */
void memory_violated(struct softgpu *gpu, int vf, uint32_t n);
/* Reads or writes SIZE bytes of a VF's file; what cannot be read reads as ones. */
void memory_transfer(const struct memory_file *file, uint64_t at, void *data, uint64_t size,
		     bool write);
/* Whether a file that VF had is still to be given back: until then the VF is not served. */
bool memory_holds(const struct softgpu *gpu, int vf);
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
void engine_run(struct softgpu *gpu, int vf);
/* Asks whoever executes to let go; true if it has already. Else command_engine_stopped() follows.
 */
bool engine_stop(struct softgpu *gpu, bool kill);
/* Nobody executes when this returns: whoever did is killed. */
void engine_stop_now(struct softgpu *gpu);
/* The VF that runs has stopped, or its process is gone. */
void engine_stopped(struct softgpu *gpu);

/* faults.c */
vgpu_nsec latency_draw(struct softgpu *gpu, enum softgpu_timed what);
const struct softgpu_fault *fault_strikes(struct softgpu *gpu, enum softgpu_fault_kind kind, int vf,
					  int command);

#endif
