/* SPDX-License-Identifier: MIT */
/* Writes workloads, from seeds and from public traces, as text that scenario_read reads. */
#pragma once

#include <stdio.h>

#include "vgpu/types.h"

struct generator {
	const char *name, *help;
	/* Writes the lines of VF for LENGTH ns. */
	void (*write)(FILE *to, uint32_t vf, vgpu_nsec length, uint64_t seed);
};

/* Ends at a NULL name. */
extern const struct generator generators[];

/* N VFs of a kind, with their work scaled by SIZE. */
struct mix_part {
	const char *kind;
	uint32_t n;
	double size;
	uint32_t weight;
};

struct mix {
	const char *name, *help;
	struct mix_part parts[8]; /* ends at a NULL kind */
};

/* Ends at a NULL name. */
extern const struct mix mixes[];
const struct mix *mix_find(const char *name);
/* Writes the whole scenario: GPU, policy, VFs with roles and weights, and their work for LENGTH. */
void mix_write(const struct mix *mix, FILE *to, vgpu_nsec length, uint64_t seed);
/* Writes the lines before those of the VFs. */
void generate_head(FILE *to, uint32_t n_vfs, vgpu_nsec length, uint64_t seed);

struct converter {
	const char *name, *help;
	/* Reads a trace, writes the lines of VFs from FIRST on; 0 or -EINVAL with the line. */
	int (*convert)(FILE *from, FILE *to, uint32_t first, struct vgpu_error *err);
};

extern const struct converter converters[];
