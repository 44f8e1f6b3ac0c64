/* SPDX-License-Identifier: MIT */
/* Parses what the kernel's drivers show about a client of a GPU in /proc/PID/fdinfo. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "vgpu/core.h"

#define GATED_ENGINES 16u
#define GATED_ENGINE_NAME 24u

struct gated_engine {
	char name[GATED_ENGINE_NAME];
	uint64_t ns;	   /* drm-engine-NAME */
	uint64_t cycles;   /* drm-cycles-NAME */
	uint64_t total;	   /* drm-total-cycles-NAME: cycles that passed on the GPU */
	uint64_t capacity; /* drm-engine-capacity-NAME: how many engines have that name */
};

struct gated_fdinfo {
	bool is_client;
	uint64_t id; /* drm-client-id: the same for all descriptors of a client */
	uint32_t n;
	struct gated_engine engines[GATED_ENGINES];
};

/* Parses TEXT, in which it overwrites separators. Returns whether TEXT is of a client. */
bool gated_fdinfo_parse(char *text, struct gated_fdinfo *out);
/* Stores a client's counters in LAST. A counter that went back keeps its larger value. */
void gated_fdinfo_note(struct gated_fdinfo *last, const struct gated_fdinfo *now);
/* Returns how long an engine of NOW has computed since BEFORE, nanoseconds: by its time or, if the
 * driver counts only cycles, by its part of all cycles in the PASSED nanoseconds since then. */
uint64_t gated_fdinfo_grown(const struct gated_fdinfo *now, const struct gated_fdinfo *before,
			    uint32_t engine, vgpu_nsec passed);
