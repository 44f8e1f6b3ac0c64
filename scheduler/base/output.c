/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vgpu/output.h"

static const char *name;
static int trouble; /* errno of the first flush that failed */

bool vgpu_output_flush(void)
{
	errno = 0;
	if (fflush(stdout) != 0 && !trouble)
		trouble = errno;
	return !ferror(stdout);
}

static void at_exit(int status, void *)
{
	if (vgpu_output_flush())
		return;
	/* The errors of earlier writes are lost. Most are of a full disk, and persist. */
	if (!trouble && write(STDOUT_FILENO, "\n", 1) < 0)
		trouble = errno;
	if (trouble != EPIPE)
		fprintf(stderr, "%s: stdout: %s\n", name,
			trouble ? strerror(trouble) : "not all of the output could be written");
	if (status == 0)
		_exit(1);
}

void vgpu_output_check(const char *program)
{
	if (name)
		return;
	name = program;
	on_exit(at_exit, NULL);
}
