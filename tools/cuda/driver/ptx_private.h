/* SPDX-License-Identifier: MIT */
/*
 * The parsed form of a text. The files that make it, from an entry down to its letters: ptx.c,
 * ptx_body.c, ptx_call.c, ptx_variable.c, ptx_operand.c, ptx_forms.c, ptx_names.c and ptx_lex.c;
 * ptx_quick.c prepares it. ptx_run.c runs it, with what threads do together (ptx_warp.c) and what
 * an instruction computes: ptx_math.c, ptx_float.c, ptx_convert.c and ptx_video.c. ptx_print.c is
 * their printf().
 */
#pragma once

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "ptx.h"

#define PTX_NAME 1100u	/* a function has at most 1023, its parameters have more */
#define MAX_CALLS 4096u /* each has its copy of the function's body */
#define MAX_DEPTH 32u
#define MAX_CODE (1u << 20)
#define MAX_REGISTERS (1u << 20)
#define MAX_GLOBALS (64u << 20) /* of address space; memory is taken when it is used */
#define GLOBALS_PAGE 4096u
#define MAX_OPERANDS 10u
#define MAX_PARAMS 98u /* those of a launch, the gate, and one too many */
#define BARRIERS 16u

enum op {
	OP_REFUSED, /* in the ISA, but not executed by this machine */
	OP_NOTHING, /* hints, and waits that one thread at a time does not need */
	OP_ADD,
	OP_SUB,
	OP_MUL,
	OP_MAD,
	OP_MUL24,
	OP_MAD24,
	OP_SAD,
	OP_DIV,
	OP_AND,
	OP_OR,
	OP_XOR,
	OP_NOT,
	OP_CNOT,
	OP_LOP3,
	OP_SHL,
	OP_SHR,
	OP_SHF,
	OP_PRMT,
	OP_SETP,
	OP_SET,
	OP_SLCT,
	OP_TESTP,
	OP_COPYSIGN,
	OP_CVT,
	OP_CVT2,
	OP_MOV,
	OP_LD,
	OP_ST,
	OP_COPY,
	OP_ISSPACEP,
	OP_BRA,
	OP_BRX,
	OP_CALL,
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
	OP_BFIND,
	OP_FNS,
	OP_BREV,
	OP_SQRT,
	OP_RCP,
	OP_RSQRT,
	OP_SIN,
	OP_COS,
	OP_TANH,
	OP_EX2,
	OP_LG2,
	OP_ATOM,
	OP_RED,
	OP_SHFL,
	OP_VOTE,
	OP_MATCH,
	OP_REDUX,
	OP_ELECT,
	OP_ACTIVEMASK,
	OP_ALLOCA,
	OP_STACKSAVE,
	OP_STACKRESTORE,
	OP_EXIT,
	OP_TRAP,
	OP_PRINT,  /* vprintf() */
	OP_ASSERT, /* __assertfail() */
	OP_BFE,
	OP_BFI,
	OP_BMSK,
	OP_SZEXT,
	OP_DP4A,
	OP_DP2A,
	OP_VADD,
	OP_VSUB,
	OP_VABSDIFF,
	OP_VMIN,
	OP_VMAX,
	OP_CARRIES, /* add, sub and mad with the carry flag: HOW says which */
};
/* Comparisons with a U are also true if an operand is NaN. LO to HS: of unsigned numbers. */
enum compare { LT, LE, GT, GE, EQ, NE, LTU, LEU, GTU, GEU, EQU, NEU, NUM, NAN_ };
/* A word of the opcode that says which operation, mode or part is meant. */
enum how {
	HOW_NONE,
	HOW_ADD,
	HOW_SUB,
	HOW_MAD,
	HOW_MIN,
	HOW_MAX,
	HOW_AND,
	HOW_OR,
	HOW_XOR,
	HOW_EXCH,
	HOW_CAS,
	HOW_INC,
	HOW_DEC,
	HOW_UP,
	HOW_DOWN,
	HOW_BFLY,
	HOW_IDX,
	HOW_ALL,
	HOW_ANY,
	HOW_UNI,
	HOW_BALLOT,
	HOW_POPC,
	HOW_WARP,
	HOW_ARRIVE,
	HOW_RNI,
	HOW_RZI,
	HOW_RMI,
	HOW_RPI,
	HOW_F4E,
	HOW_B4E,
	HOW_RC8,
	HOW_ECL,
	HOW_ECR,
	HOW_RC16,
	HOW_FINITE,
	HOW_INFINITE,
	HOW_NUMBER,
	HOW_NOTANUMBER,
	HOW_NORMAL,
	HOW_SUBNORMAL,
};
/* Words that an opcode has or has not, as bits. */
enum flag {
	FLAG_WIDE = 1 << 0,
	FLAG_HIGH = 1 << 1,
	FLAG_SATURATES = 1 << 2,
	FLAG_FLUSHES = 1 << 3,
	FLAG_VOLATILE = 1 << 4,
	FLAG_SYNC = 1 << 5,
	FLAG_LEFT = 1 << 6,
	FLAG_CLAMPS = 1 << 7,
	FLAG_SHIFT = 1 << 8, /* .shiftamt */
	FLAG_NAN = 1 << 9,
	FLAG_SIGN = 1 << 10, /* .xorsign.abs */
	FLAG_RELU = 1 << 11,
	FLAG_APPROX = 1 << 12,
	FLAG_SETS = 1 << 13,   /* .cc */
	FLAG_TAKES = 1 << 14,  /* of addc, subc, madc */
	FLAG_ROUNDS = 1 << 15, /* a rounding is named */
};
#define ALLOCA_MOST 4096u
#define ROUND_AWAY (-1) /* to the nearest, half away from zero: no rounding of the CPU's */
enum space { SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_PARAM, SPACE_CONST };

