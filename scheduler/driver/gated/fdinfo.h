/* SPDX-License-Identifier: MIT */
/* What the kernel's drivers show of a client of a GPU in /proc/PID/fdinfo. */
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
	uint64_t total;	   /* drm-total-cycles-NAME: of the GPU, since some instant */
	uint64_t capacity; /* how many engines have that name */
};

struct gated_fdinfo {
	bool is_client;
	uint64_t id; /* drm-client-id: the same for all descriptors of a client */
	uint32_t n;
	struct gated_engine engines[GATED_ENGINES];
};

/* Reads TEXT, which it cuts up. Returns whether it is of a client. */
bool gated_fdinfo_parse(char *text, struct gated_fdinfo *out);
/* Notes in LAST what a client shows now. Counters that go back keep what they had. */
void gated_fdinfo_note(struct gated_fdinfo *last, const struct gated_fdinfo *now);
/* What an engine of NOW has computed since BEFORE, nanoseconds, of which PASSED: by its time, or by
 * its part of the cycles if the driver counts only those. */
uint64_t gated_fdinfo_grown(const struct gated_fdinfo *now, const struct gated_fdinfo *before,
			    uint32_t engine, vgpu_nsec passed);
