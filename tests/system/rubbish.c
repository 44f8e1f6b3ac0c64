/* SPDX-License-Identifier: MIT */
/*
 * Connects to a socket many times and sends malformed input: noise, incomplete messages, huge
 * sizes, lines that are no requests. Exits with 0 if the server accepted all connections.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *const lines[] = {
	"\n",
	"{\n",
	"[]\n",
	"null\n",
	"{\"method\":5}\n",
	"{\"method\":\"nothing\"}\n",
	"{\"method\":\"gpu.show\",\"args\":[]}\n",
	"{\"method\":\"vf.set\",\"args\":{\"vf\":1e9,\"params\":{}}}\n",
	"{\"method\":\"vf.set\",\"args\":{\"vf\":0,\"params\":{\"weight\":{\"a\":[]}}}}\n",
	"{\"id\":{\"a\":[1]},\"method\":\"gpu.list\"}\n{\"method\":\"timeline\"}\n",
	"{\"method\":\"stats\"}\n{\"method\":\"stats\"}\n{\"method\":\"events\"}", /* and hangs up
										    */
};

static int open_socket(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		perror(path);
		exit(1);
	}
	return fd;
}

static void put(int fd, const void *data, size_t size)
{
	/* The server may close the connection at any time. */
	if (send(fd, data, size, MSG_NOSIGNAL) < 0)
		return;
}

int main(int argc, char **argv)
{
	static unsigned char noise[200000];
	unsigned i, round;
	int fd;

	if (argc != 2)
		return 2;
	srand(8);
	for (round = 0; round < 100; round++) {
		fd = open_socket(argv[1]);
		for (i = 0; i < 4096; i++)
			noise[i] = (unsigned char)rand();
		/* sometimes the beginning of a header that looks valid */
		if (round % 3 == 0)
			memcpy(noise, "\1\0\11\0\60\0\0\0\0\0\0\0\0\0\0\0", 16);
		put(fd, noise, 1 + (size_t)rand() % 4096);
		close(fd);
	}
	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		fd = open_socket(argv[1]);
		put(fd, lines[i], strlen(lines[i]));
		close(fd);
	}
	memset(noise, 'x', sizeof(noise)); /* a line that does not end */
	fd = open_socket(argv[1]);
	put(fd, noise, sizeof(noise));
	close(fd);
	return 0;
}
