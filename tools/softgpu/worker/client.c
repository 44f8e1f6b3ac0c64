/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "program.h"
#include "vgpu/descriptor.h"
#include "vgpu/untrusted.h"

#define FDS (WORKER_LOG_FD + 1 - WORKER_SOCKET_FD)

/* Creates a file that this process shares with the worker, and with the VF's process if that maps
 * it. The file is sealed, so that none of them can shrink it: a mapped page behind the end of a
 * file raises SIGBUS. Returns its descriptor, or -1. */
static int create_shared(uint64_t size)
{
	int fd = memfd_create("softgpu-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 && (ftruncate(fd, (off_t)size) < 0 ||
			fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0))
		vgpu_close(&fd);
	return fd;
}

static int spawn(struct worker_client *w, const struct worker_options *o, const int fds[FDS],
		 struct vgpu_error *err)
{
	char gpu[16], size[24], vf[16], limit[24], modules[24], memory[24], uid[16], gid[16];
	const char *args[] = {"--device",  o->device, "--gpu",	  gpu,	     "--size",
			      size,	   "--vf",    vf,	  "--limit", limit,
			      "--modules", modules,   "--memory", memory,    "--user",
			      uid,	   "--group", gid,	  NULL};

	snprintf(gpu, sizeof(gpu), "%u", o->gpu);
	snprintf(size, sizeof(size), "%llu", (unsigned long long)o->size);
	snprintf(vf, sizeof(vf), "%u", o->vf);
	snprintf(limit, sizeof(limit), "%llu", (unsigned long long)o->limit);
	snprintf(modules, sizeof(modules), "%llu", (unsigned long long)o->modules);
	snprintf(memory, sizeof(memory), "%llu", (unsigned long long)o->memory);
	snprintf(uid, sizeof(uid), "%u", (unsigned)o->uid);
	snprintf(gid, sizeof(gid), "%u", (unsigned)o->gid);
	return program_start("softgpu-worker", args, fds, FDS, &w->pid, &w->pidfd, err);
}

static void release(struct worker_client *w)
{
	if (w->shared)
		munmap(w->shared, sizeof(*w->shared));
	if (w->turn)
		munmap(w->turn, sizeof(*w->turn));
	vgpu_close(&w->socket);
	vgpu_close(&w->wake_fd);
	vgpu_close(&w->shared_fd);
	vgpu_close(&w->memory_fd);
	vgpu_close(&w->stage_fd);
	vgpu_close(&w->says);
	loan_close(&w->loan);
	free(w);
}

/* Maps a structure at AT of a file. NULL: it cannot be mapped. */
static void *map(int fd, uint64_t at, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)at);

	return p == MAP_FAILED ? NULL : p;
}

/* Makes a pair of connected sockets; leaves them as they are if that fails. */
static void create_pair(int *ours, int *theirs)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return;
	/* No descriptors go along with messages, either way. */
	vgpu_untrusted_prepare(pair[0]);
	vgpu_untrusted_prepare(pair[1]);
	*ours = pair[0];
	*theirs = pair[1];
}

/* Makes where the worker says what it has to; returns its end, or -1. */
static int create_log(struct worker_client *w, bool says)
{
	int ends[2];

	if (!says)
		return fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -1;
	w->says = ends[0];
	return ends[1];
}

int worker_start(struct worker_client **out, const struct worker_options *options,
		 struct vgpu_error *err)
{
	struct worker_client *w = calloc(1, sizeof(*w));
	int fds[FDS], r = 0, i;

	for (i = 0; i < FDS; i++)
		fds[i] = -1;
	if (!w)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	w->socket = w->wake_fd = w->pidfd = w->shared_fd = w->memory_fd = w->stage_fd = w->says =
		-1;
	create_pair(&w->socket, &fds[WORKER_SOCKET_FD - WORKER_SOCKET_FD]);
	fds[WORKER_SHARED_FD - WORKER_SOCKET_FD] = create_shared(sizeof(struct worker_shared));
	fds[WORKER_WINDOW_FD - WORKER_SOCKET_FD] = fcntl(options->window_fd, F_DUPFD_CLOEXEC, 0);
	w->wake_fd = vgpu_eventfd();
	fds[WORKER_WAKE_FD - WORKER_SOCKET_FD] = fcntl(w->wake_fd, F_DUPFD_CLOEXEC, 0);
	create_pair(&w->memory_fd, &fds[WORKER_MEMORY_FD - WORKER_SOCKET_FD]);
	w->stage_fd = create_shared(WORKER_STAGE_FILE);
	fds[WORKER_STAGE_FD - WORKER_SOCKET_FD] = fcntl(w->stage_fd, F_DUPFD_CLOEXEC, 0);
	fds[WORKER_LOG_FD - WORKER_SOCKET_FD] = create_log(w, options->says);
	for (i = 0; i < FDS; i++)
		if (fds[i] < 0)
			r = -EMFILE;
	if (r == 0) {
		w->shared = map(fds[WORKER_SHARED_FD - WORKER_SOCKET_FD], 0, sizeof(*w->shared));
		w->turn = map(w->stage_fd, WORKER_STAGE, sizeof(*w->turn));
	}
	if (r < 0 || !w->shared || !w->turn) {
		r = vgpu_error_set(err, r ? r : -ENOMEM, "a worker's descriptors: %s",
				   strerror(errno));
	} else {
		r = spawn(w, options, fds, err);
	}
	if (r == 0 && options->fifo > 0)
		loan_open(&w->loan, w->pid);
	w->shared_fd = vgpu_take(&fds[WORKER_SHARED_FD - WORKER_SOCKET_FD]);
	for (i = 0; i < FDS; i++)
		vgpu_close(&fds[i]);
	if (r < 0) {
		release(w);
		return r;
	}
	*out = w;
	return 0;
}

