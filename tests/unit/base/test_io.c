/* SPDX-License-Identifier: MIT */
/* Descriptors, UNIX sockets and files: the helpers of scheduler/base. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "suite.h"
#include "vgpu/descriptor.h"
#include "vgpu/file.h"
#include "vgpu/local_socket.h"
#include "vgpu/untrusted.h"

static char dir[] = "/tmp/vgpu-io-XXXXXX";

static const char *in_dir(const char *name)
{
	static char path[64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

/* Returns the number of descriptors that this process has open. */
static unsigned n_open(void)
{
	unsigned n = 0;
	int fd;

	for (fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

TEST(closes_and_takes, "descriptors: closed once, and handed on")
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), taken;
	unsigned before = n_open();

	taken = vgpu_take(&fd);
	CU_ASSERT(fd == -1 && fcntl(taken, F_GETFD) >= 0);
	errno = EBADMSG;
	vgpu_close(&taken);
	CU_ASSERT(errno == EBADMSG && taken == -1 && n_open() == before - 1);
	vgpu_close(&taken);
	CU_ASSERT_EQUAL(n_open(), before - 1);
}

TEST(eventfds, "eventfds: signalled and drained")
{
	VGPU_AUTO_CLOSE int fd = vgpu_eventfd();
	struct pollfd p = {.fd = fd, .events = POLLIN};

	CU_ASSERT_FATAL(fd >= 0);
	CU_ASSERT(fcntl(fd, F_GETFD) & FD_CLOEXEC && fcntl(fd, F_GETFL) & O_NONBLOCK);
	CU_ASSERT_FALSE(vgpu_eventfd_drain(fd));
	vgpu_eventfd_signal(fd);
	vgpu_eventfd_signal(fd);
	CU_ASSERT_EQUAL(poll(&p, 1, 0), 1);
	CU_ASSERT(vgpu_eventfd_drain(fd));
	CU_ASSERT_EQUAL(poll(&p, 1, 0), 0);
}

TEST(listens_and_connects, "sockets: listen and connect")
{
	const char *path = in_dir("socket");
	struct vgpu_error err;
	struct stat st;
	int listener, second, client;

	CU_ASSERT_EQUAL(vgpu_socket_connect(path, 0), -ENOENT);
	listener = vgpu_socket_listen(path, 0640, 4, &err);
	CU_ASSERT_FATAL(listener >= 0);
	CU_ASSERT(stat(path, &st) == 0 && (st.st_mode & 07777) == 0640);
	client = vgpu_socket_connect(path, SOCK_NONBLOCK);
	CU_ASSERT(client >= 0 && fcntl(client, F_GETFD) & FD_CLOEXEC &&
		  fcntl(client, F_GETFL) & O_NONBLOCK);
	vgpu_close(&client);
	/* A socket in use is not replaced. */
	CU_ASSERT_EQUAL(vgpu_socket_listen(path, 0640, 4, &err), -EADDRINUSE);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, path));
	client = vgpu_socket_connect(path, 0);
	CU_ASSERT(client >= 0);
	vgpu_close(&client);
	/* A socket that its server left behind is replaced. */
	vgpu_close(&listener);
	CU_ASSERT_EQUAL(vgpu_socket_connect(path, 0), -ECONNREFUSED);
	second = vgpu_socket_listen(path, 0640, 4, &err);
	CU_ASSERT(second >= 0);
	vgpu_close(&second);
	unlink(path);
}

/* A path that is not a socket is never removed. */
TEST(leaves_files_alone, "sockets: other files are left alone")
{
	const char *path = in_dir("file");
	char longer[VGPU_SOCKET_PATH + 1];
	struct vgpu_error err;

	CU_ASSERT_EQUAL(vgpu_file_replace(path, 0600, "kept", 4), 0);
	CU_ASSERT_EQUAL(vgpu_socket_listen(path, 0600, 4, &err), -ENOTSOCK);
	CU_ASSERT_EQUAL(unlink(path), 0);
	memset(longer, 'x', VGPU_SOCKET_PATH);
	longer[VGPU_SOCKET_PATH] = '\0';
	CU_ASSERT_EQUAL(vgpu_socket_connect(longer, 0), -ENAMETOOLONG);
	CU_ASSERT_EQUAL(vgpu_socket_listen(longer, 0600, 4, &err), -ENAMETOOLONG);
}

static int pair[2];

static void open_pair(int type)
{
	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair), 0);
}

static void close_pair(void)
{
	vgpu_close(&pair[0]);
	vgpu_close(&pair[1]);
}

