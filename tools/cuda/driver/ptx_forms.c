/* SPDX-License-Identifier: MIT */
/*
 * The instructions of the PTX ISA, version 8.5, and which of them the machine executes. An opcode
 * that no row has is none, and is refused like those whose rows say REFUSED.
 *
 * WORDS: the instructions, and a group of alternatives for each word that may follow it; behind a
 * group, ? means that the word may be left out. Types have an order, other words have none.
 * OPERANDS, one letter each, in which T is the last type and F the first one:
 *   D a register of F        R the same, or a wider one   X one of twice T's bits
 *   W a register of 32 bits  Q a predicate                O one or two of them, p|q
 *   S a register of F, which |p may follow                E one of 32 bits, which |p may follow
 *   t of T    f of F    x of the second type    r of T, or wider    y of twice T's bits
 *   w of 32 bits    p a predicate    n one that may be inverted    i an integer    a an address
 *   q of 32 bits, of which a part may be named    m memory    V, v registers to ld, or from st
 * and ? behind a letter: it and what follows it may be left out.
 */
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "ptx_private.h"

#define INTS "u16|u32|u64|s16|s32|s64"
#define WORDS_32_64 "u32|u64|s32|s64"
#define BITS "b16|b32|b64"
#define RND " rn|rz|rm|rp"
#define MEMORY_TYPES "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64"
#define SMALL_TYPES "b8|b16|b32|u8|u16|u32|s8|s16|s32|f32"
#define SCOPE "cta|cluster|gpu|sys"
#define SHARED "shared|shared::cta|shared::cluster"
#define SPACES "const|global|local|param|param::entry|param::func|" SHARED
#define ST_SPACES "global|local|param|param::func|" SHARED
#define VOLATILE_SPACES "global|param|" SHARED
#define EVICTS                                                                                     \
	" L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate?"
#define PREFETCHES " L2::64B|L2::128B|L2::256B?"
#define COMPARES_B "eq|ne"
#define COMPARES_S "eq|ne|lt|le|gt|ge"
#define COMPARES_U COMPARES_S "|lo|ls|hi|hs"
#define COMPARES_F COMPARES_S "|equ|neu|ltu|leu|gtu|geu|num|nan"
#define JOINS " and|or|xor"
#define ALL_TYPES BITS "|" INTS "|f32|f64"
#define HALVES "f16|f16x2"
#define BRAINS "bf16|bf16x2"
#define ATOMIC " relaxed|acquire|release|acq_rel? " SCOPE "? global|" SHARED "? "
#define REDUCES " relaxed|release? " SCOPE "? global|" SHARED "? "
#define VIDEO " u32|s32 u32|s32 u32|s32 sat?"

struct row {
	enum op op;
	const char *words, *operands;
};

