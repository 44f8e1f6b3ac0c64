/* SPDX-License-Identifier: MIT */
#include "domain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "claim.h"
#include "vgpu/file.h"

void domain_run(char **argv)
{
	static char program[] = "vgpud-libvirt";

	argv[0] = program;
	execvp(program, argv);
	fprintf(stderr, "vgpuctl: cannot run %s: %s; install the package vgpud-libvirt\n", program,
		strerror(errno));
}

char *domain_xml(const char *name, size_t *size)
{
	char *text = NULL, unused[] = "", verb[] = "xml";
	char *argv[] = {unused, verb, strdup(name), NULL};
	int ends[2], status = -1, r = 0;
	pid_t child = -1;

	if (!argv[2] || pipe(ends) < 0 || (child = fork()) < 0) {
		fprintf(stderr, "vgpuctl: %s: %s\n", name, strerror(errno));
	} else if (child == 0) {
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		domain_run(argv);
		_exit(127);
	} else {
		close(ends[1]);
		r = vgpu_read_all(ends[0], CLAIM_MAX_BYTES, &text, size);
		close(ends[0]);
		waitpid(child, &status, 0);
	}
	if (r < 0)
		fprintf(stderr, "vgpuctl: %s: its XML: %s\n", name, strerror(-r));
	free(argv[2]);
	if (r == 0 && status == 0)
		return text;
	free(text);
	return NULL;
}
