/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

/* The page that this process, the VF's process and the worker map. None of them can take it away
 * from the others: a mapped page behind the end of a file is a SIGBUS. -1: it cannot be made. */
static int create_shared(void)
{
	int fd = memfd_create("softgpu-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 && (ftruncate(fd, sizeof(struct worker_shared)) < 0 ||
			fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0))
		vgpu_close(&fd);
	return fd;
}

static int spawn(struct worker_client *w, const struct worker_options *o, const int fds[4],
		 struct vgpu_error *err)
{
	char gpu[16], size[24], vf[16], limit[24], modules[24], fifo[16], uid[16], gid[16];
	const char *args[] = {"--device",  o->device, "--gpu",	    gpu,       "--size",
			      size,	   "--vf",    vf,	    "--limit", limit,
			      "--modules", modules,   "--realtime", fifo,      "--user",
			      uid,	   "--group", gid,	    NULL};

	snprintf(gpu, sizeof(gpu), "%u", o->gpu);
	snprintf(size, sizeof(size), "%llu", (unsigned long long)o->size);
	snprintf(vf, sizeof(vf), "%u", o->vf);
	snprintf(limit, sizeof(limit), "%llu", (unsigned long long)o->limit);
	snprintf(modules, sizeof(modules), "%llu", (unsigned long long)o->modules);
	snprintf(fifo, sizeof(fifo), "%d", o->fifo);
	snprintf(uid, sizeof(uid), "%u", (unsigned)o->uid);
	snprintf(gid, sizeof(gid), "%u", (unsigned)o->gid);
	return program_start("softgpu-worker", args, fds, 4, &w->pid, &w->pidfd, err);
}

static void release(struct worker_client *w)
{
	if (w->shared)
		munmap(w->shared, sizeof(*w->shared));
	vgpu_close(&w->socket);
	vgpu_close(&w->wake_fd);
	vgpu_close(&w->shared_fd);
	free(w);
}

int worker_start(struct worker_client **out, const struct worker_options *options,
		 struct vgpu_error *err)
{
	struct worker_client *w = calloc(1, sizeof(*w));
	int pair[2] = {-1, -1}, fds[4] = {-1, -1, -1, -1}, r = 0, i;

	if (!w)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	w->socket = w->wake_fd = w->pidfd = w->shared_fd = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0) {
		w->socket = pair[0];
		fds[0] = pair[1];
	}
	fds[1] = create_shared();
	fds[2] = fcntl(options->window_fd, F_DUPFD_CLOEXEC, 0);
	w->wake_fd = vgpu_eventfd();
	fds[3] = fcntl(w->wake_fd, F_DUPFD_CLOEXEC, 0);
	for (i = 0; i < 4; i++)
		if (fds[i] < 0)
			r = -EMFILE;
	if (r == 0)
		w->shared = mmap(NULL, sizeof(*w->shared), PROT_READ | PROT_WRITE, MAP_SHARED,
				 fds[1], 0);
	if (r < 0 || !w->shared || w->shared == MAP_FAILED) {
		w->shared = NULL;
		r = vgpu_error_set(err, r ? r : -ENOMEM, "a worker's descriptors: %s",
				   strerror(errno));
	} else {
		r = spawn(w, options, fds, err);
	}
	w->shared_fd = vgpu_take(&fds[1]);
	for (i = 0; i < 4; i++)
		vgpu_close(&fds[i]);
	if (r < 0) {
		release(w);
		return r;
	}
	*out = w;
	return 0;
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

void worker_run(struct worker_client *w, struct worker_message *m)
{
	m->type = WORKER_RUN;
	m->serial = ++w->serial;
	w->has_run = true;
	worker_send(w, m);
}

void worker_stop(struct worker_client *w)
{
	struct worker_message m = {.type = WORKER_STOP, .serial = w->serial};

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
	return 1;
}
