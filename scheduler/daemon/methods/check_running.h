/* SPDX-License-Identifier: MIT */
/* Checks of a configuration that vgpud would read while it runs. Control thread. */
#ifndef DAEMON_CHECK_RUNNING_H
#define DAEMON_CHECK_RUNNING_H

#include <stdio.h>

#include "control/state.h"

/* Does config_check_gpus with what is known of the GPUs that vgpud has opened. Returns 0, -EINVAL
 * or -ENOMEM. */
int config_check_running(const struct config *config, const struct control *running, FILE *errors);

#endif
