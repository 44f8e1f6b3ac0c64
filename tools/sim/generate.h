/* SPDX-License-Identifier: MIT */
/* Workloads from seeds and from public traces, as text that scenario_read reads. */
#ifndef SIM_GENERATE_H
#define SIM_GENERATE_H

#include <stdio.h>

#include "vgpu/types.h"

struct generator {
	const char *name, *help;
	/* Writes the lines of VF for so long. */
	void (*write)(FILE *to, uint32_t vf, vgpu_nsec length, uint64_t seed);
};

/* Ends at a NULL name. */
extern const struct generator generators[];

struct converter {
	const char *name, *help;
	/* Reads a trace, writes the lines of VFs from FIRST on; 0 or -EINVAL with the line. */
	int (*convert)(FILE *from, FILE *to, uint32_t first, struct vgpu_error *err);
};

extern const struct converter converters[];

#endif
