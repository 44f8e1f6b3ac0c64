/* SPDX-License-Identifier: MIT */
/* The parsed form of a text: ptx.c makes it, ptx_run.c runs it. */
#ifndef TESTS_PTX_PRIVATE_H
#define TESTS_PTX_PRIVATE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "ptx.h"

#define MAX_CODE 1024u
#define MAX_SYMBOLS 1024u
#define MAX_GLOBALS (64u << 20) /* of address space; memory is taken when it is used */
#define MAX_PARAMS 34u		/* those of a launch, the gate, and one too many */

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
};
enum compare { LT, LE, GT, GE, EQ, NE, GTU };

enum space { SPACE_HERE, SPACE_PARAM, SPACE_SHARED };

/* The kind is 'u', 's', 'f' or 'b'. A predicate has one bit. */
struct type {
	char kind;
	uint8_t bits;
};

/* The kind of an operand or a name. DYNAMIC memory lies after all other shared memory. */
enum kind { VALUE, REGISTER, SPECIAL, LOCAL, DYNAMIC, LABEL };
enum special { TID, NTID = 3, CTAID = 6, NCTAID = 9, TIME = 12 };

struct operand {
	enum kind kind;
	uint64_t value; /* a value, a register's number, or enum special */
	int64_t offset;
};

struct instruction {
	enum op op;
	struct type to, type;
	enum compare compare;
	enum space space;
	bool wide, guarded, negated, seen_by_others; /* volatile */
	uint64_t guard;
	struct operand operands[4];
	uint32_t n;
	char label[64]; /* used until all labels are known */
};

struct symbol {
	char name[64];
	enum kind kind;
	uint64_t value;
	uint32_t scope; /* 0: the whole module */
	bool gone;	/* its scope has ended */
};

struct place {
	uint32_t at, size;
};

struct ptx {
	const char *at;
	char token[64];
	struct instruction code[MAX_CODE];
	struct symbol symbols[MAX_SYMBOLS];
	uint8_t *globals;
	uint32_t n_code, n_symbols, n_registers;
	uint32_t shared, local, n_globals, scope;
	struct place params[MAX_PARAMS];
	uint32_t n_params, params_end;
	bool reads;
	jmp_buf given_up;
};

/* Prints what is wrong. While a text is being read, control returns to ptx_read(); otherwise the
 * program aborts. */
__attribute__((noreturn)) void ptx_stop(struct ptx *p, const char *what);

#endif
