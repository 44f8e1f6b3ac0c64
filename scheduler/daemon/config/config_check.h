/* SPDX-License-Identifier: MIT */
/* Checks of a configuration that need more than its files. */
#ifndef DAEMON_CONFIG_CHECK_H
#define DAEMON_CONFIG_CHECK_H

#include "config.h"

/* What is known of the GPUs of a configuration, by their numbers in it; max_vfs is 0 of one of
 * which nothing is. */
struct config_known {
	struct vgpu_driver_caps gpus[CONFIG_MAX_GPUS];
};

/* Whether each GPU can be set up as configured, and its policy takes its parameters: memory that
 * the GPU does not have, and guarantees that exceed it, are refused. CONFIG has been read without
 * mistakes. KNOWN may be NULL: nothing. Prints every mistake to ERRORS, one line each. Returns how
 * many there are. */
int config_check_gpus(const struct config *config, struct config_known *known, FILE *errors);
/* Whether this host has what the configuration names: devices, and the group. CONFIG may have
 * mistakes. Reads the GPUs without changing them, and notes in KNOWN what they can do; prints to
 * UNTOLD, one line each, which it cannot read, and why. Blocks. Prints and returns as above. */
int config_check_host(const struct config *config, struct config_known *known, FILE *errors,
		      FILE *untold);

#endif
