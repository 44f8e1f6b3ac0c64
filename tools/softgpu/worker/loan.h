/* SPDX-License-Identifier: MIT */
/*
 * A real-time priority, the lowest one, that is lent to the first thread of another process for as
 * long as that must stop. Threads that it makes meanwhile do not have it. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "vgpu/types.h"

struct loan {
	pid_t pid;
	int ran;	      /* the thread's CPU time in the kernel; -1: unknown */
	bool out;	      /* the priority is lent */
	vgpu_nsec since, had; /* when that began, and its CPU time then */
};

/* Prepares LOAN for the first thread of process PID, to which no priority is lent yet. loan_close()
 * must follow. */
void loan_open(struct loan *loan, pid_t pid);
/* Frees what loan_open() has taken. A zeroed LOAN, which was never opened, may be closed. */
void loan_close(struct loan *loan);
void loan_lend(struct loan *loan);
/* Returns the CPU time that the thread has had since it was lent the priority, or, where the kernel
 * does not say, the time since then. While it runs, what it has had since the last tick may be
 * missing. */
vgpu_nsec loan_used(const struct loan *loan);
/* Gives the thread the policy POLICY of ordinary threads. Returns loan_used(), exactly; 0: it had
 * none. */
vgpu_nsec loan_take_back(struct loan *loan, int policy);
