/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda_base.h"

/* Returns VGPU_CUDA_LOG: 0: no lines; 1: those that a program's author must know; 2: also each name
 * that the program looks up and does not find. */
static int log_level(void)
{
	const char *wanted = getenv("VGPU_CUDA_LOG");

	return wanted && wanted[0] >= '0' && wanted[0] <= '2' && !wanted[1] ? wanted[0] - '0' : 0;
}

__attribute__((format(printf, 1, 0))) static void write_line(const char *format, va_list list)
{
	char text[512];

	vsnprintf(text, sizeof(text), format, list);
	fprintf(stderr, "vgpu-cuda: %s\n", text);
}

void log_line(const char *format, ...)
{
	va_list list;

	if (log_level() < 1)
		return;
	va_start(list, format);
	write_line(format, list);
	va_end(list);
}

void log_lookup(const char *format, ...)
{
	static atomic_bool shown;
	const int level = log_level();
	va_list list;

	if (level < 1 || (level < 2 && atomic_exchange(&shown, true)))
		return;
	va_start(list, format);
	write_line(format, list);
	va_end(list);
	if (level < 2)
		log_line("VGPU_CUDA_LOG=2 shows each name that the program looks up and does not "
			 "find");
}

CUresult log_absent(const char *name)
{
	log_line("%s is not supported by this library", name);
	return CUDA_ERROR_NOT_SUPPORTED;
}
