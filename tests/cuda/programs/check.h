/* SPDX-License-Identifier: MIT */
/* What the checks of the sample share. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "entries.h"

struct sample_check {
	const char *name;
	bool (*run)(void); /* says on standard error what is wrong */
};

/* Each is ended by a row without a name. */
extern const struct sample_check arguments_checks[], calls_checks[], captured_events_checks[],
	contexts_checks[], programs_checks[], graphs_checks[], graph_edges_checks[],
	graph_nodes_checks[], graph_instances_checks[], images_checks[], linker_checks[],
	mapped_checks[], pinned_checks[], prints_checks[], refused_checks[], registered_checks[],
	user_objects_checks[], virtual_checks[];
extern const char sample_ptx[], programs_ptx[], meet_ptx[], linked_ptx[], linked_to_ptx[];

#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                    \
			return false;                                                              \
		}                                                                                  \
	} while (0)
#define OK(call) CHECK((call) == CUDA_SUCCESS)

/* A number below BELOW. */
uint32_t sample_draw(uint32_t below);
/* Begins a check with the primary context current; sample_end() is its end. */
bool sample_begin(void);
bool sample_end(void);
