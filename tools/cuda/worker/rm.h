/* SPDX-License-Identifier: MIT */
/*
 * The resource manager (RM) of NVIDIA's kernel driver, which libcuda controls by ioctl. This
 * program defines ioctl() itself: it passes all calls on, and records the channel groups and
 * channels that libcuda makes. With their handles, and the descriptor that made them, it takes the
 * work of this process off the GPU and puts it back. This needs no privileges, because the driver
 * allows it to every process for its own channels.
 *
 * While the work is off the GPU, no thread of libcuda can put new work on it: a thread that makes a
 * channel, schedules or frees one waits in ioctl() until rm_resume().
 *
 * Numbers and layouts are those of the open kernel modules, 515 to 595; a comment marks what
 * differs between them. Any thread may call these functions.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Reads the driver's version from FILE, because the size of one structure depends on it. Returns
 * its major number; 0 if it is unknown, and then the newest structure is used. */
uint32_t rm_driver(const char *file);
#define RM_VERSION_FILE "/proc/driver/nvidia/version"

/* Returns whether rm_stop() can use METHOD (enum worker_stop): libcuda has made the objects that it
 * needs, and no more channels than one call can disable. */
bool rm_offers(uint32_t method);
/* Takes all channels of this process off the GPU, also those of copy engines, by the method NUMBER
 * (enum worker_stop); WORKER_STOP_SOFT gives their groups the shortest time slice instead. Returns
 * 0: none of them runs any more, or all have that time slice; or -errno. -EOPNOTSUPP: RM refuses,
 * or rm_offers() is false. -EBUSY: a thread has been making, scheduling or freeing a channel for
 * too long. -EIO: some groups have the shortest time slice now, and RM refuses to give them their
 * own again; or the kernel's driver fails. RM's refusals are reported on standard error. A thread
 * that makes channels must not call it. */
int rm_stop(uint32_t number);
/* Puts back the work that rm_stop() took off. Returns 0 or -errno. */
int rm_resume(void);

/* Records an ioctl of libcuda. RESULT: what the kernel returned. Called by the ioctl() of this
 * program, and by tests. */
void rm_note(int fd, unsigned long request, const void *argument, int result);

/* rm_call.c: the ioctl system call. */
int rm_call(int fd, unsigned long request, void *argument);
