/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "log.h"

void log_line(enum log_level level, const char *format, ...)
{
	int keep = errno;
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "<%d>vgpud: %s\n", level, text);
	errno = keep;
}
