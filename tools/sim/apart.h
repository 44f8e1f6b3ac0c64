/* SPDX-License-Identifier: MIT */
/*
 * Runs work in a child process. A recording holds the memory of a core, with pointers: a forged one
 * may crash the process that replays it, but nothing else.
 */
#pragma once

/* Runs WORK in a child and returns its exit code. Returns 2, with the reason on stderr, if a signal
 * ended the child or it could not be started. */
int run_apart(int (*work)(void *arg), void *arg);
