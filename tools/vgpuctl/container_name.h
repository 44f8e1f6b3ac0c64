/* SPDX-License-Identifier: MIT */
/* Tells vgpud what container engines call the containers that have a VF. */
#pragma once

#include "options.h"

/* Does it for all present containers; with --follow also for new ones, until it is killed or vgpud
 * ends. Returns an exit code. */
int container_name(const struct options *o);
