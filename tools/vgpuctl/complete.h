/* SPDX-License-Identifier: MIT */
#pragma once

#include "options.h"

/* Prints the possible values of the last of WORDS, given the words before it, one on a line; WORDS
 * end at NULL. ":files" stands for the names of files, ":vms" for those of libvirt's domains.
 * Returns an exit code. */
int complete(const struct options *options, char **words);
