/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "options.h"

/* Prints what keeps vgpud from driving GPUs on this host, and the remedy for each finding, as text
 * or JSON; the last line of the text says what to do next. Reads the kernel's files, and asks vgpud
 * if it runs; changes nothing. Returns false if any finding is "bad". */
bool doctor(const struct options *o, bool colour);