static ssize_t send_fds(const int *fds, uint32_t n)
{
	char byte = 'x';
	struct iovec part = {&byte, 1};

	return vgpu_socket_send(pair[0], &part, 1, fds, n, 0);
}

TEST(descriptors_travel, "messages: descriptors arrive with their message")
{
	unsigned before = n_open();
	struct vgpu_received got;
	int fds[VGPU_MESSAGE_FDS + 1];
	char data[4];
	uint32_t i;

	open_pair(SOCK_STREAM);
	for (i = 0; i <= VGPU_MESSAGE_FDS; i++)
		fds[i] = pair[0];
	CU_ASSERT_EQUAL(vgpu_socket_receive(pair[1], data, 4, MSG_DONTWAIT, &got), -EAGAIN);
	CU_ASSERT_EQUAL(send_fds(fds, VGPU_MESSAGE_FDS + 1), -E2BIG);
	CU_ASSERT_EQUAL(send_fds(fds, VGPU_MESSAGE_FDS), 1);
	CU_ASSERT_EQUAL(vgpu_socket_receive(pair[1], data, 4, 0, &got), 1);
	CU_ASSERT_EQUAL(got.n_fds, VGPU_MESSAGE_FDS);
	for (i = 0; i < got.n_fds; i++)
		CU_ASSERT(fcntl(got.fds[i], F_GETFD) & FD_CLOEXEC);
	CU_ASSERT_EQUAL(close(vgpu_take(&got.fds[3])), 0);
	vgpu_received_drop(&got);
	CU_ASSERT_EQUAL(n_open(), before + 2);
	CU_ASSERT_EQUAL(send_fds(NULL, 0), 1);
	CU_ASSERT(vgpu_socket_receive(pair[1], data, 4, 0, &got) == 1 && got.n_fds == 0);
	vgpu_close(&pair[0]);
	CU_ASSERT_EQUAL(vgpu_socket_receive(pair[1], data, 4, 0, &got), 0);
	CU_ASSERT_EQUAL(vgpu_socket_send_all(pair[1], data, 4), -EPIPE);
	close_pair();
}

/* Sends more descriptors than any program of ours sends. */
static void send_many(uint32_t n)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * 64)];
	} control = {0};
	char byte = 'x';
	struct iovec part = {&byte, 1};
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = CMSG_SPACE(sizeof(int) * n)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	uint32_t i;

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * n);
	for (i = 0; i < n; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &pair[0], sizeof(int));
	CU_ASSERT_EQUAL(sendmsg(pair[0], &m, MSG_NOSIGNAL), 1);
}

/* With more descriptors than fit, the message counts as lost, and none of them stays open. */
TEST(too_many_descriptors, "messages: more descriptors than fit")
{
	static const uint32_t numbers[] = {VGPU_MESSAGE_FDS + 1, VGPU_MESSAGE_FDS + 8, 64};
	struct vgpu_received got;
	unsigned before;
	char data[4];
	size_t i;

	open_pair(SOCK_STREAM);
	before = n_open();
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		send_many(numbers[i]);
		CU_ASSERT_EQUAL(vgpu_socket_receive(pair[1], data, 4, 0, &got), -EMSGSIZE);
		CU_ASSERT(got.n_fds == 0 && n_open() == before);
	}
	close_pair();
}

/* A process at its limit of open files receives only the first descriptors, and no error from
 * Linux. */
TEST(no_room_for_descriptors, "messages: no free numbers for descriptors")
{
	struct vgpu_received got;
	struct rlimit limit, old;
	unsigned before;
	char data[4];
	int fds[3], high;

	open_pair(SOCK_STREAM);
	before = n_open();
	high = dup(pair[0]); /* the lowest free number: one descriptor has room */
	CU_ASSERT_FATAL(high >= 0 && getrlimit(RLIMIT_NOFILE, &old) == 0);
	limit = (struct rlimit){(rlim_t)high + 1, old.rlim_max};
	close(high);
	fds[0] = fds[1] = fds[2] = pair[0];
	CU_ASSERT_EQUAL(send_fds(fds, 3), 1);
	CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
	CU_ASSERT_EQUAL(vgpu_socket_receive(pair[1], data, 4, 0, &got), -EMSGSIZE);
	CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &old), 0);
	CU_ASSERT(got.n_fds == 0 && n_open() == before);
	close_pair();
}

