/* SPDX-License-Identifier: MIT */
#ifndef VGPUCTL_VALIDATE_H
#define VGPUCTL_VALIDATE_H

#include <stdbool.h>

/* Reads a domain's XML from FILE ("-": stdin; no such file: from libvirt) and prints its claim, as
 * text or JSON, or its errors on stderr. Returns whether the claim is valid. */
bool validate(const char *file, bool as_json);

#endif
