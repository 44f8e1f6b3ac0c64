/* SPDX-License-Identifier: MIT */
/*
 * Inside a VF process: what serves one VF's client and executes its packets. Three threads:
 *
 *   the first   executes: the device lifts its priority between a stop and the answer, so nothing
 *               else may run on it
 *   server      the vfio-user server: whatever the client sends, and each access of it
 *   bell        follows what the device writes to the page, and raises the mailbox's interrupts
 *
 * One lock guards everything but the context, which is the first thread's while it executes.
 */
#ifndef VF_H
#define VF_H

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
	uint64_t vram; /* bytes of the whole GPU: what BAR 0 is sized for */
	uint32_t number;
	bool has_carrier; /* the client is the carrier of the device library */
	vgpu_nsec began;  /* what events count from */
	struct vfio_server *server;
	struct vfio_endpoint *endpoint; /* the bell's thread makes it, before there are clients */
	pthread_mutex_t lock;

	/* what of the page has been followed */
	uint32_t context, generation, forget, orders;
	uint32_t to_vf_seen, to_pf_seen; /* of the mailbox, by its interrupts */

	struct pci_function pci;
	int memfd; /* -1: no partition */
	uint8_t *memory;
	uint64_t window, size;	 /* bytes of the file; of the partition */
	struct compute *compute; /* what a worker executes; NULL: this process does */
	bool has_worker;	 /* a worker executes, or nobody does */
	uint32_t modules;

	struct context live;
	_Atomic uint64_t wptr;
	bool serves; /* clients may be accepted */
	bool loaded, executing;
	bool failed; /* the first thread's: just now, and the client is to hear of it */
	bool busy, dead;
	uint64_t error, error_at;

	uint32_t int_enable;
	uint32_t words[4]; /* of the message to the PF */
	uint32_t to_pf;	   /* its serial; 0: none is there */
	uint32_t to_pf_last;
};

/* main.c */
/* Follows what the device has written since the last time. Under the lock, before anything that
 * depends on it. */
void vf_follow(struct vf *vf);
/* Takes the orders that have come. With the lock, while nothing is executed; else without it, by
 * the first thread alone. */
void vf_take_orders(struct vf *vf);
/* Publishes the status; the device hears of it with vf_notify(). Under the lock. */
void vf_publish(struct vf *vf);
void vf_notify(struct vf *vf);
/* Between BUFFER and the client's memory. 0 or -EFAULT. */
int vf_dma(const struct vf *vf, uint64_t iova, void *buffer, uint32_t size, bool to_client);
/* What packets of the VF may reach. */
struct packet_limits vf_limits(const struct vf *vf);

/* registers.c: a client's accesses; offset and count have been checked against the region's size */
extern const struct vfio_server_ops registers_ops;

/* engine.c: the first thread */
void engine_loop(struct vf *vf);
/* Whether there are packets to execute; under the lock, while none are. */
bool engine_has_work(const struct vf *vf);
/* The doorbell has been rung, or what the VF waited for is there. Under the lock. */
void engine_kick(struct vf *vf);
/* The context, for the device to take. Under the lock, while nothing is executed. */
void engine_put_image(struct vf *vf);

/* kernels.c */
enum tile { TILE_MORE = 0, TILE_DONE = 1, TILE_ERROR = 2 };
/* Runs one tile of a packet that packet_check has passed. On TILE_ERROR, *ERROR says why. */
enum tile kernel_tile(const struct vf *vf, struct job *job, uint64_t *error);
/* Whether a job whose packet packet_check has passed is as far as kernel_tile() can have come:
 * no further than its packet's end. */
bool kernel_job_is_valid(const struct job *job);

/* compute.c: packets are executed by a worker */
struct compute_setup {
	int socket, shared, wake; /* become the worker's */
	uint32_t stops;		  /* enum worker_stop */
	vgpu_nsec kill_after;
};
struct compute *compute_create(struct vf *vf, const struct compute_setup *setup);
/* The worker hears that it is no longer needed. NULL is allowed. */
void compute_destroy(struct compute *c);
/* It is not just starting, and does not wait for a compiler. */
bool compute_is_ready(const struct compute *c);
void compute_doorbell(struct compute *c, uint64_t wptr);
/* Executes until there is nothing to do, or the RUN word says to stop. An enum softgpu_error. */
uint64_t compute_execute(struct vf *vf);

#endif
