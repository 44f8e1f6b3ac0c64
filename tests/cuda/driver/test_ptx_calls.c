/* SPDX-License-Identifier: MIT */
/* The machine that runs PTX (ptx.h): calls of functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "ptx.h"
#include "suite.h"

#ifdef HAVE_CLANG
#define FUNCTION static
#include "calls.h"

extern const char calls_0_ptx[], calls_2_ptx[];
#endif

#define THREADS 64u
#define HEAD ".version 7.0\n.target sm_80\n.address_size 64\n"

/* out[i] = BODY of a[i] and b[i], with FUNCTIONS. The registers %o, %a, %b and %c have 32 bits, %O,
 * %A, %B and %C 64, and P is where a[i] is. */
static const char frame[] = HEAD "%s\n.visible .entry f(.param .u64 out, .param .u64 in)\n{\n"
				 ".reg .pred %%p<4>;\n.reg .b32 %%o, %%a, %%b, %%c, %%t;\n"
				 ".reg .b64 %%O, %%A, %%B, %%C, %%P, %%y;\n"
				 "mov.u32 %%t, %%tid.x;\nld.param.u64 %%P, [in];\n"
				 "mul.wide.u32 %%y, %%t, 16;\nadd.u64 %%P, %%P, %%y;\n"
				 "ld.global.u64 %%A, [%%P];\nld.global.u64 %%B, [%%P+8];\n"
				 "cvt.u32.u64 %%a, %%A;\ncvt.u32.u64 %%b, %%B;\n"
				 "mov.u32 %%o, 0;\nmov.u64 %%O, 0;\n%s\n"
				 "ld.param.u64 %%P, [out];\nmul.wide.u32 %%y, %%t, 8;\n"
				 "add.u64 %%P, %%P, %%y;\nst.global.u64 [%%P], %%O;\n}\n";

struct two {
	uint64_t a, b;
};

static bool run(const char *functions, const char *body, struct two *in, uint64_t *out)
{
	char text[8192];
	struct {
		uint64_t out, in;
	} params = {(uintptr_t)out, (uintptr_t)in};
	struct ptx_launch l = {.grid = {1, 1, 1}, .block = {THREADS, 1, 1}, .params = &params};
	struct ptx *p;

	snprintf(text, sizeof(text), frame, functions, body);
	p = ptx_read(text, "f");
	if (!p) {
		printf("%s\n", ptx_error());
		return false;
	}
	ptx_run(p, &l);
	ptx_free(p);
	return true;
}

static uint64_t of64(double d)
{
	uint64_t v;

	memcpy(&v, &d, sizeof(v));
	return v;
}

#define TO_64 " cvt.u64.u32 %O, %o;"
/* %o = NAME(ARGUMENT), in parameters of 32 bits. */
#define CALL_ONE(name, argument)                                                                   \
	"{ .param .b32 x; .param .b32 r; st.param.b32 [x+0], " argument "; call.uni (r), " name    \
	", (x); ld.param.b32 %o, [r+0]; }"

/* As compilers write it: x * 3 + 1 until it is not below y. */
#define GROW                                                                                       \
	".visible .func (.param .b32 func_retval0) grow(\n\t.param .b32 grow_param_0,\n"           \
	"\t.param .b32 grow_param_1\n)\n{\n\t.reg .pred %p<2>;\n\t.reg .b32 %a<4>;\n"              \
	"\tld.param.u32 %a1, [grow_param_0];\n\tld.param.u32 %a2, [grow_param_1];\n"               \
	"$L_again:\n\tsetp.ge.u32 %p1, %a1, %a2;\n\t@%p1 bra $L_end;\n"                            \
	"\tmad.lo.u32 %a1, %a1, 3, 1;\n\tbra.uni $L_again;\n"                                      \
	"$L_end:\n\tst.param.b32 [func_retval0+0], %a1;\n\tret;\n}\n"
#define CALL_GROW(result, x, y)                                                                    \
	"{ .reg .b32 temp_param_reg; .param .b32 param0; st.param.b32 [param0+0], " x ";\n"        \
	".param .b32 param1; st.param.b32 [param1], " y "; .param .b32 retval0;\n"                 \
	"call.uni (retval0), \ngrow, \n(\nparam0, \nparam1\n);\n"                                  \
	"ld.param.b32 " result ", [retval0]; }\n"

