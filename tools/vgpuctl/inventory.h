/* SPDX-License-Identifier: MIT */
/* What this host offers to VMs, in the terms of OpenStack's placement: docs/fleet.md. */
#pragma once

#include "session.h"

/* Prints the inventory in the format of --format, or writes it to --output, whole or not at all;
 * with --check only says whether that file is what would be written. Connects. Returns an exit
 * code: EXIT_FAILED, too, if --check finds a difference. */
int inventory(struct session *s);
