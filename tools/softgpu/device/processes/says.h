/* SPDX-License-Identifier: MIT */
/*
 * The output of a VF's process, and of its worker. Their standard error is a pipe of their own, not
 * softgpu's log: an attacker who controls the process can neither write lines that look like
 * softgpu's, nor fill the log, nor close it.
 */
#pragma once

enum says { SAYS_PROCESS, SAYS_WORKER };
#define SAYS_KINDS 2u

/* Reads a piece of what the process has written to the pipe, and logs it, line by line, as that
 * process's. Does not wait for the process. Returns the number of bytes; 0 if the process has
 * ended; or -EAGAIN. Any thread, without the device's lock, because the reader of the log may be
 * slow. */
int says_pass_on(int fd, int vf, enum says who);
/* Logs what is left in a pipe, its size at most, and closes the pipe. */
void says_pass_on_last(int *fd, int vf, enum says who);