/* The kind is 'u', 's', 'f', 'g' (bf16), 't' (tf32), 'q' (e4m3), 'r' (e5m2) or 'b'. A predicate has
 * one bit. A type has one element, or two of BITS each. MASK has all of its bits; SIGN is the sign
 * bit of a signed integer, otherwise 0. */
struct type {
	char kind;
	uint8_t bits, lanes;
	uint64_t mask, sign;
};

/* The kind of an operand or a name. DYNAMIC memory lies after all other shared memory. INVERTED: a
 * predicate's register. From LABEL on they are no operands; a name is MISSING that is declared and
 * not yet defined. VECTOR: its registers follow each other. */
enum kind {
	VALUE,
	REGISTER,
	SPECIAL,
	LOCAL,
	PARAM,
	DYNAMIC,
	INVERTED,
	LABEL,
	FUNCTION,
	ENTRY,
	MISSING,
	TARGETS,
	VECTOR
};
/* Where a name outside of bodies is visible: in its file, or in the whole text. WEAK: in the whole
 * text, unless another definition of the name exists. */
enum linkage { OWN, VISIBLE, WEAK, EXTERN };
/* SHARED_AT: where the block's shared memory begins, as a generic address. */
enum special {
	TID,
	NTID = 3,
	CTAID = 6,
	NCTAID = 9,
	TIME = 12,
	TIME_HIGH,
	CLOCK,
	CLOCK_HIGH,
	LANE,
	WARP_NUMBER,
	WARPS,
	PROCESSOR,
	PROCESSORS,
	GRID,
	LANES_EQ,
	LANES_LE,
	LANES_LT,
	LANES_GE,
	LANES_GT,
	SHARED_DYNAMIC,
	SHARED_ALL,
	WORKSPACE,
	WORKSPACE_HIGH,
	ZERO,
	SHARED_AT
};
#define WARP 32u

/* The kind of a literal. */
enum literal { NO_LITERAL, INTEGER, SINGLE, DOUBLE };

struct operand {
	enum kind kind;
	uint64_t value; /* a value, a register's number, or enum special */
	int64_t offset;
	uint8_t bits;	 /* of a register or a special one */
	uint8_t literal; /* enum literal */
	uint8_t part; /* of a video instruction: 0, or 1 to 4 for .b0 to .b3, 5 and 6 for .h0, .h1
		       */
};

