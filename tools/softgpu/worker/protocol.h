/* SPDX-License-Identifier: MIT */
/*
 * Between softgpu and the worker that executes one VF's packets. A worker is a process: what breaks
 * there breaks one VF. It has three descriptors: a socket (SOCK_SEQPACKET) for what is below, a
 * page that both map, and the VF's window.
 *
 *   softgpu                     worker
 *   RUN ring, serial       ->          executes packets, until there are none, or until STOP
 *                          <-   FENCE  a fence that asks for an interrupt was reached
 *                          <-   DMA    bytes between the window and the client's memory
 *   DMA_DONE result        ->
 *   STOP serial            ->
 *                          <-   ENDED serial: exactly one for each RUN
 *   SIGTERM                ->          clears the VF's memory and exits; so it does at the socket's end
 *
 * What a worker says is believed no further than what it can harm: its own VF.
 */
#ifndef WORKER_PROTOCOL_H
#define WORKER_PROTOCOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WORKER_SOCKET_FD 3
#define WORKER_SHARED_FD 4
#define WORKER_WINDOW_FD 5
#define WORKER_WAKE_FD 6 /* an eventfd: STATE has changed, or the VF no longer waits */

enum worker_message_type {
	WORKER_RUN = 1,
	WORKER_STOP,
	WORKER_DMA_DONE,
	WORKER_FENCE,
	WORKER_DMA,
	WORKER_ENDED,
};

/* Why a run has ended. */
enum worker_end {
	WORKER_IDLE = 0, /* nothing to do; or, if WAITS is set, nothing for the GPU to do */
	WORKER_STOPPED,	 /* as it was asked to */
	WORKER_FAILED,	 /* the packet before RPTR was wrong: ERROR */
	WORKER_LOST,	 /* the device has failed; the worker is about to exit */
};

/* How work in flight is stopped: bits, tried in this order. */
enum worker_stop {
	WORKER_STOP_BLOCK = 1,	  /* blocks that have not begun do not begin */
	WORKER_STOP_CHANNELS = 2, /* the GPU's channels are disabled, all in one call */
	WORKER_STOP_GROUPS = 4,	  /* each channel group leaves its runlist */
};

struct worker_ended {
	uint32_t end, error; /* enum worker_end, enum softgpu_error */
	uint32_t level;	     /* enum softgpu_preempt, of STOPPED */
	uint32_t active;     /* there is a packet that has begun, and has not ended */
	uint64_t rptr;
};

struct worker_message {
	uint32_t type, serial;
	union {
		struct {
			uint64_t ring_base, ring_size, rptr, fence_at;
			uint32_t stops; /* enum worker_stop: what STOP may use */
		} run;
		struct worker_ended ended;
		struct {
			uint64_t at, iova, bytes;
			int32_t result;
			uint32_t out; /* to the client */
		} dma;
	};
};

/* What a worker computes on. */
struct device_about {
	char name[64];	/* and its driver's version */
	uint32_t stops; /* enum worker_stop: what may work */
	bool modules;	/* a guest's own kernels */
	char wall[128]; /* why the driver has not limited its memory as well; "": it has */
	uint64_t free;	/* bytes that nobody has; 0: there is no such limit */
};

enum worker_state { WORKER_STARTING = 0, WORKER_READY, WORKER_REFUSED };

struct worker_shared {
	_Atomic uint32_t state; /* enum worker_state */
	_Atomic uint32_t
		waits; /* the VF has packets, but none for the GPU: a module is being compiled */
	_Atomic uint64_t wptr;	     /* softgpu's: the doorbell */
	_Atomic uint64_t rptr_begun; /* packets that have begun */
	struct device_about about;
	int32_t code;	/* -errno, of REFUSED */
	char text[256]; /* why it is REFUSED */
};

#endif