static const struct row rows[] = {
	/* integers */
	{OP_ADD, "add " INTS, "Dtt"},
	{OP_ADD, "add sat s32", "Dtt"},
	{OP_ADD, "add u16x2|s16x2", "Dtt"},
	{OP_SUB, "sub " INTS, "Dtt"},
	{OP_SUB, "sub sat s32", "Dtt"},
	{OP_CARRIES, "add|sub cc " WORDS_32_64, "Dtt"},
	{OP_CARRIES, "addc|subc cc? " WORDS_32_64, "Dtt"},
	{OP_CARRIES, "mad lo|hi cc " WORDS_32_64, "Dttt"},
	{OP_CARRIES, "madc lo|hi cc? " WORDS_32_64, "Dttt"},
	{OP_MUL, "mul lo|hi " INTS, "Dtt"},
	{OP_MUL, "mul wide u16|u32|s16|s32", "Xtt"},
	{OP_MAD, "mad lo|hi " INTS, "Dttt"},
	{OP_MAD, "mad wide u16|u32|s16|s32", "Xtty"},
	{OP_MAD, "mad hi sat s32", "Dttt"},
	{OP_MUL24, "mul24 lo|hi u32|s32", "Dtt"},
	{OP_MAD24, "mad24 lo|hi u32|s32", "Dttt"},
	{OP_MAD24, "mad24 hi sat s32", "Dttt"},
	{OP_SAD, "sad " INTS, "Dttt"},
	{OP_DIV, "div " INTS, "Dtt"},
	{OP_REM, "rem " INTS, "Dtt"},
	{OP_ABS, "abs s16|s32|s64", "Dt"},
	{OP_NEG, "neg s16|s32|s64", "Dt"},
	{OP_MIN, "min " INTS, "Dtt"},
	{OP_MAX, "max " INTS, "Dtt"},
	{OP_MIN, "min relu s32", "Dtt"},
	{OP_MAX, "max relu s32", "Dtt"},
	{OP_MIN, "min u16x2|s16x2", "Dtt"},
	{OP_MIN, "min relu s16x2", "Dtt"},
	{OP_MAX, "max u16x2|s16x2", "Dtt"},
	{OP_MAX, "max relu s16x2", "Dtt"},
	{OP_POPC, "popc b32|b64", "Wt"},
	{OP_CLZ, "clz b32|b64", "Wt"},
	{OP_BFIND, "bfind shiftamt? " WORDS_32_64, "Wt"},
	{OP_FNS, "fns b32", "Dtww"},
	{OP_BREV, "brev b32|b64", "Dt"},
	{OP_BFE, "bfe " WORDS_32_64, "Dtww"},
	{OP_BFI, "bfi b32|b64", "Dttww"},
	{OP_BMSK, "bmsk clamp|wrap b32", "Dtw"},
	{OP_SZEXT, "szext clamp|wrap u32|s32", "Dtw"},
	{OP_DP4A, "dp4a u32|s32 u32|s32", "Wwww"},
	{OP_DP2A, "dp2a lo|hi u32|s32 u32|s32", "Wwww"},
	/* floats */
	{OP_TESTP, "testp finite|infinite|number|notanumber|normal|subnormal f32|f64", "Qt"},
	{OP_COPYSIGN, "copysign f32|f64", "Dtt"},
	{OP_ADD, "add" RND "? ftz? sat? f32", "Dtt"},
	{OP_ADD, "add" RND "? f64", "Dtt"},
	{OP_SUB, "sub" RND "? ftz? sat? f32", "Dtt"},
	{OP_SUB, "sub" RND "? f64", "Dtt"},
	{OP_MUL, "mul" RND "? ftz? sat? f32", "Dtt"},
	{OP_MUL, "mul" RND "? f64", "Dtt"},
	{OP_FMA, "fma|mad" RND " ftz? sat? f32", "Dttt"},
	{OP_FMA, "fma|mad" RND " f64", "Dttt"},
	{OP_DIV, "div approx|full ftz? f32", "Dtt"},
	{OP_DIV, "div" RND " ftz? f32", "Dtt"},
	{OP_DIV, "div" RND " f64", "Dtt"},
	{OP_ABS, "abs ftz? f32", "Dt"},
	{OP_ABS, "abs f64", "Dt"},
	{OP_NEG, "neg ftz? f32", "Dt"},
	{OP_NEG, "neg f64", "Dt"},
	{OP_MIN, "min ftz? NaN? f32", "Dtt"},
	{OP_MIN, "min ftz? NaN? xorsign abs f32", "Dtt"},
	{OP_MAX, "max ftz? NaN? f32", "Dtt"},
	{OP_MAX, "max ftz? NaN? xorsign abs f32", "Dtt"},
	{OP_MIN, "min f64", "Dtt"},
	{OP_MAX, "max f64", "Dtt"},
	{OP_RCP, "rcp approx ftz? f32", "Dt"},
	{OP_RCP, "rcp" RND " ftz? f32", "Dt"},
	{OP_RCP, "rcp" RND " f64", "Dt"},
	{OP_RCP, "rcp approx ftz f64", "Dt"},
	{OP_SQRT, "sqrt approx ftz? f32", "Dt"},
	{OP_SQRT, "sqrt" RND " ftz? f32", "Dt"},
	{OP_SQRT, "sqrt" RND " f64", "Dt"},
	{OP_RSQRT, "rsqrt approx ftz? f32", "Dt"},
	{OP_RSQRT, "rsqrt approx ftz? f64", "Dt"},
	{OP_SIN, "sin approx ftz? f32", "Dt"},
	{OP_COS, "cos approx ftz? f32", "Dt"},
	{OP_LG2, "lg2 approx ftz? f32", "Dt"},
	{OP_EX2, "ex2 approx ftz? f32", "Dt"},
	{OP_TANH, "tanh approx f32", "Dt"},
	/* floats of 16 bits */
	{OP_ADD, "add rn? ftz? sat? " HALVES, "Dtt"},
	{OP_SUB, "sub rn? ftz? sat? " HALVES, "Dtt"},
	{OP_MUL, "mul rn? ftz? sat? " HALVES, "Dtt"},
	{OP_FMA, "fma rn ftz? sat? " HALVES, "Dttt"},
	{OP_FMA, "fma rn ftz? relu " HALVES, "Dttt"},
	{OP_ADD, "add rn? " BRAINS, "Dtt"},
	{OP_SUB, "sub rn? " BRAINS, "Dtt"},
	{OP_MUL, "mul rn? " BRAINS, "Dtt"},
	{OP_FMA, "fma rn relu? " BRAINS, "Dttt"},
	{OP_REFUSED, "fma rn oob relu? " HALVES "|" BRAINS, "Dttt"},
	{OP_ABS, "abs ftz? " HALVES, "Dt"},
	{OP_NEG, "neg ftz? " HALVES, "Dt"},
	{OP_ABS, "abs " BRAINS, "Dt"},
	{OP_NEG, "neg " BRAINS, "Dt"},
	{OP_MIN, "min ftz? NaN? " HALVES, "Dtt"},
	{OP_MIN, "min ftz? NaN? xorsign abs " HALVES, "Dtt"},
	{OP_MAX, "max ftz? NaN? " HALVES, "Dtt"},
	{OP_MAX, "max ftz? NaN? xorsign abs " HALVES, "Dtt"},
	{OP_MIN, "min NaN? " BRAINS, "Dtt"},
	{OP_MIN, "min NaN? xorsign abs " BRAINS, "Dtt"},
	{OP_MAX, "max NaN? " BRAINS, "Dtt"},
	{OP_MAX, "max NaN? xorsign abs " BRAINS, "Dtt"},
	{OP_TANH, "tanh approx " HALVES "|" BRAINS, "Dt"},
	{OP_EX2, "ex2 approx " HALVES, "Dt"},
	{OP_EX2, "ex2 approx ftz " BRAINS, "Dt"},
	/* comparison and selection */
	{OP_SET, "set " COMPARES_B " u32|s32|f32 " BITS, "Dtt"},
	{OP_SET, "set " COMPARES_U " u32|s32|f32 u16|u32|u64", "Dtt"},
	{OP_SET, "set " COMPARES_S " u32|s32|f32 s16|s32|s64", "Dtt"},
	{OP_SET, "set " COMPARES_F " ftz? u32|s32|f32 f32", "Dtt"},
	{OP_SET, "set " COMPARES_F " u32|s32|f32 f64", "Dtt"},
	{OP_SET, "set " COMPARES_B JOINS " u32|s32|f32 " BITS, "Dttn"},
	{OP_SET, "set " COMPARES_U JOINS " u32|s32|f32 u16|u32|u64", "Dttn"},
	{OP_SET, "set " COMPARES_S JOINS " u32|s32|f32 s16|s32|s64", "Dttn"},
	{OP_SET, "set " COMPARES_F JOINS " ftz? u32|s32|f32 f32", "Dttn"},
	{OP_SET, "set " COMPARES_F JOINS " u32|s32|f32 f64", "Dttn"},
	{OP_SET, "set " COMPARES_F " ftz? f16 f16", "Dtt"},
	{OP_SET, "set " COMPARES_F " ftz? f16x2 f16x2", "Dtt"},
	{OP_SET, "set " COMPARES_F " bf16 bf16", "Dtt"},
	{OP_SET, "set " COMPARES_F " bf16x2 bf16x2", "Dtt"},
	{OP_REFUSED, "set " COMPARES_F JOINS "? ftz? u16|s16|u32|s32 f16", "Dttn?"},
	{OP_REFUSED, "set " COMPARES_F JOINS "? ftz? u32|s32 f16x2", "Dttn?"},
	{OP_REFUSED, "set " COMPARES_F JOINS "? u16|s16|u32|s32 bf16", "Dttn?"},
	{OP_REFUSED, "set " COMPARES_F JOINS "? u32|s32 bf16x2", "Dttn?"},
	{OP_REFUSED, "set " COMPARES_F JOINS " ftz? f16 f16", "Dttn"},
	{OP_REFUSED, "set " COMPARES_F JOINS " ftz? f16x2 f16x2", "Dttn"},
	{OP_REFUSED, "set " COMPARES_F JOINS " bf16 bf16", "Dttn"},
	{OP_REFUSED, "set " COMPARES_F JOINS " bf16x2 bf16x2", "Dttn"},
	{OP_SETP, "setp " COMPARES_B " " BITS, "Ott"},
	{OP_SETP, "setp " COMPARES_U " u16|u32|u64", "Ott"},
	{OP_SETP, "setp " COMPARES_S " s16|s32|s64", "Ott"},
	{OP_SETP, "setp " COMPARES_F " ftz? f32|f16x2", "Ott"},
	{OP_SETP, "setp " COMPARES_F " f64|bf16x2", "Ott"},
	{OP_SETP, "setp " COMPARES_F " ftz? f16", "Qtt"},
	{OP_SETP, "setp " COMPARES_F " bf16", "Qtt"},
	{OP_SETP, "setp " COMPARES_B JOINS " " BITS, "Ottn"},
	{OP_SETP, "setp " COMPARES_U JOINS " u16|u32|u64", "Ottn"},
	{OP_SETP, "setp " COMPARES_S JOINS " s16|s32|s64", "Ottn"},
	{OP_SETP, "setp " COMPARES_F JOINS " ftz? f32|f16x2", "Ottn"},
	{OP_SETP, "setp " COMPARES_F JOINS " f64|bf16x2", "Ottn"},
	{OP_SETP, "setp " COMPARES_F JOINS " ftz? f16", "Qttn"},
	{OP_SETP, "setp " COMPARES_F JOINS " bf16", "Qttn"},
	{OP_SELP, "selp " ALL_TYPES, "Dttp"},
	{OP_SLCT, "slct " ALL_TYPES " s32", "Dffw"},
	{OP_SLCT, "slct ftz? " ALL_TYPES " f32", "Dfft"},
	/* bits */
	{OP_AND, "and pred|" BITS, "Dtt"},
	{OP_OR, "or pred|" BITS, "Dtt"},
	{OP_XOR, "xor pred|" BITS, "Dtt"},
	{OP_NOT, "not pred|" BITS, "Dt"},
	{OP_CNOT, "cnot " BITS, "Dt"},
	{OP_LOP3, "lop3 b32", "Dttti"},
	{OP_REFUSED, "lop3 and|or b32", "Stttin"},
	{OP_SHF, "shf l|r clamp|wrap b32", "Dttw"},
	{OP_SHL, "shl " BITS, "Dtw"},
	{OP_SHR, "shr " BITS "|" INTS, "Dtw"},
	{OP_PRMT, "prmt b32", "Dttw"},
	{OP_PRMT, "prmt b32 f4e|b4e|rc8|ecl|ecr|rc16", "Dttw"},
	/* movement */
	{OP_MOV, "mov pred|" ALL_TYPES, "Dt"},
	{OP_MOV, "mov v2|v4 " ALL_TYPES, "Dt"},
	{OP_REFUSED, "mov b128", "Dt"},
	{OP_LD, "ld weak? " SPACES "? ca|cg|cs|lu|cv? v2? " MEMORY_TYPES, "Vm"},
	{OP_LD, "ld weak? " SPACES "? ca|cg|cs|lu|cv? v4 " SMALL_TYPES, "Vm"},
	{OP_LD, "ld weak? global?" EVICTS PREFETCHES " v2? " MEMORY_TYPES, "Vm"},
	{OP_LD, "ld weak? global?" EVICTS PREFETCHES " v4 " SMALL_TYPES, "Vm"},
	{OP_LD, "ld volatile " VOLATILE_SPACES "? v2? " MEMORY_TYPES, "Vm"},
	{OP_LD, "ld volatile " VOLATILE_SPACES "? v4 " SMALL_TYPES, "Vm"},
	{OP_LD, "ld relaxed|acquire " SCOPE " global?" EVICTS PREFETCHES " v2? " MEMORY_TYPES,
	 "Vm"},
	{OP_LD, "ld relaxed|acquire " SCOPE " global?" EVICTS PREFETCHES " v4 " SMALL_TYPES, "Vm"},
	{OP_LD, "ld relaxed|acquire " SCOPE " " SHARED " v2? " MEMORY_TYPES, "Vm"},
	{OP_LD, "ld relaxed|acquire " SCOPE " " SHARED " v4 " SMALL_TYPES, "Vm"},
	{OP_LD, "ld global ca|cg|cs? nc v2? " MEMORY_TYPES, "Vm"},
	{OP_LD, "ld global ca|cg|cs? nc v4 " SMALL_TYPES, "Vm"},
	{OP_LD, "ld global nc" EVICTS PREFETCHES " v2? " MEMORY_TYPES, "Vm"},
	{OP_LD, "ld global nc" EVICTS PREFETCHES " v4 " SMALL_TYPES, "Vm"},
	{OP_LD, "ldu global? v2? " MEMORY_TYPES, "Vm"},
	{OP_LD, "ldu global? v4 " SMALL_TYPES, "Vm"},
	{OP_ST, "st weak? " ST_SPACES "? wb|cg|cs|wt? v2? " MEMORY_TYPES, "mv"},
	{OP_ST, "st weak? " ST_SPACES "? wb|cg|cs|wt? v4 " SMALL_TYPES, "mv"},
	{OP_ST, "st weak? global?" EVICTS " v2? " MEMORY_TYPES, "mv"},
	{OP_ST, "st weak? global?" EVICTS " v4 " SMALL_TYPES, "mv"},
	{OP_ST, "st volatile global|" SHARED "? v2? " MEMORY_TYPES, "mv"},
	{OP_ST, "st volatile global|" SHARED "? v4 " SMALL_TYPES, "mv"},
	{OP_ST, "st relaxed|release " SCOPE " global?" EVICTS " v2? " MEMORY_TYPES, "mv"},
	{OP_ST, "st relaxed|release " SCOPE " global?" EVICTS " v4 " SMALL_TYPES, "mv"},
	{OP_ST, "st relaxed|release " SCOPE " " SHARED " v2? " MEMORY_TYPES, "mv"},
	{OP_ST, "st relaxed|release " SCOPE " " SHARED " v4 " SMALL_TYPES, "mv"},
	{OP_REFUSED, "ld mmio relaxed sys global? " MEMORY_TYPES, "Vm"},
	{OP_REFUSED, "st mmio relaxed sys global? " MEMORY_TYPES, "mv"},
	{OP_REFUSED, "ld global|weak? L2::cache_hint v2|v4? " MEMORY_TYPES, "Vmy"},
	{OP_REFUSED, "st global|weak? L2::cache_hint v2|v4? " MEMORY_TYPES, "mvy"},
	{OP_REFUSED, "ld global? b128", "Vm"},
	{OP_REFUSED, "st global? b128", "mv"},
	{OP_NOTHING, "prefetch global|local? L1|L2", "m"},
	{OP_NOTHING, "prefetch global L2::evict_last|L2::evict_normal", "m"},
	{OP_NOTHING, "prefetchu L1", "m"},
	{OP_NOTHING, "applypriority global? L2::evict_normal", "mi"},
	{OP_REFUSED, "discard global? L2", "mi"},
	{OP_REFUSED, "createpolicy fractional|range", "D"},
	{OP_ISSPACEP, "isspacep const|global|local|param|" SHARED, "Qa"},
	{OP_MOV, "cvta global|local|const|param|param::entry u64", "Da"},
	{OP_ADD, "cvta " SHARED " u64", "Da"},
	{OP_MOV, "cvta to global|local|const|param|param::entry u64", "Da"},
	{OP_SUB, "cvta to " SHARED " u64", "Da"},
	{OP_REFUSED, "cvta to? global|local|const|param|" SHARED " u32", "Da"},
	{OP_REFUSED, "mapa shared::cluster? u32|u64", "Da"},
	{OP_REFUSED, "getctarank shared::cluster? u32|u64", "Wa"},
	{OP_CVT, "cvt sat? u8|s8|" INTS " u8|s8|" INTS, "Rr"},
	{OP_CVT, "cvt rni|rzi|rmi|rpi ftz? sat? u8|s8|" INTS " f32", "Rr"},
	{OP_CVT, "cvt rni|rzi|rmi|rpi sat? u8|s8|" INTS " f16|f64", "Rr"},
	{OP_CVT, "cvt rni|rzi|rmi|rpi " INTS " bf16", "Dt"},
	{OP_CVT, "cvt" RND " ftz? sat? f32 u8|s8|" INTS, "Rr"},
	{OP_CVT, "cvt" RND " sat? f16|f64 u8|s8|" INTS, "Rr"},
	{OP_CVT, "cvt" RND " bf16 " INTS, "Dt"},
	{OP_CVT, "cvt rni|rzi|rmi|rpi? ftz? sat? f32 f32", "Rr"},
	{OP_CVT, "cvt rni|rzi|rmi|rpi? sat? f64 f64", "Rr"},
	{OP_CVT, "cvt rni|rzi|rmi|rpi? sat? f16 f16", "Rr"},
	{OP_REFUSED, "cvt rni|rzi|rmi|rpi bf16 bf16", "Rr"},
	{OP_CVT, "cvt ftz? sat? f64 f32", "Rr"},
	{OP_CVT, "cvt sat? f64 f16", "Rr"},
	{OP_CVT, "cvt ftz? sat? f32 f16", "Rr"},
	{OP_CVT, "cvt f32 bf16", "Rr"},
	{OP_CVT, "cvt" RND " ftz? sat? f32 f64", "Rr"},
	{OP_CVT, "cvt" RND " sat? f16 f64", "Rr"},
	{OP_CVT, "cvt" RND " ftz? sat? f16 f32", "Rr"},
	{OP_CVT, "cvt rn|rz relu f16 f32", "Rr"},
	{OP_CVT, "cvt rn|rz relu? bf16 f32", "Rr"},
	{OP_CVT2, "cvt rn|rz relu? f16x2|bf16x2 f32", "Dtt"},
	{OP_REFUSED, "cvt rn|rz relu? satfinite f16|bf16|f16x2|bf16x2 f32", "Dtt?"},
	{OP_REFUSED, "cvt rn|rm|rz|rp f64|f16 bf16", "Rr"},
	{OP_REFUSED, "cvt rn|rm|rz|rp bf16 f16|f64", "Rr"},
	{OP_CVT, "cvt rna tf32 f32", "Wt"},
	{OP_CVT, "cvt rn|rz relu? tf32 f32", "Wt"},
	{OP_REFUSED, "cvt rna|rn|rz relu? satfinite tf32 f32", "Wt"},
	{OP_CVT2, "cvt rn satfinite relu? e4m3x2|e5m2x2 f32", "Dtt"},
	{OP_CVT, "cvt rn satfinite relu? e4m3x2|e5m2x2 f16x2", "Dt"},
	{OP_CVT, "cvt rn relu? f16x2 e4m3x2|e5m2x2", "Dt"},
	{OP_REFUSED, "cvt pack sat u16|s16|u8|s8|u4|s4|u2|s2 s32 b32?", "Dtt"},
	{OP_COPY, "cp async ca|cg shared|shared::cta global L2::64B|L2::128B|L2::256B?", "mmiw?"},
	{OP_NOTHING, "cp async commit_group", ""},
	{OP_NOTHING, "cp async wait_group", "i"},
	{OP_NOTHING, "cp async wait_all", ""},
	{OP_REFUSED, "cp async ca|cg shared|shared::cta global L2::cache_hint", "mmi"},
	{OP_REFUSED, "cp async mbarrier arrive noinc? shared? b64", "m"},
	{OP_REFUSED, "cp async bulk prefetch? tensor?", "m"},
	{OP_REFUSED, "cp reduce async bulk tensor?", "m"},
	{OP_REFUSED, "st async weak? mbarrier::complete_tx::bytes", "mv"},
	{OP_REFUSED, "st bulk", "m"},
	{OP_REFUSED, "multimem ld_reduce|st|red", "m"},
	{OP_REFUSED, "tensormap replace tile", "m"},
	/* textures and surfaces */
	{OP_REFUSED, "tex|tld4|txq|suld|sust|sured|suq", "m"},
	{OP_REFUSED, "istypep texref|samplerref|surfref", "Qa"},
	/* control */
	{OP_BRA, "bra uni?", "l"},
	{OP_BRX, "brx idx uni?", "wl"},
	{OP_CALL, "call uni?", ""},
	{OP_RET, "ret uni?", ""},
	{OP_EXIT, "exit", ""},
	{OP_TRAP, "trap", ""},
	{OP_REFUSED, "brkpt", ""},
	{OP_NOTHING, "nanosleep u32", "t"},
	{OP_NOTHING, "pmevent mask?", "i"},
	{OP_REFUSED, "setmaxnreg inc|dec sync aligned u32", "i"},
	{OP_ALLOCA, "alloca u64", "Dti?"},
	{OP_STACKSAVE, "stacksave u64", "D"},
	{OP_STACKRESTORE, "stackrestore u64", "t"},
	{OP_REFUSED, "alloca u32", "Dti?"},
	{OP_REFUSED, "stacksave u32", "D"},
	{OP_REFUSED, "stackrestore u32", "t"},
	{OP_REFUSED, "griddepcontrol launch_dependents|wait", ""},
	/* together */
	{OP_BAR, "bar cta? sync", "ww?"},
	{OP_BAR, "bar cta? arrive", "ww"},
	{OP_BAR, "bar cta? red popc u32", "Dwn"},
	{OP_BAR, "bar cta? red and|or pred", "Dwn"},
	{OP_REFUSED, "bar cta? red popc|and|or u32|pred count", "Dwwn"},
	{OP_BAR, "barrier cta? sync aligned?", "ww?"},
	{OP_BAR, "barrier cta? arrive aligned?", "ww"},
	{OP_BAR, "barrier cta? red popc aligned? u32", "Dwn"},
	{OP_BAR, "barrier cta? red and|or aligned? pred", "Dwn"},
	{OP_BAR, "bar warp sync", "w"},
	{OP_REFUSED, "barrier cluster arrive|wait release|acquire|relaxed? aligned?", ""},
	{OP_NOTHING, "membar cta|gl|sys", ""},
	{OP_NOTHING, "fence sc|acq_rel? " SCOPE, ""},
	{OP_REFUSED, "fence proxy alias|async|tensormap::generic", ""},
	{OP_REFUSED, "fence mbarrier_init release cluster", ""},
	{OP_ATOM, "atom" ATOMIC "and|or|xor b32|b64", "Dmt"},
	{OP_ATOM, "atom" ATOMIC "exch b32|b64", "Dmt"},
	{OP_ATOM, "atom" ATOMIC "cas b16|b32|b64", "Dmtt"},
	{OP_ATOM, "atom" ATOMIC "add u32|s32|u64|f32|f64", "Dmt"},
	{OP_ATOM, "atom" ATOMIC "add noftz " HALVES "|" BRAINS, "Dmt"},
	{OP_ATOM, "atom" ATOMIC "inc|dec u32", "Dmt"},
	{OP_ATOM, "atom" ATOMIC "min|max u32|s32|u64|s64", "Dmt"},
	{OP_REFUSED, "atom" ATOMIC "exch|cas b128", "Dmtt?"},
	{OP_REFUSED, "atom" ATOMIC "add v2|v4|v8 noftz? f32|" HALVES "|" BRAINS, "Dmt"},
	{OP_REFUSED, "atom" ATOMIC "add|min|max|and|or|xor|exch|cas|inc|dec L2::cache_hint u32|b32",
	 "Dmty"},
	{OP_RED, "red" REDUCES "and|or|xor b32|b64", "mt"},
	{OP_RED, "red" REDUCES "add u32|s32|u64|f32|f64", "mt"},
	{OP_RED, "red" REDUCES "add noftz " HALVES "|" BRAINS, "mt"},
	{OP_RED, "red" REDUCES "inc|dec u32", "mt"},
	{OP_RED, "red" REDUCES "min|max u32|s32|u64|s64", "mt"},
	{OP_REFUSED, "red" REDUCES "add v2|v4|v8 noftz? f32|" HALVES "|" BRAINS, "mt"},
	{OP_REFUSED, "red async relaxed? cluster? mbarrier::complete_tx::bytes", "mt"},
	{OP_SHFL, "shfl sync up|down|bfly|idx b32", "Stwww"},
	{OP_SHFL, "shfl up|down|bfly|idx b32", "Stww"},
	{OP_VOTE, "vote sync all|any|uni pred", "Dnw"},
	{OP_VOTE, "vote sync ballot b32", "Dnw"},
	{OP_VOTE, "vote all|any|uni pred", "Dn"},
	{OP_VOTE, "vote ballot b32", "Dn"},
	{OP_MATCH, "match any sync b32|b64", "Wtw"},
	{OP_MATCH, "match all sync b32|b64", "Etw"},
	{OP_REDUX, "redux sync add|min|max u32|s32", "Dtw"},
	{OP_REDUX, "redux sync and|or|xor b32", "Dtw"},
	{OP_ELECT, "elect sync", "Ew"},
	{OP_ACTIVEMASK, "activemask b32", "D"},
	{OP_REFUSED,
	 "mbarrier "
	 "init|inval|arrive|arrive_drop|test_wait|try_wait|pending_count|expect_tx|complete_tx",
	 "m"},
	{OP_REFUSED, "tensormap cp_fenceproxy", "m"},
	/* matrices */
	{OP_REFUSED, "wmma load|store|mma", "m"},
	{OP_REFUSED, "mma sync|sp", "m"},
	{OP_REFUSED, "ldmatrix|stmatrix|movmatrix sync", "m"},
	{OP_REFUSED, "wgmma mma_async|fence|commit_group|wait_group", "m"},
	{OP_REFUSED, "tcgen05", "m"},
	{OP_REFUSED, "clusterlaunchcontrol try_cancel|query_cancel", "m"},
	/* video */
	{OP_VADD, "vadd" VIDEO, "Wqq"},
	{OP_VSUB, "vsub" VIDEO, "Wqq"},
	{OP_VABSDIFF, "vabsdiff" VIDEO, "Wqq"},
	{OP_VMIN, "vmin" VIDEO, "Wqq"},
	{OP_VMAX, "vmax" VIDEO, "Wqq"},
	{OP_VADD, "vadd" VIDEO " add|min|max", "Wqqw"},
	{OP_VSUB, "vsub" VIDEO " add|min|max", "Wqqw"},
	{OP_VABSDIFF, "vabsdiff" VIDEO " add|min|max", "Wqqw"},
	{OP_VMIN, "vmin" VIDEO " add|min|max", "Wqqw"},
	{OP_VMAX, "vmax" VIDEO " add|min|max", "Wqqw"},
	{OP_REFUSED, "vshl|vshr" VIDEO " clamp|wrap add|min|max?", "Wqqw?"},
	{OP_REFUSED, "vmad" VIDEO " shr7|shr15? po?", "Wqqw"},
	{OP_REFUSED, "vset u32|s32 u32|s32 eq|ne|lt|le|gt|ge add|min|max?", "Wqqw?"},
	{OP_REFUSED,
	 "vadd2|vadd4|vsub2|vsub4|vavrg2|vavrg4|vabsdiff2|vabsdiff4|vmin2|vmin4|vmax2|vmax4" VIDEO
	 " add?",
	 "Wqqw"},
	{OP_REFUSED, "vset2|vset4 u32|s32 u32|s32 eq|ne|lt|le|gt|ge add?", "Wqqw"},
};