struct instruction {
	enum op op;
	struct type to, type,
		type2; /* TO: the first one named, TYPE: the last, TYPE2: the second */
	enum compare compare;
	enum how how, second_how;
	enum space space;
	uint32_t flags; /* enum flag */
	bool guarded, negated, shared;
	int rounding; /* as of fegetround() */
	uint64_t guard;
	struct operand operands[MAX_OPERANDS];
	uint32_t n, width; /* WIDTH: elements that ld or st moves */
	uint32_t sources;  /* operands behind the first, at most 4 */
	uint64_t cut;	   /* the bits of the result */
	bool paired;	   /* a predicate behind the destination: SECOND */
	uint64_t second;
	const char *at;	   /* its place in the text */
	const char *label; /* where a branch leads, until the scope's labels are known */
};

/* The instructions that are executed often: they compute with integers in registers, move one
 * element to or from memory, or branch. DOES_MORE: all others. */
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
	uint64_t mask, sign;	       /* of its type */
	uint64_t cut;		       /* the bits of the result */
	uint32_t to, from[3], guard;   /* TO: of a branch, where it leads */
	uint8_t bits;		       /* of its type */
	uint8_t does, compare;	       /* enum does, enum compare */
	bool guarded : 1, negated : 1; /* together in a byte: 48 bytes in all */
};

struct symbol {
	const char *name;
	uint32_t next; /* next name with the same hash: its index plus 1; 0: none */
	enum kind kind;
	enum linkage linkage;
	uint64_t value;	  /* of an entry or a function: where its header is in the text */
	uint32_t scope;	  /* 0: outside of bodies */
	uint32_t file;	  /* number of its file in the text */
	uint32_t bytes;	  /* of an array outside of functions, or a parameter of a call; else 0 */
	uint8_t bits;	  /* of a register */
	bool used, twice; /* some body names it; it is defined twice */
	bool over;	  /* its scope has ended */
	bool open;	  /* of a function: its body is being read */
};

struct place {
	uint32_t at, size;
};

/* A name in the value of an array, which may be defined behind it. */
struct later {
	struct later *next;
	uint32_t at, file, bytes;
	uint64_t added;
	char name[];
};

#define BUCKETS 1024u

struct ptx {
	const char *text, *at, *begin; /* all; the next character; the statement that is read */
	char token[PTX_NAME];
	struct instruction *code;
	struct quick *quick;
	uint64_t *constants;
	struct symbol *symbols;
	uint32_t buckets[BUCKETS];
	struct chunk *chunks; /* memory for names */
	struct later *later;
	uint8_t *globals;
	uint32_t has_globals; /* bytes of address space */
	uint32_t n_code, n_symbols, n_registers, n_constants;
	uint32_t has_code, has_symbols, has_constants; /* how many the arrays have room for */
	uint32_t shared, local, n_globals;
	uint32_t most_registers, most_local; /* the largest N_REGISTERS and LOCAL so far */
	uint32_t n_calls, depth;
	uint32_t file, scope;
	uint32_t bottom;       /* the outermost scope of the body that is being read */
	enum linkage linkage;  /* of the next name */
	uint32_t most_threads; /* 0: the text does not say */
	struct place params[MAX_PARAMS];
	uint32_t n_params, params_end;
	bool reads, borrows; /* BORROWS: the globals belong to another struct ptx */
	bool declares;	     /* the text has declared a name before its definition */
	bool part;	     /* missing names may be in another text */
	bool alone;	     /* calls are read, and not replaced by the function's body */
	bool allocas;	     /* LOCAL has ALLOCA_MOST bytes for alloca at its end */
	bool in_step;	     /* a warp's threads execute each instruction together */
	jmp_buf given_up;
};

