/* SPDX-License-Identifier: MIT */
/*
 * Asks which GPU is booked for a VM that starts. OpenStack's placement has the answer, over a
 * network and with credentials, and vgpud has neither: vgpud-openstack, at the socket "bookings" of
 * the configuration, asks placement. If no usable answer comes within booking_ms, vgpud chooses the
 * GPU itself, as it does without that socket. Control thread, which does not wait.
 */
#pragma once

#include "booked.h"

/* The most bytes of an answer that are read. A whole host's is shorter than 8 KiB: 64 GPUs, each
 * with a name of 31 characters and three numbers. */
#define BOOKING_LONGEST 8192u

/* A question that waits for its answer. */
struct booking;
/* Called once, from the event loop; ON as booked_read leaves it. It may end the question. */
typedef void booking_done(void *data, const int32_t on[CLAIM_MAX_VFS]);

/* Returns whether a question is useful: there are several GPUs, and a socket. */
bool booking_matters(const struct control *control);
/*
 * Asks about the VM of CLAIM, which must live as long as the question. Returns the question, which
 * the caller ends, after DONE or before; NULL: it could not be asked, and DONE is not called.
 * Counts each question in control->refusals, and logs those without an answer.
 */
struct booking *booking_begin(struct control *control, const struct claim *claim, bool incoming,
			      booking_done *done, void *data);
/* Ends a question; NULL: does nothing. */
void booking_end(struct booking *b);