static uint32_t grown(uint32_t x, uint32_t y)
{
	while (x < y)
		x = x * 3 + 1;
	return x;
}

static uint64_t in_loop(uint32_t a, uint32_t n)
{
	uint32_t i, sum = 0;

	for (i = 0; i < n; i++)
		sum += grown(i, a);
	return sum;
}

/* The parameters and the result in registers. */
#define ADD ".func (.reg .b32 %r) sum(.reg .b32 %a, .reg .b32 %b) { add.u32 %r, %a, %b; }\n"
/* g(x) = x + 1 */
#define G                                                                                          \
	".func (.param .b32 r) g(.param .b32 x) { .reg .b32 %t; ld.param.b32 %t, [x];"             \
	"add.u32 %t, %t, 1; st.param.b32 [r], %t; ret; }\n"

/* The CPU's result for A and B, which are small. */
#define CALL(name, functions, body, result)                                                        \
	static uint64_t name(uint64_t A, uint64_t B)                                               \
	{                                                                                          \
		uint32_t a = (uint32_t)A, b = (uint32_t)B;                                         \
                                                                                                   \
		(void)a, (void)b;                                                                  \
		return result;                                                                     \
	}
#define CALLS(X)                                                                                   \
	X(once, GROW, CALL_GROW("%o", "%a", "%b") TO_64, grown(a, b))                              \
	X(twice, GROW, CALL_GROW("%a", "%a", "%b") CALL_GROW("%o", "%b", "%a") TO_64,              \
	  grown(b, grown(a, b)))                                                                   \
	X(defined_behind,                                                                          \
	  ".func (.param .b32 r) g(.param .b32 x);\n.func (.param .b32 r) h(.param .b32 x) {"      \
	  ".reg .b32 %o; ld.param.b32 %o, [x];" CALL_ONE("g", "%o") "st.param.b32 [r], %o; }" G,   \
	  CALL_ONE("h", "%a") TO_64, a + 1)                                                        \
	X(looped, GROW,                                                                            \
	  "mov.u32 %c, 0; again: setp.ge.u32 %p1, %c, %b; @%p1 bra over;" CALL_GROW(               \
		  "%t", "%c", "%a") "add.u32 %o, %o, %t; add.u32 %c, %c, 1; bra again; over:"      \
				    "mov.u32 %t, %tid.x;" TO_64,                                   \
	  in_loop(a, b))                                                                           \
	X(nested,                                                                                  \
	  GROW ".func (.param .b32 r) h(.param .b32 x) { .reg .b32 %t, %u; ld.param.b32 %t, "      \
	       "[x];" CALL_GROW("%u", "%t", "100")                                                 \
		       CALL_GROW("%t", "%t",                                                       \
				 "%u") "add.u32 %u, %u, %t; st.param.b32 [r], %u; ret; }\n",       \
	  CALL_ONE("h", "%a") "mov.u32 %a, %o;" CALL_ONE("h", "%b") "add.u32 %o, %o, %a;" TO_64,   \
	  grown(a, 100) + grown(a, grown(a, 100)) + grown(b, 100) + grown(b, grown(b, 100)))       \
	X(in_registers, ADD, "call (%o), sum, (%a, %b);" TO_64, a + b)                             \
	X(of_a_constant, ADD, "call.uni (%o), sum, (%a, -5);" TO_64, a - 5)                        \
	X(into_its_own, ADD, "call (%a), sum, (%a, %a); call (%o), sum, (%a, %b);" TO_64,          \
	  2 * a + b)                                                                               \
	X(guarded, ADD,                                                                            \
	  "setp.lt.u32 %p1, %a, %b; mov.u32 %o, %b; @%p1 call (%o), sum, (%a, 1000);"              \
	  "@!%p1 call.uni (%o), sum, (%o, %o);" TO_64,                                             \
	  a < b ? a + 1000 : 2 * b)                                                                \
	X(of_copies,                                                                               \
	  ".func (.reg .b32 %r) h(.reg .b32 %x) { add.u32 %x, %x, 1; mov.u32 %r, %x; }",           \
	  "call (%o), h, (%a); add.u32 %o, %o, %a;" TO_64, 2 * a + 1)                              \
	X(left_early,                                                                              \
	  ".func (.reg .b32 %r) h(.reg .b32 %x) { .reg .pred %p; setp.gt.u32 %p, %x, 9;"           \
	  "mov.u32 %r, 1; @%p ret; mov.u32 %r, 2; ret; mov.u32 %r, 3; }",                          \
	  "call (%o), h, (%a);" TO_64, a > 9 ? 1 : 2)                                              \
	X(of_wide_and_floats,                                                                      \
	  ".func (.param .f64 r) h(.param .b64 x, .param .f32 y, .reg .f64 %z) {"                  \
	  ".reg .b64 %x; .reg .f32 %y; .reg .f64 %d<3>; ld.param.u64 %x, [x];"                     \
	  "ld.param.f32 %y, [y]; cvt.rn.f64.u64 %d0, %x; cvt.f64.f32 %d1, %y;"                     \
	  "fma.rn.f64 %d2, %d0, %d1, %z; st.param.f64 [r], %d2; ret; }\n",                         \
	  ".param .b64 x; .param .f32 y; .param .f64 r; st.param.b64 [x], %A;"                     \
	  "cvt.rn.f32.u32 %c, %b; st.param.f32 [y], %c;"                                           \
	  "call (r), h, (x, y, 0d3FE0000000000000); ld.param.f64 %O, [r];",                        \
	  of64((double)A *(double)b + 0.5))                                                        \
	X(of_bytes,                                                                                \
	  ".func (.param .align 8 .b8 r[16]) h(.param .align 8 .b8 x[16]) { .reg .b64 %x<3>;"      \
	  "ld.param.u64 %x0, [x]; ld.param.u64 %x1, [x+8]; mov.b64 %x2, r;"                        \
	  "st.param.v2.b64 [r], {%x1, %x0}; ld.u64 %x1, [%x2]; add.u64 %x1, %x1, 7;"               \
	  "st.u64 [%x2], %x1; ret; }\n",                                                           \
	  ".param .align 8 .b8 x[16]; .param .align 8 .b8 r[16]; st.param.b64 [x], %A;"            \
	  "st.param.b64 [x+8], %B; call.uni (r), h, (x); ld.param.v2.b64 {%B, %A}, [r+0];"         \
	  "shl.b64 %A, %A, 20; add.u64 %O, %A, %B;",                                               \
	  (A << 20) + B + 7)                                                                       \
	X(without_result,                                                                          \
	  ".func h(.param .b64 to, .reg .b64 %v) { .reg .b64 %d;"                                  \
	  "ld.param.b64 %d, [to]; st.u64 [%d], %v; ret; }\n",                                      \
	  ".param .b64 to; st.param.b64 [to], %P; call.uni h, (to, 77); ld.global.u64 %O, [%P];",  \
	  77)                                                                                      \
	X(without_arguments, ".func (.reg .b32 %r) h() { mov.u32 %r, %tid.x; ret; }\n",            \
	  "call (%o), h, (); setp.eq.u32 %p1, %o, %t; selp.b64 %O, 1, 2, %p1;", 1)                 \
	X(without_any, ".visible .global .u32 x; .func h { st.global.u32 [x], 5; }\n",             \
	  "call h; call.uni h; ld.global.u32 %o, [x];" TO_64, 5)                                   \
	X(two_results,                                                                             \
	  ".func (.reg .b32 %x, .reg .b32 %y) h(.reg .b32 %a) { add.u32 %x, %a, 1;"                \
	  "add.u32 %y, %a, 2; }\n",                                                                \
	  "call (%b, %o), h, (%a); mul.lo.u32 %o, %o, %b;" TO_64, (a + 1) * (a + 2))               \
	X(passed_on, G ".func (.param .b32 r) h(.param .b32 x) { call.uni (r), g, (x); ret; }",    \
	  CALL_ONE("h", "%a") TO_64, a + 1)                                                        \
	X(own_memory,                                                                              \
	  ".func (.reg .b32 %r) h(.reg .b32 %x) { .local .align 4 .b8 depot[12]; .reg .b64 %SP;"   \
	  "mov.u64 %SP, depot; cvta.local.u64 %SP, %SP; st.u32 [%SP+8], %x; add.u32 %x, %x, 1;"    \
	  "st.u32 [%SP+4], %x; ld.local.u32 %r, [depot+8]; ld.u32 %x, [%SP+4];"                    \
	  "mad.lo.u32 %r, %r, 100, %x; ret; }\n",                                                  \
	  ".local .align 4 .b8 depot[8]; st.local.u32 [depot], %b; st.local.u32 [depot+4], %b;"    \
	  "call (%o), h, (%a); ld.local.u32 %c, [depot+4]; add.u32 %o, %o, %c;" TO_64,             \
	  a * 100 + a + 1 + b)                                                                     \
	X(ended,                                                                                   \
	  ".func h { .reg .pred %p; .reg .b32 %t; mov.u32 %t, %tid.x;"                             \
	  "setp.eq.u32 %p, %t, 99; @%p exit; ret; }\n",                                            \
	  "call h; mov.u64 %O, 6;", 6)                                                             \
	X(own_names_of_files,                                                                      \
	  ".func (.reg .b32 %r) own() { mov.u32 %r, 1; }\n"                                        \
	  ".visible .func (.reg .b32 %r) h() { call (%r), own, (); }\n" HEAD                       \
	  ".extern .func (.reg .b32 %r) h();\n.func (.reg .b32 %r) own() { mov.u32 %r, 2; }\n",    \
	  "call (%b), h, (); call (%a), own, (); mad.lo.u32 %o, %a, 10, %b;" TO_64, 21)

