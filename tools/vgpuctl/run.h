/* SPDX-License-Identifier: MIT */
/* 'vgpuctl run': a program with a VF of a GPU. */
#pragma once

#include "options.h"

/* Asks vgpud for a VF for this process, which then becomes the program of WORDS. Returns an exit
 * code only if that fails; the reason is on stderr, and nothing has been started. */
int run(const struct options *o, char **words);
