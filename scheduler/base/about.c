/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "vgpu/about.h"
#include "vgpu/output.h"

bool vgpu_about(int argc, char **argv, const char *name, const char *help)
{
	bool version = argc == 2 && strcmp(argv[1], "--version") == 0;

	if (argc != 2 || (!version && strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0))
		return false;
	vgpu_output_check(name);
	if (version)
		printf("%s " VGPU_VERSION "\n", name);
	else
		fputs(help, stdout);
	return true;
}
