/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vgpu/types.h"

int vgpu_error_set(struct vgpu_error *err, int code, const char *format, ...)
{
	va_list args;

	if (!err)
		return code;
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	return code;
}

int vgpu_error_prefix(struct vgpu_error *err, int code, const char *format, ...)
{
	struct vgpu_error whole;
	va_list args;
	size_t used;

	if (!err)
		return code;
	va_start(args, format);
	vsnprintf(whole.text, sizeof(whole.text), format, args);
	va_end(args);
	used = strlen(whole.text);
	snprintf(whole.text + used, sizeof(whole.text) - used, ": %s", err->text);
	*err = whole;
	return code;
}
