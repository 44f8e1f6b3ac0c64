/* SPDX-License-Identifier: MIT */
#pragma once

#include "session.h"

/* Shows the VFs' shares repeatedly; BY_VM: only those of VFs that belong to a VM. Returns an exit
 * code. */
int top(struct session *s, bool by_vm);

/* Prints a line for each VF at the end of each interval, about that interval, until ^C or as often
 * as the options say. Returns an exit code. */
int dmon(struct session *s);