TEST(datagrams, "messages: datagrams are whole or refused")
{
	struct vgpu_received got;
	char data[4];
	int one = 1;

	open_pair(SOCK_DGRAM);
	CU_ASSERT_EQUAL(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)), 0);
	CU_ASSERT_EQUAL(vgpu_socket_send_all(pair[0], "four", 4), 0);
	CU_ASSERT_EQUAL(vgpu_socket_receive(pair[1], data, 4, 0, &got), 4);
	CU_ASSERT_EQUAL(got.from.pid, getpid());
	CU_ASSERT_EQUAL(vgpu_socket_send_all(pair[0], "five!", 5), 0);
	CU_ASSERT_EQUAL(vgpu_socket_receive(pair[1], data, 4, 0, &got), -EMSGSIZE);
	close_pair();
}

TEST(files, "files: replaced and read")
{
	static char many[100000];
	const char *path = in_dir("text");
	char *text = NULL;
	struct stat st;
	size_t size, i;

	CU_ASSERT_EQUAL(vgpu_file_read(path, 10, &text, &size), -ENOENT);
	CU_ASSERT_EQUAL(vgpu_file_replace(path, 0600, "", 0), 0);
	CU_ASSERT(vgpu_file_read(path, 10, &text, &size) == 0 && size == 0 && text[0] == '\0');
	free(text);
	for (i = 0; i < sizeof(many); i++)
		many[i] = (char)(i * i >> 3);
	CU_ASSERT_EQUAL(vgpu_file_replace(path, 0600, many, sizeof(many)), 0);
	CU_ASSERT(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
	text = NULL;
	CU_ASSERT_EQUAL(vgpu_file_read(path, sizeof(many) - 1, &text, &size), -E2BIG);
	CU_ASSERT_PTR_NULL(text);
	CU_ASSERT_EQUAL(vgpu_file_read(path, sizeof(many), &text, &size), 0);
	CU_ASSERT(size == sizeof(many) && memcmp(text, many, size) == 0 && text[size] == '\0');
	free(text);
	unlink(path);
}

/* A failed write leaves the old file as it is, and nothing beside it. */
TEST(files_that_are_not_replaced, "files: a failed replacement leaves the old file")
{
	char path[64], below[80];

	snprintf(path, sizeof(path), "%s", in_dir("target"));
	snprintf(below, sizeof(below), "%s/below", path);
	CU_ASSERT_EQUAL(vgpu_make_parent(below), 0);
	CU_ASSERT_EQUAL(vgpu_make_parent(below), 0);
	CU_ASSERT_EQUAL(vgpu_make_parent(in_dir("nowhere/below/file")), -ENOENT);
	CU_ASSERT_EQUAL(vgpu_file_replace(below, 0600, "x", 1), 0);
	CU_ASSERT_EQUAL(vgpu_file_replace(path, 0600, "x", 1), -EISDIR);
	CU_ASSERT_EQUAL(access(in_dir("target.new"), F_OK), -1);
	CU_ASSERT_EQUAL(vgpu_file_replace(in_dir("nowhere/file"), 0600, "x", 1), -ENOENT);
	unlink(below);
	CU_ASSERT_EQUAL(rmdir(path), 0);
}

/* Of what an untrusted peer sends, bytes are read up to the first that a descriptor goes with, on
 * kernels that refuse descriptors and on others: here none was refused. */
TEST(untrusted_descriptors, "messages: descriptors of untrusted peers stay unread")
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), urgent;
	const int inline_bytes = 1;
	struct iovec byte = {(char *)"c", 1};
	unsigned before;
	char data[8];

	for (urgent = 0; urgent <= 1; urgent++) {
		open_pair(SOCK_STREAM);
		setsockopt(pair[1], SOL_SOCKET, SO_OOBINLINE, &inline_bytes, sizeof(inline_bytes));
		before = n_open();
		CU_ASSERT_EQUAL(vgpu_untrusted_receive(pair[1], data, sizeof(data)), -EAGAIN);
		CU_ASSERT_EQUAL(vgpu_socket_send_all(pair[0], "ab", 2), 0);
		CU_ASSERT_EQUAL(vgpu_untrusted_receive(pair[1], data, sizeof(data)), 2);
		CU_ASSERT_EQUAL(vgpu_socket_send(pair[0], &byte, 1, &fd, 1, urgent ? MSG_OOB : 0),
				1);
		CU_ASSERT_EQUAL(vgpu_untrusted_receive(pair[1], data, sizeof(data)), -EPERM);
		CU_ASSERT_EQUAL(vgpu_untrusted_receive(pair[1], data, 1), -EPERM);
		CU_ASSERT_EQUAL(n_open(), before);
		close_pair();
	}
	open_pair(SOCK_STREAM);
	vgpu_untrusted_prepare(pair[1]);
	CU_ASSERT_EQUAL(vgpu_socket_send_all(pair[0], "a", 1), 0);
	CU_ASSERT_EQUAL(vgpu_untrusted_receive(pair[1], data, sizeof(data)), 1);
	vgpu_close(&pair[0]);
	CU_ASSERT_EQUAL(vgpu_untrusted_receive(pair[1], data, sizeof(data)), 0);
	vgpu_untrusted_close(&pair[1]);
	CU_ASSERT_EQUAL(pair[1], -1);
	close(fd);
}

