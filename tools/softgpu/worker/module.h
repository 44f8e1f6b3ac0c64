/* SPDX-License-Identifier: MIT */
/*
 * A guest's own kernels: MODULE_LOAD, MODULE_UNLOAD and LAUNCH. Everything that a guest says here
 * is copied out of its window before it is looked at. Compiling is the CPU's work, on a thread of
 * its own: the VF waits meanwhile, and its slices are others'.
 */
#ifndef WORKER_MODULE_H
#define WORKER_MODULE_H

#include "packet.h"
#include "piece.h"
#include "protocol.h"

struct module_table;

/* WAKE is called from the compiling thread when it is done. NULL: no memory. */
struct module_table *module_table_create(const struct device_ops *ops, struct device *device,
					 struct worker_shared *shared, void (*wake)(void));
/* Waits for a compilation that is under way. NULL is allowed. */
void module_table_destroy(struct module_table *t);

enum module_step { MODULE_DONE = 0, MODULE_PIECE, MODULE_COMPILES };

/* Carries on with JOB, one of the three: it is done, *OUT is its piece, or it is being compiled,
 * and to be carried on with when WAKE has been called. Negative: an enum softgpu_error. */
int module_packet(struct module_table *t, struct piece_job *job, const struct packet_limits *limits,
		  const struct piece_space *space, uint8_t *window, struct piece *out);
/* A launch of FUNCTION took so long. */
void module_learn(struct module_table *t, const void *function, vgpu_nsec took);

#endif
