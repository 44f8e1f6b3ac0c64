/* SPDX-License-Identifier: MIT */
/*
 * The inside of softgpu. One lock protects everything here. From RUN until it has stopped, a VF's
 * process owns the VF's context.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "firmware.h"
#include "packet.h"
#include "page.h"
#include "pci.h"
#include "softgpu.h"
#include "spent.h"

#define CONFIG_SIZE PCI_CONFIG_SIZE

/* What SAVE writes and LOAD verifies. Only the VF's process knows what the image means. */
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
	bool seen; /* to the PF: the PF has read this message, not only one before it */
};

/* COMING: nothing of a VF is being copied back to GPU memory. */
#define MEMORY_NOWHERE UINT64_MAX

struct doors;
struct leaving;
struct link;
struct local;

/* The file of a VF's partition, or of its window. The VF's owner maps it, and may hold its lock for
 * ever (by fallocate, or by a write from memory that is never there). So the device writes through
 * its own mapping, which needs no lock of the file, and empties the file by a process. Only the
 * filler unmaps a file. */
struct memory_file {
	struct memory_file *next;
	int fd, vf;
	uint8_t *map;
	uint64_t size;
};

struct vf {
	uint64_t fb_offset, fb_size; /* the entry of the memory table */
	struct memory_file *file;    /* NULL: no memory */
	uint64_t *page_hashes;	     /* hashes of pages copied to host memory; 0: not copied */
	uint8_t *pages_back;	     /* 1: the PF has copied the page back unchanged */
	struct link *link;	     /* to the VF's process */
	struct local *local;	     /* the carrier as the client; NULL: clients use a socket */

	/* Of a VF with a worker: how far its device memory has been copied to host memory since it
	 * ran last, and back since it left; offsets in the partition. COMING: where in GPU memory
	 * it is being copied back to. LEAVES: the filler must let the worker give it back. */
	uint64_t copied_out, copied_in, coming;
	bool leaves;
	vgpu_nsec waited; /* how long the filler has waited for its worker in this swap */
	/* COMPARED: the PF's file holds a copy of the VF's device memory, for the PF to compare.
	 * DROPS: this copy and the data copied back are obsolete; the filler must free their
	 * pages. */
	bool compared, drops;
	uint32_t told; /* reason why its memory cannot be moved now: see carry.c; 0: none */

	uid_t users[2]; /* the users of its process and its worker: see users.h */

	bool renew; /* the memory must be replaced when the VF has been reset */

	enum context_state state;
	bool busy; /* its bit of VM_BUSY */

	struct channel to_vf, to_pf;
	vgpu_nsec reset_at; /* when the reset in progress ends; VGPU_NEVER: none is */
	bool reset_waits;   /* a reset begins when the engine has stopped */
};

struct command {
	bool in_flight, hung;
	bool interrupt;
	uint32_t code;
	int vf;
	vgpu_nsec done_at; /* when its latency is over; VGPU_NEVER: it does not end */
};

/* Commands that follow each other. */
struct chain {
	bool active;
	bool cut; /* ends with the command in progress: the PF resets its VF */
	bool interrupt;
	uint32_t n, at;
	uint32_t dwords[SOFTGPU_CHAIN_LENGTH], took[SOFTGPU_CHAIN_LENGTH];
	uint32_t failed; /* status of the one that has failed */
	vgpu_nsec began; /* the one in progress */
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
	vgpu_nsec began;
	vgpu_nsec die_at;
	int memfd; /* the PF's file: memory of no VF; sparse, as large as the GPU's memory */
	uint64_t rng;

