/* SPDX-License-Identifier: MIT */
/* Checks of a configuration that need more than its files. */
#pragma once

#include "config.h"

/* The known abilities of the configuration's GPUs, by their numbers in it; max_vfs is 0 for a GPU
 * of which nothing is known. */
struct config_known {
	struct vgpu_driver_caps gpus[CONFIG_MAX_GPUS];
};

/* Checks that each GPU can be set up as configured, and that its policy accepts its parameters:
 * refuses more memory than the GPU has, and guarantees that exceed the GPU. CONFIG must have been
 * read without mistakes. KNOWN may be NULL: nothing is known. Prints every mistake to ERRORS, one
 * line each. Returns how many there are. */
int config_check_gpus(const struct config *config, struct config_known *known, FILE *errors);
/* Checks that this host has the configuration's devices and group. CONFIG may have mistakes. Reads
 * the GPUs without changing them, and writes their abilities to KNOWN; prints to UNTOLD, one line
 * each, the GPUs that it cannot read, with the reason. Blocks. Prints mistakes and returns as
 * config_check_gpus. */
int config_check_host(const struct config *config, struct config_known *known, FILE *errors,
		      FILE *untold);
