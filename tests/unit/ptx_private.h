/* SPDX-License-Identifier: MIT */
/* The parsed form of a text: ptx.c makes it, ptx_run.c runs it. */
#ifndef TESTS_PTX_PRIVATE_H
#define TESTS_PTX_PRIVATE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "ptx.h"

#define PTX_NAME 1100u /* a function has at most 1023, its parameters have more */
#define MAX_CODE 8192u
#define MAX_SYMBOLS 4096u
#define MAX_CALLS 1024u /* each has its copy of the function's body */
#define MAX_DEPTH 32u
#define MAX_REGISTERS (UINT16_MAX - MAX_CODE * 3) /* with all constants, numbers of 16 bits */
#define MAX_GLOBALS (64u << 20) /* of address space; memory is taken when it is used */
#define MAX_OPERANDS 6u
#define MAX_PARAMS 98u /* those of a launch, the gate, and one too many */

enum op {
	OP_ADD,
	OP_SUB,
	OP_MUL,
	OP_MAD,
	OP_DIV,
	OP_AND,
	OP_OR,
	OP_XOR,
	OP_NOT,
	OP_SHL,
	OP_SHR,
	OP_SHF,
	OP_SETP,
	OP_CVT,
	OP_MOV,
	OP_LD,
	OP_ST,
	OP_BRA,
	OP_BAR,
	OP_RET,
	OP_FMA,
	OP_NEG,
	OP_ABS,
	OP_MIN,
	OP_MAX,
	OP_REM,
	OP_SELP,
	OP_POPC,
	OP_CLZ,
	OP_BREV,
	OP_SQRT,
	OP_RCP,
	OP_RSQRT,
	OP_EX2,
	OP_LG2,
	OP_ATOM,
	OP_RED,
	OP_SHFL,
	OP_VOTE,
	OP_BARRIER,
	OP_MEMBAR,
	OP_FENCE,
	OP_EXIT,
	OP_BFE,
	OP_BFI,
	OP_VADD,
};
/* Those with a U are also true of what is not a number. */
enum compare { LT, LE, GT, GE, EQ, NE, LTU, LEU, GTU, GEU, EQU, NEU };
/* The word behind the opcode of atom, red, shfl, vote and bar, or of a rounding. */
enum how {
	HOW_NONE,
	HOW_ADD,
	HOW_MIN,
	HOW_MAX,
	HOW_AND,
	HOW_OR,
	HOW_XOR,
	HOW_EXCH,
	HOW_CAS,
	HOW_UP,
	HOW_DOWN,
	HOW_BFLY,
	HOW_IDX,
	HOW_ALL,
	HOW_ANY,
	HOW_BALLOT,
	HOW_POPC,
	HOW_WARP,
	HOW_RNI,
	HOW_RZI,
	HOW_RMI,
	HOW_RPI,
};

/* The kind is 'u', 's', 'f' or 'b'. A predicate has one bit. MASK has the type's bits; SIGN is the
 * sign bit of a signed integer, otherwise 0. */
struct type {
	char kind;
	uint8_t bits;
	uint64_t mask, sign;
};

/* The kind of an operand or a name. DYNAMIC memory lies after all other shared memory. From LABEL
 * on they are no operands; a name is MISSING that is declared and not yet defined. */
enum kind { VALUE, REGISTER, SPECIAL, LOCAL, PARAM, DYNAMIC, LABEL, FUNCTION, ENTRY, MISSING };
/* Who knows a name outside of bodies: its file, or the whole text. WEAK: unless another one of this
 * name is defined, too. */
enum linkage { OWN, VISIBLE, WEAK, EXTERN };
/* SHARED_AT: where the block's shared memory begins, as a generic address. */
enum special { TID, NTID = 3, CTAID = 6, NCTAID = 9, TIME = 12, LANE, SHARED_AT };
#define WARP 32u

struct operand {
	enum kind kind;
	uint64_t value; /* a value, a register's number, or enum special */
	int64_t offset;
};

struct instruction {
	enum op op;
	struct type to, type;
	enum compare compare;
	enum how how;
	bool wide, high, guarded, negated, seen_by_others; /* volatile */
	bool shared;					   /* of shared memory */
	bool saturates, flushes;			   /* .sat, .ftz: of floats */
	int rounding;					   /* as of fegetround() */
	uint64_t guard;
	struct operand operands[MAX_OPERANDS];
	uint32_t n, width; /* WIDTH: elements that ld or st moves */
	uint32_t sources;  /* operands behind the first, at most 4 */
	bool paired;	   /* a predicate behind the destination: SECOND */
	uint64_t second;
	char label[64]; /* where a branch leads, until the body's labels are known */
};

/* What an instruction does that is executed often: it computes with integers in registers, moves
 * one element to or from memory, or branches. */
enum does {
	DOES_MORE, /* see struct instruction */
	DOES_BRANCH,
	DOES_MOVE,
	DOES_ADD,
	DOES_SUB,
	DOES_MUL,
	DOES_MAD,
	DOES_AND,
	DOES_OR,
	DOES_XOR,
	DOES_SHIFT_LEFT,
	DOES_COMPARE,
	DOES_LOAD_32,
	DOES_LOAD_64,
	DOES_STORE_32,
	DOES_STORE_64,
};

/* Such an instruction, prepared. Its sources are registers: behind those of the text are registers
 * that hold the constants. */
