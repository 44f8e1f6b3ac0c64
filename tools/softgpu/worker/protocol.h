/* SPDX-License-Identifier: MIT */
/*
 * The messages between softgpu and the worker that executes one VF's packets. A worker is a
 * process, so a failure in it affects one VF. It has six descriptors: a socket (SOCK_SEQPACKET)
 * for the messages below, a page that both map, the VF's window, an eventfd; and a socket and a
 * file by which softgpu's own process has the VF's device memory copied.
 *
 *   softgpu                     worker
 *   RUN ring, serial       ->          executes packets until there are none, or until STOP
 *                          <-   FENCE  a fence that asks for an interrupt was reached
 *                          <-   DMA    copy bytes between the window and the client's memory
 *   DMA_DONE result        ->
 *   STOP serial            ->
 *                          <-   ENDED serial: exactly one for each RUN
 *   SIGTERM, or closed     ->          clears the VF's memory and exits; at once if work of the
 *                                      VF does not stop
 *
 * A worker's messages can affect its own VF only: softgpu relies on nothing else in them.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WORKER_SOCKET_FD 3
#define WORKER_SHARED_FD 4
#define WORKER_WINDOW_FD 5
#define WORKER_WAKE_FD 6 /* eventfd; readable: STATE has changed, or the VF no longer waits */

#define WORKER_MEMORY_FD 7 /* socket (SOCK_SEQPACKET): struct worker_memory */
#define WORKER_STAGE_FD 8  /* WORKER_STAGE bytes, through which device memory is copied; a page */
#define WORKER_LOG_FD 9	   /* what the worker has to say */
#define WORKER_STAGE (UINT64_C(1) << 20)
#define WORKER_STAGE_FILE (WORKER_STAGE + 4096)

/* At WORKER_STAGE of that file, which the VF's process does not have: softgpu tells the worker
 * whether it may run, and the worker tells softgpu whether it does. The worker sets RUNS before it
 * looks at MAY_RUN, and softgpu looks at RUNS when it has cleared MAY_RUN. */
struct worker_turn {
	_Atomic uint32_t may_run; /* written by softgpu: the VF has the GPU */
	_Atomic uint32_t runs;	  /* written by the worker: a run has begun, and has not ended */
};

/* What softgpu's own process asks of a worker whose VF has no run in progress. Each request gets
 * one answer: itself, with RESULT: 0 or -errno. */
enum worker_memory_what {
	/* Copies device memory to the stage. -EBUSY: a GPU kernel of the VF has been stopped
	 * hard, and does not end. */
	WORKER_MEMORY_OUT = 1,
	/* Copies the stage to device memory, after LEAVE, beginning at its beginning: then the
	 * worker takes device memory. -ENOMEM: there is too little. When all is copied, the VF can
	 * run. */
	WORKER_MEMORY_IN,
	/* Clears the device memory, and gives it back: until all is back, the VF cannot run. */
	WORKER_MEMORY_LEAVE,
};

struct worker_memory {
	uint32_t what;
	int32_t result;
	uint64_t at, bytes; /* of OUT and IN: from the end of the window on; up to WORKER_STAGE */
};

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

/* How work in flight is stopped: bits, tried in this order. SOFT does not stop: the work goes on
 * with a small share of the GPU, or all of it while no other VF has work. */
enum worker_stop {
	WORKER_STOP_BLOCK = 1,	  /* blocks that have not begun do not begin */
	WORKER_STOP_CHANNELS = 2, /* the GPU's channels are disabled, all in one call */
	WORKER_STOP_GROUPS = 4,	  /* each channel group leaves its runlist */
	WORKER_STOP_SOFT = 8,	  /* each channel group gets the shortest time slice */
};

struct worker_ended {
	uint32_t end, error; /* enum worker_end, enum softgpu_error */
	uint32_t level;	     /* enum softgpu_preempt, of STOPPED */
	uint32_t active;     /* a packet has begun, and has not ended */
	uint32_t heard;	     /* BELL, read before the slots were looked at for the last time */
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
	char name[64];		 /* name of the device, and its driver's version */
	uint32_t stops;		 /* enum worker_stop: methods that may work */
	bool modules;		 /* guests may load GPU kernels of their own */
	int32_t attributes[128]; /* those of struct softgpu_about */
	char limit_error[128];	 /* why the driver does not also limit its memory; "": it does */
	uint64_t free;		 /* bytes that are free on the device; 0: there is no such limit */
};

enum worker_state { WORKER_STARTING = 0, WORKER_READY, WORKER_REFUSED };

struct worker_shared {
	_Atomic uint32_t state; /* enum worker_state */
	/* The VF has packets, but no work for the GPU: a module is being compiled. */
	_Atomic uint32_t waits;
	_Atomic uint64_t wptr;	     /* the doorbell, written by softgpu */
	_Atomic uint32_t bell;	     /* doorbells of slots, counted by softgpu */
	_Atomic uint64_t rptr_begun; /* packets that have begun */
	_Atomic uint64_t fences;     /* fences that packets have reached */
	struct device_about about;
	int32_t code;	  /* -errno, of REFUSED */
	char text[256];	  /* reason for REFUSED */
	char words[1024]; /* of the GPU kernel's assertion that has failed */
};
