/* SPDX-License-Identifier: MIT */
/*
 * A worker, from outside: started, run, stopped, ended. One thread at a time uses it; its pidfd and
 * wake_fd may be polled by another.
 */
#ifndef WORKER_CLIENT_H
#define WORKER_CLIENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "protocol.h"
#include "vgpu/types.h"

struct worker_client {
	pid_t pid;
	int pidfd, socket, wake_fd, shared_fd;
	struct worker_shared *shared;
	uint32_t serial;
	bool has_run;
};

struct worker_options {
	const char *device; /* "cuda" or "host" */
	uint32_t gpu;
	int window_fd;	/* of the VF's window; stays the caller's */
	uint32_t vf;	/* whose it is: a name among this softgpu's */
	uint64_t limit; /* bytes: the most that its process may have of the device; 0: no limit */
	uint64_t size;	/* of the whole partition, bytes */
	int fifo;	/* SCHED_FIFO priority, 0: none */
	uid_t uid;	/* who it becomes, if this process is root's; 0: nobody else */
	gid_t gid;
};

/* Starts one; it says by SHARED and wake_fd when it is READY, or why not. 0 or -errno. */
int worker_start(struct worker_client **out, const struct worker_options *options,
		 struct vgpu_error *err);
/* Asks it to clear its memory and go, and closes all but its pidfd, which is returned: the caller
 * waits for it with worker_gone(). NULL gives -1. */
int worker_quit(struct worker_client *w);
/* Kills it, and waits until it is gone. NULL is allowed. */
void worker_kill(struct worker_client *w);
/* Whether the process of a pidfd has ended, within MS milliseconds; then PIDFD is closed. */
bool worker_gone(int pidfd, int ms);
/* Waits until it is READY. -errno if it refuses, with its reason (-ENODEV: there
 * is no such device; -EOPNOTSUPP: too old a one), dies, may not be killed by us, or takes longer
 * than MS. */
int worker_wait_ready(struct worker_client *w, int ms, struct vgpu_error *err);

/* M's ring, rptr and stops; type and serial are filled in. */
void worker_run(struct worker_client *w, struct worker_message *m);
void worker_stop(struct worker_client *w);
void worker_send(struct worker_client *w, const struct worker_message *m);
/* The next message, without waiting: 1; 0: there is none; -EPIPE: it is gone, or talks nonsense.
 * ENDED of an older run is left out. */
int worker_receive(struct worker_client *w, struct worker_message *m);

#endif