CALLS(CALL)

static const struct {
	const char *name, *functions, *body;
	uint64_t (*result)(uint64_t a, uint64_t b);
} calls[] = {
#define ROW(name, functions, body, result) {#name, functions, body, name},
	CALLS(ROW)};

/* Each thread has numbers of its own, so that they take different ways. */
TEST(computes, "calls give the right results")
{
	struct two in[THREADS], sent[THREADS];
	uint64_t out[THREADS], wanted;
	uint32_t k;
	size_t i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		for (k = 0; k < THREADS; k++)
			sent[k] = in[k] = (struct two){draw(20), draw(20)};
		if (!run(calls[i].functions, calls[i].body, sent, out)) {
			printf("%s\n", calls[i].name);
			CU_FAIL_FATAL("a call cannot be read");
		}
		for (k = 0; k < THREADS; k++) {
			wanted = calls[i].result(in[k].a, in[k].b);
			if (out[k] == wanted)
				continue;
			printf("%s(%llu, %llu) = %llx, not %llx\n", calls[i].name,
			       (unsigned long long)in[k].a, (unsigned long long)in[k].b,
			       (unsigned long long)out[k], (unsigned long long)wanted);
			CU_FAIL_FATAL("a call is wrong");
		}
	}
}

/* Threads meet in a function, too. */
TEST(meetings, "threads meet in functions")
{
	struct two in[THREADS];
	uint64_t out[THREADS];
	uint32_t k;

	for (k = 0; k < THREADS; k++)
		in[k] = (struct two){k % 3 == 0, 0};
	CU_ASSERT_FATAL(run(".func (.reg .b32 %n) count(.reg .pred %p) {"
			    "bar.red.popc.u32 %n, 0, %p; ret; }\n",
			    "setp.ne.u32 %p1, %a, 0; call (%o), count, (%p1);" TO_64, in, out));
	for (k = 0; k < THREADS; k++)
		CU_ASSERT_EQUAL(out[k], (THREADS + 2) / 3);
}

