/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lingering.h"

int lingering(int seconds)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct linger linger = {1, seconds};
	static const char bytes[65536];
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 1) < 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &size) < 0 ||
	    connect(fd, (struct sockaddr *)&address, size) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) < 0)
		return -errno;
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	/* The peer outlives whoever sends the descriptor: its end would be the linger's. */
	if (fork() == 0) {
		dup2(listener, 0);
		close_range(1, ~0u, 0);
		sleep((unsigned)seconds);
		_exit(0);
	}
	close(listener);
	return fd;
}
