/* SPDX-License-Identifier: MIT */
#pragma once

#include "session.h"

/* Prints the events of all GPUs in order of time; with --follow, also later ones as they happen.
 * Returns an exit code. */
int events(struct session *s);