/* What words mean, besides types. Those that are not here, such as scopes and hints for caches,
 * change nothing on a machine that executes one instruction after another. */
static const struct meaning {
	const char *word;
	enum how how;
	uint32_t flags;
	enum space space;
	int rounding;
} meanings[] = {
	{.word = "add", .how = HOW_ADD},
	{.word = "min", .how = HOW_MIN},
	{.word = "max", .how = HOW_MAX},
	{.word = "and", .how = HOW_AND},
	{.word = "or", .how = HOW_OR},
	{.word = "xor", .how = HOW_XOR},
	{.word = "exch", .how = HOW_EXCH},
	{.word = "cas", .how = HOW_CAS},
	{.word = "inc", .how = HOW_INC},
	{.word = "dec", .how = HOW_DEC},
	{.word = "up", .how = HOW_UP},
	{.word = "down", .how = HOW_DOWN},
	{.word = "bfly", .how = HOW_BFLY},
	{.word = "idx", .how = HOW_IDX},
	{.word = "all", .how = HOW_ALL},
	{.word = "any", .how = HOW_ANY},
	{.word = "uni", .how = HOW_UNI},
	{.word = "ballot", .how = HOW_BALLOT},
	{.word = "popc", .how = HOW_POPC},
	{.word = "warp", .how = HOW_WARP},
	{.word = "arrive", .how = HOW_ARRIVE},
	{.word = "rni", .how = HOW_RNI},
	{.word = "rzi", .how = HOW_RZI},
	{.word = "rmi", .how = HOW_RMI},
	{.word = "rpi", .how = HOW_RPI},
	{.word = "f4e", .how = HOW_F4E},
	{.word = "b4e", .how = HOW_B4E},
	{.word = "rc8", .how = HOW_RC8},
	{.word = "ecl", .how = HOW_ECL},
	{.word = "ecr", .how = HOW_ECR},
	{.word = "rc16", .how = HOW_RC16},
	{.word = "finite", .how = HOW_FINITE},
	{.word = "infinite", .how = HOW_INFINITE},
	{.word = "number", .how = HOW_NUMBER},
	{.word = "notanumber", .how = HOW_NOTANUMBER},
	{.word = "normal", .how = HOW_NORMAL},
	{.word = "subnormal", .how = HOW_SUBNORMAL},
	{.word = "wide", .flags = FLAG_WIDE},
	{.word = "hi", .flags = FLAG_HIGH},
	{.word = "sat", .flags = FLAG_SATURATES},
	{.word = "ftz", .flags = FLAG_FLUSHES},
	{.word = "volatile", .flags = FLAG_VOLATILE},
	{.word = "relaxed", .flags = FLAG_VOLATILE},
	{.word = "acquire", .flags = FLAG_VOLATILE},
	{.word = "release", .flags = FLAG_VOLATILE},
	{.word = "sync", .flags = FLAG_SYNC},
	{.word = "l", .flags = FLAG_LEFT},
	{.word = "clamp", .flags = FLAG_CLAMPS},
	{.word = "shiftamt", .flags = FLAG_SHIFT},
	{.word = "NaN", .flags = FLAG_NAN},
	{.word = "xorsign", .flags = FLAG_SIGN},
	{.word = "relu", .flags = FLAG_RELU},
	{.word = "approx", .flags = FLAG_APPROX},
	{.word = "cc", .flags = FLAG_SETS},
	{.word = "rn", .flags = FLAG_ROUNDS, .rounding = FE_TONEAREST},
	{.word = "rna", .flags = FLAG_ROUNDS, .rounding = ROUND_AWAY},
	{.word = "rz", .flags = FLAG_ROUNDS, .rounding = FE_TOWARDZERO},
	{.word = "rm", .flags = FLAG_ROUNDS, .rounding = FE_DOWNWARD},
	{.word = "rp", .flags = FLAG_ROUNDS, .rounding = FE_UPWARD},
	{.word = "global", .space = SPACE_GLOBAL},
	{.word = "shared", .space = SPACE_SHARED},
	{.word = "shared::cta", .space = SPACE_SHARED},
	{.word = "shared::cluster", .space = SPACE_SHARED},
	{.word = "local", .space = SPACE_LOCAL},
	{.word = "param", .space = SPACE_PARAM},
	{.word = "param::entry", .space = SPACE_PARAM},
	{.word = "param::func", .space = SPACE_PARAM},
	{.word = "const", .space = SPACE_CONST},
};
/* Of set and setp; LO to HS are those of unsigned numbers. */
static const struct {
	const char *word;
	enum compare compare;
} compares[] = {{"lt", LT},   {"le", LE},    {"gt", GT},   {"ge", GE},	 {"eq", EQ},   {"ne", NE},
		{"ltu", LTU}, {"leu", LEU},  {"gtu", GTU}, {"geu", GEU}, {"equ", EQU}, {"neu", NEU},
		{"num", NUM}, {"nan", NAN_}, {"lo", LT},   {"ls", LE},	 {"hi", GT},   {"hs", GE}};

