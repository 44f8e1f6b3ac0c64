/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vgpu/descriptor.h"
#include "vgpu/untrusted.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

/* The program's first argument in a process that closes a socket, which is its standard input; its
 * standard output is a pipe that it reads. */
#define ARGUMENT "--close-socket"
/* Most of these processes at once; to make room, those that have not ended are killed. */
#define CLOSERS 16u

static bool closes; /* this program's main() has called vgpu_untrusted_main() */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int closers[CLOSERS]; /* descriptors of the processes; 0: none. Protected by LOCK */

void vgpu_untrusted_prepare(int fd)
{
	const int no = 0, yes = 1;

	setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no));
	/* Otherwise the next read would discard an urgent byte, and what goes with it, unseen. */
	setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &yes, sizeof(yes));
}

void vgpu_untrusted_allow(int fd)
{
	const int yes = 1;

	setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &yes, sizeof(yes));
}

ssize_t vgpu_untrusted_receive(int fd, void *data, size_t size)
{
	struct iovec part = {data, size};
	/* Without room for descriptors the kernel says that there would have been some. */
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t n;

	do
		n = recvmsg(fd, &m, MSG_PEEK | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (m.msg_flags & MSG_CTRUNC)
		return -EPERM;
	if (n == 0)
		return 0;
	/* These bytes, and not what has come behind them since. */
	do
		n = recv(fd, data, (size_t)n, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* Whether the descriptor of the process is free again, because the process has ended. */
static bool reap(int *closer)
{
	siginfo_t info = {0};

	if (*closer > 0 &&
	    (waitid(P_PIDFD, (id_t)*closer, &info, WEXITED | WNOHANG) < 0 || info.si_pid != 0)) {
		close(*closer);
		*closer = 0;
	}
	return *closer == 0;
}

static int *find_room(void)
{
	uint32_t i;

	for (i = 0; i < CLOSERS; i++)
		if (reap(&closers[i]))
			return &closers[i];
	for (i = 0; i < CLOSERS; i++)
		pidfd_send_signal(closers[i], SIGKILL, NULL, 0);
	return NULL;
}

bool vgpu_untrusted_reap(void)
{
	bool busy = false;
	uint32_t i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < CLOSERS; i++)
		busy |= !reap(&closers[i]);
	pthread_mutex_unlock(&lock);
	return busy;
}

/* Closes the socket by a process that has it, and that ends when this one has it no more. False:
 * there is no such process. */
static bool close_elsewhere(int *fd)
{
	char *argv[] = {(char *)"vgpu-closer", (char *)ARGUMENT, NULL}, *environment[] = {NULL};
	int *room, ends[2];
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	bool started;
	pid_t pid;

	if (!closes || pipe2(ends, O_CLOEXEC) < 0)
		return false;
	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_adddup2(&actions, *fd, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, ends[0], STDOUT_FILENO);
	pthread_mutex_lock(&lock);
	room = find_room();
	started = room &&
		  posix_spawn(&pid, "/proc/self/exe", &actions, &attr, argv, environment) == 0;
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	if (started) {
		*room = pidfd_open(pid, 0);
		if (*room < 0)
			*room = 0;
		vgpu_close(fd);
	}
	pthread_mutex_unlock(&lock);
	close(ends[0]);
	close(ends[1]);
	return started;
}

/* Whether descriptors are unread in the connection, of which nothing but bytes is lost. A process
 * for each connection that is refused with its request unread would be an attack of its own. */
static bool has_descriptors(int fd)
{
	char bytes[4096];
	ssize_t n;

	vgpu_untrusted_prepare(fd);
	/* Nothing can come any more after this: what is unread is a socket's buffer at most. */
	if (shutdown(fd, SHUT_RDWR) < 0)
		return false;
	do
		n = vgpu_untrusted_receive(fd, bytes, sizeof(bytes));
	while (n > 0);
	return n == -EPERM;
}

void vgpu_untrusted_close(int *fd)
{
	int domain = 0;
	socklen_t size = sizeof(domain);

	if (*fd < 0)
		return;
	if (getsockopt(*fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
	    has_descriptors(*fd) && !close_elsewhere(fd))
		*fd = -1; /* stays open: this process must not wait for its end */
	vgpu_close(fd);
}

void vgpu_untrusted_close_listener(int *fd)
{
	int one;

	if (*fd >= 0)
		shutdown(*fd, SHUT_RDWR);
	while (*fd >= 0 && (one = accept4(*fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		vgpu_untrusted_close(&one);
	vgpu_close(fd);
}

void vgpu_hide_memory(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	prctl(PR_SET_DUMPABLE, 0);
#endif
}

bool vgpu_untrusted_main(int argc, char **argv)
{
	char byte;

	closes = true;
	if (argc != 2 || strcmp(argv[1], ARGUMENT) != 0)
		return false;
	/* Ends when the starter has closed its copy of the socket: the one here is the last. */
	while (read(STDOUT_FILENO, &byte, 1) < 0 && errno == EINTR)
		;
	return true;
}
