/* SPDX-License-Identifier: MIT */
/*
 * The device's side of a VF process: started and ended by a thread for each VF, heard by that
 * thread and before each access of the PF, and never waited for. When a process is gone, for
 * whatever reason, its VF is reset, its memory is another, and a fresh process is started.
 *
 * Under the device's lock unless noted.
 */
#ifndef SOFTGPU_LINK_H
#define SOFTGPU_LINK_H

#include "gpu.h"

/* Without the lock: makes a link for each VF. 0 or -errno with one sentence. */
int links_create(struct softgpu *gpu, struct vgpu_error *err);
/* Without the lock, when QUIT is set: ends all processes. */
void links_destroy(struct softgpu *gpu);
/* VFs have been enabled or disabled: waits, with the lock given up, until their processes are
 * there, or gone. */
void links_follow(struct softgpu *gpu);
/* Takes in what all VF processes have said since the last time. */
void links_hear(struct softgpu *gpu);

/* The page, of nobody where there is no process. */
struct vf_page *link_page(const struct link *l);
/* The process is to look at the page. */
void link_ring(struct link *l);
/* A word of the page has another value, and the process is to look. */
void link_set(struct link *l, _Atomic uint32_t *word, uint32_t value);
/* Contexts: what the image is from now on. */
void link_context(struct link *l, enum vf_context_kind kind);
/* The VF has no work any more; or has been reset. */
void link_end_context(struct link *l);
void link_forget(struct link *l);
/* The VF has another partition, or none. */
void link_memory(struct link *l);
/* The PF's message is there, or has been taken back; the VF's has been acknowledged. */
void link_message(struct link *l);
void link_acknowledge(struct link *l);
/* The VF has another worker. */
void link_worker(struct link *l);
/* The gates, or whether the GPU is dead, have changed. */
void link_gates(struct softgpu *gpu);

/* The RUN word. link_stop() returns true if nothing is executed any more; else the process has
 * until its deadline. */
void link_run(struct link *l);
bool link_stop(struct link *l, bool kill);
void link_kill(struct link *l);
/* When a stop has to be answered; VGPU_NEVER: there is no such time. */
vgpu_nsec link_deadline(const struct link *l);
void link_overdue(struct link *l);
/* Asks all processes whether they are there, and kills those that have not said so since they were
 * asked last. */
#define LINKS_ASK (5 * VGPU_SEC)
void links_ask(struct softgpu *gpu);
/* A process may be started, or is to be ended. */
void link_wake(struct link *l);

#endif
