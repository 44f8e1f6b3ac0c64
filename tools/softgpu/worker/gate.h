/* SPDX-License-Identifier: MIT */
/*
 * A gate at the beginning of each block. PTX is rewritten so that each block of a grid first looks
 * whether it has run already, then whether the gate is shut; else it marks itself as run, and runs.
 * A grid is stopped by shutting the gate (no more blocks begin) and gone on with by launching it
 * again (those that have run end at once). Nothing else changes: a block keeps its number. Blocks
 * that wait for each other must not be stopped so: whoever wants the gate says that his do not.
 *
 * The idea of stopping between blocks is FLEP's (ASPLOS 2017) and EffiSha's (PPoPP 2017), who hand
 * blocks out from a counter instead and renumber them.
 */
#ifndef WORKER_GATE_H
#define WORKER_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vgpu/types.h"

/* The first parameter of each entry. Its size is the largest alignment of a parameter: what follows
 * lies as it would without, so much further on. */
#define GATE_PARAM_SIZE 128u
struct gate_param {
	uint64_t marks;	  /* address of a word for each block; 0: no gate */
	uint64_t flag;	  /* address of a word; not 0: the gate is shut */
	uint64_t skipped; /* address of a 64-bit word, which gets SERIAL if a block does not run */
	uint64_t serial;  /* what a block that has run is marked with */
};

/* Whether an image is PTX: text, beginning with comments or ".version". */
bool gate_is_ptx(const uint8_t *image, size_t n);

/* Rewrites TEXT (N bytes). 0 with *OUT, which the caller frees; -EINVAL with what is not
 * understood, and its line; -ENOMEM. It only has to be right about text that a PTX compiler takes:
 * that compiler sees the result. */
int gate_ptx(const char *text, size_t n, char **out, struct vgpu_error *err);

#endif
