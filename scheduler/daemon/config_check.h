/* SPDX-License-Identifier: MIT */
/* Checks of a configuration that its files alone do not tell. */
#ifndef DAEMON_CONFIG_CHECK_H
#define DAEMON_CONFIG_CHECK_H

#include "state.h"

/* Whether each GPU's policy takes its configured parameters: guarantees that add up to more than
 * there is are refused. CONFIG has been read without mistakes. RUNNING: the GPUs that vgpud has
 * opened, whose control thread calls; NULL: none. Prints every mistake to ERRORS, one line each.
 * Returns how many there are. */
int config_check_policies(const struct config *config, const struct control *running, FILE *errors);
/* Whether this host has what the configuration names: devices, and the group. CONFIG may have
 * mistakes. Prints and returns as above. */
int config_check_host(const struct config *config, FILE *errors);

#endif
