/* SPDX-License-Identifier: MIT */
#include "log.h"

#include <stdio.h>

void log_line(int level, const char *what, const char *why)
{
	fprintf(stderr, "<%d>vgpud-libvirt: %s%s%s\n", level, what, why ? ": " : "",
		why ? why : "");
}
