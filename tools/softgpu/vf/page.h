/* SPDX-License-Identifier: MIT */
/* clang-format off */
/*
 * The interface between the device (softgpu, or QEMU with the device library) and the process that
 * serves one VF. They share a page, a control socket on which only the device sends, and an eventfd
 * to which only the VF process writes. The device never waits for the VF process: it writes to the
 * page and wakes the process; it reads the page, and uses what it reads for this VF only.
 *
 *   device                              VF process
 *   CONTEXT serial, kind    ->          loads the image, or a new context
 *   GENERATION, FORGET      ->          has no work; resets all its state
 *   RUN word: RUN           ->          executes; PARKED while there is no work
 *   RUN word: WATCHED       ->          puts the context into the image, and STOPPED, which the
 *                                       device watches for
 *   RUN word: STOPPING      ->          the same, and one write to the eventfd
 *   RUN word: KILLING       ->          stops as for STOPPING; the device ends the process next, and
 *                                       ignores its context
 *                           <-          RUN word: STOPPED
 *   GATES, TO_VF, ...       ->          reads them before each access of its client
 *                           <-          STATUS, TO_PF, counters; then one write to the eventfd
 *
 * A VF that is PARKED has its context in the image, so the device stops it by one exchange of the
 * RUN word, without waking the process.
 */
/* clang-format on */
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Descriptors that a VF process starts with. */
enum {
	VF_CONTROL_FD = 3, /* socket: struct vf_order, from the device */
	VF_PAGE_FD,	   /* struct vf_page */
	VF_NOTICE_FD,	   /* eventfd: asks the device to read the page */
	VF_LOG_FD,	   /* pipe: what the process has to say */
	VF_DMA_FD, /* socket: struct vf_dma, if the carrier does the DMA; otherwise missing */
	VF_FDS_END,
};

/* The RUN word: serial << 3 and one of these. Only the device changes STOPPED to another state.
 * Both sides change the other states, by compare and exchange. */
enum vf_run { VF_STOPPED = 0, VF_RUN, VF_PARKED, VF_WATCHED, VF_STOPPING, VF_KILLING };
#define VF_RUN_STATE(word) ((word)&7u)
#define VF_RUN_WORD(serial, state) ((serial) << 3 | (state))

/* The CONTEXT word: serial << 3 and one of these. */
enum vf_context_kind {
	VF_CONTEXT_NONE = 0,
	VF_CONTEXT_INIT,   /* a new context is loaded */
	VF_CONTEXT_LOADED, /* the image is loaded */
	VF_CONTEXT_SAVED,  /* the device has taken the image */
};
#define VF_CONTEXT_KIND(word) ((word)&7u)
#define VF_CONTEXT_WORD(serial, kind) ((serial) << 3 | (kind))

/* Bits of GATES, in the order of their registers. */
enum vf_gate { VF_GATE_REGISTERS = 0, VF_GATE_DOORBELL, VF_GATE_MEMORY, VF_GATES };

/* Bits of STATUS. Its upper half is the GENERATION that they belong to. */
enum vf_status {
	VF_BUSY = 1,	/* the VF has work */
	VF_FAULTED = 2, /* the VF has stopped with an error, and needs a reset */
	VF_DEAD = 4,	/* the VF has stopped with an error */
};

/* One direction of the mailbox. SERIAL is written last; 0: there is no message. */
struct vf_message {
	_Atomic uint32_t serial;
	_Atomic uint32_t words[4];
};

/* The size of a context as SAVE and LOAD copy it. Only the VF process knows what its bytes mean. */
#define VF_IMAGE_SIZE 1152u

struct vf_page {
	/* written by the device */
	_Atomic uint32_t bell; /* futex: another of these has changed */
	_Atomic uint32_t context;
	_Atomic uint32_t
		generation;	 /* changes when the VF was reset or shut down: it has no work */
	_Atomic uint32_t forget; /* changes when the VF was reset: all registers are as new */
	_Atomic uint32_t gates;
	_Atomic uint32_t dead;	       /* the GPU reads as ones */
	_Atomic uint32_t orders;       /* number of orders that have been sent */
	_Atomic uint32_t resets_taken; /* how many of RESETS the device has taken note of */
	_Atomic uint32_t to_pf_taken;  /* the TO_PF.serial that the PF has acknowledged */
	_Atomic uint32_t asked;	       /* the process must set ANSWERED to the same number */
	/* When the last worker had started or ended, CLOCK_MONOTONIC; UINT64_MAX: one is starting
	 * or ending */
	_Atomic uint64_t quiet_since;
	struct vf_message to_vf;

	/* written by both */
	_Alignas(64) _Atomic uint32_t run; /* futex */
	_Atomic uint32_t cpu;		   /* written by the process: the CPU that it executes on */
	uint8_t image[VF_IMAGE_SIZE];

	/* written by the VF process */
	_Alignas(64) _Atomic uint32_t notices; /* how often the rest of the page has changed */
	_Atomic uint64_t status;
	_Atomic uint32_t ready;	      /* the process has mapped the page, and can serve clients */
	_Atomic uint32_t resets;      /* number of resets by the client */
	_Atomic uint32_t answered;    /* see ASKED */
	_Atomic uint32_t to_vf_taken; /* the TO_VF.serial that the client has acknowledged */
	_Atomic uint32_t violations, gate_drops;
	_Atomic uint64_t fences; /* fences that packets have reached; for a VF without a worker */
	struct vf_message to_pf;
};

/* Messages of the device, with descriptors. */
enum vf_order_type {
	VF_ORDER_MEMORY = 1, /* a new partition: its file, or no descriptor */
	VF_ORDER_CLIENT,     /* the client's connection */
	VF_ORDER_WORKER,     /* a new worker: its socket, shared page and eventfd */
	VF_ORDER_LOOK, /* the RUN word has changed: wakes a process that waits for its worker */
};

struct vf_order {
	uint32_t type;
	uint32_t modules;      /* MEMORY, WORKER: the VF's worker executes MODULE_LOAD and LAUNCH */
	uint64_t window, size; /* MEMORY: bytes of the file; of the whole partition */
	uint32_t stops;	       /* WORKER: enum worker_stop */
	uint32_t stop_us;      /* WORKER: how long a hard stop takes; 0: not known */
	/* WORKER: nanoseconds that a stop may take; and if a worker starts or ends meanwhile */
	uint64_t kill_after, kill_disturbed;
};
#define VF_ORDER_FDS 3u

/* DMA of a VF whose client is the device's carrier, such as QEMU. The process sends this on
 * VF_DMA_FD, followed by the bytes if they go to the client. The answer is the same structure,
 * followed by the bytes if they come from the client. */
struct vf_dma {
	uint64_t iova;
	uint32_t size, to_client;
	int32_t result;
	uint32_t pad;
};
#define VF_DMA_MOST 16384u /* bytes in one message */

/* futex(2) on a word of the page. TIMEOUT is relative; NULL: none. Returns 0 or -errno. */
static inline int vf_futex_wait(_Atomic uint32_t *word, uint32_t value,
				const struct timespec *timeout)
{
	return syscall(SYS_futex, word, FUTEX_WAIT, value, timeout, NULL, 0) < 0 ? -errno : 0;
}

static inline void vf_futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}
