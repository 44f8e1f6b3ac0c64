/* SPDX-License-Identifier: MIT */
/*
 * Executes a VF's ring: a thread reads packets, divides them into pieces, and keeps a few pieces in
 * the device's queue, so few that the queue is soon empty. The control thread calls the functions
 * below.
 */
#pragma once

#include "device.h"
#include "protocol.h"

struct ring;

struct ring_setup {
	struct device *device;
	const struct device_ops *ops;
	struct worker_shared *shared;
	uint8_t *window;
	uint64_t window_size, size;
	bool modules;
	bool no_thread; /* the caller executes each run by ring_execute() */
	/* How long a run looks for the next packet before it ends. */
	vgpu_nsec linger;
	int event_fd; /* eventfd, signalled when a run is over; stays the caller's */
	/* Sends a message to softgpu; called from the ring's thread. */
	void (*send)(const struct worker_message *m);
	/* The VF no longer waits for the compiler; called from the compiling thread. */
	void (*wake)(void);
};

/* Starts the thread, unless SETUP has NO_THREAD. NULL if memory or a thread is lacking. */
struct ring *ring_create(const struct ring_setup *setup);
/* Ends the thread. The device must not be stopped hard. */
void ring_destroy(struct ring *r);

/* Begins a run, or continues one that was stopped hard. After a run that has failed, every run
 * fails at once with the same error; a reset of the VF starts another worker. M: a RUN message. */
void ring_run(struct ring *r, const struct worker_message *m);
/* Executes the run that ring_run() has begun, up to its end. The ring's thread calls it; without
 * one, any one thread. The device's launch() and poll(), SEND and the clock, which it calls, may
 * call the functions of the control thread, but for ring_destroy(). */
void ring_execute(struct ring *r);
/* Returns whether a guest's module is being compiled, for which ring_destroy() waits. */
bool ring_compiles(const struct ring *r);
/* Starts no more pieces, and shuts the gate. Returns how long to wait for the work in flight before
 * it is stopped hard, ns. */
vgpu_nsec ring_stop(struct ring *r);
/* Returns whether the run is over; if so, *M is its ENDED message. */
bool ring_end(struct ring *r, struct worker_message *m);
/* The device was stopped hard, or softly, as LEVEL says. What this header states for a hard stop
 * holds for a soft one, except that pieces in flight may continue. True: the run was in progress;
 * it continues with the next RUN, and *M is an ENDED message that says it was stopped. Returns
 * false if the run had ended before, and *M is its ENDED message. */
bool ring_freeze(struct ring *r, enum softgpu_preempt level, struct worker_message *m);
/* Lets the pieces in flight of a run that was stopped hard end, and nothing after them: the device
 * must run again. ring_is_still() tells when they have; if they do not, stop the device and call
 * ring_freeze() again. The next RUN continues the run. */
void ring_drain(struct ring *r);
/* Returns whether no piece of the VF's is on the device. */
bool ring_is_still(struct ring *r);
/* softgpu has executed a DMA piece: RESULT is 0 or negative. */
void ring_dma_done(struct ring *r, int result);
