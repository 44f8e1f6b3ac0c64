/* SPDX-License-Identifier: MIT */
/* Another vgpud, which runs on this host: it knows the GPUs that it has opened. */
#ifndef DAEMON_RUNNING_H
#define DAEMON_RUNNING_H

#include "config.h"

/* Asks the vgpud that serves CONFIG's control socket whether it takes the files that CONFIG was
 * read from, and prints to ERRORS what it finds wrong, line by line. Blocks for at most some
 * seconds. Returns 0: it takes them; 1: it does not; -errno: it was not asked, as there is none, or
 * it has another configuration. */
int running_takes(const struct config *config, FILE *errors);

#endif
