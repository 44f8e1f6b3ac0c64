/* SPDX-License-Identifier: MIT */
#include "domain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exit_code.h"
#include "remote.h"

static char program[] = "vgpud-libvirt";
static const char cure[] = "install the package vgpud-libvirt";

int domain_run(char **argv)
{
	argv[0] = program;
	return remote_wait(argv, cure);
}

char *domain_output(char **argv, size_t *size, int *code)
{
	argv[0] = program;
	return remote_output(argv, cure, size, code);
}

int domain_xml(const char *name, char **out, size_t *size)
{
	char unused[] = "", verb[] = "xml";
	char *argv[] = {unused, verb, strdup(name), NULL}, *text = NULL;
	int code = -1;

	if (argv[2])
		text = domain_output(argv, size, &code);
	if (!text)
		fprintf(stderr, "vgpuctl: %s: its XML: %s\n", name, strerror(errno));
	free(argv[2]);
	if (text && code == EXIT_OK) {
		*size = remote_skip(text, '<');
		*out = text;
		return EXIT_OK;
	}
	free(text);
	return code == EXIT_OK ? EXIT_FAILED : remote_code(code);
}