#define MAX_WORDS 16u

struct piece {
	const char *at;
	size_t n;
};

struct type ptx_type_of(char kind, uint32_t bits)
{
	const uint64_t top = bits ? UINT64_C(1) << (bits - 1) : 0;

	return (struct type){kind, (uint8_t)bits, 1, top * 2 - 1, kind == 's' ? top : 0};
}

bool ptx_type(const char *word, size_t n, struct type *out)
{
	static const char digits[] = "0123456789";
	char kind = word[0];
	uint32_t bits;
	size_t used;

	if (n == 4 && memcmp(word, "pred", 4) == 0) {
		*out = ptx_type_of('b', 1);
		return true;
	}
	if (n < 2)
		return false;
	if (n == 4 && memcmp(word, "tf32", 4) == 0) {
		*out = ptx_type_of('t', 32);
		return true;
	}
	if (n == 6 && (memcmp(word, "e4m3x2", 6) == 0 || memcmp(word, "e5m2x2", 6) == 0)) {
		*out = ptx_type_of(word[1] == '4' ? 'q' : 'r', 8);
		out->lanes = 2;
		out->mask = UINT16_MAX;
		return true;
	}
	if (memcmp(word, "bf", 2) == 0) {
		kind = 'g';
		word++;
		n--;
	}
	used = 1 + strspn(word + 1, digits);
	if (n < 2 || n < used || used < 2 || !strchr("usfbg", kind))
		return false;
	bits = (uint32_t)atoi(word + 1);
	word += used;
	n -= used;
	if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
		return false;
	*out = ptx_type_of(kind, bits);
	if (n == 0)
		return kind != 'g' || bits == 16;
	if (n != 2 || memcmp(word, "x2", 2) != 0 || bits != 16)
		return false;
	out->lanes = 2;
	out->mask = UINT32_MAX;
	return true;
}

