/* SPDX-License-Identifier: MIT */
/*
 * What the kernel says of a process that has not stopped in time. Whether it waited for a CPU, for
 * a lock or for its client cannot be seen any more when somebody reads the log.
 */
#ifndef SOFTGPU_STUCK_H
#define SOFTGPU_STUCK_H

#include <sys/types.h>

/* Logs what the first thread of process PID, which is VF's, does now. Takes some microseconds. */
void stuck_log(int vf, pid_t pid);

#endif
