/* SPDX-License-Identifier: MIT */
#include "offers.h"

#include <stdio.h>
#include <string.h>

#include "log.h"
#include "vgpu/file.h"
#include "vgpu/local_socket.h"

#define NAME "offers-changed"

void offers_changed(const struct control *control)
{
	const char *socket = control->config->socket, *slash = strrchr(socket, '/');
	char path[VGPU_SOCKET_PATH + sizeof(NAME)];
	int r;

	snprintf(path, sizeof(path), "%.*s" NAME, slash ? (int)(slash + 1 - socket) : 0, socket);
	r = vgpu_file_replace(path, 0644, "", 0);
	if (r < 0)
		log_line(LOG_WARNING,
			 "cannot write %s: %s; the file for containers may be out of date, until "
			 "'vgpuctl inventory --format cdi' writes it",
			 path, strerror(-r));
}
