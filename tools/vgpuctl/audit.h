/* SPDX-License-Identifier: MIT */
/* Compares vgpud's leases with the kernel's processes and podman's containers. */
#pragma once

#include "options.h"

/* Compares the caller's leases (root: all leases) with the processes that run, and with --podman
 * with podman's state of the caller's containers. Prints each difference. Returns EXIT_OK if there
 * is none, EXIT_FAILED if there is one, or another exit code if vgpud or podman cannot be asked. */
int audit(const struct options *o, char **words);
