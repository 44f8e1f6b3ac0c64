/* SPDX-License-Identifier: MIT */
/* Tells vgpud what container engines call the containers that have a VF. */
#pragma once

#include "options.h"

/* Does it for those that are there, and with --follow for those that come, until it is killed or
 * vgpud ends. Returns an exit code. */
int container_name(const struct options *o);
