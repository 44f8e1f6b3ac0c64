/* SPDX-License-Identifier: MIT */
/*
 * A program that uses the CUDA Driver API, as a list of checks. It knows libcuda.so.1 by its
 * interface only. The system test runs it over a VF, the unit test over a worker.
 */
#pragma once

#include <stdint.h>

/* Runs all checks, and says which failed. They need cuInit(), and may be run any number of times.
 * Returns how many failed. */
int sample_run(void);

/* Adds vectors, and compares, until a call fails: returns its error, or -1 for a wrong result. */
int sample_loop(void);
/* Launches GPU kernels of some milliseconds, with pauses of some 100 us. 0, or a call's error. */
int sample_pauses(void);
/* Launches a GPU kernel that never ends, and waits for it: returns the error. */
int sample_forever(void);
/* The same of one that writes to an address that is not there. */
int sample_far(void);

/* The same of one of whose threads an assertion fails. */
int sample_asserts(void);
/* GPU kernels print NUMBER and how many lines came before, TIMES times. 0, or a call's error. */
int sample_prints(uint32_t number, uint32_t times);

/* Leaves a mark in all memory of the VF; or looks whether anything is left in it. 0, a call's
 * error, or -1: something is. */
int sample_mark(void);
int sample_clean(void);
/* Beside other programs: looks at half of what is left of the memory. */
int sample_rest(void);
