/* SPDX-License-Identifier: MIT */
/*
 * Gated GPUs: any GPU with a Vulkan driver. A VF is a seat: programs on the host that have it, and
 * their descendants, carry a Vulkan layer (tools/render/layer) that holds what they submit while
 * the VF's gate is shut. RUN opens the gate. IDLE shuts it, and is done when no submission that
 * passed the gate is still in flight. A reset ends the VF's processes. vgpu/gate.h describes the
 * pages that vgpud and the layer share.
 *
 * open.c opens the GPU; wall.c finds out whether submit calls also wait in the kernel; pages.c
 * makes the pages, or adopts those of a former vgpud; door.c is the thread that hands them to
 * processes; fdinfo.c is the thread that compares turns with the engine time that the kernel's
 * driver counts; workers.c is the engine thread's view of the processes; driver.c has the faces.
 *
 * The engine thread reads numbers that workers write, which may be false, and never waits for a
 * worker. The door's thread and fdinfo.c's may block, because no other thread waits for them.
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
/* On average a bell may ring once per EVERY, with up to BURST / EVERY rings at once. The engine
 * thread ignores a faster bell until the average holds again; this delays only the bell's VF. */
#define GATED_BELL_EVERY (100 * VGPU_USEC)
#define GATED_BELL_BURST (20 * VGPU_MSEC)

/* A place for a worker. The door's thread owns FREE and ENDED places, the engine thread NEW and
 * LIVE ones. */
enum gated_place { GATED_FREE = 0, GATED_NEW, GATED_LIVE, GATED_ENDED };

struct gated_worker {
	_Atomic uint32_t place;
	_Atomic uint32_t entry; /* incremented for each process that gets the place */
	_Atomic uint32_t vf, process;
	_Atomic uint64_t started; /* when the process started, clock ticks after boot */
	bool keeps_wall;	  /* the keeper of the VF's wall, which a reset does not end */
	/* The process that owned the VF when the place was taken, and its start. Owned by the
	 * door's thread. */
	uint32_t owner;
	uint64_t since;
	int fd, bell, pidfd; /* fd: the page's */
	struct gate_worker *page;
	/* Owned by the engine thread. */
	vgpu_nsec bell_at; /* until when the rings so far use up the average */
	vgpu_nsec
		rearm_at; /* when the bell goes back into the epoll set; VGPU_NEVER: it is there */
};

struct gated_seat {
	int fd, read_fd, account_fd; /* read_fd: a second descriptor of the page, read-only */
	struct gate_seat *page;
	struct gate_account *account; /* keeps its address while the driver is open */
	/* The owner for whom the account was made. Owned by the door's thread. */
	uint32_t account_of;
	uint64_t account_since;
};

/* The turns that the engine thread has given to a VF, and fdinfo.c's findings about it. */
struct gated_turns {
	_Atomic uint32_t change; /* odd: the next two are being changed */
	_Atomic vgpu_nsec open;	 /* length of all turns so far, each until its work had ended */
	_Atomic vgpu_nsec since; /* when the present turn began; 0: there is none */
	/* Engine time as the kernel's driver counts it, and the part of it beyond the turns. */
	_Atomic vgpu_nsec driver, beyond;
	_Atomic uint32_t violation;    /* to be reported: enum vgpu_violation */
	_Atomic uint32_t violation_of; /* the VF's generation, plus 1; 0: no violation */
};

/* Whether the core knows the VF's driver as up. */
enum gated_up { GATED_DOWN = 0, GATED_ASKED, GATED_READY, GATED_UP };

struct vgpu_driver {
	vgpu_event_sink *sink;
	void *data;
	uint32_t n_vfs;
	char name[64]; /* prefix of its descriptors' names in the store */
	struct gated_seat seats[VGPU_GPU_MAX_VFS];
	uint64_t sizes[VGPU_GPU_MAX_VFS]; /* memory as configured, bytes; 0: all of the GPU's */
	struct gated_worker workers[GATED_WORKERS];
	struct gated_turns turns[VGPU_GPU_MAX_VFS];
	struct gated_accounts *accounts; /* fdinfo.c's */
	pthread_t watcher;
	bool ends_beyond; /* watch = end: also reset a VF after a violation */
	int epoll;	  /* bells, pidfds, news */
	int news;	  /* eventfd to the engine thread: a new worker, or a finding of fdinfo.c */
	int call; /* eventfd to the door's thread: a worker has ended, or the driver closes */

