/* SPDX-License-Identifier: MIT */
/*
 * Runs PTX on the CPU, one thread after another, to check without a GPU that our GPU kernels and
 * the gate do what they should. It knows only the instructions that these use, and ends the program
 * with a message at any other. The instructions mean what NVIDIA's PTX ISA, version 8.5, says.
 */
#ifndef TESTS_PTX_H
#define TESTS_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptx;

struct ptx_launch {
	uint32_t grid[3], block[3];
	uint32_t shared;      /* bytes of dynamic shared memory */
	bool together;	      /* the blocks take turns, so that each may wait for the others */
	const uint64_t *only; /* the block that runs alone; NULL: all do */
	const void *params;   /* laid out as ptx_param() says */
	/* Blocks begin in random order, as on a GPU. This is called before each block with the
	 * number of blocks that have begun. May be NULL. */
	void (*begins)(void *data, uint64_t n);
	/* Called again and again in the middle of blocks; it may take its time. May be NULL. */
	void (*pauses)(void *data);
	void *data;
};

/* Reads entry NAME of TEXT, or without a NAME all that is outside of bodies. TEXT is one or several
 * PTX files. The caller frees the result by ptx_free(). Returns NULL, with a message on stderr, if
 * the entry is missing or cannot be parsed. A global address is a pointer. */
struct ptx *ptx_read(const char *text, const char *name);
/* The same; its arrays outside of functions are those of MODULE, which was read from the same text
 * without a name and must outlive the result. */
struct ptx *ptx_read_in(const struct ptx *module, const char *text, const char *name);
/* A name that a body uses, and that is declared but nowhere defined; or one that is defined more
 * than once. NULL: none. */
const char *ptx_missing(const struct ptx *p);
const char *ptx_twice(const struct ptx *p);
/* Where the array NAME outside of functions lies, and its bytes. False: there is none. */
bool ptx_global(const struct ptx *p, const char *name, void **at, size_t *bytes);

/* The offset and size of parameter I, in bytes. Returns false if there are fewer parameters. */
bool ptx_param(const struct ptx *p, uint32_t i, uint32_t *at, uint32_t *size);

/* Threads of a block at most, which is one row of them if .maxntid says how many. */
uint32_t ptx_most_threads(const struct ptx *p);
/* Bytes of static shared memory. */
uint32_t ptx_shared(const struct ptx *p);

/* Bytes of local memory that each thread needs. */
uint32_t ptx_local(const struct ptx *p);
/* Bytes of all arrays outside of functions. */
uint32_t ptx_globals(const struct ptx *p);

void ptx_run(struct ptx *p, const struct ptx_launch *l);
void ptx_free(struct ptx *p);

#endif
