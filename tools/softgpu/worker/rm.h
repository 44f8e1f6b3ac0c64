/* SPDX-License-Identifier: MIT */
/*
 * The kernel driver's resource manager (RM), which libcuda talks to by ioctl. This program has an
 * ioctl() of its own, which passes all on and remembers what libcuda has made: its channel groups
 * and channels. With their handles, and the descriptor that they were made with, the work of this
 * process is taken off the GPU, and put back: without root, by what the driver offers to anybody.
 *
 * Numbers and layouts are those of the open kernel modules, 515 to 595: the same in all, but where
 * it says otherwise. Calls may come from any thread.
 */
#ifndef WORKER_RM_H
#define WORKER_RM_H

#include <stdbool.h>
#include <stdint.h>

/* Whether there is what a method (enum worker_stop) works on. */
bool rm_offers(uint32_t method);
/* Takes all channels of this process off the GPU, copy engines' included; when it returns 0, none
 * runs. -errno; -EOPNOTSUPP: nothing to do it with. */
int rm_stop(uint32_t method);
/* Puts back what rm_stop() took off. 0 or -errno. */
int rm_resume(void);

/* What an ioctl of libcuda's has done: for the ioctl() of this program, and for tests. RESULT is
 * what the kernel returned. */
void rm_note(int fd, unsigned long request, const void *argument, int result);

#endif
