/* SPDX-License-Identifier: MIT */
/*
 * A link, for the files that it is made of: link.c says to a process what it is to do, link_read.c
 * takes what it has written and looks whether it answers, link_serve.c starts, serves and ends it.
 */
#pragma once

#include "allowance.h"
#include "link.h"
#include "loan.h"

struct link {
	struct softgpu *gpu;
	int vf;
	pthread_t thread;
	pthread_cond_t cond;
	bool has_thread, has_process;
	bool started; /* the descriptors below are valid */

	struct vf_page *page; /* MAPPED, or UNUSED while no process is ready */
	struct vf_page unused;
	struct vf_page *mapped; /* the page of the process, from its start */
	pid_t pid;
	uint64_t process; /* serial of the process: a pid may be another one's later */
	int pidfd, control, notice, wake, epoll, page_fd;
	int says;     /* reading end of the process's output; -1: none */
	int said;     /* the same, of a process that has ended */
	int listener; /* never anybody else's */
	int client;   /* a copy of the connection that the process has; -1: no client */
	bool leaves;  /* the client had gone when the process was asked last */
	bool ready;   /* PAGE is the process's */
	bool kill;
	bool greedy;	    /* the process is killed because it used too much CPU time */
	vgpu_nsec again_at; /* no process is started before that */

	uint32_t run, context, to_vf, asked; /* serials */
	bool stopping, raised;		     /* raised: its policy is not ordinary() */
	vgpu_nsec stopped; /* with workers: when it was told to stop; VGPU_NEVER: at once */
	vgpu_nsec deadline;
	struct loan loan;     /* loan of a real-time priority, for a stop */
	vgpu_nsec lent_until; /* end of the loan; VGPU_NEVER: there is none */
	vgpu_nsec answer_by;  /* for link_check(); VGPU_NEVER: it has not been called */

	struct allowance allowance, loans;
	bool muted; /* its notices wake nobody */

	/* what was read last */
	uint64_t limit; /* limit of the process's memory, in addition to GROUPS_ALLOWANCE */
	uint32_t notices, resets, violations, gate_drops, to_pf, to_vf_taken;
	bool faulted; /* the PF was told of it; false again when the VF is as new */
	bool renewed; /* a new context was loaded since */
	vgpu_nsec page_reads_since;
	uint32_t page_reads;
};

static inline struct vf *link_vf(const struct link *l)
{
	return &l->gpu->vfs[l->vf];
}

/* Returns how long, ns, the VF's messages, resets and wakes have to wait because it has caused too
 * many. */
vgpu_nsec link_owes(struct link *l);
/* Returns the scheduling policy of a process that need not stop: a process that computes gets the
 * CPU time that others leave. */
int link_ordinary(const struct link *l);
/* Takes back the priority that was lent to the process for a stop. The process continues at POLICY.
 */
void link_take_back(struct link *l, int policy);
/* Kills the process, for the reason that is logged. */
void link_end_for(struct link *l, const char *why);
/* Sends an order. Kills a process that has left so many orders unread that the socket is full. */
void link_order(struct link *l, const struct vf_order *order, const int *fds, uint32_t n);
/* Checks the process's statement that the VF has stopped. Returns whether the worker states the
 * same; it is killed if it does not. */
bool link_has_stopped(struct link *l);
/* Returns whether the process has answered link_check() or links_ask(). */
bool link_has_answered(const struct link *l);
/* Ends a stop if the process has stopped. */
void link_read_run(struct link *l);
/* Applies what the process has written to its page since the last call. */
void link_read_page(struct link *l);
bool link_client_has_gone(const struct link *l);
