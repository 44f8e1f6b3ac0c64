/* SPDX-License-Identifier: MIT */
/*
 * Files of the machine of machine.h that code answers, as a driver of the kernel does. The files
 * must be in the machine: one that is taken away is not there. Any thread may read and write them;
 * one at a time is answered.
 */
#pragma once

#include "machine.h"

struct reactive {
	bool (*is_ours)(const char *path);
	/* Returns the length of the text, or -errno. */
	int (*show)(const char *path, char *out, size_t size);
	/* Returns 0, or -errno. */
	int (*store)(const char *path, const char *text);
};

/* Number of kernel calls; the number of the one that fails with EIO (0: none). */
extern _Atomic unsigned reactive_calls, reactive_fail_at;
/* What was written, a line each: "virtfn0/reset=1", without newlines at the end. */
extern char reactive_trace[16384];

/* Has FILES, the caller's, answered, on the machine that was made last. */
void react(const struct reactive *files);
/* Locks out the answers, so that their state can be looked at and changed. */
void reactive_lock(void);
void reactive_unlock(void);
