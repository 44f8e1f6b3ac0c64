/* SPDX-License-Identifier: MIT */
/*
 * The messages between softgpu and the worker that executes one VF's packets. A worker is a
 * process, so a failure in it affects one VF. It has four descriptors: a socket (SOCK_SEQPACKET)
 * for the messages below, a page that both map, the VF's window, and an eventfd.
 *
 *   softgpu                     worker
 *   RUN ring, serial       ->          executes packets until there are none, or until STOP
 *                          <-   FENCE  a fence that asks for an interrupt was reached
 *                          <-   DMA    copy bytes between the window and the client's memory
 *   DMA_DONE result        ->
 *   STOP serial            ->
 *                          <-   ENDED serial: exactly one for each RUN
 *   SIGTERM, or closed     ->          clears the VF's memory and exits
 *
 * A worker's messages can affect its own VF only: softgpu relies on nothing else in them.
 */
#ifndef WORKER_PROTOCOL_H
#define WORKER_PROTOCOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WORKER_SOCKET_FD 3
#define WORKER_SHARED_FD 4
#define WORKER_WINDOW_FD 5
#define WORKER_WAKE_FD 6 /* eventfd; readable: STATE has changed, or the VF no longer waits */

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
	WORKER_IDLE = 0, /* there is no work; or, if WAITS is set, no work for the GPU */
	WORKER_STOPPED,	 /* after STOP */
	WORKER_FAILED,	 /* the packet before RPTR was wrong: ERROR says why */
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
	uint32_t active;     /* a packet has begun, and has not ended */
	uint64_t rptr;
};

struct worker_message {
	uint32_t type, serial;
	union {
		struct {
			uint64_t ring_base, ring_size, rptr, fence_at;
			uint32_t stops;	  /* enum worker_stop: methods that STOP may use */
			uint32_t stop_us; /* how long a hard stop takes; 0: not known */
		} run;
		struct worker_ended ended;
		struct {
			uint64_t at, iova, bytes;
			int32_t result;
			uint32_t out; /* 1: to the client; 0: from the client */
		} dma;
	};
};

/* What a worker computes on. */
struct device_about {
	char name[64];		 /* of the device, and its driver's version */
	uint32_t stops;		 /* enum worker_stop: methods that may work */
	bool modules;		 /* guests may load GPU kernels of their own */
	int32_t attributes[128]; /* those of struct softgpu_about */
	char limit_error[128];	 /* why the driver does not limit its memory as well; "": it does */
	uint64_t free;		 /* bytes that are free on the device; 0: there is no such limit */
};

enum worker_state { WORKER_STARTING = 0, WORKER_READY, WORKER_REFUSED };

struct worker_shared {
	_Atomic uint32_t state; /* enum worker_state */
	/* The VF has packets, but no work for the GPU: a module is being compiled. */
	_Atomic uint32_t waits;
	_Atomic uint64_t wptr;	     /* the doorbell, written by softgpu */
	_Atomic uint64_t rptr_begun; /* packets that have begun */
	struct device_about about;
	int32_t code;	/* -errno, of REFUSED */
	char text[256]; /* why it is REFUSED */
};

#endif