/* Returns whether this process has had a child since the last call. */
static bool had_child(void)
{
	bool had = false;

	while (waitpid(-1, NULL, 0) > 0)
		had = true;
	return had;
}

/* A connection with unread bytes is closed here; one with an unread descriptor, behind how many
 * bytes it may be, by a process of its own. */
TEST(untrusted_ends, "messages: only unread descriptors take a process to close")
{
	static const char bytes[10000];
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), last;
	struct iovec byte = {(char *)"c", 1};

	for (last = 0; last <= 1; last++) {
		open_pair(SOCK_STREAM);
		CU_ASSERT_EQUAL(vgpu_socket_send_all(pair[0], bytes, sizeof(bytes)), 0);
		if (last)
			CU_ASSERT_EQUAL(vgpu_socket_send(pair[0], &byte, 1, &fd, 1, 0), 1);
		vgpu_untrusted_close(&pair[1]);
		CU_ASSERT_EQUAL(pair[1], -1);
		CU_ASSERT_EQUAL(had_child(), last);
		vgpu_close(&pair[0]);
	}
	close(fd);
}

/* A process that is being started has a copy of a connection that is closed meanwhile. It is not
 * the last that has it: the process that closes it waits for that. */
TEST(untrusted_ends_last, "messages: whoever has a copy for a moment does not close")
{
	const struct timespec moment = {.tv_nsec = 100000000};
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct iovec byte = {(char *)"c", 1};
	siginfo_t first = {0};
	pid_t started;

	open_pair(SOCK_STREAM);
	CU_ASSERT_EQUAL(vgpu_socket_send(pair[0], &byte, 1, &fd, 1, 0), 1);
	started = fork();
	while (started == 0)
		pause();
	vgpu_untrusted_close(&pair[1]);
	nanosleep(&moment, NULL);
	CU_ASSERT_EQUAL(waitid(P_ALL, 0, &first, WEXITED | WNOHANG | WNOWAIT), 0);
	CU_ASSERT_EQUAL(first.si_pid, 0);
	kill(started, SIGKILL);
	CU_ASSERT_EQUAL(waitpid(started, NULL, 0), started);
	CU_ASSERT(had_child());
	vgpu_untrusted_reap();
	vgpu_close(&pair[0]);
	close(fd);
}

/* A connection for which there can be no process now is closed with the next one. */
TEST(untrusted_ends_later, "messages: what cannot be closed now is closed later")
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), late;
	struct iovec byte = {(char *)"c", 1};
	struct rlimit limit, few;
	unsigned before;

	vgpu_untrusted_reap(); /* what the last test has left */
	before = n_open();
	getrlimit(RLIMIT_NOFILE, &limit);
	for (late = 0; late <= 1; late++) {
		open_pair(SOCK_STREAM);
		CU_ASSERT_EQUAL(vgpu_socket_send(pair[0], &byte, 1, &fd, 1, 0), 1);
		vgpu_close(&pair[0]);
		few = (struct rlimit){late ? limit.rlim_cur : 3, limit.rlim_max};
		setrlimit(RLIMIT_NOFILE, &few);
		vgpu_untrusted_close(&pair[1]);
		setrlimit(RLIMIT_NOFILE, &limit);
		CU_ASSERT_EQUAL(pair[1], -1);
		CU_ASSERT_EQUAL(had_child(), late);
	}
	vgpu_untrusted_reap();
	CU_ASSERT_EQUAL(n_open(), before);
	close(fd);
}

int main(int argc, char **argv)
{
	int status;

	if (vgpu_untrusted_main(argc, argv))
		return 0;
	if (!mkdtemp(dir))
		return 1;
	status = suite_main("io", NULL, argc, argv);
	return rmdir(dir) < 0 ? 1 : status;
}
