/* SPDX-License-Identifier: MIT */
#pragma once

#include "session.h"

/* Prints all figures of the VFs of the VM with that name or UUID. Returns an exit code. */
int vm_show(struct session *s, const char *name);
