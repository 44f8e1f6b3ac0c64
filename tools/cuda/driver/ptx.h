/* SPDX-License-Identifier: MIT */
/*
 * Runs PTX on the CPU, to check without a GPU what GPU kernels do. The instructions mean what
 * NVIDIA's PTX ISA, version 8.5, says. The table in ptx_forms.c has all of the ISA's: what it does
 * not execute to the letter is refused when the text is read, with the line.
 *
 * Threads run one after another up to where they wait for others. A GPU kernel that uses volatile
 * shared memory, or asks which threads of a warp are together, runs warps in step: of the threads
 * that are not at the same instruction, those at the least one go on.
 */
#pragma once

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
	/* vprintf(): what the GPU kernel gets as its result. NULL: it has no buffer, and gets -2.
	 */
	int (*prints)(void *data, const char *format, const void *arguments);
	/* __assertfail(): TEXT is what CUDA prints. It does not return. NULL: that is a trap. */
	void (*asserts)(void *data, const char *text);
	void *data;
};

/* Reads entry NAME of TEXT, or without a NAME all that is outside of bodies. TEXT is one or several
 * PTX files. The caller frees the result by ptx_free(). Returns NULL if the entry is missing or
 * cannot be parsed; ptx_error() says why. A global address is a pointer. */
struct ptx *ptx_read(const char *text, const char *name);
/* Reads entry NAME of MODULE, which was read without a name. Its arrays outside of functions are
 * those of MODULE. MODULE and its text must outlive the result. */
struct ptx *ptx_read_in(const struct ptx *module, const char *name);
/* Returns whether all bodies of MODULE can be read. PART: what is missing may be in another text.
 */
bool ptx_check(const struct ptx *module, bool part);
/* The names of its entries, from I = 0 on; NULL: there are no more. */
const char *ptx_entry(const struct ptx *module, uint32_t i);
/* Why this thread's last call of the three above failed: one line. */
const char *ptx_error(void);
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

/* Row I of the table of instructions: an instruction of the ISA with the words that may follow it,
 * a group of alternatives for each, with a ? if it may be left out; its operands; and whether the
 * machine executes it. False: there is no such row. */
struct ptx_form {
	const char *words, *operands;
	bool refused;
};
bool ptx_form(uint32_t i, struct ptx_form *out);

/* Writes what printf() of a GPU kernel prints to OUT, which has PTX_PRINT_MOST bytes; *BYTES: how
 * many. ARGUMENTS lie as a GPU kernel puts them. Returns how many there were; -1: there is no
 * FORMAT; -2: the text is longer. */
#define PTX_PRINT_MOST 32768
int ptx_print(char *out, size_t *bytes, const char *format, const void *arguments);

/* Executes the launch in the calling thread, block after block unless they are to run together. */
void ptx_run(struct ptx *p, const struct ptx_launch *l);
/* Frees P and all that was read. */
void ptx_free(struct ptx *p);