/* Cuts TEXT at each SEPARATOR. Returns how many pieces there are; too many: 0. */
static uint32_t cut(const char *text, size_t n, char separator, struct piece *out)
{
	const char *end = text + n;
	uint32_t k = 0;

	for (;;) {
		const char *next = memchr(text, separator, (size_t)(end - text));

		if (k == MAX_WORDS)
			return 0;
		out[k++] = (struct piece){text, (size_t)((next ? next : end) - text)};
		if (!next)
			return k;
		text = next + 1;
	}
}

/* Returns whether WORD is one of the GROUP's alternatives. */
static bool is_one_of(const struct piece *group, const struct piece *word)
{
	const char *at = group->at, *end = group->at + group->n;

	while (at < end) {
		size_t n = 0;

		while (at + n < end && at[n] != '|' && at[n] != '?')
			n++;
		if (n == word->n && memcmp(at, word->at, n) == 0)
			return true;
		at += n + 1;
	}
	return false;
}

/* The first word that GROUP has and that is not USED; N: there is none. Types keep their order. */
static uint32_t find(const struct piece *group, const struct piece *words, uint32_t n,
		     uint32_t used)
{
	bool passed = false; /* a type that is not used */
	uint32_t k;

	for (k = 0; k < n; k++) {
		struct type type;
		const bool is_type = ptx_type(words[k].at, words[k].n, &type);

		if (used >> k & 1)
			continue;
		if (is_one_of(group, &words[k]))
			return is_type && passed ? n : k;
		passed |= is_type;
	}
	return n;
}

