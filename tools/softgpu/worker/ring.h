/* SPDX-License-Identifier: MIT */
/*
 * A VF's ring, executed: one thread takes packets in, makes pieces of them, and keeps a few in the
 * device's queue, few enough that they are soon over. The other functions are the control thread's.
 */
#ifndef WORKER_RING_H
#define WORKER_RING_H

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
	int event_fd; /* of the control thread: ring_end() has something to say */
	/* From the ring's thread: sends to softgpu. */
	void (*send)(const struct worker_message *m);
	/* From the compiling thread: the VF waits no longer. */
	void (*wake)(void);
};

/* Starts the thread. NULL: no memory, or no thread. */
struct ring *ring_create(const struct ring_setup *setup);
/* Ends it; the device must not be stopped. */
void ring_destroy(struct ring *r);

/* Begins a run, or goes on with one that was stopped in the middle of a piece. After a run that has
 * FAILED each fails at once, with the same error: a reset of the VF gives it another worker. */
void ring_run(struct ring *r, const struct worker_message *m);
/* No more pieces; the gate is shut. How long what is in flight may be waited for, at most. */
vgpu_nsec ring_stop(struct ring *r);
/* Whether the run is over: then *M says how. */
bool ring_end(struct ring *r, struct worker_message *m);
/* Work in flight was stopped hard: the run is over as far as softgpu knows, and goes on with the
 * next. *M says so; or, with false, how it ended just before by itself. */
bool ring_freeze(struct ring *r, struct worker_message *m);
/* The bytes of a DMA piece have moved: 0, or negative. */
void ring_dma_done(struct ring *r, int result);

#endif
