/* SPDX-License-Identifier: MIT */
/* Queries another vgpud that runs on this host and has opened GPUs. */
#pragma once

#include "config.h"

/* Asks the vgpud that serves CONFIG's control socket whether it accepts the files that CONFIG was
 * read from, and prints its complaints to ERRORS, line by line. Blocks for at most some seconds.
 * Returns 0: it accepts them; 1: it does not; -errno: no vgpud runs, or it has another
 * configuration. */
int running_takes(const struct config *config, FILE *errors);
