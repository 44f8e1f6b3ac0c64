/* SPDX-License-Identifier: MIT */
#include "domain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "claim.h"
#include "remote.h"
#include "vgpu/file.h"

void domain_run(char **argv)
{
	static char program[] = "vgpud-libvirt";

	int r;

	argv[0] = program;
	r = remote_run(argv);
	fprintf(stderr, "vgpuctl: cannot run %s: %s; install the package vgpud-libvirt\n", program,
		strerror(-r));
}

char *domain_output(char **argv, size_t *size, int *status)
{
	char *text = NULL;
	int ends[2], r;
	pid_t child;

	*status = -1;
	if (pipe(ends) < 0)
		return NULL;
	child = fork();
	if (child == 0) {
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		domain_run(argv);
		_exit(127);
	}
	close(ends[1]);
	r = child < 0 ? -errno : vgpu_read_all(ends[0], CLAIM_MAX_BYTES, &text, size);
	close(ends[0]);
	if (child > 0 && waitpid(child, status, 0) == child)
		*status = WIFEXITED(*status) ? WEXITSTATUS(*status) : -1;
	errno = -r;
	return r < 0 ? NULL : text;
}

char *domain_xml(const char *name, size_t *size)
{
	char unused[] = "", verb[] = "xml";
	char *argv[] = {unused, verb, strdup(name), NULL}, *text = NULL;
	int status;

	if (argv[2])
		text = domain_output(argv, size, &status);
	if (!text)
		fprintf(stderr, "vgpuctl: %s: its XML: %s\n", name, strerror(errno));
	free(argv[2]);
	if (text && status == 0)
		return text;
	free(text);
	return NULL;
}
