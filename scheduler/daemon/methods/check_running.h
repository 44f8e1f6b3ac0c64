/* SPDX-License-Identifier: MIT */
/* Checks configuration files for a running vgpud. Control thread. */
#pragma once

#include <stdio.h>

#include "control/state.h"

/* Does config_check_gpus with the abilities of the GPUs that vgpud has opened. Returns 0, -EINVAL
 * or -ENOMEM. */
int config_check_running(const struct config *config, const struct control *running, FILE *errors);
