/* SPDX-License-Identifier: MIT */
/*
 * Between the device (softgpu, or QEMU with the device library) and the process that serves one VF.
 * They share a page, a control socket on which the device alone sends, and an eventfd on which the
 * VF process alone writes. The device never waits for the other side: it writes the page and wakes,
 * reads the page and believes no more of it than what concerns this VF.
 *
 *   device                              VF process
 *   CONTEXT serial, kind    ->          takes the image, or a new context
 *   GENERATION, FORGET      ->          has no work; forgets everything
 *   RUN word: RUN           ->          executes; PARKED while there is no work
 *   RUN word: WATCHED       ->          puts the context into the image, and STOPPED; the device looks on
 *   RUN word: STOPPING      ->          the same, and tells the device
 *                           <-          RUN word: STOPPED
 *   GATES, TO_VF, ...       ->          looks at them before each access of its client
 *                           <-          STATUS, TO_PF, counters; then one write to the eventfd
 *
 * A VF that is PARKED has its context in the image, so the device stops it by one exchange of the
 * RUN word, without a trip.
 */
#ifndef VF_PAGE_H
#define VF_PAGE_H

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
	VF_NOTICE_FD,	   /* eventfd: the device is to look at the page */
	VF_LISTENER_FD,	   /* where its clients connect */
	VF_DMA_FD, /* socket: struct vf_dma, where the carrier moves bytes; may be missing */
	VF_FDS_END,
};

/* The RUN word: serial << 3 and one of these. Only the holder of a state leaves it: the device
 * leaves STOPPED, both leave the others, by compare and exchange. */
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

/* Bits of STATUS, whose upper half is the GENERATION that they belong to. */
enum vf_status {
	VF_BUSY = 1,	/* it has work */
	VF_FAULTED = 2, /* it has stopped with an error, and needs a reset */
	VF_DEAD = 4,	/* it has stopped with an error */
};

/* One direction of the mailbox. SERIAL is written last; 0: there is no message. */
struct vf_message {
	_Atomic uint32_t serial;
	_Atomic uint32_t words[4];
};

/* The context as SAVE and LOAD have it: bytes that mean something to the VF process alone. */
#define VF_IMAGE_SIZE 1152u

struct vf_page {
	/* The device's to write. */
	_Atomic uint32_t bell; /* futex: any of these has changed */
	_Atomic uint32_t context;
	_Atomic uint32_t generation; /* the VF has been reset, or its context given up: no work */
	_Atomic uint32_t forget;     /* the VF has been reset: all registers are as new */
	_Atomic uint32_t gates;
	_Atomic uint32_t dead;	       /* the GPU reads as ones */
	_Atomic uint32_t orders;       /* how many orders have been sent */
	_Atomic uint32_t resets_taken; /* of the client's resets, which the device knows of */
	_Atomic uint32_t to_pf_taken;  /* TO_PF.serial that the PF has acknowledged */
	_Atomic uint32_t asked;	       /* is somebody there? ANSWERED becomes the same */
	struct vf_message to_vf;

	/* Whose turn it is. */
	_Alignas(64) _Atomic uint32_t run; /* futex */
	_Atomic uint32_t cpu;		   /* the process's to write: where it executes */
	uint8_t image[VF_IMAGE_SIZE];

	/* The VF process's to write. */
	_Alignas(64) _Atomic uint32_t notices; /* how often the device has been asked to look */
	_Atomic uint64_t status;
	_Atomic uint32_t ready; /* the page is mapped, and clients are served when ORDERS says so */
	_Atomic uint32_t resets;
	_Atomic uint32_t answered;
	_Atomic uint32_t to_vf_taken;
	_Atomic uint32_t violations, gate_drops;
	struct vf_message to_pf;
};

/* What the device sends, with descriptors. */
enum vf_order_type {
	VF_ORDER_MEMORY = 1, /* a partition: its file, or none */
	VF_ORDER_SERVE,	     /* clients may be accepted */
	VF_ORDER_WORKER,     /* what computes from now on: socket, shared page, eventfd */
	VF_ORDER_LOOK,	     /* at the RUN word: for who listens to a worker, not to a futex */
};

struct vf_order {
	uint32_t type;
	uint32_t modules;      /* WORKER: it takes MODULE_LOAD and LAUNCH */
	uint64_t window, size; /* MEMORY: bytes of the file; of the whole partition */
	uint32_t stops;	       /* WORKER: enum worker_stop */
	uint32_t pad;
	uint64_t kill_after; /* WORKER: nanoseconds that a stop may take */
};
#define VF_ORDER_FDS 3u

/* DMA of a VF whose client is the device's own carrier, such as QEMU: asked on VF_DMA_FD, with the
 * bytes behind it if they go to the client; answered with the same, and the bytes if they come. */
struct vf_dma {
	uint64_t iova;
	uint32_t size, to_client;
	int32_t result;
	uint32_t pad;
};
#define VF_DMA_MOST 16384u /* bytes at once */

/* futex(2) on a word of the page. TIMEOUT is relative, NULL for none. 0 or -errno. */
static inline int vf_futex_wait(_Atomic uint32_t *word, uint32_t value,
				const struct timespec *timeout)
{
	return syscall(SYS_futex, word, FUTEX_WAIT, value, timeout, NULL, 0) < 0 ? -errno : 0;
}

static inline void vf_futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

#endif
