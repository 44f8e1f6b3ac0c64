/* SPDX-License-Identifier: MIT */
/*
 * Reads the kernel's state of a process that has not stopped in time, for the log: whether it
 * waited for a CPU, for a lock or for its client cannot be found out later.
 */
#pragma once

#include <sys/types.h>

/* Logs what the first thread of process PID, which is VF's, does now. Takes some microseconds. */
void stuck_log(int vf, pid_t pid);
