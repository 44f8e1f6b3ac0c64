/* SPDX-License-Identifier: MIT */
#include "host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DIRECTORY "/run/libvirt"

/* The directory of the socket in "qemu:///system?socket=/run/libvirt/libvirt-sock". */
static void directory_of(const char *uri, char *out, size_t size)
{
	static const char word[] = "socket=";
	const char *socket = uri ? strstr(uri, word) : NULL, *from = getenv("VGPUD_LIBVIRT_DIR");
	char *slash;

	snprintf(out, size, "%s", from ? from : DIRECTORY);
	if (!socket || from)
		return;
	socket += strlen(word);
	snprintf(out, size, "%.*s", (int)strcspn(socket, "&"), socket);
	slash = strrchr(out, '/');
	if (slash)
		*slash = '\0';
}

int client_host(const char *uri, char out[CLIENT_HOST_SIZE], struct vgpu_error *err)
{
	char path[256];
	struct stat s;

	directory_of(uri, path, sizeof(path));
	if (stat(path, &s) < 0)
		return vgpu_error_set(err, -errno,
				      "cannot identify this libvirt: %s: %s; make it a link to the "
				      "directory with libvirt's sockets",
				      path, strerror(errno));
	snprintf(out, CLIENT_HOST_SIZE, "%llx:%llx", (unsigned long long)s.st_dev,
		 (unsigned long long)s.st_ino);
	return 0;
}
