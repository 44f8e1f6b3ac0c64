/* SPDX-License-Identifier: MIT */
/*
 * The reasons for refusing a VM a VF: a text for people, and a reason that the metrics count. Each
 * refusal has both. Control thread.
 */
#pragma once

#include <stdint.h>

#include "vgpu/types.h"

/* docs/protocol.md describes the same reasons. */
enum refusal_reason {
	REFUSAL_NO_GPU = 0, /* there is no such GPU, pool, VF number or device */
	REFUSAL_GPU_LOST,   /* the GPU does not answer */
	REFUSAL_CLAIM,	    /* the claim is unreadable or incomplete */
	REFUSAL_POLICY, /* another policy is in force, or it does not accept the claimed parameters
			 */
	REFUSAL_NO_VF,	/* the VF, or each of them, is in use or out of service */
	REFUSAL_MEMORY, /* no free block of memory is large enough */
	REFUSAL_TIME,	/* the policy does not admit the share or the budget beside the others */
	REFUSAL_DEVICE, /* the domain lacks the device, or its VF cannot be attached */
	REFUSAL_TOKEN,	/* the domain lacks the GPU's VF token, or has a wrong one */
	REFUSAL_STATE,	/* the state that comes with the VM fits no VF */
	REFUSAL_BUSY,	/* another change took too long, or memory was still being cleared */
	REFUSAL_REASONS
};

/* The kinds of requests. */
enum refusal_request {
	REFUSAL_START = 0, /* the start of a VM */
	REFUSAL_INCOMING,  /* a VM that brings the state of its VFs */
	REFUSAL_ATTACH,	   /* a VF for a running VM */
	REFUSAL_REQUESTS
};

/* Outcomes of looking up the GPU that is booked for a VM: booking.h. */
enum refusal_booking {
	REFUSAL_BOOKING_GPU = 0, /* the VM gets its VFs from the booked GPUs */
	REFUSAL_BOOKING_NONE,	 /* no GPU of this host is booked by its own provider */
	REFUSAL_BOOKING_LATE,	 /* there was no answer in time, and vgpud chose the GPU */
	REFUSAL_BOOKING_FAILED,	 /* there was no usable answer, and vgpud chose the GPU */
	REFUSAL_BOOKINGS
};

/* Their names in the metrics. */
extern const char *const refusal_reasons[REFUSAL_REASONS];
extern const char *const refusal_requests[REFUSAL_REQUESTS];
extern const char *const refusal_bookings[REFUSAL_BOOKINGS];

/* Results of requests since vgpud's start. */
struct refusal_counts {
	uint64_t granted[REFUSAL_REQUESTS];
	uint64_t refused[REFUSAL_REQUESTS][REFUSAL_REASONS];
	uint64_t bookings[REFUSAL_BOOKINGS];
};

struct refusal {
	enum refusal_reason reason;
	struct vgpu_error why; /* "": nothing was refused yet */
};

/* As vgpu_error_set, with the kind of refusal. REFUSAL may be NULL. */
__attribute__((format(printf, 4, 5))) int refusal_set(struct refusal *refusal,
						      enum refusal_reason reason, int code,
						      const char *format, ...);
