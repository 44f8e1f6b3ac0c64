/* SPDX-License-Identifier: MIT */
/*
 * Work in a process of its own. A recording holds the memory of a core, with pointers: one that was
 * forged ends the process that replays it, and nothing else.
 */
#ifndef SIM_APART_H
#define SIM_APART_H

/* Runs WORK in a child and returns its exit code. Returns 2, with the reason on stderr, if a signal
 * ended the child or it could not be started. */
int run_apart(int (*work)(void *arg), void *arg);

#endif
