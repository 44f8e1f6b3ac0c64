/* SPDX-License-Identifier: MIT */
/*
 * Accepts the clients of VFs. A thread of ordinary priority accepts, so that a VF's process never
 * has the listener: a process with the listener could accept the VF's next client, too. The process
 * gets its one client's connection; other clients get the answer that the VF is in use, or wait for
 * the next process. The same thread reads the output of the processes and their workers.
 */
#pragma once

#include "says.h"
#include "vgpu/types.h"

struct doors;
struct softgpu;

/* Starts the thread. Returns 0 or -errno with one sentence. */
int doors_create(struct doors **out, struct softgpu *gpu, struct vgpu_error *err);
/* Ends the thread. Called without the device's lock. D may be NULL. */
void doors_destroy(struct doors *d);

/* Lets one client of the VF be accepted at LISTENER, which stays the caller's; link_accept() then
 * accepts or refuses it. Any thread, with any lock. */
void doors_open(struct doors *d, int vf, int listener);
/* Logs what comes from a pipe of the VF's process or worker, which stays the caller's (link_says(),
 * workers_says()), a piece at a time. Any thread, with any lock. */
void doors_hear(struct doors *d, int vf, enum says who, int says);
/* The same of all that is left in the pipe of a worker, and closes it; then *SAYS is -1. While the
 * thread has no room, the pipe is closed unread. */
void doors_hear_last(struct doors *d, int vf, int *says);
/* Close a connection and a listener into which others may have put what they like, without waiting
 * for its end (vgpu/untrusted.h); then *FD is -1. Any thread of ordinary priority, without the
 * device's lock. */
void doors_discard(struct doors *d, int *fd);
void doors_discard_listener(struct doors *d, int *fd);
/* The same of a connection, by the thread here. Any thread, with any lock. */
void doors_discard_later(struct doors *d, int *fd);
/* Returns whether the thread takes another one: without room a connection stays open. */
bool doors_have_room(struct doors *d);
