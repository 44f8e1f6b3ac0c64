/* SPDX-License-Identifier: MIT */
/*
 * Sends descriptors whose last close takes as long as the sender likes: sockets with SO_LINGER and
 * bytes that their peer never reads. lingering WAY SOCKET SECONDS connects to a stream socket and
 * prints "sent"; it ends at the end of its standard input.
 *
 *   request  goes along with a request
 *   behind   comes behind a request, in the same read
 *   unread   is in the socket when the connection ends
 *   urgent   goes along with an urgent byte
 *
 * Exit status 0: sent; 3: the receiver's kernel has refused it (EPERM); 1: otherwise.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lingering.h"
#include "vgpu/local_socket.h"

#define REQUEST "{\"id\":1,\"method\":\"vf.list\"}\n"

/* Sends TEXT and FD; FLAGS as for sendmsg(). 0 or -errno. */
static int send_with(int to, const char *text, int fd, int flags)
{
	struct iovec part = {(void *)text, strlen(text)};
	ssize_t n = vgpu_socket_send(to, &part, 1, &fd, 1, flags);

	return n < 0 ? (int)n : 0;
}

static int attack(const char *way, int to, int fd)
{
	int r;

	if (strcmp(way, "request") == 0)
		return send_with(to, REQUEST, fd, 0);
	if (strcmp(way, "urgent") == 0) {
		r = send_with(to, "x", fd, MSG_OOB);
		return r < 0 ? r : vgpu_socket_send_all(to, REQUEST, strlen(REQUEST));
	}
	if (strcmp(way, "behind") != 0 && strcmp(way, "unread") != 0)
		return -EINVAL;
	r = vgpu_socket_send_all(to, REQUEST REQUEST, 2 * strlen(REQUEST));
	if (r == 0)
		r = send_with(to, REQUEST, fd, 0);
	return r;
}

int main(int argc, char **argv)
{
	char line[2];
	int to, fd, r;

	if (argc != 4)
		return 2;
	to = vgpu_socket_connect(argv[2], 0);
	fd = lingering(atoi(argv[3]));
	if (to < 0 || fd < 0) {
		fprintf(stderr, "lingering: %s\n", strerror(to < 0 ? -to : -fd));
		return 1;
	}
	r = attack(argv[1], to, fd);
	if (r < 0) { /* a process that ends does not linger */
		fprintf(stderr, "lingering: %s\n", strerror(-r));
		return r == -EPERM ? 3 : 1;
	}
	close(fd);
	if (strcmp(argv[1], "unread") == 0)
		close(to);
	puts("sent");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
