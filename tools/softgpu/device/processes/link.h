/* SPDX-License-Identifier: MIT */
/*
 * The device's side of a VF process. A thread for each VF starts and ends the process. That thread
 * reads the process's page, and so does each access of the PF; the device never waits for a
 * process. When a process ends, for whatever reason, its VF is reset and gets new memory, and a new
 * process is started.
 *
 * Call these functions with the device's lock held, unless noted.
 */
#pragma once

#include "gpu.h"

/* Makes a link for each VF. Called without the lock. Returns 0 or -errno with one sentence. */
int links_create(struct softgpu *gpu, struct vgpu_error *err);
/* Ends all processes. Called without the lock, after QUIT has been set. */
void links_destroy(struct softgpu *gpu);
/* VFs have been enabled or disabled: waits, releasing the lock meanwhile, until their processes
 * have started or ended. */
void links_follow(struct softgpu *gpu);
/* Applies what all VF processes have written to their pages since the last call. */
void links_apply_pages(struct softgpu *gpu);

/* Returns the page of the process; if there is no process, a page that nobody reads. */
struct vf_page *link_page(const struct link *l);
/* Wakes the process to read the page. */
void link_ring(struct link *l);
/* Sets a word of the page, and wakes the process. */
void link_set(struct link *l, _Atomic uint32_t *word, uint32_t value);
/* Tells the process what the image holds from now on. */
void link_context(struct link *l, enum vf_context_kind kind);
/* Tells the process that the VF was shut down: it has no context and no work. */
void link_end_context(struct link *l);
/* Tells the process that the VF was reset. */
void link_forget(struct link *l);
/* Tells the process that the VF has another partition, or none. */
void link_memory(struct link *l);
/* Shows the process the words of the PF's message, unless the message that it shows is valid: the
 * end of a reset is a word that is never marked as a message. */
void link_words(struct link *l);
/* Tells the process that the PF's message is valid, or no longer. */
void link_message(struct link *l);
/* Tells the process that the PF has acknowledged the VF's message. */
void link_acknowledge(struct link *l);
/* Tells the process that the VF has another worker. */
void link_worker(struct link *l);
/* Ends a VF that cannot go on: kills its worker, and asks the PF to reset the VF. Returns false if
 * that was done before. */
bool link_lost(struct link *l);
/* Tells all processes that the gates, or whether the GPU is dead, have changed. */
void link_gates(struct softgpu *gpu);

/* Lets the process execute. */
void link_run(struct link *l);
/* Returns whether the process executes and has work. If it has none it gets none before
 * link_stop(). */
bool link_has_work(struct link *l);
/* Stops the process; KILL: also work that cannot be preempted. Returns true if nothing is executed
 * from now on, false if engine_stopped() will follow. */
bool link_stop(struct link *l, bool kill);
/* If the process was to stop and has not, logs what it does. */
void link_log_stuck(const struct link *l);
/* Kills the process. */
void link_kill(struct link *l);
/* Returns when a stop must have ended; VGPU_NEVER: there is no such time. */
vgpu_nsec link_deadline(const struct link *l);
/* Kills the process, because link_deadline() has passed. */
void link_overdue(struct link *l);
/* Kills all processes that have not answered the last call, or whose client had gone by then, and
 * asks the others to answer. Finds
 * workers that have died while their VFs had no work: a VF with a context has lost it. */
#define LINKS_ASK (5 * VGPU_SEC)
/* Interval at which the sequencer checks, while a stop is late, whether a lent priority must be
 * taken back. */
#define LINKS_LEND_LOOK (3 * VGPU_MSEC)
void links_ask(struct softgpu *gpu);
/* Kills VF processes that have used too much CPU time, or whose workers have: see spent.h. */
void links_look_at_spent(struct softgpu *gpu);
/* Returns the serial of the VF's present process, from 1; 0 if there is none. L may be NULL. */
uint64_t link_serial(const struct link *l);
/* Ends the process whose serial is OF, and starts no other one for SPENT_REST. L may be NULL. */
void link_rest(struct link *l, uint64_t of);
/* Returns the VF's process, which is not reaped while the lock is held, and the fences that it has
 * counted; 0: there is none. */
pid_t link_process(const struct link *l, uint64_t *fences);
/* Asks the process for an answer after the PF has reset the VF; it is killed if it does not answer
 * within 2 s. */
void link_check(struct link *l);
/* Accepts the next connection of a client. Returns 0 or -errno; -EBUSY: there is no process to
 * serve it yet, which then calls link_open(). */
int link_accept(struct link *l);
/* Passes the connection to the process, as its client, and takes it over. Returns false if the
 * process has a client. */
bool link_client(struct link *l, int fd);
/* Ends the clients of these VFs, and the connections that wait to be served. */
void links_expel(struct softgpu *gpu, uint32_t vfs);
/* Returns the pipe with the process's output; -1 if there is none. */
int link_says(const struct link *l);
/* Lets another client be accepted, if there is a process. */
void link_open(struct link *l);
/* Wakes the VF's thread: its process may be started, or must end. */
void link_wake(struct link *l);
