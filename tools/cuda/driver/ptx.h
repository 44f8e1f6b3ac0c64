/* SPDX-License-Identifier: MIT */
/*
 * Runs PTX on the CPU, to check without a GPU what GPU kernels do. The instructions mean what
 * NVIDIA's PTX ISA, version 8.5, says. The table in ptx_forms.c has all instructions of the ISA.
 * Those that are not executed exactly as the ISA says are refused, with the line, when the text is
 * read.
 *
 * Threads run one after another, each until it waits for others. If a GPU kernel uses volatile
 * shared memory, or asks which threads of a warp are together, the threads of each warp run in
 * step: if they are at different instructions, those at the lowest one run next.
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
	const uint64_t *only; /* number of the only block to run; NULL: all run */
	const void *params;   /* laid out as ptx_param() says */
	/* Blocks begin in random order, as on a GPU. This is called before each block with the
	 * number of blocks that have begun. May be NULL. */
	void (*begins)(void *data, uint64_t n);
	/* Called repeatedly in the middle of blocks; it may block. May be NULL. */
	void (*pauses)(void *data);
	/* Executes vprintf(), and returns the GPU kernel's result. NULL: there is no buffer, and
	 * the result is -2. */
	int (*prints)(void *data, const char *format, const void *arguments);
	/* Executes __assertfail(), and must not return. TEXT: CUDA's message. NULL: a failed
	 * assertion is a trap. */
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
/* Returns whether all bodies of MODULE can be read. PART: names that it lacks may be in another
 * text. */
bool ptx_check(const struct ptx *module, bool part);
/* Returns the name of entry I, from 0 on, or NULL. */
const char *ptx_entry(const struct ptx *module, uint32_t i);
/* Returns why this thread's last call of ptx_read*() or ptx_check() failed, in one line. */
const char *ptx_error(void);
/* Return a name that a body uses and that is declared but not defined; or one that is defined more
 * than once. NULL: none. */
const char *ptx_missing(const struct ptx *p);
const char *ptx_twice(const struct ptx *p);
/* Finds the array NAME outside of functions, and its bytes. Returns false if there is none. */
bool ptx_global(const struct ptx *p, const char *name, void **at, size_t *bytes);

/* Sets the offset and size of parameter I, bytes. Returns false if there are fewer parameters. */
bool ptx_param(const struct ptx *p, uint32_t i, uint32_t *at, uint32_t *size);

/* Returns the most threads of a block, as .maxntid or .reqntid says. */
uint32_t ptx_most_threads(const struct ptx *p);
/* Returns the bytes of static shared memory. */
uint32_t ptx_shared(const struct ptx *p);

/* Returns the bytes of local memory that each thread needs. */
uint32_t ptx_local(const struct ptx *p);
/* Returns the bytes of all arrays outside of functions. */
uint32_t ptx_globals(const struct ptx *p);

/* Writes row I of the table of instructions: the instruction with the words that may follow it, a
 * group of alternatives for each, with a ? if it may be omitted; its operands; and whether the
 * machine executes it. Returns false if there is no such row. */
struct ptx_form {
	const char *words, *operands;
	bool refused;
};
bool ptx_form(uint32_t i, struct ptx_form *out);

/* Writes what printf() of a GPU kernel prints to OUT, which has PTX_PRINT_MOST bytes; *BYTES: the
 * length. ARGUMENTS: in the layout that GPU kernels use. Returns the number of arguments; -1:
 * FORMAT is NULL; -2: the text is too long. */
#define PTX_PRINT_MOST 32768
int ptx_print(char *out, size_t *bytes, const char *format, const void *arguments);

/* Executes the launch in the calling thread, one block after another unless TOGETHER is set. */
void ptx_run(struct ptx *p, const struct ptx_launch *l);
/* Frees P and all that was read. */
void ptx_free(struct ptx *p);
