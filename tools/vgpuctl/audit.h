/* SPDX-License-Identifier: MIT */
/* Compares vgpud's leases with what the kernel and podman say. */
#pragma once

#include "options.h"

/* Compares the caller's leases, of root all, with the processes that live, and with --podman with
 * podman's state of the caller's containers. Prints each difference. Returns EXIT_OK if there is
 * none, EXIT_FAILED, or another exit code if vgpud or podman cannot be asked. */
int audit(const struct options *o, char **words);
