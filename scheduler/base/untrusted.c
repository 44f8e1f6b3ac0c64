/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

/* The first argument of a process that closes sockets; the descriptors of the pipes that it waits
 * for follow. */
#define ARGUMENT "--close-sockets"
/* Largest number of pipes that such a process waits for. */
#define PIPES 16u
/* Largest number of such processes; to make room, the program kills those that have not ended. */
#define CLOSERS 16u
/* Largest number of sockets that stay open until the next such process gets them all. */
#define LEFT 64u

static bool closes; /* this program's main() has called vgpu_untrusted_main() */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Protected by LOCK. */
static int closers[CLOSERS]; /* pidfds of the processes; 0: unused */
static uint32_t next_forgotten;
static int left[LEFT]; /* sockets for the next process */
static uint32_t n_left;
/*
 * A process that this one starts has copies of all its descriptors until it executes its program.
 * If a socket is closed meanwhile, that copy may be the last, and the new process would block
 * before its program begins. Each new process therefore also has a copy of the writing end of a
 * pipe. When sockets have been passed on, another pipe takes the place of PRESENT: once that and
 * all earlier pipes have ended, only the closing process has copies of these sockets.
 */
static int present[2] = {-1, -1};
static int earlier[PIPES]; /* reading ends of pipes that had not ended at the last check */
static uint32_t n_earlier;

void vgpu_untrusted_prepare(int fd)
{
	const int no = 0, yes = 1;

	setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no));
	/* Otherwise the next read would silently discard an urgent byte and its descriptors. */
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
	/* Without room for descriptors the kernel still reports that there were some. */
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
	/* Reads these bytes only, not the ones that have arrived since. */
	do
		n = recv(fd, data, (size_t)n, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* Frees the slot of a process that has ended; returns whether it is free. */
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

/* Closes the pipes that have ended. */
static void forget_ended(void)
{
	struct pollfd p = {.events = POLLIN};
	uint32_t i = 0;

	while (i < n_earlier) {
		p.fd = earlier[i];
		if (poll(&p, 1, 0) > 0) {
			close(p.fd);
			earlier[i] = earlier[--n_earlier];
		} else {
			i++;
		}
	}
}

static int *find_room(void)
{
	uint32_t i;

	for (i = 0; i < CLOSERS; i++)
		if (reap(&closers[i]))
			return &closers[i];
	/* A process that still waits for the end of a pipe must not be the first to be killed. */
	forget_ended();
	for (i = 0; i < CLOSERS && n_earlier == 0; i++)
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
	forget_ended();
	busy |= n_earlier > 0;
	pthread_mutex_unlock(&lock);
	return busy;
}

/* Starts a process that gets the sockets in LEFT, and closes them when no other process has them;
 * stores its pidfd in *ROOM. */
static bool start_closer(int *room)
{
	char *argv[2 + PIPES + 1] = {(char *)"vgpu-closer", (char *)ARGUMENT};
	char *environment[] = {NULL}, numbers[PIPES][12];
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int next[2];
	sigset_t none;
	bool started;
	uint32_t i;
	pid_t pid;

	forget_ended();
	if (n_earlier == PIPES || present[0] < 0 || pipe2(next, O_CLOEXEC) < 0)
		return false;
	earlier[n_earlier++] = present[0];
	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	for (i = 0; i < n_left;
	     i++) /* the descriptor keeps its number, and stays open over exec() */
		posix_spawn_file_actions_adddup2(&actions, left[i], left[i]);
	for (i = 0; i < n_earlier; i++) {
		posix_spawn_file_actions_adddup2(&actions, earlier[i], earlier[i]);
		snprintf(numbers[i], sizeof(numbers[i]), "%d", earlier[i]);
		argv[2 + i] = numbers[i];
	}
	started = posix_spawn(&pid, "/proc/self/exe", &actions, &attr, argv, environment) == 0;
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	if (!started) {
		n_earlier--;
		close(next[0]);
		close(next[1]);
		return false;
	}
	*room = pidfd_open(pid, 0);
	if (*room < 0)
		*room = 0;
	while (n_left > 0)
		close(left[--n_left]);
	close(present[1]);
	memcpy(present, next, sizeof(present));
	return true;
}

/* Has a process close the socket, now or later. False: it stays open for good. */
static bool close_elsewhere(int *fd)
{
	bool taken = false;
	int *room;

	pthread_mutex_lock(&lock);
	room = find_room();
	if (!room && n_left + 1 == LEFT) {
		/* It was killed, but its descriptors' files keep it from ending. */
		room = &closers[next_forgotten++ % CLOSERS];
		close(*room);
		*room = 0;
	}
	if (n_left < LEFT) {
		left[n_left++] = vgpu_take(fd);
		taken = true;
	}
	if (room)
		start_closer(room);
	pthread_mutex_unlock(&lock);
	return taken;
}

/* Returns whether the connection holds unread descriptors; discards unread bytes. Starting a
 * process for every refused connection with an unread request would itself be a denial of service.
 */
static bool has_descriptors(int fd)
{
	int refuses = -1, type = 0;
	socklen_t size = sizeof(type);
	char bytes[4096];
	ssize_t n;

	/* An empty packet looks like the end of the stream. Where the kernel does not refuse
	 * descriptors, one may follow it. */
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type != SOCK_STREAM)
		return getsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &refuses, &size) < 0 ||
		       refuses != 0;
	vgpu_untrusted_prepare(fd);
	/* No more data can arrive after this: at most a full socket buffer is unread. */
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
	if (closes && getsockopt(*fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
	    domain == AF_UNIX && has_descriptors(*fd) && !close_elsewhere(fd))
		*fd = -1; /* stays open: this process must not wait for the close */
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
	int i;

	closes = true;
	if (argc < 2 || strcmp(argv[1], ARGUMENT) != 0) {
		if (pipe2(present, O_CLOEXEC) < 0)
			present[0] = -1;
		return false;
	}
	for (i = 2; i < argc; i++)
		while (read(atoi(argv[i]), &byte, 1) < 0 && errno == EINTR)
			;
	return true;
}
