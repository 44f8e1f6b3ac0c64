/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "vgpu/about.h"

bool vgpu_about(int argc, char **argv, const char *name, const char *help)
{
	if (argc != 2)
		return false;
	if (strcmp(argv[1], "--version") == 0)
		return printf("%s " VGPU_VERSION "\n", name) > 0;
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return fputs(help, stdout) != EOF;
	return false;
}
