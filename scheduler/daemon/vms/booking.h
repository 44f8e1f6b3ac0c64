/* SPDX-License-Identifier: MIT */
/*
 * Asks which GPU is booked for a VM that starts. Who knows is OpenStack's placement, over a network
 * and with credentials, which vgpud has neither of: behind the socket "bookings" of the
 * configuration, vgpud-openstack asks it. Its answer is no promise: after booking_ms, or if there
 * is none that makes sense, vgpud chooses the GPU itself, as it does without that socket.
 * Control thread, which does not wait.
 */
#ifndef DAEMON_BOOKING_H
#define DAEMON_BOOKING_H

#include "booked.h"

/* The most bytes of an answer that are read. A whole host's is shorter than 8 KiB: 64 GPUs, each
 * with a name of 31 characters and three numbers. */
#define BOOKING_LONGEST 8192u

/* A question that waits for its answer. */
struct booking;
/* Called once, from the event loop; ON as booked_read leaves it. It may end the question. */
typedef void booking_done(void *data, const int32_t on[CLAIM_MAX_VFS]);

/* Whether there is anything to ask: several GPUs, and a socket. */
bool booking_matters(const struct control *control);
/*
 * Asks about the VM of CLAIM, which must live as long as the question. Returns the question, which
 * the caller ends, after DONE or before; NULL: it could not be asked, and DONE is not called. Each
 * question is counted in control->refusals, and if vgpud does not learn the answer, logged.
 */
struct booking *booking_begin(struct control *control, const struct claim *claim, bool incoming,
			      booking_done *done, void *data);
/* Ends a question; NULL: does nothing. */
void booking_end(struct booking *b);

#endif