	/* registers */
	uint32_t cmd_dword, status, active_status;
	int active; /* VF, or -1 */
	uint32_t intr_enable, intr_status, reset_notification, gates[VF_GATES], mbox_index,
		mbox_int;
	uint32_t context_reg, hang_info, dropped, gate_drops;
	uint32_t violators, violations;
	uint32_t fb_entries[SOFTGPU_MAX_VFS]; /* entries of the memory table that are in force */
	uint32_t hvvm_vf, hvvm_waits;	      /* the VF in DW0; VFs whose queues drained */
	uint64_t fill_offset, fill_size, copy_from;
	uint64_t host_base, host_size;
	uint32_t fill_status;
	bool fill_copies;
	int giving_back;	       /* the VF whose old file the filler empties; -1: none */
	struct memory_file *discarded; /* old files, which the filler must empty */
	struct command command;
	struct chain chain;
	struct firmware firmware;
	uint32_t taken; /* commands and chains that were written */
	int status_fd;
	void *status_page;		      /* or NULL */
	uint32_t shown[SOFTGPU_STATUS_WORDS]; /* the words shown in it */
	uint64_t serial;
	struct vf vfs[SOFTGPU_MAX_VFS];

	/* interrupts to deliver when the lock is released */
	uint32_t irqs_pf;
	bool vfs_changed;
	uint32_t used, used_told;	      /* VFs with a client; as the carrier knows it */
	uint32_t vfs_changing;		      /* calls of the carrier's vfs_changed under way */
	vgpu_nsec busy_irq_at, busy_irq_last; /* moderation */
	vgpu_nsec gpu_reset_at;
	vgpu_nsec ask_at;      /* when to ask VF processes for an answer next */
	vgpu_nsec spent_at;    /* when to look at what they have spent next */
	vgpu_nsec loans_until; /* until when to look often whether a loan has been long enough */
	struct spent spent[SOFTGPU_MAX_VFS];
	uint64_t shown_spent[SOFTGPU_MAX_VFS][2];

	struct leaving *leaving; /* processes that have been asked to exit */
	struct doors *doors;
	uint32_t next_user;	 /* see users.h */
	struct workers *workers; /* NULL: VF processes compute by themselves */
	pthread_t sequencer, filler;
	uint32_t n_threads; /* how many of these run, in this order */
	pthread_cond_t sequencer_cond, filler_cond;
	pthread_cond_t links_cond; /* a VF process has started or ended */
	bool quit;

	int running; /* the VF that may execute, or -1 */
};

/* Takes the lock of all that GPU has. Any thread. */
void softgpu_lock(struct softgpu *gpu);
/* Releases the lock, and delivers interrupts and changes of the VFs. */
void softgpu_unlock(struct softgpu *gpu);
uint64_t softgpu_random(struct softgpu *gpu);

/* pci_pf.c */
void pci_build_pf(struct softgpu *gpu);

/* registers.c */
void registers_config_read(struct softgpu *gpu, uint32_t offset, void *data, uint32_t size);
void registers_config_write(struct softgpu *gpu, uint32_t offset, const void *data, uint32_t size);
uint32_t registers_busy(const struct softgpu *gpu); /* VM_BUSY */
uint32_t registers_mmio_read(struct softgpu *gpu, uint32_t offset);
void registers_mmio_write(struct softgpu *gpu, uint32_t offset, uint32_t value);
void raise_pf(struct softgpu *gpu, uint32_t vector, uint32_t bits);
/* Applies a change that the VF's process has made to its side of the mailbox. */
void registers_take_message(struct softgpu *gpu, int vf, bool valid, const uint32_t words[4]);
void registers_take_acknowledgement(struct softgpu *gpu, int vf);

/* partitions.c: GPU memory and its partitions */
int memory_create(struct softgpu *gpu, struct vgpu_error *err);
void memory_destroy(struct softgpu *gpu);
bool memory_set_partition(struct softgpu *gpu, int vf, uint64_t offset, uint64_t size);
void memory_renew(struct softgpu *gpu, int vf);
uint32_t memory_overlaps(const struct softgpu *gpu);
void memory_access(struct softgpu *gpu, uint64_t offset, void *data, uint64_t size, bool write);
/* Counts N attempts of a VF to access memory outside its own, by a packet or through its window. */
void memory_violated(struct softgpu *gpu, int vf, uint32_t n);
/* Reads or writes SIZE bytes of a VF's file; what cannot be read gives ones. */
void memory_transfer(const struct memory_file *file, uint64_t at, void *data, uint64_t size,
		     bool write);
