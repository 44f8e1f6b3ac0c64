/* SPDX-License-Identifier: MIT */
/*
 * A guest's own GPU kernels: MODULE_LOAD, MODULE_UNLOAD, LAUNCH, FUNCTION, ABOUT, OUTPUT, and those
 * of question.h. Everything that a guest passes here is copied out of its window before it is
 * checked. A thread compiles, on the CPU; meanwhile the VF has no work for the GPU, and other VFs
 * have its slices.
 */
#pragma once

#include "packet.h"
#include "piece.h"
#include "protocol.h"

struct module_table;

/* Creates a table, and a thread that compiles and calls WAKE when it is done. Returns NULL if out
 * of memory. OPS, DEVICE and SHARED must outlive it. */
struct module_table *module_table_create(const struct device_ops *ops, struct device *device,
					 struct worker_shared *shared, void (*wake)(void));
/* Returns whether a module is being compiled. Any thread. */
bool module_compiles(const struct module_table *t);
/* Waits until a compilation in progress ends. T may be NULL. */
void module_table_destroy(struct module_table *t);

/* Returns whether a packet P of the ring SOURCE has to wait until the device is idle. */
bool module_must_settle(const struct module_table *t, uint32_t source,
			const struct softgpu_packet *p);

enum module_step { MODULE_DONE = 0, MODULE_PIECE, MODULE_COMPILES };

/* Returns whether a packet with OPCODE is one of these. */
bool module_executes(uint32_t opcode);
/* Executes the next step of JOB, a packet of one of these kinds, of the ring with the number
 * SOURCE, below DEVICE_SOURCES; each ring has modules of its own. MODULE_DONE: the packet is done;
 * MODULE_PIECE: *OUT is its piece; MODULE_COMPILES: call again after WAKE. Negative: an enum
 * softgpu_error. */
int module_packet(struct module_table *t, uint32_t source, struct piece_job *job,
		  const struct packet_limits *limits, const struct piece_space *space,
		  uint8_t *window, struct piece *out);
/* Unloads all modules of SOURCE, while the device executes nothing. What is being compiled for it
 * is thrown away when it is done. */
void module_close(struct module_table *t, uint32_t source);
/* Forgets what SOURCE has printed, while the device executes nothing. */
void module_forget_output(struct module_table *t, uint32_t source);
/* A run begins: there may be work that does not wait for the compiler. */
void module_go_on(struct module_table *t);
/* Tells softgpu that, until WAKE, all work may wait for the compiler. */
bool module_wait(struct module_table *t);
/* Remembers that a launch of FUNCTION took TOOK, as the expected time of the next one. */
void module_learn(struct module_table *t, const void *function, vgpu_nsec took);