void worker_take_sockets(struct worker_client *w, int sockets[WORKER_SOCKETS])
{
	sockets[0] = vgpu_take(&w->socket);
	sockets[1] = vgpu_take(&w->memory_fd);
}

int worker_quit(struct worker_client *w)
{
	int pidfd;

	if (!w)
		return -1;
	pidfd = w->pidfd;
	pidfd_send_signal(pidfd, SIGTERM, NULL, 0);
	release(w);
	return pidfd;
}

bool worker_gone(int pidfd, int ms)
{
	struct pollfd p = {pidfd, POLLIN, 0};
	siginfo_t info;

	if (pidfd < 0)
		return true;
	while (poll(&p, 1, ms) < 0 && errno == EINTR)
		;
	if (!(p.revents & POLLIN))
		return false;
	waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED);
	close(pidfd);
	return true;
}

bool worker_exited(const struct worker_client *w)
{
	struct pollfd p = {w->pidfd, POLLIN, 0};

	return poll(&p, 1, 0) > 0;
}

bool worker_kill(struct worker_client *w, int ms)
{
	int pidfd;

	if (!w)
		return true;
	pidfd_send_signal(w->pidfd, SIGKILL, NULL, 0);
	pidfd = worker_quit(w);
	if (worker_gone(pidfd, ms))
		return true;
	close(pidfd);
	return false;
}

int worker_wait_ready(struct worker_client *w, int ms, struct vgpu_error *err)
{
	struct pollfd p[] = {{w->wake_fd, POLLIN, 0}, {w->pidfd, POLLIN, 0}};

	while (poll(p, 2, ms) < 0 && errno == EINTR)
		;
	switch (atomic_load(&w->shared->state)) {
	case WORKER_READY:
		if (pidfd_send_signal(w->pidfd, 0, NULL, 0) < 0)
			return vgpu_error_set(err, -errno,
					      "softgpu cannot kill its worker: %s (it needs "
					      "CAP_KILL; or use --worker-user root)",
					      strerror(errno));
		return 0;
	case WORKER_REFUSED:
		return vgpu_error_set(err, w->shared->code < 0 ? w->shared->code : -EIO, "%.*s",
				      (int)sizeof(w->shared->text) - 1, w->shared->text);
	default:
		if (p[1].revents)
			return vgpu_error_set(err, -ECHILD, "a worker died while it started");
		return vgpu_error_set(err, -ETIMEDOUT, "a worker did not start within %d s",
				      ms / 1000);
	}
}

void worker_send(struct worker_client *w, const struct worker_message *m)
{
	/* If the worker is gone, worker_receive() sees it. */
	while (send(w->socket, m, sizeof(*m), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EINTR)
		;
}

void worker_begin_turn(struct worker_client *w)
{
	w->has_run = true;
	atomic_store(&w->turn->may_run, 1);
}

bool worker_end_turn(struct worker_client *w)
{
	atomic_store(&w->turn->may_run, 0);
	return !atomic_load(&w->turn->runs);
}

void worker_run(struct worker_client *w, struct worker_message *m)
{
	worker_begin_turn(w);
	m->type = WORKER_RUN;
	m->serial = ++w->serial;
	worker_send(w, m);
}

vgpu_nsec worker_lend(struct worker_client *w, bool on)
{
	if (!on && w->loan.out)
		return loan_take_back(&w->loan, SCHED_OTHER);
	if (on)
		loan_lend(&w->loan);
	return 0;
}

void worker_stop(struct worker_client *w)
{
	struct worker_message m = {.type = WORKER_STOP, .serial = w->serial};

	worker_lend(w, true);
	worker_send(w, &m);
}

int worker_receive(struct worker_client *w, struct worker_message *m)
{
	ssize_t n;

	do {
		n = recv(w->socket, m, sizeof(*m), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n != sizeof(*m))
			return -EPIPE;
	} while (m->type == WORKER_ENDED && m->serial != w->serial);
	if (m->type == WORKER_ENDED)
		worker_lend(w, false);
	return 1;
}
