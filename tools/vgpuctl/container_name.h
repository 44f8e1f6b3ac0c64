/* SPDX-License-Identifier: MIT */
/* Tells vgpud the container engines' names of the containers that have a VF. */
#pragma once

#include "options.h"

/* Names all present containers; with --follow also later ones, until vgpuctl is killed or vgpud
 * ends. Returns an exit code. */
int container_name(const struct options *o);
