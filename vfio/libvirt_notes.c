/* SPDX-License-Identifier: MIT */
#include "vfio/libvirt_notes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vfio/kernel.h"

struct notes {
	pid_t pid; /* the process of the VM to find */
	int found; /* number of files that name that process */
	char *uuid;
	size_t size;
	/* of the file that is read */
	bool is_its, in_domain, done;
};

/* A file has <domstatus state='running' reason='booted' pid='4711'>, other elements, and then
 * <domain ...>, in which <uuid> is the first element except <name>. Text that a VM's owner has
 * written comes later: its metadata may contain any elements. */
static void note_line(void *data, const char *line)
{
	struct notes *n = data;
	const char *at = n->in_domain ? NULL : strstr(line, "<domstatus ");
	char uuid[40];

	if (at && (at = strstr(at, " pid='")))
		n->is_its = strtol(at + 6, NULL, 10) == n->pid;
	n->in_domain |= strstr(line, "<domain ") != NULL;
	at = n->is_its && n->in_domain && !n->done ? strstr(line, "<uuid>") : NULL;
	if (!at || sscanf(at + 6, "%39[0-9a-fA-F-]<", uuid) != 1)
		return;
	snprintf(n->uuid, n->size, "%s", uuid);
	n->found++;
	n->done = true;
}

static int read_note(void *data, const char *name)
{
	struct notes *n = data;
	size_t length = strlen(name);
	char path[320];

	if (length < 4 || strcmp(name + length - 4, ".xml") != 0)
		return 0;
	n->is_its = n->in_domain = n->done = false;
	snprintf(path, sizeof(path), LIBVIRT_NOTES "/%.255s", name);
	kernel_each_line(path, note_line, n);
	return 0;
}

/* If two files name one process, one of their VMs has ended, and it is unknown which. */
bool libvirt_vm_of(pid_t pid, char *uuid, size_t size)
{
	struct notes n = {.pid = pid, .uuid = uuid, .size = size};

	vfio_kernel->list(LIBVIRT_NOTES, read_note, &n);
	return n.found == 1;
}

bool libvirt_vm_is(const char *name, pid_t pid, char *uuid, size_t size)
{
	struct notes n = {.pid = pid, .uuid = uuid, .size = size};
	char file[264];

	if (!strchr(name, '/') && snprintf(file, sizeof(file), "%s.xml", name) < (int)sizeof(file))
		read_note(&n, file);
	return n.found == 1;
}
