/* SPDX-License-Identifier: MIT */
/*
 * A gate at the beginning of each block of a GPU kernel. gate_ptx() rewrites PTX so that each block
 * of a grid first checks whether it has run already, then whether the gate is shut. If neither, the
 * block marks itself as run, and runs. Shutting the gate stops a grid: after GATE_PERIOD no more
 * blocks begin.
 * Launching the grid again continues it: blocks that have run end at once. Nothing else changes: a
 * block keeps its number. Blocks that wait for each other must not be stopped between blocks, so a
 * guest that asks for the gate promises that its blocks do not.
 *
 * FLEP (ASPLOS 2017) and EffiSha (PPoPP 2017) also stop between blocks, but hand blocks out from a
 * counter and renumber them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vgpu/types.h"

/* The first parameter of each entry. Its size is the largest alignment of a parameter, so that all
 * others move by just this size. */
#define GATE_PARAM_SIZE 128u
struct gate_param {
	uint64_t marks;	  /* address of an array, a word for each block; 0: no gate */
	uint64_t flag;	  /* address of a word; if it is not 0, the gate is shut */
	uint64_t skipped; /* address of a 64-bit word that gets SERIAL if a block does not run */
	uint64_t serial;  /* the mark of a block that has run */
	/* FLAG is in the host's memory, a microsecond away. So blocks tell each other what they
	 * read there, by two 64-bit words in device memory at RELAY: when the gate was found open
	 * last, and the last EPOCH in which it was found shut. A block trusts the first for PERIOD
	 * ns, unless the second is its own. A new epoch, not 0, begins when the gate opens: once a
	 * launch has skipped a block, those that follow it must not run before it goes on. */
	uint64_t relay, epoch, period;
};
/* How long a block trusts a read of FLAG, ns: more than the microsecond that a read over PCIe
 * takes, and much less than the 300 us that a stop waits. */
#define GATE_PERIOD 5000u

/* Returns whether an image is PTX: text whose first word, after comments, is ".version". */
bool gate_is_ptx(const uint8_t *image, size_t n);

/* Adds the gate to TEXT (N bytes). Returns 0 with *OUT, which the caller frees; -EINVAL with the
 * wrong line and the reason; -ENOMEM. It may accept text that is not PTX, because the PTX compiler
 * checks the result. */
int gate_ptx(const char *text, size_t n, char **out, struct vgpu_error *err);
