/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

/* Reads a domain's XML from FILE ("-": stdin; if there is no such file: from libvirt) and prints
 * its claim, as text or JSON, or its errors on stderr. With a HOST (NULL: none), FILE is a domain
 * of the libvirt on that host. Returns an exit code: EXIT_FAILED if the claim is not valid. */
int validate(const char *file, const char *host, bool as_json);
