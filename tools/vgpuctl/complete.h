/* SPDX-License-Identifier: MIT */
#pragma once

#include "options.h"

/* Prints, one on a line, what the last of WORDS may be, given those before it; the words end at
 * NULL. ":files" stands for the names of files, ":vms" for those of libvirt's domains. Returns an
 * exit code. */
int complete(const struct options *options, char **words);
