/* SPDX-License-Identifier: MIT */
/*
 * The inside of a VF process, which serves one VF's client and executes its packets. It has three
 * threads, and with workers a fourth:
 *
 *   the first   executes packets and nothing else, because the device raises its priority between a
 *               stop and the answer
 *   server      the vfio-user server: handles the client's messages and accesses
 *   bell        applies what the device writes to the page, and raises the mailbox's interrupts
 *
 * One lock protects everything except the context while the first thread executes: then that thread
 * owns the context.
 */
#pragma once

#include <pthread.h>

#include "context.h"
#include "packet.h"
#include "page.h"
#include "pci.h"
#include "vfio/user_server.h"
#include "vgpu/types.h"

struct compute;

struct vf {
	struct vf_page *page;
	const struct gpuiov_layout *layout;
	uint64_t vram; /* bytes of the whole GPU; decides the size of BAR 0 */
	uint32_t number;
	bool has_carrier; /* the client is the carrier of the device library */
	vgpu_nsec began;  /* EVENT packets count from here */
	struct vfio_server *server;
	struct vfio_endpoint *endpoint; /* made by the bell's thread, before there are clients */
	pthread_mutex_t lock;

	/* the words of the page that have been applied */
	uint32_t context, generation, forget, orders;
	uint32_t to_vf_seen, to_pf_seen; /* mailbox serials that have raised their interrupts */
	uint32_t to_vf_read;		 /* the one that the client has seen last */

	struct pci_function pci;
	int none;  /* an empty file, which stays so */
	int memfd; /* its number stays the same; -1: there was no partition yet */
	uint8_t *memory;
	uint64_t window, size;	 /* bytes of the file; of the partition */
	struct compute *compute; /* the connection to the worker; NULL: there is none */
	bool has_worker;	 /* a worker executes packets, never this process */
	int worker_events;	 /* epoll: the eventfd of COMPUTE's worker */
	uint32_t modules;

	struct context live;
	_Atomic uint64_t wptr;
	uint32_t bell, bell_heard; /* doorbells of slots; those that the worker knows of */
	int client;		   /* its connection; -1: there is none yet */
	bool loaded, executing;
	vgpu_nsec ran, run_since; /* until the last run; since when this one lasts */
	bool failed; /* the first thread's: the last run failed, and the client must be notified */
	bool busy, dead;
	uint64_t error, error_at;
	uint64_t faults;		/* SOFTGPU_FAULTS */
	char last_words[SOFTGPU_WORDS]; /* of its worker's driver: SOFTGPU_WORDS_AT */

	uint32_t int_enable;
	uint32_t words[4]; /* words of the message to the PF */
	uint32_t to_pf;	   /* its serial; 0: there is no message */
	uint32_t to_pf_last;
};

/* orders.c */
/* Applies what the device has written to the page since the last call. Called with the lock held,
 * before anything that depends on it. */
void vf_follow(struct vf *vf);
/* Receives and applies the device's orders. Called with the lock held while nothing is executed;
 * otherwise without it, only by the first thread. */
void vf_take_orders(struct vf *vf);

/* says.c */
/* Publishes the status. Returns whether it has changed: then the device must be notified. Called
 * with the lock held. */
bool vf_publish(struct vf *vf);
/* The page has changed: vf_note() lets the device see this when it reads the page next; vf_notify()
 * also asks it to read the page now. */
void vf_note(struct vf *vf);
void vf_notify(struct vf *vf);
/* Copies between BUFFER and the client's memory. Returns 0 or -EFAULT. */
int vf_dma(const struct vf *vf, uint64_t iova, void *buffer, uint32_t size, bool to_client);
/* Returns the memory that the VF's packets may access. */
struct packet_limits vf_limits(const struct vf *vf);

/* registers.c: a client's accesses; the server has checked offset and count against the region's
 * size
 */
extern const struct vfio_server_ops registers_ops;

/* engine.c: the first thread; never returns */
void engine_loop(struct vf *vf);
/* Returns whether there are packets to execute. Called with the lock held, while nothing is
 * executed. */
bool engine_has_work(const struct vf *vf);
/* Wakes the first thread if the VF is parked and has work now. Called with the lock held. */
void engine_kick(struct vf *vf);
/* Copies the context to the image, where the device takes it. Called with the lock held, while
 * nothing is executed. */
void engine_put_image(struct vf *vf);

/* kernels.c */
enum tile { TILE_MORE = 0, TILE_DONE = 1, TILE_ERROR = 2 };
/* Runs one tile of a packet that packet_check() has accepted. On TILE_ERROR, *ERROR says why. */
enum tile kernel_tile(const struct vf *vf, struct job *job, uint64_t *error);
/* Returns whether a job's progress is possible: not beyond the end of its packet, which
 * packet_check() has accepted. */
bool kernel_job_is_valid(const struct job *job);

/* compute.c: execution by a worker */
struct compute_setup {
	int socket, shared, wake; /* the worker's descriptors; compute_create() takes them over */
	uint32_t stops;		  /* enum worker_stop */
	uint32_t stop_us;	  /* how long a hard stop takes; 0: not known */
	/* How long a stop may take; and if a worker, of any VF, starts or ends meanwhile. */
	vgpu_nsec kill_after, kill_disturbed;
};
/* Starts the thread that waits for workers. Returns 0 or -errno. */
int compute_watch(struct vf *vf);
/* Connects to a worker, with the lock. NULL: memory, a descriptor or a thread is lacking. */
struct compute *compute_create(struct vf *vf, const struct compute_setup *setup);
/* Disconnects from the worker, which then exits. C may be NULL. */
void compute_destroy(struct compute *c);
/* Returns whether the worker has started, or failed to. C may be NULL. */
bool compute_has_started(const struct compute *c);
/* Returns whether it does not wait for a compiler either. C may be NULL. */
bool compute_is_ready(const struct compute *c);
/* Returns what the worker's GPU is, without addresses; zeros until it has started. C may be NULL.
 */
struct softgpu_about compute_about(const struct compute *c);
/* Copies what the worker's driver has said last, which the worker may be writing. */
void compute_last_words(const struct compute *c, char *words, size_t room);
/* Passes the doorbells on to the worker: that of the VF's ring, and how many there were of slots.
 * With the lock. */
void compute_doorbell(struct compute *c, uint64_t wptr, uint32_t bell);
/* Executes until there is no work, or the RUN word says to stop. Returns an enum softgpu_error.
 * Called by the first thread, without the lock. */
uint64_t compute_execute(struct vf *vf);
