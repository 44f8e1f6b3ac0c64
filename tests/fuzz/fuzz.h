/* SPDX-License-Identifier: MIT */
/*
 * What all harnesses share. A harness is one function that takes any bytes and returns. It is
 * linked with libFuzzer (tests/fuzz/run), and with replay.c as a test of every build.
 */
#pragma once

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns 0. Aborts the program if a promise does not hold. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise that must hold for every input. */
#define HOLDS(what)                                                                                \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what);  \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* The descriptor that the next open() returns: whether an input has left any open. */
static inline int next_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	HOLDS(fd >= 0);
	close(fd);
	return fd;
}

/* An input that a harness reads as operations and their arguments. */
struct input {
	const uint8_t *at;
	size_t left;
};

/* The next N bytes, at most 8, as a number. Bytes past the end of the input are zero. */
static inline uint64_t input_number(struct input *in, size_t n)
{
	uint64_t value = 0;
	size_t i;

	for (i = 0; i < n && in->left > 0; i++, in->left--)
		value |= (uint64_t)*in->at++ << 8 * i;
	return value;
}

/* Copies the next N bytes to OUT. Bytes past the end of the input are zero. */
static inline void input_bytes(struct input *in, void *out, size_t n)
{
	size_t have = n < in->left ? n : in->left;

	memset(out, 0, n);
	if (have)
		memcpy(out, in->at, have);
	in->at += have;
	in->left -= have;
}