/* Finds for each group of ROW its word; ORDER gets the words in the row's order, and N how many
 * they are. False: a word is missing, or one is too many. */
static bool fits(const struct row *row, const struct piece *words, uint32_t n_words,
		 struct piece *order, uint32_t *n)
{
	struct piece groups[MAX_WORDS];
	const uint32_t n_groups = cut(row->words, strlen(row->words), ' ', groups);
	uint32_t used = 0, g, k;

	*n = 0;
	for (g = 0; g < n_groups; g++) {
		k = find(&groups[g], words, n_words, used);
		if (k == n_words && groups[g].at[groups[g].n - 1] != '?')
			return false;
		if (k == n_words)
			continue;
		used |= UINT32_C(1) << k;
		order[(*n)++] = words[k];
	}
	return *n == n_words;
}

static void mean(struct instruction *i, const struct piece *word)
{
	size_t k;

	for (k = 0; k < sizeof(meanings) / sizeof(meanings[0]); k++) {
		const struct meaning *m = &meanings[k];

		if (strlen(m->word) != word->n || memcmp(m->word, word->at, word->n) != 0)
			continue;
		if (m->how) {
			i->second_how = i->how;
			i->how = m->how;
		}
		i->flags |= m->flags;
		if (m->flags & FLAG_ROUNDS)
			i->rounding = m->rounding;
		if (m->space)
			i->space = m->space;
		return;
	}
}

