/* SPDX-License-Identifier: MIT */
/*
 * The readers' share of the control thread: clients that may only read, including those of the
 * metrics, get a fifth of its time. The work for them is done in pieces, one in each iteration of
 * the event loop, in the order in which they were added. Root's calls, the engines' answers and the
 * watchdog wait for at most one piece. Only CPU time is charged: readers do not pay for a host that
 * does not run the thread.
 *
 * Control thread.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>

#include "vgpu/types.h"

/* Readers get one nanosecond of this many. */
#define SHARE_OF 5u
/* Time that readers may use at once after a pause, so that a few calls need not wait for each
 * other. */
#define SHARE_BURST (20 * VGPU_MSEC)

/* A piece of work for a reader, embedded in the object that it belongs to. */
struct piece {
	struct piece *next;
	void (*run)(struct piece *piece);
	bool waits; /* it is in the queue */
};

struct share {
	struct event *turn;
	struct piece *first, **last;
	vgpu_nsec counted; /* CREDIT is up to date as of this instant */
	int64_t credit;	   /* nanoseconds of CPU time; below 0: readers have exceeded their share */
};

/* Starts with a full burst of credit. Returns 0 or -ENOMEM. */
int share_start(struct share *share, struct event_base *base);
/* Removes all waiting pieces. */
void share_stop(struct share *share);
/* Queues a piece, which must stay valid until it runs. No effect if it is queued already. */
void share_add(struct share *share, struct piece *piece);
/* Removes a piece from the queue, if it is in it. */
void share_remove(struct share *share, struct piece *piece);
/* Returns the CPU time of this thread, by which work is charged. */
vgpu_nsec share_clock(void);
/* Charges the time since BEGUN, of share_clock(), for work that was not a piece. */
void share_charge(struct share *share, vgpu_nsec begun);
/* Returns in how many nanoseconds the next piece may run; 0: now. */
vgpu_nsec share_wait(struct share *share);
