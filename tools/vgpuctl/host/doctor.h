/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "options.h"

/* Prints what keeps vgpud from driving GPUs on this host, and the remedy for each finding, as text
 * or JSON; the last line of the text is the next thing to do. Reads the kernel's files, and asks
 * vgpud if it runs; changes nothing. One thread. Returns false if any finding is "bad". */
bool doctor(const struct options *o, bool colour);
