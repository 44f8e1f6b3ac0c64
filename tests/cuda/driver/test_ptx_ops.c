/* SPDX-License-Identifier: MIT */
/* The machine that runs PTX (ptx.h): each instruction against the CPU's. */
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "ptx.h"
#include "suite.h"

#define THREADS 96u

/* out[i] = INSTRUCTION of a[i], b[i], c[i]. The registers %o, %a, %b and %c have 32 bits, %O, %A,
 * %B and %C 64. */
static const char frame[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
			    ".visible .entry f(.param .u64 out, .param .u64 in)\n{\n"
			    ".reg .pred %%p<4>;\n.reg .b32 %%o, %%a, %%b, %%c, %%t;\n"
			    ".reg .b64 %%O, %%A, %%B, %%C, %%x, %%y;\n.reg .b16 %%h<4>;\n"
			    ".shared .align 8 .b8 s[1024];\n"
			    "mov.u32 %%t, %%tid.x;\nld.param.u64 %%x, [in];\n"
			    "mul.wide.u32 %%y, %%t, 24;\nadd.u64 %%x, %%x, %%y;\n"
			    "ld.global.u64 %%A, [%%x];\nld.global.u64 %%B, [%%x+8];\n"
			    "ld.global.u64 %%C, [%%x+16];\n"
			    "cvt.u32.u64 %%a, %%A;\ncvt.u32.u64 %%b, %%B;\ncvt.u32.u64 %%c, %%C;\n"
			    "mov.u64 %%O, 0;\n%s\n"
			    "ld.param.u64 %%x, [out];\nmul.wide.u32 %%y, %%t, 8;\n"
			    "add.u64 %%x, %%x, %%y;\nst.global.u64 [%%x], %%O;\nret;\n}\n";

struct three {
	uint64_t a, b, c;
};

static bool run(const char *body, const struct three *in, uint64_t *out, uint32_t threads)
{
	char text[4096];
	struct {
		uint64_t out, in;
	} params = {(uintptr_t)out, (uintptr_t)in};
	struct ptx_launch l = {.grid = {1, 1, 1}, .block = {threads, 1, 1}, .params = &params};
	struct ptx *p;

	snprintf(text, sizeof(text), frame, body);
	p = ptx_read(text, "f");
	if (!p) {
		printf("%s\n", ptx_error());
		return false;
	}
	ptx_run(p, &l);
	ptx_free(p);
	return true;
}

static float f32(uint64_t v)
{
	uint32_t half = (uint32_t)v;
	float f;

	memcpy(&f, &half, sizeof(f));
	return f;
}

static uint64_t of32(float f)
{
	uint32_t v;

	memcpy(&v, &f, sizeof(v));
	return v;
}

static double f64(uint64_t v)
{
	double d;

	memcpy(&d, &v, sizeof(d));
	return d;
}

static uint64_t of64(double d)
{
	uint64_t v;

	memcpy(&v, &d, sizeof(v));
	return v;
}

static float fma_in(int mode, volatile float x, volatile float y, volatile float z)
{
	volatile float f;

	fesetround(mode);
	f = fmaf(x, y, z);
	fesetround(FE_TONEAREST);
	return f;
}

static int32_t as_s32(float f)
{
	return f != f ? 0 : f >= 0x1p31f ? INT32_MAX : f < -0x1p31f ? INT32_MIN : (int32_t)f;
}

static float flush(float f)
{
	return fpclassify(f) == FP_SUBNORMAL ? copysignf(0, f) : f;
}

#define TO_64 " cvt.u64.u32 %O, %o;"
/* The CPU's result for A, B and C. */
#define OP(name, body, result)                                                                     \
	static uint64_t name(uint64_t A, uint64_t B, uint64_t C)                                   \
	{                                                                                          \
		uint32_t a = (uint32_t)A, b = (uint32_t)B, c = (uint32_t)C;                        \
                                                                                                   \
		(void)a, (void)b, (void)c, (void)A, (void)B, (void)C;                              \
		return result;                                                                     \
	}
#define OPS(X)                                                                                     \
	X(add_s32, "add.s32 %o, %a, %b;" TO_64, (uint32_t)(a + b))                                 \
	X(sub_u64, "sub.u64 %O, %A, %B;", A - B)                                                   \
	X(sub_constant, "sub.s64 %O, 5, %A;", 5 - A)                                               \
	X(mul_lo_s64, "mul.lo.s64 %O, %A, %B;", A *B)                                              \
	X(mul_wide_s32, "mul.wide.s32 %O, %a, %b;", (uint64_t)((int64_t)(int32_t)a * (int32_t)b))  \
	X(mul_wide_u32, "mul.wide.u32 %O, %a, %b;", (uint64_t)a *b)                                \
	X(mad_lo_u32, "mad.lo.u32 %o, %a, %b, %c;" TO_64, (uint32_t)(a * b + c))                   \
	X(mad_wide_s32, "mad.wide.s32 %O, %a, %b, %C;",                                            \
	  (uint64_t)((int64_t)(int32_t)a * (int32_t)b) + C)                                        \
	X(logic, "and.b64 %x, %A, %B; or.b64 %y, %A, %C; xor.b64 %O, %x, %y;", (A & B) ^ (A | C))  \
	X(not, "not.b32 %o, %a;" TO_64, (uint32_t)~a)                                              \
	X(shl_b32, "and.b32 %c, %c, 63; shl.b32 %o, %a, %c;" TO_64,                                \
	  (c & 63) < 32 ? (uint32_t)(a << (c & 31)) : 0)                                           \
	X(shl_b64, "and.b32 %c, %c, 127; shl.b64 %O, %A, %c;", (c & 127) < 64 ? A << (c & 63) : 0) \
	X(shr_s32, "and.b32 %c, %c, 63; shr.s32 %o, %a, %c;" TO_64,                                \
	  (uint32_t)((int32_t)a >> ((c & 63) < 31 ? (c & 63) : 31)))                               \
	X(le_s32, "setp.le.s32 %p1, %a, %b; selp.b64 %O, %A, %C, %p1;",                            \
	  (int32_t)a <= (int32_t)b ? A : C)                                                        \
	X(gt_s64, "setp.gt.s64 %p1, %A, %B; selp.b64 %O, %A, %C, %p1;",                            \
	  (int64_t)A > (int64_t)B ? A : C)                                                         \
	X(ge_u64, "setp.ge.u64 %p1, %A, %B; selp.b64 %O, %A, %C, %p1;", A >= B ? A : C)            \
	X(eq_b32, "setp.eq.b32 %p1, %a, 1; selp.b64 %O, %A, %C, %p1;", a == 1 ? A : C)             \
	X(guarded,                                                                                 \
	  "setp.ne.u32 %p1, %a, %b; mov.u64 %O, %C;"                                               \
	  "@%p1 mov.u64 %O, %A; @!%p1 xor.b64 %O, %O, %B;",                                        \
	  a != b ? A : C ^ B)                                                                      \
	X(branches,                                                                                \
	  "setp.lt.u32 %p1, %a, %b; @%p1 bra L1; mov.u64 %O, %B; bra L2;"                          \
	  "L1: mov.u64 %O, %A; L2: add.u64 %O, %O, 1;",                                            \
	  (a < b ? A : B) + 1)                                                                     \
	X(ld_u32, "ld.global.u32 %o, [%x+20];" TO_64, C >> 32)                                     \
	X(ld_s8, "ld.global.s8 %O, [%x+9];", (uint64_t)(int8_t)(B >> 8))                           \
	X(ld_s32, "ld.global.s32 %O, [%x];", (uint64_t)(int32_t)a)                                 \
	X(ld_s16, "ld.global.u16 %o, [%x+2];" TO_64, A >> 16 & 0xffff)                             \
	X(st_u32, "st.global.u32 [%x+4], %b; ld.global.u64 %O, [%x];", (uint64_t)b << 32 | a)      \
	X(st_u64, "st.global.u64 [%x+8], %C; st.global.u32 [%x+8], 77; ld.global.u64 %O, [%x+8];", \
	  (C >> 32 << 32) | 77)                                                                    \
	X(fma_f32, "fma.rn.f32 %o, %a, %b, %c;" TO_64, of32(fmaf(f32(A), f32(B), f32(C))))         \
	X(fma_down_f32, "fma.rm.f32 %o, %a, %b, %c;" TO_64,                                        \
	  of32(fma_in(FE_DOWNWARD, f32(A), f32(B), f32(C))))                                       \
	X(fma_up_f32, "fma.rp.f32 %o, %a, %b, %c;" TO_64,                                          \
	  of32(fma_in(FE_UPWARD, f32(A), f32(B), f32(C))))                                         \
	X(mul_to_zero_f32, "mul.rz.f32 %o, %a, %b;" TO_64,                                         \
	  of32(fma_in(FE_TOWARDZERO, f32(A), f32(B), -0.0f)))                                      \
	X(mul_flushed_f32, "mul.ftz.f32 %o, %a, %b;" TO_64,                                        \
	  of32(flush(flush(f32(A)) * flush(f32(B)))))                                              \
	X(widened_f64, "cvt.ftz.f64.f32 %O, %a;", of64((double)flush(f32(A))))                     \
	X(narrowed_f32, "cvt.rn.ftz.f32.f64 %o, %A;" TO_64, of32(flush((float)f64(A))))            \
	X(counted_f32, "cvt.rn.ftz.f32.s32 %o, %a;" TO_64, of32((float)(int32_t)a))                \
	X(ltu_f32, "setp.ltu.f32 %p1, %a, %b; selp.b64 %O, %A, %C, %p1;",                          \
	  !(f32(A) >= f32(B)) ? A : C)                                                             \
	X(leu_f32, "setp.leu.f32 %p1, %a, %b; selp.b64 %O, %A, %C, %p1;",                          \
	  !(f32(A) > f32(B)) ? A : C)                                                              \
	X(geu_f32, "setp.geu.f32 %p1, %a, %b; selp.b64 %O, %A, %C, %p1;",                          \
	  !(f32(A) < f32(B)) ? A : C)                                                              \
	X(equ_f32, "setp.equ.f32 %p1, %a, %b; selp.b64 %O, %A, %C, %p1;",                          \
	  (f32(A) == f32(B) || f32(A) != f32(A) || f32(B) != f32(B)) ? A : C)                      \
	X(neu_f32, "setp.neu.f32 %p1, %a, %b; selp.b64 %O, %A, %C, %p1;",                          \
	  f32(A) != f32(B) ? A : C)                                                                \
	X(ne_f32, "setp.ne.f32 %p1, %a, %b; selp.b64 %O, %A, %C, %p1;",                            \
	  (f32(A) < f32(B) || f32(A) > f32(B)) ? A : C)                                            \
	X(less_flushed, "setp.lt.ftz.f32 %p1, %a, %b; selp.b64 %O, %A, %C, %p1;",                  \
	  flush(f32(A)) < flush(f32(B)) ? A : C)                                                   \
	X(ceil_flushed, "cvt.rpi.ftz.s32.f32 %o, %a;" TO_64,                                       \
	  (uint32_t)as_s32(ceilf(flush(f32(A)))))                                                  \
	X(sum_sat_f32, "add.sat.f32 %o, %a, %b;" TO_64,                                            \
	  of32(f32(A) + f32(B) > 0 ? fminf(f32(A) + f32(B), 1) : 0))                               \
	X(sat_f32, "cvt.sat.f32.f32 %o, %a;" TO_64, of32(f32(A) > 0 ? fminf(f32(A), 1) : 0))       \
	X(fma_f64, "fma.rn.f64 %O, %A, %B, %C;", of64(fma(f64(A), f64(B), f64(C))))                \
	X(div_f32, "div.rn.f32 %o, %a, %b;" TO_64, of32(f32(A) / f32(B)))                          \
	X(neg_f32, "neg.f32 %o, %a;" TO_64, of32(-f32(A)))                                         \
	X(abs_f32, "abs.f32 %o, %a;" TO_64, of32(fabsf(f32(A))))                                   \
	X(min_f32, "min.f32 %o, %a, %b;" TO_64, of32((float)picked(f32(A), f32(B), -1)))           \
	X(max_f64, "max.f64 %O, %A, %B;", of64(picked(f64(A), f64(B), 1)))                         \
	X(sqrt_f32, "abs.f32 %a, %a; sqrt.rn.f32 %o, %a;" TO_64, of32(sqrtf(fabsf(f32(A)))))       \
	X(rcp_f32, "rcp.rn.f32 %o, %a;" TO_64, of32(1 / f32(A)))                                   \
	X(min_s32, "min.s32 %o, %a, %b;" TO_64,                                                    \
	  (uint32_t)((int32_t)a < (int32_t)b ? (int32_t)a : (int32_t)b))                           \
	X(max_u32, "max.u32 %o, %a, %b;" TO_64, a > b ? a : b)                                     \
	X(max_s64, "max.s64 %O, %A, %B;", (int64_t)A > (int64_t)B ? A : B)                         \
	X(neg_s32, "neg.s32 %o, %a;" TO_64, (uint32_t)-a)                                          \
	X(abs_s32, "abs.s32 %o, %a;" TO_64, (uint32_t)((int32_t)a < 0 ? -a : a))                   \
	X(rem_u32, "or.b32 %b, %b, 1; rem.u32 %o, %a, %b;" TO_64, a % (b | 1))                     \
	X(rem_s64, "or.b64 %B, %B, 256; rem.s64 %O, %A, %B;",                                      \
	  (uint64_t)((int64_t)A % (int64_t)(B | 256)))                                             \
	X(mul_hi_u32, "mul.hi.u32 %o, %a, %b;" TO_64, (uint64_t)a *b >> 32)                        \
	X(mul_hi_s32, "mul.hi.s32 %o, %a, %b;" TO_64,                                              \
	  (uint32_t)((uint64_t)((int64_t)(int32_t)a * (int32_t)b) >> 32))                          \
	X(selp, "setp.lt.u32 %p1, %a, %b; selp.b32 %o, %b, %c, %p1;" TO_64, a < b ? b : c)         \
	X(popc, "popc.b32 %o, %a;" TO_64, (uint64_t)__builtin_popcount(a))                         \
	X(bfe_u32, "bfe.u32 %o, %a, %b, %c;" TO_64, (uint32_t)field(a, false, B, C, 32))           \
	X(bfe_s32, "bfe.s32 %o, %a, %b, %c;" TO_64, (uint32_t)field(a, true, B, C, 32))            \
	X(bfe_u64, "bfe.u64 %O, %A, %b, %c;", field(A, false, B, C, 64))                           \
	X(bfe_s64, "bfe.s64 %O, %A, %b, %c;", field(A, true, B, C, 64))                            \
	X(bfe_low, "and.b32 %b, %b, 31; and.b32 %c, %c, 31; bfe.s32 %o, %a, %b, %c;" TO_64,        \
	  (uint32_t)field(a, true, b & 31, c & 31, 32))                                            \
	X(bfi_b32, "bfi.b32 %o, %a, %b, %c, 5;" TO_64, put(a, b, C, 5, 32))                        \
	X(bfi_b64, "bfi.b64 %O, %A, %B, 9, %c;", put(A, B, 9, C, 64))                              \
	X(bfi_low, "and.b32 %c, %c, 31; bfi.b32 %o, %a, %b, %c, %c;" TO_64,                        \
	  put(a, b, c & 31, c & 31, 32))                                                           \
	X(vadd, "vadd.u32.u32.u32.add %o, %a, %b, %c;" TO_64, (uint32_t)(a + b + c))               \
	X(unpack, "mov.b64 {%o, %a}, %A; xor.b32 %o, %o, %a;" TO_64, (uint32_t)A ^ (A >> 32))      \
	X(unpack_one, "mov.b64 {_, %o}, %A;" TO_64, A >> 32)                                       \
	X(sink,                                                                                    \
	  "mul.lo.u32 %t, %t, 8; mov.u32 %o, s; add.u32 %t, %t, %o; st.shared.u32 [%t], %a;"       \
	  "atom.shared.add.u32 _, [%t], %b; ld.shared.u32 %o, [%t]; mov.u32 %t, %tid.x;" TO_64,    \
	  (uint32_t)(a + b))                                                                       \
	X(pack, "mov.b64 %O, {%b, %a};", (uint64_t)a << 32 | b)                                    \
	X(pack_constant, "mov.b64 %O, {%b, -2};", UINT64_C(0xfffffffe) << 32 | b)                  \
	X(packs_four, "mov.b64 {%h0, %h1, %h2, %h3}, %A; mov.b64 %O, {%h3, %h0, %h1, %h2};",       \
	  A << 16 | A >> 48)                                                                       \
	X(pack_guarded, "setp.lt.u32 %p1, %a, %b; mov.u64 %O, 5; @%p1 mov.b64 %O, {%a, %b};",      \
	  a < b ? (uint64_t)b << 32 | a : 5)                                                       \
	X(clz, "clz.b32 %o, %a;" TO_64, a ? (uint64_t)__builtin_clz(a) : 32)                       \
	X(brev_twice, "brev.b32 %o, %a; brev.b32 %o, %o;" TO_64, a)                                \
	X(brev_one, "mov.u32 %a, 1; brev.b32 %o, %a;" TO_64, 0x80000000u)                          \
	X(from_s32, "cvt.rn.f32.s32 %o, %a;" TO_64, of32((float)(int32_t)a))                       \
	X(from_u64, "cvt.rn.f64.u64 %O, %A;", of64((double)A))                                     \
	X(narrow, "cvt.rn.f32.f64 %o, %A;" TO_64, of32((float)f64(A)))                             \
	X(widen, "cvt.f64.f32 %O, %a;", of64((double)f32(A)))                                      \
	X(to_s32, "and.b32 %a, %a, 0xcfffffff; cvt.rzi.s32.f32 %o, %a;" TO_64,                     \
	  (uint32_t)saturated(trunc(f32(a & 0xcfffffff))))                                         \
	X(to_s32_even, "cvt.rni.s32.f32 %o, %a;" TO_64, (uint32_t)saturated(rint(f32(a))))         \
	X(integral_f32, "cvt.rzi.f32.f32 %o, %a;" TO_64, of32(truncf(f32(a))))                     \
	X(integral_even_f32, "cvt.rni.f32.f32 %o, %a;" TO_64, of32(rintf(f32(a))))                 \
	X(integral_f64, "cvt.rmi.f64.f64 %O, %A;", of64(floor(f64(A))))                            \
	X(vector_ld, "ld.global.v2.u64 {%A, %B}, [%x]; xor.b64 %O, %A, %B;", A ^ B)                \
	X(vector_st,                                                                               \
	  "mul.lo.u32 %t, %t, 8; mov.u32 %o, s; add.u32 %t, %t, %o;"                               \
	  "st.shared.v2.b32 [%t], {%b, %a}; ld.shared.u64 %O, [%t]; mov.u32 %t, %tid.x;",          \
	  (uint64_t)a << 32 | b)                                                                   \
	X(generic_shared,                                                                          \
	  "mul.wide.u32 %C, %t, 8; mov.u64 %x, s; add.u64 %x, %x, %C; cvta.shared.u64 %y, %x;"     \
	  "st.shared.u64 [%x], %A; st.u32 [%y], %b; cvta.to.shared.u64 %y, %y;"                    \
	  "ld.shared.u64 %O, [%y];",                                                               \
	  (A >> 32 << 32) | b)                                                                     \
	X(behind,                                                                                  \
	  "cvta.shared.u64 %y, s+16; sub.u64 %y, %y, 16; cvta.to.shared.u64 %x, %y;"               \
	  "mov.u64 %y, s; sub.u64 %O, %x, %y;",                                                    \
	  0)

/* As the ISA's description of bfi computes it, bit by bit. */
static uint64_t put(uint64_t a, uint64_t b, uint64_t at, uint64_t n, uint32_t bits)
{
	uint64_t i;

	for (i = 0; i < (n & 255) && (at & 255) + i < bits; i++) {
		b &= ~(UINT64_C(1) << ((at & 255) + i));
		b |= (a >> i & 1) << ((at & 255) + i);
	}
	return b;
}

/* As the ISA's description of bfe computes it, bit by bit. Behind the field are copies of its last
 * bit, if the number is signed. */
static uint64_t field(uint64_t v, bool is_signed, uint64_t at, uint64_t n, uint32_t bits)
{
	uint64_t out = 0, last, sign, i;

	at &= 255;
	n &= 255;
	last = n > 0 && at + n < bits ? at + n - 1 : bits - 1;
	sign = is_signed && n > 0 ? v >> last & 1 : 0;
	for (i = 0; i < bits; i++)
		out |= (i < n && at + i < bits ? v >> (at + i) & 1 : sign) << i;
	return out;
}

/* The one with the sign of SIGN of the difference, a number rather than none; -0 is less than 0. */
static double picked(double a, double b, int sign)
{
	if (a == 0 && b == 0)
		return signbit(a) && signbit(b)	    ? -0.0
		       : !signbit(a) && !signbit(b) ? 0.0
						    : sign * 0.0;
	if (a != a || b != b)
		return a != a ? b : a;
	return (a - b) * sign > 0 ? a : b;
}

static int32_t saturated(double d)
{
	if (d != d)
		return 0;
	return d >= 2147483647.0 ? INT32_MAX : d <= -2147483648.0 ? INT32_MIN : (int32_t)d;
}

OPS(OP)

static const struct {
	const char *name, *body;
	uint64_t (*result)(uint64_t a, uint64_t b, uint64_t c);
} ops[] = {
#define ROW(name, body, result) {#name, body, name},
	OPS(ROW)};

static bool is_nan_of(const char *name, uint64_t v)
{
	return strstr(name, "f32") || strstr(name, "narrow") ? f32(v) != f32(v) : f64(v) != f64(v);
}

/* Numbers of all sizes, and floats that are not far from each other. */
static uint64_t number(void)
{
	static const uint64_t edges[] = {0,	     1,		 0x7fffffff, 0x80000000,
					 UINT64_MAX, 0x3f800000, 0x3fc00000, 0xbf000000,
					 0x400000,   0x80000001, 0x007fffff, 0x800000};

	switch (draw(4)) {
	case 0:
		return edges[draw(12)];
	case 1:
		return of32((float)(int64_t)draw(2000) / 8 - 100);
	case 2:
		return of64((double)(int64_t)draw(2000) / 8 - 100);
	default:
		return draw(1u << 31) << 33 ^ draw(1u << 31) << 10 ^ draw(1u << 20);
	}
}

TEST(computes, "instructions compute what the CPU does")
{
	struct three in[THREADS];
	uint64_t out[THREADS], wanted;
	uint32_t round, k;
	size_t i;

	for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		for (round = 0; round < 10; round++) {
			for (k = 0; k < THREADS; k++)
				in[k] = (struct three){number(), number(), number()};
			CU_ASSERT_FATAL(run(ops[i].body, in, out, THREADS));
			for (k = 0; k < THREADS; k++) {
				wanted = ops[i].result(in[k].a, in[k].b, in[k].c);
				if (out[k] == wanted || (is_nan_of(ops[i].name, out[k]) &&
							 is_nan_of(ops[i].name, wanted)))
					continue;
				printf("%s(%llx, %llx, %llx) = %llx, not %llx\n", ops[i].name,
				       (unsigned long long)in[k].a, (unsigned long long)in[k].b,
				       (unsigned long long)in[k].c, (unsigned long long)out[k],
				       (unsigned long long)wanted);
				CU_FAIL_FATAL("an instruction is wrong");
			}
		}
}

/* Approximations have a bound of relative error: the ISA's, 2^-22 to 2^-23, doubled. */
TEST(approximates, "approximations stay in their bounds")
{
	static const struct {
		const char *body;
		double (*result)(double x);
	} all[] = {
		{"ex2.approx.f32 %o, %a;" TO_64, exp2},
		{"lg2.approx.f32 %o, %a;" TO_64, log2},
	};
	struct three in[THREADS];
	uint64_t out[THREADS];
	uint32_t k;
	size_t i;

	for (i = 0; i < 2; i++) {
		for (k = 0; k < THREADS; k++)
			in[k] = (struct three){of32(2 + (float)draw(1000) / 32), 0, 0};
		CU_ASSERT_FATAL(run(all[i].body, in, out, THREADS));
		for (k = 0; k < THREADS; k++) {
			double wanted = all[i].result(f32(in[k].a));

			CU_ASSERT(fabs(f32(out[k]) - wanted) <= fabs(wanted) * 0x1p-21);
		}
	}
}

/* Each lane's value goes where the ISA says; the last warp may be short. */
TEST(shuffles, "lanes exchange values")
{
	struct three in[THREADS];
	uint64_t out[THREADS];
	uint32_t k, by, lane;

	for (k = 0; k < THREADS; k++)
		in[k] = (struct three){k * 1000, 0, 0};
	for (by = 0; by < 32; by++) {
		for (k = 0; k < THREADS; k++)
			in[k].b = by;
		CU_ASSERT_FATAL(run("shfl.sync.down.b32 %o, %a, %b, 31, -1;" TO_64, in, out, 96));
		for (k = 0; k < THREADS; k++) {
			lane = k % 32 + by < 32 ? k + by : k;
			CU_ASSERT_EQUAL(out[k], lane * 1000);
		}
		CU_ASSERT_FATAL(run("shfl.sync.up.b32 %o, %a, %b, 0, -1;" TO_64, in, out, 96));
		for (k = 0; k < THREADS; k++) {
			lane = k % 32 >= by ? k - by : k;
			CU_ASSERT_EQUAL(out[k], lane * 1000);
		}
		CU_ASSERT_FATAL(run("shfl.sync.bfly.b32 %o, %a, %b, 31, -1;" TO_64, in, out, 96));
		for (k = 0; k < THREADS; k++)
			CU_ASSERT_EQUAL(out[k], (k ^ by) * 1000);
		CU_ASSERT_FATAL(run("shfl.sync.idx.b32 %o, %a, %b, 31, -1;" TO_64, in, out, 96));
		for (k = 0; k < THREADS; k++)
			CU_ASSERT_EQUAL(out[k], (k / 32 * 32 + by) * 1000);
		/* in segments of eight lanes, with a predicate: whether there was a
		 * source */
		CU_ASSERT_FATAL(run("shfl.sync.down.b32 %o|%p1, %a, %b, 6175, -1;"
				    "selp.b32 %o, %o, 7, %p1;" TO_64,
				    in, out, 96));
		for (k = 0; k < THREADS; k++)
			CU_ASSERT_EQUAL(out[k], k % 8 + by < 8 ? (k + by) * 1000 : 7);
	}
}

TEST(votes, "warps vote")
{
	struct three in[THREADS];
	uint64_t out[THREADS];
	uint32_t k, warp, set[3] = {0};

	for (k = 0; k < THREADS; k++) {
		in[k] = (struct three){k < 32 || (k >= 64 && draw(2)), 0, 0};
		set[k / 32] |= (uint32_t)in[k].a << k % 32;
	}
	CU_ASSERT_FATAL(run("setp.ne.u32 %p1, %a, 0; vote.sync.ballot.b32 %o, %p1, -1;" TO_64, in,
			    out, 96));
	for (k = 0; k < THREADS; k++)
		CU_ASSERT_EQUAL(out[k], set[k / 32]);
	CU_ASSERT_FATAL(run("setp.ne.u32 %p1, %a, 0; vote.sync.all.pred %p2, %p1, -1;"
			    "vote.sync.any.pred %p3, %p1, -1; selp.u32 %a, 2, 0, %p2;"
			    "selp.u32 %b, 1, 0, %p3; or.b32 %o, %a, %b;" TO_64,
			    in, out, 96));
	for (k = 0; k < THREADS; k++) {
		warp = k / 32;
		CU_ASSERT_EQUAL(out[k], warp == 0 ? 3 : warp == 1 ? 0 : 1);
	}
	/* half of a warp, while the other half is elsewhere */
	CU_ASSERT_FATAL(run("and.b32 %b, %t, 31; setp.lt.u32 %p2, %b, 16; @!%p2 bra over;"
			    "setp.ne.u32 %p1, %a, 0; vote.sync.ballot.b32 %o, %p1, 65535;" TO_64
			    "\nover:",
			    in, out, 96));
	for (k = 0; k < THREADS; k++)
		CU_ASSERT_EQUAL(out[k], k % 32 < 16 ? set[k / 32] & 0xffff : 0);
}

/* Atomic changes of one word by all threads, whose sum, bits, least and most do not
 * depend on the order; and old values, each of which one thread sees. */
TEST(atoms, "atomic changes lose nothing")
{
	static uint64_t word;
	struct three in[THREADS];
	uint64_t out[THREADS], sum = 5, most = 5, bits = 5, seen = 0;
	uint32_t k;

	for (k = 0; k < THREADS; k++) {
		in[k] = (struct three){(uintptr_t)&word, 1 + draw(1000000), 0};
		sum += in[k].b;
		most = in[k].b > most ? in[k].b : most;
		bits |= in[k].b;
	}
	word = 5;
	CU_ASSERT_FATAL(run("atom.global.add.u64 %O, [%A], %B;", in, out, 96));
	CU_ASSERT_EQUAL(word, sum);
	word = 5;
	CU_ASSERT_FATAL(run("red.global.add.u32 [%A], %b;", in, out, 96));
	CU_ASSERT_EQUAL(word, sum);
	word = 5;
	CU_ASSERT_FATAL(run("atom.global.max.u32 %o, [%A], %b;", in, out, 96));
	CU_ASSERT_EQUAL(word, most);
	word = 5;
	CU_ASSERT_FATAL(run("atom.global.or.b32 %o, [%A], %b;", in, out, 96));
	CU_ASSERT_EQUAL(word, bits);
	word = 0;
	CU_ASSERT_FATAL(run("mov.u32 %b, 1; atom.global.add.u32 %o, [%A], %b;" TO_64, in, out, 96));
	for (k = 0; k < THREADS; k++)
		seen += out[k];
	CU_ASSERT_EQUAL(seen, THREADS * (THREADS - 1) / 2);
	word = 0; /* one thread finds the 0 */
	CU_ASSERT_FATAL(run("atom.global.cas.b64 %O, [%A], 0, %B;", in, out, 96));
	for (k = 0, seen = 0; k < THREADS; k++)
		seen += out[k] == 0;
	CU_ASSERT_EQUAL(seen, 1);
	word = of32(1);
	CU_ASSERT_FATAL(
		run("mov.f32 %b, 0f3F000000; atom.global.add.f32 %o, [%A], %b;", in, out, 96));
	CU_ASSERT_EQUAL(f32(word), 1 + THREADS / 2.f);
}

/* Threads meet at barriers, whatever each did before, and count. */
/* Two arrays of each thread do not overlap, are aligned, and make room for later ones. */
TEST(stacks, "threads have stacks")
{
	struct three in[THREADS];
	uint64_t out[THREADS];
	uint32_t k;

	for (k = 0; k < THREADS; k++)
		in[k] = (struct three){k, 1 + k * 3 % 40, 0};
	CU_ASSERT(run(
		".reg .u64 %q<4>;\nstacksave.u64 %q0;\nalloca.u64 %q1, %B;\n"
		"alloca.u64 %q2, 64, 32;\nst.local.u8 [%q1], %a;\nst.local.u64 [%q2], %B;\n"
		"st.local.u64 [%q2+56], %B;\nld.local.u8 %O, [%q1];\nld.local.u64 %x, [%q2+56];\n"
		"shl.b64 %x, %x, 8;\nor.b64 %O, %O, %x;\nand.b64 %x, %q2, 31;\n"
		"shl.b64 %x, %x, 32;\nor.b64 %O, %O, %x;\nmov.u32 %c, 0;\n"
		"again:\nstackrestore.u64 %q0;\nalloca.u64 %q3, 3000;\n"
		"add.u32 %c, %c, 1;\nsetp.lt.u32 %p0, %c, 4;\n@%p0 bra again;\n"
		"setp.eq.u64 %p1, %q1, %q3;\nselp.u64 %x, 0, 1, %p1;\n"
		"shl.b64 %x, %x, 48;\nor.b64 %O, %O, %x;\n",
		in, out, THREADS));
	for (k = 0; k < THREADS; k++)
		CU_ASSERT_EQUAL(out[k], in[k].a | in[k].b << 8);
}

TEST(barriers, "threads meet at barriers")
{
	struct three in[THREADS];
	uint64_t out[THREADS];
	uint32_t k, n = 0;

	for (k = 0; k < THREADS; k++) {
		in[k] = (struct three){draw(2), 0, 0};
		n += (uint32_t)in[k].a;
	}
	CU_ASSERT_FATAL(
		run("setp.ne.u32 %p1, %a, 0; bar.red.popc.u32 %o, 0, %p1;" TO_64, in, out, 96));
	for (k = 0; k < THREADS; k++)
		CU_ASSERT_EQUAL(out[k], n);
	/* the neighbour's word, written before the barrier */
	CU_ASSERT_FATAL(run("mul.lo.u32 %b, %t, 4; mov.u32 %c, s; add.u32 %c, %c, %b;"
			    "st.shared.u32 [%c], %t; membar.cta; barrier.sync 0;"
			    "xor.b32 %b, %t, 1; mul.lo.u32 %b, %b, 4; mov.u32 %c, s;"
			    "add.u32 %c, %c, %b; ld.shared.u32 %o, [%c];" TO_64,
			    in, out, 96));
	for (k = 0; k < THREADS; k++)
		CU_ASSERT_EQUAL(out[k], k ^ 1);
	CU_ASSERT_FATAL(run("mov.u32 %o, %laneid; bar.warp.sync -1; fence.acq_rel.gpu;" TO_64, in,
			    out, 96));
	for (k = 0; k < THREADS; k++)
		CU_ASSERT_EQUAL(out[k], k % 32);
}

SUITE_MAIN("ptx_ops")