struct quick {
	struct type type;
	uint64_t cut;		     /* the bits of the result */
	uint16_t to, from[3], guard; /* TO: of a branch, where it leads */
	uint8_t does, compare;	     /* enum does, enum compare */
	bool guarded, negated;
};

struct symbol {
	char name[PTX_NAME];
	enum kind kind;
	enum linkage linkage;
	uint64_t value;	  /* of a routine: where its header is */
	uint32_t scope;	  /* 0: outside of bodies */
	uint32_t file;	  /* which of the text */
	uint32_t bytes;	  /* of an array outside of functions; 0: it is none */
	bool used, twice; /* some body names it; it is defined twice */
};

struct place {
	uint32_t at, size;
};

struct ptx {
	const char *at;
	char token[PTX_NAME];
	struct instruction code[MAX_CODE];
	struct quick quick[MAX_CODE];
	uint64_t constants[MAX_CODE * 3];
	struct symbol symbols[MAX_SYMBOLS];
	uint8_t *globals;
	uint32_t n_code, n_symbols, n_registers, n_constants;
	uint32_t shared, local, n_globals;
	uint32_t most_registers, most_local; /* at a time, while N_REGISTERS and LOCAL are taken */
	uint32_t n_calls, depth;
	uint32_t file, scope;
	uint32_t bottom;       /* the outermost scope of the body that is being read */
	enum linkage linkage;  /* of the next name */
	uint32_t most_threads; /* 0: not said */
	struct place params[MAX_PARAMS];
	uint32_t n_params, params_end;
	bool reads, borrows; /* the globals are another's */
	bool declares;	     /* a name that was not defined yet */
	jmp_buf given_up;
};

struct thread {
	uint64_t *registers;
	uint8_t *local;
	uint32_t pc, id[3], lane;
	enum { RUNS, AT_BARRIER, AT_WARP, OVER } state;
	uint64_t given[4]; /* the sources of the instruction that it waits at */
};

struct block {
	const struct ptx_launch *launch;
	uint8_t *shared;
	uint32_t dynamic; /* where dynamic shared memory begins */
	uint32_t id[3];
	uint32_t n; /* threads */
	struct thread *threads;
	uint64_t *memory; /* their registers and local memory */
};

/* This machine takes most of the time of the tests that use it: what it does for each instruction
 * is inline, and calls between its files go through no table of a shared library. */
#pragma GCC visibility push(hidden)

static inline uint64_t ptx_cut(const struct type *type, uint64_t v)
{
	return v & type->mask;
}

/* Extends V to 64 bits. */
static inline uint64_t ptx_widen(const struct type *type, uint64_t v)
{
	return ((v & type->mask) ^ type->sign) - type->sign;
}

/* -1, 0 or 1: how two integers are ordered. */
static inline int ptx_order(const struct type *type, uint64_t x, uint64_t y)
{
	/* with the top bit inverted, signed numbers are ordered as unsigned ones are */
	const uint64_t top = type->sign ? UINT64_C(1) << 63 : 0;
	const uint64_t a = ptx_widen(type, x) ^ top, b = ptx_widen(type, y) ^ top;

	return (a > b) - (a < b);
}

/* Whether two values that are in this order compare so. */
static inline bool ptx_compares(enum compare compare, int order, bool unordered)
{
	if (unordered)
		return compare >= LTU;
	switch (compare) {
	case LT:
	case LTU:
		return order < 0;
	case LE:
	case LEU:
		return order <= 0;
	case GT:
	case GTU:
		return order > 0;
	case GE:
	case GEU:
		return order >= 0;
	case EQ:
	case EQU:
		return order == 0;
	default: /* NE, NEU */
		return order != 0;
	}
}

/* ptx_names.c. The name that the body or the file which is being read means; NULL: none. */
struct symbol *ptx_find(struct ptx *p, const char *name);
struct symbol *ptx_add(struct ptx *p, const char *name, enum kind kind, uint64_t value);
/* Outside of bodies: what is defined, or to be defined elsewhere. */
void ptx_define(struct ptx *p, const char *name, enum kind kind, uint64_t value, uint32_t bytes);
void ptx_declare(struct ptx *p, const char *name);
/* Forgets the scope's names. Labels stay to the end of the body, when branches find them. */
void ptx_close_scope(struct ptx *p);

/* ptx_quick.c: fills QUICK and CONSTANTS, when all of an entry has been read. */
void ptx_prepare(struct ptx *p);

/* ptx_math.c */
double ptx_to_float(struct type type, uint64_t v);
uint64_t ptx_from_float(struct type type, double d);
/* The result of an instruction that computes from V. */
uint64_t ptx_result(struct ptx *p, const struct instruction *i, const uint64_t *v);
bool ptx_compare(const struct instruction *i, uint64_t x, uint64_t y);
uint64_t ptx_convert(struct ptx *p, const struct instruction *i, uint64_t v);
/* What atom and red write over OLD. */
uint64_t ptx_atom(struct ptx *p, const struct instruction *i, uint64_t old, uint64_t a, uint64_t b);

/* ptx_warp.c: ends the waiting of threads that all those they wait for have reached. Whether one
 * can go on. */
bool ptx_meet(struct ptx *p, struct thread *threads, uint32_t n);

/* Prints what is wrong. While a text is being read, control returns to ptx_read(); otherwise the
 * program aborts. */
__attribute__((noreturn)) void ptx_stop(struct ptx *p, const char *what);

#pragma GCC visibility pop

#endif