/* The word behind set and setp. */
static void compare(struct instruction *i, const struct piece *word)
{
	size_t k;

	for (k = 0; k < sizeof(compares) / sizeof(compares[0]); k++)
		if (strlen(compares[k].word) == word->n &&
		    memcmp(compares[k].word, word->at, word->n) == 0)
			i->compare = compares[k].compare;
}

static void take(struct instruction *i, const struct piece *order, uint32_t n)
{
	uint32_t k, types = 0;
	struct type type;

	for (k = 1; k < n; k++) {
		if (ptx_type(order[k].at, order[k].n, &type)) {
			if (types == 0)
				i->to = type;
			if (types == 1)
				i->type2 = type;
			i->type = type;
			types++;
		} else if (k == 1 && (i->op == OP_SET || i->op == OP_SETP)) {
			compare(i, &order[k]);
		} else if (order[k].n == 2 && order[k].at[0] == 'v') {
			i->width = (uint32_t)(order[k].at[1] - '0');
		} else {
			mean(i, &order[k]);
		}
	}
}

static bool is(const struct piece *word, const char *text)
{
	return word->n == strlen(text) && memcmp(word->at, text, word->n) == 0;
}

void ptx_opcode(struct ptx *p, struct instruction *i, const char **form)
{
	struct piece words[MAX_WORDS], order[MAX_WORDS];
	const uint32_t n_words = cut(p->token, strlen(p->token), '.', words);
	const struct row *row, *end = rows + sizeof(rows) / sizeof(rows[0]);
	bool known = false;
	uint32_t n;

	for (row = rows; row < end; row++) {
		const size_t name = strcspn(row->words, " ");

		if (is_one_of(&(struct piece){row->words, name}, &words[0])) {
			known = true;
			if (row->op != OP_REFUSED && fits(row, words, n_words, order, &n))
				break;
		}
	}
	if (row == end)
		ptx_stop(p, known ? "the driver in software does not execute this instruction with "
				    "these words"
				  : "an unknown instruction");
	i->op = row->op;
	take(i, order, n);
	if (is(&words[0], "add") || is(&words[0], "addc"))
		i->how = i->op == OP_CARRIES ? HOW_ADD : i->how;
	if (is(&words[0], "sub") || is(&words[0], "subc"))
		i->how = HOW_SUB;
	if (is(&words[0], "mad") || is(&words[0], "madc"))
		i->how = HOW_MAD;
	if (words[0].at[words[0].n - 1] == 'c')
		i->flags |= FLAG_TAKES;
	if (i->op == OP_COPY) /* to shared memory, from global memory */
		i->space = SPACE_SHARED;
	*form = row->operands;
}

bool ptx_form(uint32_t i, struct ptx_form *out)
{
	if (i >= sizeof(rows) / sizeof(rows[0]))
		return false;
	*out = (struct ptx_form){rows[i].words, rows[i].operands, rows[i].op == OP_REFUSED};
	return true;
}
