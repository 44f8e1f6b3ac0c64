/* SPDX-License-Identifier: MIT */
/* What systemd hands back after a restart, with a socket of the test in systemd's place. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/service.h"
#include "suite.h"
#include "vfio/store.h"

#define FIRST 3 /* of the descriptors that systemd passes */

const struct vfio_store *vfio_store;

static int manager = -1;

/* The next message to systemd, and the descriptor that it brings; false: there is none. */
static bool told(char *text, size_t size, ino_t *inode)
{
	char room[CMSG_SPACE(sizeof(int))];
	struct iovec part = {text, size - 1};
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = room,
			   .msg_controllen = sizeof(room)};
	ssize_t n = recvmsg(manager, &m, MSG_DONTWAIT);
	struct stat st = {.st_ino = 0};
	int fd;

	if (n < 0)
		return false;
	text[n] = '\0';
	if (CMSG_FIRSTHDR(&m)) {
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
		fstat(fd, &st);
		close(fd);
	}
	*inode = st.st_ino;
	return true;
}

static void become_service(const char *names, unsigned n)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	char number[16];
	unsigned i;

	snprintf(at.sun_path, sizeof(at.sun_path), "/tmp/test-service.%d", (int)getpid());
	manager = fcntl(socket(AF_UNIX, SOCK_DGRAM, 0), F_DUPFD, 100);
	CU_ASSERT_EQUAL_FATAL(bind(manager, (struct sockaddr *)&at, sizeof(at)), 0);
	for (i = 0; i < n; i++)
		dup2(memfd_create("kept", 0), (int)(FIRST + i));
	setenv("NOTIFY_SOCKET", at.sun_path, 1);
	snprintf(number, sizeof(number), "%d", (int)getpid());
	setenv("LISTEN_PID", number, 1);
	snprintf(number, sizeof(number), "%u", n);
	setenv("LISTEN_FDS", number, 1);
	setenv("LISTEN_FDNAMES", names, 1);
	service_start();
}

/* Two come back by one name, and one of a GPU that is no more. What is not wanted goes, and what is
 * stays for the next restart. */
TEST(twice, "descriptors that come back twice, or of what is no more")
{
	char text[200];
	bool stays = false, other_goes = false;
	struct stat st;
	ino_t inode;
	int fd;

	become_service("gpu0:gpu0:gone", 3);
	fd = service_socket("gpu0");
	CU_ASSERT_FATAL(fd >= 0 && fstat(fd, &st) == 0);
	CU_ASSERT_EQUAL(service_socket("gpu1"), -ENOENT);
	service_drop_unused();
	while (told(text, sizeof(text), &inode)) {
		if (strstr(text, "FDNAME=gpu0"))
			stays = strncmp(text, "FDSTORE=1", 9) == 0 && inode == st.st_ino;
		other_goes |= strcmp(text, "FDSTOREREMOVE=1\nFDNAME=gone") == 0;
	}
	unlink(getenv("NOTIFY_SOCKET"));
	CU_ASSERT(stays);
	CU_ASSERT(other_goes);
	CU_ASSERT(fcntl(FIRST + 2, F_GETFD) < 0);
	close(fd);
}

SUITE_MAIN("what systemd keeps for vgpud")