/* Returns whether a file that VF had has not been emptied yet: until then the VF is not served. */
bool memory_holds(const struct softgpu *gpu, int vf);
void *memory_filler(void *gpu);
/* Returns whether the VF's memory lies in GPU memory. If not, it is in host memory, and the VF
 * cannot be loaded. */
bool memory_is_here(const struct softgpu *gpu, const struct vf *vf);
/* Must be called when the VF is about to run: copies of its memory become incomplete. */
void memory_runs(struct softgpu *gpu, struct vf *vf);

/* swap.c: called with the lock held, except swap_hash() */
#define SWAP_PAGE 4096u
uint64_t swap_hash(const void *page);
/* Notes that the VF's memory has another size. Returns false if out of memory. */
bool swap_resize(struct vf *vf, uint64_t size);
/* Notes that N pages with these hashes, from AT in the VF's memory, have been copied to host
 * memory. */
void swap_copied_out(struct vf *vf, uint64_t at, const uint64_t *hashes, uint64_t n);
/* Notes that N pages with these hashes have been copied back from host memory. */
void swap_copied_in(struct vf *vf, uint64_t at, const uint64_t *hashes, uint64_t n);
/* swap_left(): the VF's entry lies in host memory from now on. swap_came(): it lies in GPU memory
 * at OFFSET again, where the PF has copied the memory to: updates the VF's file. */
void swap_left(struct vf *vf);
void swap_came(struct softgpu *gpu, struct vf *vf, uint64_t offset);

/* status.c: the status page, if the layout has one. status_create returns 0 or -errno with the
 * reason; status_publish must be called under the lock, before interrupts are delivered. */
int status_create(struct softgpu *gpu, struct vgpu_error *err);
void status_destroy(struct softgpu *gpu);
void status_publish(struct softgpu *gpu);

/* commands.c */
void command_write(struct softgpu *gpu, uint32_t dword);
/* Begins a command of the device's own scheduler. */
void command_issue(struct softgpu *gpu, uint32_t code, int vf);
/* Takes the engine from a VF whose reset has failed. */
void command_take_away(struct softgpu *gpu, int vf);
/* Begins the commands of gpu->chain; GO: as in SOFTGPU_CHAIN_GO. */
void command_chain(struct softgpu *gpu, uint32_t go);
uint32_t command_chain_status(const struct softgpu *gpu);
void command_engine_stopped(struct softgpu *gpu);
void command_vf_reset(struct softgpu *gpu, int vf);
void command_reset_by_pf(struct softgpu *gpu, int index);
void command_gpu_reset(struct softgpu *gpu);
void command_vfs_enabled(struct softgpu *gpu, uint32_t n);
void command_busy(struct softgpu *gpu, int vf, bool busy);
void *command_sequencer(void *gpu);

/* engine.c */
void engine_run(struct softgpu *gpu, int vf);
/* Stops the VF that executes; KILL: also work that cannot be preempted. Returns true if nothing is
 * executed from now on, false if command_engine_stopped() will follow. */
bool engine_stop(struct softgpu *gpu, bool kill);
/* Stops the VF that executes, and kills its process if it does not stop at once. */
void engine_stop_now(struct softgpu *gpu);
/* Must be called when the VF that executed has stopped, or its process has ended. */
void engine_stopped(struct softgpu *gpu);

/* faults.c: draw a latency, and whether a fault happens now (NULL: none does) */
vgpu_nsec latency_draw(struct softgpu *gpu, enum softgpu_timed what);
const struct softgpu_fault *fault_happens(struct softgpu *gpu, enum softgpu_fault_kind kind, int vf,
					  int command);
