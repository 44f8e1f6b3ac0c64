/* SPDX-License-Identifier: MIT */
/*
 * The resource manager (RM) of NVIDIA's kernel driver, which libcuda controls by ioctl. This
 * program defines ioctl() itself: it passes all calls on, and remembers the channel groups and
 * channels that libcuda has made. With their handles, and the descriptor that made them, it takes
 * the work of this process off the GPU and puts it back. This needs no privileges: the driver
 * allows every process to do it with its own channels.
 *
 * Numbers and layouts are those of the open kernel modules, 515 to 595; a comment marks what
 * differs between them. Any thread may call these functions.
 */
#ifndef WORKER_RM_H
#define WORKER_RM_H

#include <stdbool.h>
#include <stdint.h>

/* Whether rm_stop() can use METHOD (enum worker_stop): libcuda has made the objects that it needs.
 */
bool rm_offers(uint32_t method);
/* Takes all channels of this process off the GPU, those of copy engines too. 0: none of them runs
 * any more; or -errno; -EOPNOTSUPP: RM refuses, or rm_offers() is false. */
int rm_stop(uint32_t method);
/* Puts back what rm_stop() took off. 0 or -errno. */
int rm_resume(void);

/* Takes note of an ioctl of libcuda's. RESULT: what the kernel returned. Called by the ioctl() of
 * this program, and by tests. */
void rm_note(int fd, unsigned long request, const void *argument, int result);

#endif
