/* SPDX-License-Identifier: MIT */
/* What this host offers to VMs, in the terms of OpenStack's placement: docs/fleet.md. */
#pragma once

#include "session.h"

/* Prints the inventory in the format of --format, or writes it to --output, completely or not at
 * all; with --check only says whether that file has the present inventory. Connects to vgpud.
 * Returns an exit code: EXIT_FAILED also if --check finds a difference. */
int inventory(struct session *s);
