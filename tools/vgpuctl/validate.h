/* SPDX-License-Identifier: MIT */
#ifndef VGPUCTL_VALIDATE_H
#define VGPUCTL_VALIDATE_H

#include <stdbool.h>

/* Reads the claim in a file with a domain's XML, or "-", and prints it, or what is wrong with it.
 * Whether it is well. */
bool validate(const char *file, bool as_json);

#endif
