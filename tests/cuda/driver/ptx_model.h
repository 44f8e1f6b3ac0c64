/* SPDX-License-Identifier: MIT */
/*
 * What the PTX ISA says that an instruction computes, from its text and not from the machine that
 * ptx.h has: integers as the host compiler's integers of 128 bits, or bit by bit; floats as whole
 * numbers and exponents, rounded once; approximations by the bounds that the ISA gives.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_WORDS 16u

/* The kind is the letter of the type, 'h' for bf16, 'p' for a predicate; 0: there is none. */
struct model_type {
	char kind;
	uint32_t bits, lanes;
};

struct model_op {
	char words[MODEL_WORDS][32]; /* the instruction, and those behind its dots */
	uint32_t n;
	struct model_type first, second, last;
};

/* An instruction's sources, and what is to be read from its results. A result is right if it is
 * VALUE; or, of an approximation, a float that is no further from NEAR than BOUND. */
struct model_result {
	bool known; /* false: the ISA says nothing of this case */
	uint64_t value, other;
	bool has_other; /* a second predicate, or the carry flag */
	bool approximate;
	long double near, bound;
	bool any_nan; /* NaN of any bits */
};

/* Whether the model has this instruction. */
bool model_has(const struct model_op *op);
/* IN are the sources in their order; CARRY is the flag. */
struct model_result model(const struct model_op *op, const uint64_t in[4], bool carry);
/* Of atom and red: what is in memory after it was OLD. IS_SHARED: which memory. */
struct model_result model_atom(const struct model_op *op, uint64_t old, uint64_t a, uint64_t b,
			       bool is_shared);
bool model_word(const struct model_op *op, const char *word);
/* The float that the bits V are. */
long double model_float(const struct model_type *type, uint64_t v);

/* ptx_model_float.c */
struct model_number {
	enum { FINITE, INFINITE, NONE } kind;
	bool negative;
	bool inexact; /* there is more, below the last bit */
	int exponent;
	unsigned __int128 whole; /* times 2 to the exponent */
};
struct model_number model_decode(const struct model_type *type, uint64_t v);
/* Rounds by MODE: 'n', 'z', 'm' or 'p'. */
uint64_t model_encode(const struct model_type *type, struct model_number x, char mode);
struct model_number model_sum(struct model_number a, struct model_number b, char mode);
struct model_number model_product(struct model_number a, struct model_number b);
struct model_number model_quotient(struct model_number a, struct model_number b);
struct model_number model_root(struct model_number a);
/* The whole number next to X by MODE; LEAST and MOST bound it. NaN is 0. */
__int128 model_whole(struct model_number x, char mode, __int128 least, __int128 most);
struct model_number model_of_whole(__int128 v);
bool model_is_subnormal(const struct model_type *type, uint64_t v);
bool model_is_nan(const struct model_type *type, uint64_t v);
/* -1, 0 or 1; 2 if one is NaN. */
int model_order(struct model_number a, struct model_number b);