/* A body takes registers and memory only while it runs, and a thread has as many as it needs. */
TEST(room, "bodies share room")
{
	static const char all[] = HEAD
		".func one() { .reg .b32 %r<1000>; .local .b8 a[1000]; ret; }\n"
		".func two() { .reg .b32 %r<1000>; .local .b8 a[1000]; call one; call one; ret; }\n"
		".entry none() { ret; }\n.entry f() { .local .b8 a[10]; %s ret; }\n";
	char calls_100[2000] = "", text[4000];
	struct ptx *p;
	uint32_t i;

	for (i = 0; i < 100; i++)
		strcat(calls_100, "call two; ");
	snprintf(text, sizeof(text), "%.*s%s ret; }\n", (int)(strstr(all, "%s") - all), all,
		 calls_100);
	p = ptx_read(text, "f");
	CU_ASSERT_FATAL(p != NULL);
	CU_ASSERT_EQUAL(ptx_local(p), 2010);
	ptx_free(p);
}

TEST(refused, "what the machine does not call")
{
#define FORTY(x) TEN(x) TEN(x) TEN(x) TEN(x)
#define TEN(x) x x x x x x x x x x
#define ENTRY(body) ".entry f() { .reg .b32 %r; .reg .b64 %d; .param .b32 x; " body " ret; }\n"
	static const char *const bad[] = {
		HEAD ".func g() { call g; }" ENTRY("call g;"),
		HEAD ".func h(); .func g() { call h; } .func h() { call g; }" ENTRY("call g;"),
		HEAD ENTRY("call g;"),
		HEAD ".extern .func g();" ENTRY("call g;"),
		HEAD ".func g() { ret; }" ENTRY("call (%r), g, ();"),
		HEAD ".func g() { ret; }" ENTRY("call g, (%r);"),
		HEAD ".func g(.reg .b32 %a) { ret; }" ENTRY("call g;"),
		HEAD ".func g(.reg .b32 %a) { ret; }" ENTRY("call g, (x);"),
		HEAD ".func g(.param .b32 a) { ret; }" ENTRY("call g, (%r);"),
		HEAD ".func g(.param .b64 a) { ret; }" ENTRY("call g, (x);"),
		HEAD ".func (.reg .b32 %a) g() { ret; }" ENTRY("call (1), g;"),
		HEAD ".func g(.local .b32 a) { ret; }" ENTRY("call g, (%r);"),
		HEAD ".global .b32 v; .func g(.param .b32 a) { ret; }" ENTRY("call g, (v);"),
		HEAD ".func g() { .shared .b8 s[4]; ret; }" ENTRY("call g;"),
		HEAD ".func g() { bra L; } " ENTRY("L: call g;"),
		HEAD ".func g() { add.u32 %r, %r, 1; }" ENTRY("call g;"),
		HEAD ".func g() { L: ret; }" ENTRY("call g; bra L;"),
		HEAD ENTRY("call %d, (x);"),
		HEAD ENTRY("bra x;"),
		HEAD ENTRY("bra;"),
		HEAD ".func g() { ret; }" ENTRY("bra g;"),
		HEAD ".func g() { ret; }" ENTRY("call g @"),
		/* 40 calls of 40 calls of 40 calls */
		HEAD ".func a() { } .func b() {" FORTY("call a;") "} .func c() {" FORTY(
			"call b;") "}" ENTRY(FORTY("call c;")),
		/* 120 parameters */
		HEAD ".func g(" FORTY(".reg .b32 %a,") FORTY(".reg .b32 %b,") FORTY(
			".reg .b32 %c,") ") { }" ENTRY("call g, (" FORTY("1,") FORTY("1,") ");"),
	};
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ptx *p = ptx_read(bad[i], "f");

		if (p)
			printf("%s\n", bad[i]);
		CU_ASSERT(!p);
	}
}

#ifdef HAVE_CLANG
/* What clang makes of the functions of calls.h, without and with optimisation, computes the same.
 */
TEST(compiled, "what a compiler writes computes the same")
{
	const char *const texts[] = {calls_0_ptx, calls_2_ptx};
	uint64_t out[4 * THREADS + 1];
	struct {
		uint64_t *out;
		uint32_t n;
	} params = {out, 4 * THREADS};
	struct ptx_launch l = {.grid = {5, 1, 1}, .block = {THREADS, 1, 1}, .params = &params};
	uint32_t i, k;

	for (i = 0; i < 2; i++) {
		struct ptx *p = ptx_read(texts[i], "f");

		CU_ASSERT_FATAL(p != NULL);
		out[4 * THREADS] = 1;
		ptx_run(p, &l);
		ptx_free(p);
		for (k = 0; k < 4 * THREADS; k++)
			CU_ASSERT_EQUAL(out[k], work(k));
		CU_ASSERT_EQUAL(out[4 * THREADS], 1);
	}
}
#endif

SUITE_MAIN("ptx_calls")
