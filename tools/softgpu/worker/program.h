/* SPDX-License-Identifier: MIT */
/* Starts the programs that serve a VF and compute for it. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "vgpu/types.h"

/* The number of the first descriptor that the program gets; the others follow. */
#define PROGRAM_FIRST_FD 3

/* Starts NAME ("softgpu-vf" or "softgpu-worker") at ordinary priority, with ARGS (without the
 * program's name, ended by NULL) and the N descriptors FDS, which stay the caller's. *PID and
 * *PIDFD: the process; the pidfd is the caller's. Returns 0 or -errno with one sentence. Any
 * thread. It takes a millisecond, so call it without locks that others need. */
int program_start(const char *name, const char *const *args, const int *fds, uint32_t n, pid_t *pid,
		  int *pidfd, struct vgpu_error *err);
