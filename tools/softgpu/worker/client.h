/* SPDX-License-Identifier: MIT */
/*
 * softgpu's side of a worker: starts, runs, stops and ends it. Only one thread at a time may use a
 * worker; another thread may poll its pidfd and wake_fd.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "loan.h"
#include "protocol.h"
#include "vgpu/types.h"

struct worker_client {
	pid_t pid;
	int pidfd, socket, wake_fd, shared_fd, memory_fd, stage_fd;
	int says; /* pipe of what the worker says; -1: there is none */
	struct worker_shared *shared;
	struct worker_turn *turn;
	uint32_t serial;
	bool has_run;
	struct loan loan; /* see worker_lend() */
};

struct worker_options {
	const char *device; /* "cuda" or "host" */
	uint32_t gpu;
	int window_fd;	  /* the file of the VF's window; stays the caller's */
	uint32_t vf;	  /* the VF's number */
	uint64_t limit;	  /* bytes of GPU memory that the worker may use; 0: no limit */
	uint64_t size;	  /* bytes of the whole partition */
	uint64_t modules; /* bytes beside it that modules and local memory may take */
	uint64_t memory;  /* bytes of the host's memory that it may take; 0: no limit */
	bool says;	  /* what it says goes to a pipe; no: to the standard error here */
	int fifo;	  /* its control thread is lent a real-time priority for a stop; 0: no */
	uid_t uid;	  /* its user, if this process runs as root; 0: root */
	gid_t gid;
};

/* Starts a worker, and does not wait for it: SHARED tells whether it is READY, or why it is
 * REFUSED; wake_fd becomes readable then. Returns 0 or -errno with one sentence. */
int worker_start(struct worker_client **out, const struct worker_options *options,
		 struct vgpu_error *err);
/* Asks the worker to clear its memory and exit, and frees W. Returns its pidfd, which is the
 * caller's; -1 if W is NULL. */
int worker_quit(struct worker_client *w);
/* Kills the worker, waits up to MS milliseconds for its end, and frees W, which may be NULL.
 * Returns whether it has ended: a process in a call of a driver that hangs does not. */
bool worker_kill(struct worker_client *w, int ms);
/* Returns whether the worker's process has ended; it is still to be waited for. */
bool worker_exited(const struct worker_client *w);
/* Waits up to MS milliseconds for the end of a process. Returns whether it has ended; then PIDFD is
 * closed. */
bool worker_gone(int pidfd, int ms);
/* Waits until the worker is READY. Returns 0; or -errno with one sentence if it refuses (-ENODEV:
 * there is no such device; -EOPNOTSUPP: the device or its driver is too old), dies, cannot be
 * killed by this process, or takes longer than MS. */
int worker_wait_ready(struct worker_client *w, int ms, struct vgpu_error *err);

/* Lets the worker run. */
void worker_begin_turn(struct worker_client *w);
/* From now on the worker may not run. Returns false if it runs. */
bool worker_end_turn(struct worker_client *w);
/* Lets the worker run, and sends RUN with M's ring, rptr and stops; fills in M's type and serial.
 */
void worker_run(struct worker_client *w, struct worker_message *m);
/* Sends STOP for the last RUN. */
void worker_stop(struct worker_client *w);
/* Takes the sockets at whose other ends the worker is, which worker_quit() would close: a worker
 * that was taken over may have put into them what takes long to close. */
#define WORKER_SOCKETS 2u
void worker_take_sockets(struct worker_client *w, int sockets[WORKER_SOCKETS]);
/* Lends a real-time priority to the worker's control thread, or takes it back. worker_stop() and
 * worker_receive() do it for a stop. Returns what loan_take_back() does, or 0. */
vgpu_nsec worker_lend(struct worker_client *w, bool on);
/* Sends a message without waiting. */
void worker_send(struct worker_client *w, const struct worker_message *m);
/* Receives the next message without waiting. 1; 0: there is none; -EPIPE: the worker is gone, or
 * has sent a malformed message. Skips ENDED of older runs. */
int worker_receive(struct worker_client *w, struct worker_message *m);
