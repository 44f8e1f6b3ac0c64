/* SPDX-License-Identifier: MIT */
/*
 * Gated GPUs: any GPU with a Vulkan driver. A VF is a seat: programs on the host that have it, and
 * their descendants, carry a Vulkan layer (tools/render/layer) that holds what they submit while
 * the VF's gate is shut. RUN opens the gate. IDLE shuts it, and is done when nothing that was let
 * in is under way. A reset ends the VF's processes. vgpu/gate.h has the pages that both sides
 * share.
 *
 * open.c opens the GPU; wall.c finds out whether submit calls wait in the kernel, too; pages.c
 * makes the pages, or adopts them; door.c is the thread that hands them to processes; fdinfo.c the
 * thread that compares with what the kernel's driver counts; workers.c knows the processes;
 * driver.c has the faces.
 *
 * The engine thread reads what workers write, as numbers that may be false, and waits for none of
 * them. The door's thread and fdinfo.c's may block, because no other thread waits for them.
 */
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include "vgpu/driver.h"
#include "vgpu/gate.h"

#define GATED_PREFIX "vulkan:"
/* Processes with the layer: of one GPU, and of one VF. Each takes three descriptors. */
#define GATED_WORKERS 64u
#define GATED_OF_VF 16u
/* On average a bell may ring once per EVERY, with up to BURST / EVERY rings at once. Faster ones
 * are heard when the average holds again; only their owner loses by that. */
#define GATED_BELL_EVERY (100 * VGPU_USEC)
#define GATED_BELL_BURST (20 * VGPU_MSEC)

/* A place for a worker. FREE and ENDED ones are the door's, NEW and LIVE ones the engine's. */
enum gated_place { GATED_FREE = 0, GATED_NEW, GATED_LIVE, GATED_ENDED };

struct gated_worker {
	_Atomic uint32_t place;
	_Atomic uint32_t entry; /* another one for each process that gets the place */
	_Atomic uint32_t vf, process;
	_Atomic uint64_t started; /* the process, clock ticks after boot */
	bool keeps_wall; /* not a worker, but the keeper of the VF's wall: a reset leaves it */
	/* Of a keeper: for which owner of the VF. The door's. */
	uint32_t owner;
	uint64_t since;
	int fd, bell, pidfd; /* its page's */
	struct gate_worker *page;
	/* Owned by the engine thread. */
	vgpu_nsec bell_at;  /* when the bell would have been rung enough */
	vgpu_nsec rearm_at; /* VGPU_NEVER: the bell is heard */
};

struct gated_seat {
	int fd, read_fd, account_fd; /* read_fd: with which the page can only be read */
	struct gate_seat *page;
	struct gate_account *account; /* mapped there for as long as the driver is open */
	/* The door's: for whom the account was made. */
	uint32_t account_of;
	uint64_t account_since;
};

/* The turns of a VF, as the engine thread has given them, and what fdinfo.c has found. */
struct gated_turns {
	_Atomic uint32_t change; /* odd: the next two are being changed */
	_Atomic vgpu_nsec open;	 /* time in turns that have ended, with what was under way */
	_Atomic vgpu_nsec since; /* when the present one began; 0: there is none */
	/* Engine time as the kernel's driver counts it, and of this, beyond the turns. */
	_Atomic vgpu_nsec driver, beyond;
	_Atomic uint32_t violation;    /* enum vgpu_violation */
	_Atomic uint32_t violation_of; /* the VF's generation, plus 1; 0: there is none */
};

/* Whether the core knows the VF's driver as up. */
enum gated_up { GATED_DOWN = 0, GATED_ASKED, GATED_READY, GATED_UP };

struct vgpu_driver {
	vgpu_event_sink *sink;
	void *data;
	uint32_t n_vfs;
	char name[64]; /* of its descriptors in the store */
	struct gated_seat seats[VGPU_GPU_MAX_VFS];
	uint64_t sizes[VGPU_GPU_MAX_VFS]; /* memory as configured, bytes; 0: all that there is */
	struct gated_worker workers[GATED_WORKERS];
	struct gated_turns turns[VGPU_GPU_MAX_VFS];
	struct gated_accounts *accounts; /* fdinfo.c's */
	pthread_t watcher;
	bool ends_beyond; /* who computes past the gate, beside telling it */
	int epoll;	  /* bells, pidfds, news */
	int news;	  /* the door has a new worker */
	int call;	  /* the engine has an ended one, or the driver closes */

