/* SPDX-License-Identifier: MIT */
/*
 * A program that uses the CUDA Driver API, as a list of checks. It knows libcuda.so.1 by its
 * interface only. The system test runs it over a VF, the unit test over a worker.
 */
#ifndef TESTS_CUDA_SAMPLE_H
#define TESTS_CUDA_SAMPLE_H

#include <stdbool.h>

struct sample_check {
	const char *name;
	bool (*run)(void); /* says on standard error what is wrong */
};

/* Ended by a row without a name. They need cuInit(), and may be run any number of times. */
extern const struct sample_check sample_checks[];

/* Adds vectors, and compares, until a call fails: returns its error, or -1 for a wrong result. */
int sample_loop(void);
/* Launches a GPU kernel that never ends, and waits for it: returns the error. */
int sample_forever(void);

#endif