struct thread {
	uint64_t *registers;
	uint8_t *local;
	uint64_t stack; /* bytes that alloca has given */
	uint32_t pc, id[3], lane;
	enum { RUNS, AT_BARRIER, AT_WARP, OVER } state;
	bool carry;
	uint32_t together; /* the lanes that execute an instruction without a mask with this one */
	uint32_t apart;	   /* of the first thread of a warp in step: instructions since all of its
			    * threads were together */
	uint64_t given[4]; /* the sources of the instruction at which it waits */
};

struct block {
	const struct ptx_launch *launch;
	uint8_t *shared;
	uint32_t dynamic; /* where dynamic shared memory begins */
	uint32_t id[3];
	uint32_t n;		    /* threads */
	uint32_t arrived[BARRIERS]; /* threads that came to a barrier and went on */
	uint32_t *workspace;	    /* of blocks that wait for each other, or NULL */
	struct thread *threads;
	uint64_t *memory; /* their registers and local memory */
};

/* Tests spend most of their time in this machine. So functions that run for each instruction are
 * inline, and hidden visibility makes calls between its files direct. */
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

/* Returns whether two values that are in this order compare so. */
static inline bool ptx_compares(enum compare compare, int order, bool unordered)
{
	if (unordered)
		return compare >= LTU && compare != NUM;
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
	case NE:
	case NEU:
		return order != 0;
	default: /* NUM; NAN_ is true of what is unordered only */
		return compare == NUM;
	}
}

/* ptx_names.c. Returns the symbol to which NAME refers in the body or file that is being read, or
 * NULL. */
struct symbol *ptx_find(struct ptx *p, const char *name);
struct symbol *ptx_add(struct ptx *p, const char *name, enum kind kind, uint64_t value);
/* For names outside of bodies: note a definition, or a declaration of a name that is to be defined
 * elsewhere. */
void ptx_define(struct ptx *p, const char *name, enum kind kind, uint64_t value, uint32_t bytes);
void ptx_declare(struct ptx *p, const char *name);
/* Forgets the scope's names. */
void ptx_close_scope(struct ptx *p);
/* Forgets all names but the first N. */
void ptx_forget(struct ptx *p, uint32_t n);
/* Returns whether NVIDIA's driver has the function NAME itself. */
bool ptx_is_given(const char *name);
/* Allocates N bytes that are freed with P. */
void *ptx_keep(struct ptx *p, size_t n);

/* ptx_variable.c */
struct variable {
	char name[PTX_NAME];
	struct type type;
	uint32_t align, size, count, each;
	uint32_t rows[4], n_rows; /* bytes of an element of each dimension, the outermost first */
};
/* Reads the part of a declaration between the word for its space and the first name. */
struct variable ptx_declaration(struct ptx *p);
/* Reads a name, and how many elements it has. */
void ptx_variable(struct ptx *p, struct variable *v);
/* Returns whether another name of the same declaration follows. */
bool ptx_another(struct ptx *p);
/* Places a variable after all others of a space. Returns its offset. */
uint32_t ptx_place(struct ptx *p, uint32_t *end, const struct variable *v);
void ptx_global_variable(struct ptx *p);
void ptx_shared_variable(struct ptx *p);
/* Writes the addresses of names in initial values of arrays, once all names are known. */
void ptx_write_later(struct ptx *p);

/* ptx_operand.c */
/* Reads a register, a number or a name; its last token stays the current one. */
struct operand ptx_operand(struct ptx *p);
/* Reads the operands that FORM says, up to the semicolon. */
void ptx_operands(struct ptx *p, struct instruction *i, const char *form);
/* Reads the list {a, b, ...} up to its end. */
uint32_t ptx_elements(struct ptx *p, struct operand *list);
/* Stops unless O is a register or a number of BITS, or if WIDER, a wider register. */
void ptx_fits(struct ptx *p, const struct operand *o, uint32_t bits, bool wider);
/* Adds a register and returns its number. With an empty NAME no text can refer to it. */
uint32_t ptx_register(struct ptx *p, const char *name, uint32_t bits);

/* ptx_body.c */
/* Reads up to the end of the block, behind its opening brace. */
void ptx_block(struct ptx *p);
/* Makes room for all instructions of one statement: pointers into the code stay valid until the
 * next statement. */