	char door[108];
	char wall_door[108 + sizeof(GATE_WALL_DOOR)];
	char wall[16]; /* the kernel's driver whose calls wait at a wall; "": there is none */
	int listener, wall_listener;
	pthread_t thread;
	bool threaded;
	_Atomic bool ends;

	/* Owned by the engine thread. */
	enum gated_up up[VGPU_GPU_MAX_VFS];
	vgpu_nsec ask_at[VGPU_GPU_MAX_VFS];
	vgpu_vf_set busy;      /* as the core knows */
	vgpu_vf_set resetting; /* until their workers have ended */
	uint32_t stopping;     /* IDLE of that VF is to be answered; or VGPU_NO_VF */
	vgpu_nsec look_at, spent_at;
	bool gpu_reset;
	uint32_t gpu_reset_vf;
};

/* open.c */
int gated_check(const struct vgpu_driver_config *config, struct vgpu_driver_caps *caps,
		struct vgpu_error *err);
int gated_open(struct vgpu_driver **out, const struct vgpu_driver_config *config,
	       struct vgpu_driver_caps *caps, struct vgpu_driver_found *found,
	       vgpu_event_sink *sink, void *data, struct vgpu_error *err);
void gated_close(struct vgpu_driver *d, bool lost);

/* pages.c */
/* Makes the GPU's pages, or adopts those that the store has, with their workers. 0, or -errno with
 * the reason. */
int gated_pages_open(struct vgpu_driver *d, const struct vgpu_driver_config *config,
		     struct vgpu_driver_found *found, struct vgpu_error *err);
void gated_pages_close(struct vgpu_driver *d);
/* Makes a page of zeros, sealed at its size, and maps it at *MAP. Returns its descriptor, or
 * -errno. */
int gated_make_page(const char *name, void **map);
/* Makes a new account for the VF if it has another owner than the present one was made for: a
 * former owner may still have that. Returns 0 or -errno. The door's thread. */
int gated_renew_account(struct vgpu_driver *d, uint32_t vf);
/* Notes which process the worker's pidfd is of. */
void gated_name_worker(struct gated_worker *w);
/* Puts the worker's descriptors into the store, or removes them. */
void gated_keep_worker(struct vgpu_driver *d, uint32_t place);
void gated_forget_worker(struct vgpu_driver *d, uint32_t place);

/* wall.c: whether there is a wall, and which: writes the kernel's driver to OUT, or "". Returns 0,
 * or -errno with the reason. Reads /sys. */
int gated_wall(const struct vgpu_driver_config *config, char out[16], struct vgpu_error *err);

/* door.c */
/* Opens the door and starts its thread. Returns 0, or -errno with the reason. */
int gated_door_open(struct vgpu_driver *d, struct vgpu_error *err);
void gated_door_close(struct vgpu_driver *d);

/* fdinfo.c */
/* Starts the thread that watches the GPU at the PCI address DEVICE. Returns 0 or -errno; -ENODEV:
 * it has no driver of DRM. */
int gated_watch_open(struct vgpu_driver *d, const char *device);
/* There may be a first worker. The engine's thread, which does not wait. */
void gated_watch_new(const struct vgpu_driver *d);
/* Ends the thread, or leaves it alone if a look takes long. */
void gated_watch_close(struct vgpu_driver *d);

/* workers.c: the engine's side. */
/* Hears a worker's bell. Returns 0 or -errno. Any thread. */
int gated_hear(struct vgpu_driver *d, uint32_t place);
/* Hears the end of a LIVE worker. */
void gated_watch(struct vgpu_driver *d, uint32_t place);
/* Reads the epoll set: takes new workers, and buries ended ones. */
void gated_look(struct vgpu_driver *d, vgpu_nsec now);
/* Hears bells again that were not for a while. Returns when it must be called next. */
vgpu_nsec gated_rearm(struct vgpu_driver *d, vgpu_nsec now);
/* Submissions of the VF that are under way; whether it has work; whether it has workers. */
uint64_t gated_in_flight(const struct vgpu_driver *d, uint32_t vf);
bool gated_has_work(const struct vgpu_driver *d, uint32_t vf);
bool gated_has_workers(const struct vgpu_driver *d, uint32_t vf);
void gated_kill(struct vgpu_driver *d, uint32_t vf);
/* Notes that nothing of the VF is in flight: its wall lets nothing pass until the gate opens. */
void gated_seal(struct vgpu_driver *d, uint32_t vf, vgpu_nsec now);
/* Opens or shuts the gate of a VF; nothing if it is so already. */
void gated_gate(struct vgpu_driver *d, uint32_t vf, bool open, vgpu_nsec now);