	char door[108];
	char wall_door[108 + sizeof(GATE_WALL_DOOR)];
	char wall[16]; /* the kernel's driver whose calls the wall catches; "": no wall */
	int listener, wall_listener;
	pthread_t thread;
	bool threaded;
	_Atomic bool ends;

	/* Owned by the engine thread. */
	enum gated_up up[VGPU_GPU_MAX_VFS];
	vgpu_nsec ask_at[VGPU_GPU_MAX_VFS];
	vgpu_vf_set busy;      /* VFs that were reported to the core as having work */
	vgpu_vf_set resetting; /* VFs whose reset waits for the end of their workers */
	uint32_t stopping;     /* VF whose IDLE is to be answered, or VGPU_NO_VF */
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
/* Makes a new account for the VF if its owner has changed since the present account was made,
 * because the former owner may still have that one mapped. Returns 0 or -errno. Called by the
 * door's thread. */
int gated_renew_account(struct vgpu_driver *d, uint32_t vf);
/* Reads from the worker's pidfd which process it is, and when that started, into W. */
void gated_name_worker(struct gated_worker *w);
/* Puts the worker's descriptors into the store, or removes them. */
void gated_keep_worker(struct vgpu_driver *d, uint32_t place);
void gated_forget_worker(struct vgpu_driver *d, uint32_t place);

/* wall.c: writes to OUT the kernel's driver whose calls the GPU's wall catches, or "" if the GPU
 * has no wall. Reads /sys. Returns 0, or -errno with the reason. */
int gated_wall(const struct vgpu_driver_config *config, char out[16], struct vgpu_error *err);

/* door.c */
/* Opens the door and starts its thread. Returns 0, or -errno with the reason. */
int gated_door_open(struct vgpu_driver *d, struct vgpu_error *err);
void gated_door_close(struct vgpu_driver *d);

/* fdinfo.c */
/* Starts the thread that watches the GPU at the PCI address DEVICE. Returns 0 or -errno; -ENODEV:
 * it has no driver of DRM. */
int gated_watch_open(struct vgpu_driver *d, const char *device);
/* Wakes that thread after a worker has come. Called by the engine thread; does not wait. */
void gated_watch_new(const struct vgpu_driver *d);
/* Ends the thread. If it does not end within 200 ms, because a look takes long, detaches it; it
 * then ends, and frees its memory, after the look. */
void gated_watch_close(struct vgpu_driver *d);

/* workers.c: the engine's side. */
/* Adds a worker's bell to the epoll set. Returns 0 or -errno. Any thread may call it. */
int gated_hear(struct vgpu_driver *d, uint32_t place);
/* Adds the pidfd of a LIVE worker to the epoll set; ends the worker if that fails. */
void gated_watch(struct vgpu_driver *d, uint32_t place);
/* Reads the epoll set: makes new workers LIVE, and ended ones ENDED. */
void gated_look(struct vgpu_driver *d, vgpu_nsec now);
/* Adds bells that rang too often back to the epoll set once their pause is over. Returns when it
 * must be called next. */
vgpu_nsec gated_rearm(struct vgpu_driver *d, vgpu_nsec now);
/* Returns how many submissions of the VF have passed the gate and have not ended, as its workers
 * say. */
uint64_t gated_in_flight(const struct vgpu_driver *d, uint32_t vf);
/* Returns whether the VF has submissions, also such as wait for the gate; whether it has workers,
 * without keepers. */
bool gated_has_work(const struct vgpu_driver *d, uint32_t vf);
bool gated_has_workers(const struct vgpu_driver *d, uint32_t vf);
/* Sends SIGKILL to all workers of the VF, without keepers. */
void gated_kill(struct vgpu_driver *d, uint32_t vf);
/* Notes that nothing of the VF is in flight. From now on its wall holds all submissions until the
 * gate opens. */
void gated_seal(struct vgpu_driver *d, uint32_t vf);
/* Opens or shuts the gate of a VF. Does nothing if it is so already. */
void gated_gate(struct vgpu_driver *d, uint32_t vf, bool open);