void ptx_make_room(struct ptx *p);
/* Appends WHAT to the code. Returns the instruction. */
struct instruction *ptx_emit(struct ptx *p, const struct instruction *what);
/* Sets the targets of branches from FIRST on whose labels are in this scope. */
void ptx_resolve(struct ptx *p, uint32_t first);
/* Stops if a branch from FIRST on has no target. */
void ptx_all_resolved(struct ptx *p, uint32_t first);
/* Ends a body: its registers and local memory can be used again. A thread needs the largest amount
 * that was in use at a time. */
void ptx_give_back(struct ptx *p, uint32_t n_registers, uint32_t local);
/* The label behind the body of a function. No word of a text can equal it. */
#define PTX_END "}"

/* ptx_call.c */
/* Reads [(RESULTS),] NAME [, (ARGUMENTS)]; with the call's predicate in GUARD. */
void ptx_call(struct ptx *p, const struct instruction *guard);
/* Reads the body of a function without a call of it, and without those that it calls. */
void ptx_alone(struct ptx *p, const struct symbol *f);

/* ptx_quick.c: fills QUICK and CONSTANTS, when all of an entry has been read. */
void ptx_prepare(struct ptx *p);

/* ptx_forms.c: reads the opcode of I, which begins at its token, and sets FORM to the operands that
 * the ISA gives it. Stops at instructions that this machine does not execute exactly. */
void ptx_opcode(struct ptx *p, struct instruction *i, const char **form);
/* Reads the type in WORD, of N letters, without its dot. Returns false if it is none. */
bool ptx_type(const char *word, size_t n, struct type *out);
struct type ptx_type_of(char kind, uint32_t bits);

/* ptx_lex.c */
bool ptx_more(struct ptx *p);	     /* skips white space and comments: whether anything follows */
const char *ptx_next(struct ptx *p); /* the next token, also in TOKEN */
bool ptx_is(const struct ptx *p, const char *text);
void ptx_want(struct ptx *p, const char *text); /* the next token must be this one */
/* Returns the number that begins at the token, and its kind in LITERAL. */
uint64_t ptx_number(struct ptx *p, enum literal *literal);

/* ptx_math.c. Returns the result of an instruction with the sources V. */
uint64_t ptx_result(struct ptx *p, const struct instruction *i, const uint64_t *v);
bool ptx_compare(const struct instruction *i, uint64_t x, uint64_t y);
/* Returns the value that atom and red write in place of OLD. */
uint64_t ptx_atom(struct ptx *p, const struct instruction *i, uint64_t old, uint64_t a, uint64_t b);
/* Addition, subtraction and products with the carry flag. */
uint64_t ptx_carry(const struct instruction *i, const uint64_t *v, bool *carry);

/* ptx_float.c: the same for floats. */
uint64_t ptx_float_result(struct ptx *p, const struct instruction *i, const uint64_t *v);
int ptx_float_order(const struct instruction *i, uint64_t x, uint64_t y, bool *unordered);
bool ptx_float_is(const struct instruction *i, uint64_t v); /* testp */
uint64_t ptx_flushed(const struct type *type, uint64_t v);
long double ptx_to_float(const struct type *type, uint64_t v);
/* Returns D in the type, rounded by MODE, which is as of fegetround(). */
uint64_t ptx_from_float(const struct type *type, long double d, int mode);

/* ptx_convert.c */
uint64_t ptx_convert(const struct instruction *i, const uint64_t *v);

/* ptx_video.c */
uint64_t ptx_video(const struct instruction *i, const uint64_t *v);

/* ptx_warp.c: lets threads continue if all threads for which they wait have arrived. Returns
 * whether any thread can continue. */
bool ptx_meet(struct ptx *p, struct block *b);

/* Reports an error. While a text is being read, control returns to ptx_read(), which stores it for
 * ptx_error(); otherwise it is printed, and the program aborts. */
__attribute__((noreturn)) void ptx_stop(struct ptx *p, const char *what);

#pragma GCC visibility pop
