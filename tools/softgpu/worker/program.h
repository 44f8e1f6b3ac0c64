/* SPDX-License-Identifier: MIT */
/* Starts the programs that serve and compute for one VF, which lie beside softgpu. */
#ifndef SOFTGPU_PROGRAM_H
#define SOFTGPU_PROGRAM_H

#include <stdint.h>
#include <sys/types.h>

#include "vgpu/types.h"

/* The first descriptor that the program gets; the others follow. */
#define PROGRAM_FIRST_FD 3

/* Starts NAME ("softgpu-vf" or "softgpu-worker"), at ordinary priority, with ARGS (without its
 * name, ended by NULL) and descriptors FDS, N of them; they stay the caller's. The process and
 * its pidfd go to *PID and *PIDFD. 0, or -errno with one sentence. Any thread; not under a lock
 * that somebody waits for: it takes a millisecond. */
int program_start(const char *name, const char *const *args, const int *fds, uint32_t n, pid_t *pid,
		  int *pidfd, struct vgpu_error *err);

#endif
