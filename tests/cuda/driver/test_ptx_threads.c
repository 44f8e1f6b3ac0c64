/* SPDX-License-Identifier: MIT */
/*
 * The machine that runs PTX (ptx.h): what threads do together, where control goes, and what only a
 * thread or its block has. What an instruction computes is in test_ptx_table.c.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "draw.h"
#include "ptx.h"
#include "suite.h"

#define THREADS 96u
#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"

/* Thread %t reads %a and %b of 32 bits at %in, and writes %o at %out; l is its lane. */
static const char frame[] =
	"%s\n.visible .entry f(.param .u64 out, .param .u64 in)\n{\n"
	".reg .b32 %%o, %%a, %%b, %%c, %%t, %%l;\n.reg .b64 %%out, %%in, %%x, %%y, %%z;\n"
	".reg .pred %%p<4>;\n.shared .align 16 .b8 s[2048];\n"
	"ld.param.u64 %%out, [out];\nld.param.u64 %%in, [in];\nmov.u32 %%t, %%tid.x;\n"
	"mov.u32 %%l, %%laneid;\nmul.wide.u32 %%x, %%t, 8;\nadd.u64 %%in, %%in, %%x;\n"
	"mul.wide.u32 %%x, %%t, 4;\nadd.u64 %%out, %%out, %%x;\nmov.u32 %%o, 0;\n"
	"ld.global.v2.b32 {%%a, %%b}, [%%in];\n%s\nst.global.u32 [%%out], %%o;\nret;\n}\n";

struct two {
	uint32_t a, b;
};

static void text_of(char *text, size_t n, const char *before, const char *body)
{
	snprintf(text, n, frame, before, body);
}

/* Runs BODY with THREADS threads, as L says. */
static void run_as(struct ptx_launch l, const char *before, const char *body, struct two *in,
		   uint32_t *out)
{
	struct {
		void *out, *in;
	} params = {out, in};
	static char text[400000];
	struct ptx *p;

	text_of(text, sizeof(text), before, body);
	p = ptx_read(text, "f");
	if (!p)
		printf("%s\n", ptx_error());
	CU_ASSERT_FATAL(p != NULL);
	l.grid[0] = l.grid[1] = l.grid[2] = l.block[1] = l.block[2] = 1;
	l.block[0] = THREADS;
	l.params = &params;
	ptx_run(p, &l);
	ptx_free(p);
}

static void run_with(const char *before, const char *body, struct two *in, uint32_t *out)
{
	run_as((struct ptx_launch){.together = false}, before, body, in, out);
}

static void run(const char *body, struct two *in, uint32_t *out)
{
	run_with(HEAD, body, in, out);
}

#define EACH(k) for ((k) = 0; (k) < THREADS; (k)++)

static void fill(struct two *in)
{
	uint32_t k;

	EACH(k)
	in[k] = (struct two){(uint32_t)draw(5), (uint32_t)draw(1000)};
}

/* The last step of a reduction, as programs wrote it: without a barrier, in volatile memory. */
TEST(in_step, "a warp is in step in volatile shared memory")
{
#define STEP(by)                                                                                   \
	"ld.volatile.shared.u32 %a, [%c]; ld.volatile.shared.u32 %b, [%c+" by "];"                 \
	"add.u32 %a, %a, %b; st.volatile.shared.u32 [%c], %a;\n"
	static const char sum[] =
		"mov.u32 %c, s; mad.lo.u32 %c, %t, 4, %c; st.volatile.shared.u32 [%c], %b;"
		"st.volatile.shared.u32 [%c+512], 0; bar.sync 0; setp.gt.u32 %p1, %t, 31;"
		"mov.u32 %o, 0; @%p1 bra over;\n" STEP("128") STEP("256") STEP("64") STEP("32")
			STEP("16") STEP("8") STEP("4") "mov.u32 %o, %a;\nover:";
	struct two in[THREADS];
	uint32_t out[THREADS], k, all = 0, round;

	for (round = 0; round < 20; round++) {
		fill(in);
		EACH(k)
		all = k ? all + in[k].b : in[k].b;
		run(sum, in, out);
		CU_ASSERT_EQUAL(out[0], all);
	}
}

/* What a warp has counted, as GCC makes it of a loop of OpenACC: looked at by a plain load. */
TEST(counted, "a warp is in step with its atomics in shared memory")
{
	struct two in[THREADS];
	uint32_t out[THREADS], k;

	fill(in);
	run("mov.u32 %c, s; shr.u32 %a, %t, 5; mad.lo.u32 %c, %a, 4, %c; st.shared.u32 [%c], 0;"
	    "atom.shared.add.u32 %a, [%c], 1; ld.shared.u32 %o, [%c];",
	    in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], 32);
}

/* Threads that went different ways are together again behind them. */
TEST(together_again, "threads that went different ways are together again")
{
	struct two in[THREADS];
	uint32_t out[THREADS], k, warp[3] = {0}, odd[3] = {0};

	fill(in);
	EACH(k)
	{
		warp[k / 32] |= (in[k].b & 1) << k % 32;
		odd[k / 32] |= (uint32_t)(in[k].a == 3) << k % 32;
	}
	run("and.b32 %c, %b, 1; setp.eq.u32 %p1, %c, 1; setp.eq.u32 %p2, %a, 3;\n"
	    "again: setp.eq.u32 %p3, %a, 0; @%p3 bra over; sub.u32 %a, %a, 1; bra again;\n"
	    "over: vote.ballot.b32 %o, %p1;",
	    in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], warp[k / 32]);
	run("setp.eq.u32 %p2, %a, 3; @!%p2 bra over; activemask.b32 %o;\nover:", in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], in[k].a == 3 ? odd[k / 32] : 0);
	run("setp.eq.u32 %p2, %a, 3; mov.u32 %o, 7; @%p2 activemask.b32 %o;", in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], in[k].a == 3 ? odd[k / 32] : 7);
	run("shfl.bfly.b32 %o, %b, 5, 31;", in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], in[k ^ 5].b);
}

static void count(void *data)
{
	++*(uint64_t *)data;
}

/* A lock that threads want, each in its turn: one that waits for another one of its warp does not
 * wait for ever. Where the launch pauses, a warp has turns of 200 instructions, and of 50 where
 * blocks wait for each other: what other warps do between them makes no difference. */
TEST(locked, "a thread that waits for its warp does not wait for ever")
{
	static const char body[] =
		"mov.u32 %c, s; st.volatile.shared.u32 [%c], 0; st.volatile.shared.u32 [%c+4], 0;"
		"bar.sync 0;\nagain: atom.shared.cas.b32 %a, [%c], 0, 1; setp.ne.u32 %p1, %a, 0;"
		"@%p1 bra again; ld.volatile.shared.u32 %a, [%c+4]; add.u32 %a, %a, 1;"
		"st.volatile.shared.u32 [%c+4], %a; st.volatile.shared.u32 [%c], 0; bar.sync 0;"
		"ld.volatile.shared.u32 %o, [%c+4];";
	uint64_t pauses = 0;
	const struct ptx_launch all[] = {
		{.together = false},
		{.pauses = count, .data = &pauses},
		{.together = true},
	};
	struct two in[THREADS];
	uint32_t out[THREADS], i, k;

	for (i = 0; i < 3; i++) {
		fill(in);
		memset(out, 0, sizeof(out));
		run_as(all[i], HEAD, body, in, out);
		EACH(k)
		CU_ASSERT_EQUAL(out[k], THREADS);
	}
	CU_ASSERT(pauses > 0);
}

TEST(lanes, "lanes find out about each other")
{
	struct two in[THREADS];
	uint32_t out[THREADS], k, j, same, sum, least, bits;

	fill(in);
	in[40].a = 9;
	for (k = 64; k < THREADS; k++)
		in[k].a = 2;
	run("match.any.sync.b32 %o, %a, -1;", in, out);
	EACH(k)
	{
		for (j = k / 32 * 32, same = 0; j < k / 32 * 32 + 32; j++)
			same |= (uint32_t)(in[j].a == in[k].a) << j % 32;
		CU_ASSERT_EQUAL(out[k], same);
	}
	run("match.all.sync.b32 %o|%p1, %a, -1; selp.u32 %c, 1, 0, %p1; add.u32 %o, %o, %c;", in,
	    out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], 0); /* of the last warp, all bits and one */
	run("redux.sync.add.s32 %o, %b, -1;", in, out);
	EACH(k)
	{
		for (j = k / 32 * 32, sum = 0; j < k / 32 * 32 + 32; j++)
			sum += in[j].b;
		CU_ASSERT_EQUAL(out[k], sum);
	}
	run("sub.s32 %b, %b, 500; redux.sync.min.s32 %o, %b, -1;", in, out);
	EACH(k)
	{
		for (j = k / 32 * 32, least = 1000; j < k / 32 * 32 + 32; j++)
			least = in[j].b < least ? in[j].b : least;
		CU_ASSERT_EQUAL(out[k], least - 500);
	}
	run("redux.sync.xor.b32 %o, %b, -1;", in, out);
	EACH(k)
	{
		for (j = k / 32 * 32, bits = 0; j < k / 32 * 32 + 32; j++)
			bits ^= in[j].b;
		CU_ASSERT_EQUAL(out[k], bits);
	}
	run("setp.lt.u32 %p2, %l, 8; @%p2 bra over; elect.sync %o|%p1, 0xffffff00;"
	    "selp.u32 %c, 100, 0, %p1; add.u32 %o, %o, %c;\nover:",
	    in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], k % 32 < 8 ? 0 : k % 32 == 8 ? 108 : 8);
	run("mov.u32 %a, %lanemask_lt; mov.u32 %b, %lanemask_ge; xor.b32 %a, %a, %b;"
	    "not.b32 %a, %a; mov.u32 %b, %lanemask_le; mov.u32 %c, %lanemask_gt; add.u32 %b, %b, "
	    "%c;"
	    "add.u32 %b, %b, 1; or.b32 %a, %a, %b; mov.u32 %b, %lanemask_eq; shr.u32 %b, %b, %l;"
	    "sub.u32 %b, %b, 1; or.b32 %o, %a, %b;",
	    in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], 0);
	run("mov.u32 %a, %warpid; mov.u32 %b, WARP_SZ; mad.lo.u32 %o, %a, %b, %l;", in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], k);
	run("setp.eq.u32 %p1, %a, %a; vote.sync.uni.pred %p2, %p1, -1; setp.lt.u32 %p1, %l, 3;"
	    "vote.sync.uni.pred %p3, !%p1, -1; selp.u32 %a, 1, 0, %p2; selp.u32 %o, 2, %a, %p3;",
	    in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], 1);
}

/* The first two warps meet at one barrier, the last one comes to it and goes on to another. */
TEST(barriers, "barriers have names and counts")
{
	struct two in[THREADS];
	uint32_t out[THREADS], k;

	fill(in);
	run("mov.u32 %c, s; setp.ge.u32 %p1, %t, 64; @%p1 bra last;"
	    "barrier.sync 3, 96; ld.shared.u32 %o, [%c]; bar.sync 1, 64; bra over;\n"
	    "last: st.shared.u32 [%c], 5; barrier.arrive 3, 96; bar.sync 2, 32; mov.u32 %o, 6;\n"
	    "over: bar.sync 0;",
	    in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], k < 64 ? 5 : 6);
	run("setp.gt.u32 %p1, %a, 2; bar.red.or.pred %p2, 0, %p1; bar.red.and.pred %p3, 0, !%p1;"
	    "selp.u32 %a, 1, 0, %p2; selp.u32 %o, 2, %a, %p3;",
	    in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], 1);
}

/* Blocks that run together find two words for all of them, of which the second one is 0 at first;
 * others find none. */
TEST(workspaces, "blocks that run together can wait for each other")
{
	static const char text[] =
		HEAD ".visible .entry f(.param .u64 out)\n{\n.reg .b32 %a, %b, %n;\n"
		     ".reg .b64 %out, %x;\n.reg .pred %p;\nld.param.u64 %out, [out];\n"
		     "mov.u32 %a, %ctaid.x;\nmov.u32 %n, %nctaid.x;\n"
		     "mul.wide.u32 %x, %a, 4;\nadd.u64 %out, %out, %x;\n"
		     "mov.u32 %a, %envreg2;\nmov.u32 %b, %envreg1;\nmov.b64 %x, {%a, %b};\n"
		     "mov.u32 %b, 0;\nsetp.eq.u64 %p, %x, 0;\n@%p bra done;\n"
		     "atom.add.u32 %b, [%x+4], 1;\n"
		     "wait:\nld.volatile.u32 %b, [%x+4];\nsetp.lt.u32 %p, %b, %n;\n"
		     "@%p bra wait;\ndone:\nst.global.u32 [%out], %b;\nret;\n}\n";
	uint32_t out[8], *param = out, k, round;
	struct ptx_launch l = {.grid = {8, 1, 1}, .block = {1, 1, 1}, .params = &param};
	struct ptx *p = ptx_read(text, "f");

	CU_ASSERT_FATAL(p != NULL);
	for (round = 0; round < 3; round++) {
		memset(out, 0xff, sizeof(out));
		l.together = round < 2;
		ptx_run(p, &l);
		for (k = 0; k < 8; k++)
			CU_ASSERT_EQUAL(out[k], l.together ? 8 : 0);
	}
	ptx_free(p);
}

/* Where control goes: by index, by pointers, and not there. */
TEST(control, "control goes where it should")
{
	static const char functions[] = HEAD
		".func (.param .b32 r) twice(.param .b32 a) { .reg .b32 %x; ld.param.b32 %x, [a];"
		"add.u32 %x, %x, %x; st.param.b32 [r], %x; ret; }\n"
		".func (.param .b32 r) next(.param .b32 a);\n"
		".func (.param .b64 r) other(.param .b64 a) { ret; }\n"
		".global .align 8 .u64 table[3] = {twice, next, twice};\n"
		".func (.param .b32 r) next(.param .b32 a) { .reg .b32 %x; ld.param.b32 %x, [a];"
		"add.u32 %x, %x, 1; st.param.b32 [r], %x; ret; }\n"
		".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
		".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
		".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param "
		".b64 "
		"d, .param .b64 e);\n";
	struct two in[THREADS];
	uint32_t out[THREADS], k;

	fill(in);
	run("{ to: .branchtargets L0, L1, L2, L2, L0; setp.ne.u32 %p1, %a, 1; mov.u32 %o, 9;"
	    "@%p1 brx.idx %a, to; bra out;\nL0: mov.u32 %o, 10; bra out;\nL1: mov.u32 %o, 11;"
	    "bra out;\nL2: mov.u32 %o, 12;\nout: }",
	    in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], in[k].a == 1 ? 9 : in[k].a % 4 == 0 ? 10 : 12);
	run_with(functions,
		 "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %b; min.u32 %a, %a, 2;"
		 "mul.wide.u32 %x, %a, 8; mov.u64 %y, table; add.u64 %x, %x, %y;"
		 "ld.global.u64 %x, [%x]; like: .callprototype (.param .b32 _) _ (.param .b32 _);"
		 "setp.gt.u32 %p1, %b, 500; st.param.b32 [y], 3; @%p1 call (y), %x, (x), like;"
		 "ld.param.b32 %o, [y]; }",
		 in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], in[k].b <= 500 ? 3 : in[k].a == 1 ? in[k].b + 1 : 2 * in[k].b);
	run_with(functions,
		 "{ .param .b32 r; .param .b64 x; .param .b64 y; .param .b64 m; .param .b32 l;"
		 "call (r), vprintf, (x, y); ld.param.b32 %o, [r]; call (m), malloc, (x);"
		 "ld.param.b64 %x, [m]; setp.ne.u64 %p1, %x, 0; setp.eq.u32 %p2, %o, 0;"
		 "@%p1 call __assertfail, (x, x, l, x, x); @%p2 trap; }",
		 in, out);
	EACH(k)
	CU_ASSERT_EQUAL((int32_t)out[k], -2);
	/* a label of each of two blocks, and one that comes later */
	run("{ bra L; mov.u32 %o, 1; L: add.u32 %o, %o, 2; } { bra L; mov.u32 %o, 3; L:"
	    "add.u32 %o, %o, 4; bra M; } mov.u32 %o, 5;\nM: add.u32 %o, %o, 8;",
	    in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], 14);
}

/* What a program gets that divides by 0, copies, asks for the time, or waits. */
TEST(others, "divisions by 0, copies, clocks and spaces")
{
	struct two in[THREADS];
	uint32_t out[THREADS], k;

	fill(in);
	run("mov.u32 %b, 0; div.u32 %o, %a, %b; rem.s32 %c, %a, %b; and.b32 %o, %o, %c;", in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], UINT32_MAX);
	run("mov.u32 %c, s; mad.lo.u32 %c, %t, 16, %c; st.shared.v2.b32 [%c], {-1, -1};"
	    "cp.async.ca.shared.global [%c], [%in], 8, 4; cp.async.commit_group;"
	    "cp.async.wait_group 0; cp.async.wait_all; ld.shared.v2.u32 {%a, %b}, [%c];"
	    "mad.lo.u32 %o, %b, 1000, %a; prefetch.global.L2 [%in]; nanosleep.u32 20; pmevent 1;"
	    "membar.gl; fence.sc.sys;",
	    in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], in[k].a);
	run("mov.u64 %x, %clock64; mov.u64 %y, %globaltimer; mov.u32 %a, %clock_hi;"
	    "mov.u32 %b, %globaltimer_hi; mov.u64 %z, %clock64; setp.ge.u64 %p1, %z, %x;"
	    "setp.gt.u64 %p2, %y, 0; mov.u32 %c, %smid; setp.lt.u32 %p3, %c, 4;"
	    "and.pred %p1, %p1, %p2; and.pred %p1, %p1, %p3; selp.u32 %o, 1, 0, %p1;",
	    in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], 1);
	run("{ .local .align 8 .b8 own[8]; cvta.local.u64 %x, own; cvta.shared.u64 %y, s;"
	    "isspacep.local %p1, %x; isspacep.shared %p2, %y; isspacep.global %p3, %in;"
	    "selp.u32 %o, 1, 0, %p1; selp.u32 %a, 2, 0, %p2; selp.u32 %b, 4, 0, %p3;"
	    "or.b32 %o, %o, %a; or.b32 %o, %o, %b; isspacep.global %p1, %x; isspacep.shared %p2, "
	    "%in;"
	    "isspacep.local %p3, %y; or.pred %p1, %p1, %p2; or.pred %p1, %p1, %p3;"
	    "selp.u32 %o, 0, %o, %p1; }",
	    in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], 7);
}

/* Texts as tools write them. */
TEST(texts, "texts as tools write them")
{
	static char many[200000];
	struct two in[THREADS];
	uint32_t out[THREADS], k;
	size_t n = 0;

	fill(in);
	run_with(HEAD
		 ".file 1 \"a.cu\"\n"
		 ".global .align 4 .u32 rows[2][3] = {{1, 2}, {3}};\n"
		 ".global .f32 half = 0.5, more = 1e-1;\n.const .f64 two = 2.0;\n"
		 ".global .u32 one = 1, none;\n.global .u64 where[2] = {0, generic(rows)+12};\n"
		 ".section .debug_info { .b8 1, 2\n.b32 .debug_abbrev\n }\n",
		 ".loc 1 3 0\n.pragma \"nounroll\";\n.reg.f32 %f<3>,%g;\n.reg .v2 .u32 %v;\n"
		 "ld.global.u64 %x, [where+8]; ld.global.u32 %o, [%x];\n" /* 3 */
		 "ld.global.f32 %f0, [half]; fma.rn.f32 %f0, %f0, 4.0, 1.0;\n"
		 "cvt.rzi.u32.f32 %a, %f0; mad.lo.u32 %o, %o, 10, %a;\n" /* 33 */
		 "mov.v2.u32 %v, {%o, 7}; add.u32 %o, %v.x, %v.y;\n"	 /* 40 */
		 "ld.global.u32 %a, [one]; add.u32 %o, %o, %a;\n"	 /* 41 */
		 "sub.u32 %o, %o, 0X1U; mov.b32 %a, 0f3F800000; mov.u32 %b, 0b101;"
		 "add.u32 %o, %o, %b; setp.eq.u32 %p1, %a, 0x3f800000; @!%p1 mov.u32 %o, 0;",
		 in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], 45);
	for (k = 0; k < 5000; k++)
		n += (size_t)sprintf(many + n, ".reg .b32 %%r%u;\n", k);
	sprintf(many + n, "mov.u32 %%r4321, %%b; { .reg .b32 %%r4321; mov.u32 %%r4321, 0; }"
			  "mov.u32 %%o, %%r4321;");
	run(many, in, out);
	EACH(k)
	CU_ASSERT_EQUAL(out[k], in[k].b);
}

/* What the ISA does not have is refused when it is read, as what is there and not executed. */
TEST(refused, "what the ISA does not have is refused, with its line")
{
	static const char *const bad[] = {
		"frobnicate.u32 %a, %b;",
		"mov.u32 %a, %pm0;",
		"add.s8 %a, %b, %c;",
		"add.f32 %a, %b, 1;",
		"add.sat.u32 %a, %b, %c;",
		"add.ftz.f64 %x, %y, %z;",
		"add.rn.s32 %a, %b, %c;",
		"add.u32.u32 %a, %b, %c;",
		"add.u32 %a, %b;",
		"add.u32 %a, %b, %c, %a;",
		"add.u32 %x, %b, %c;",
		"add.u64 %x, %b, %y;",
		"add.u32 3, %b, %c;",
		"fma.f32 %a, %b, %c, %a;",
		"mad.f32 %a, %b, %c, %a;",
		"mul.u32 %a, %b, %c;",
		"mul.wide.u64 %x, %y, %z;",
		"shl.u32 %a, %b, %c;",
		"shf.r.b32 %a, %b, %c, %a;",
		"setp.lo.s32 %p1, %a, %b;",
		"setp.ltu.u32 %p1, %a, %b;",
		"setp.lt.b32 %p1, %a, %b;",
		"setp.lt.and.u32 %p1, %a, %b;",
		"selp.u32 %a, %b, %c, !%p1;",
		"and.u32 %a, %b, %c;",
		"cvt.f32.f64 %a, %x;",
		"cvt.s32.f32 %a, %b;",
		"cvt.rn.s32.f32 %a, %b;",
		"cvt.f32.s32 %a, %b;",
		"cvt.f16.f64 %a, %x;",
		"ld.v3.u32 {%a, %b, %c}, [%in];",
		"ld.v2.u32 %a, [%in];",
		"ld.v4.u64 {%x, %y, %z, %x}, [%in];",
		"ld.global.u32 %a, [s];",
		"ld.shared.u32 %a, [%p1];",
		"ld.u32 %a, %in;",
		"atom.add.s64 %x, [%in], %y;",
		"atom.add.f16 %a, [%in], %b;",
		"atom.cas.b32 %a, [%in], %b;",
		"bar.sync;",
		"bra nowhere;",
		"mov.u32 %a, %clock64;",
		"mov.u32 %a, %envreg3;",
		"prmt.b32.f4f %a, %b, %c, 1;",
		"lop3.b32 %a, %b, %c, %a;",
		"rcp.f32 %a, %b;",
		"div.f32 %a, %b, %c;",
		"sin.f32 %a, %b;",
		"popc.b32 %x, %a;",
		"setp.lt.f16x2 %p1, %a, %b;",
		"mov.b64 {%a, %x}, %y;",
		"tex.2d.v4.f32.s32 {%a, %b, %c, %o}, [t, {%a, %b}];",
		"@%a mov.u32 %o, 1;",
		"mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%a}, {%b}, {%c}, {%a};",
	};
	char text[4000], line[30];
	struct ptx *p;
	size_t i, k, lines;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		text_of(text, sizeof(text), HEAD, bad[i]);
		p = ptx_read(text, "f");
		if (p)
			printf("%s is not refused\n", bad[i]);
		CU_ASSERT_FATAL(!p);
		for (k = 0, lines = 1; &text[k] < strstr(text, bad[i]); k++)
			lines += text[k] == '\n';
		snprintf(line, sizeof(line), "line %zu: ", lines);
		if (strncmp(ptx_error(), line, strlen(line)) != 0)
			printf("%s: %s\n", bad[i], ptx_error());
		CU_ASSERT(strncmp(ptx_error(), line, strlen(line)) == 0);
		CU_ASSERT(strstr(ptx_error(), strndupa(bad[i], strlen(bad[i]) - 1)) != NULL);
	}
}

/* The instructions of the PTX ISA, up to version 8.8. */
static const char names[] =
	"abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra "
	"brev brkpt brx call clusterlaunchcontrol clz cnot copysign cos cp createpolicy cvt cvta "
	"discard div dp2a dp4a elect ex2 exit fence fma fns getctarank griddepcontrol isspacep "
	"istypep ld ldmatrix ldu lg2 lop3 mad mad24 madc mapa match max mbarrier membar min mma "
	"mov movmatrix mul mul24 multimem nanosleep neg not or pmevent popc prefetch prefetchu "
	"prmt rcp red redux rem ret rsqrt sad selp set setmaxnreg setp shf shfl shl shr sin slct "
	"sqrt st stackrestore stacksave stmatrix sub subc suld suq sured sust szext tanh tcgen05 "
	"tensormap testp tex tld4 trap txq vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 "
	"vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vote vset vset2 vset4 vshl vshr vsub vsub2 "
	"vsub4 wgmma wmma xor";

/* None of them is unknown, whether it is executed or not. */
TEST(named, "each instruction of the ISA is known")
{
	char text[4000], body[40], all[sizeof(names)], *name, *rest = all;
	struct ptx *p;

	memcpy(all, names, sizeof(names));
	while ((name = strsep(&rest, " "))) {
		snprintf(body, sizeof(body), "%s.none;", name);
		text_of(text, sizeof(text), HEAD, body);
		p = ptx_read(text, "f");
		CU_ASSERT_FATAL(!p);
		if (!strstr(ptx_error(), "does not execute this instruction with these words"))
			printf("%s: %s\n", name, ptx_error());
		CU_ASSERT(strstr(ptx_error(), "does not execute this instruction") != NULL);
	}
}

/* All of a text is checked, also what no entry calls; what another text may have is none's fault.
 */
TEST(checked, "all bodies of a text are checked")
{
	static const struct {
		const char *text;
		bool part, whole;
	} all[] = {
		{HEAD ".func g() { ret; } .entry f() { call g; ret; }", true, true},
		{HEAD ".func g() { .reg .u32 %r; shl.u32 %r, %r, 1; } .entry f() { ret; }", false,
		 false},
		{HEAD ".entry e() { ret; } .entry f() { brkpt; }", false, false},
		{HEAD ".extern .func g(); .entry f() { call g; ret; }", true, false},
		{HEAD ".extern .global .u32 x; .entry f() { .reg .u32 %r; ld.global.u32 %r, [x]; }",
		 true, false},
		{HEAD ".func g() { call g; } .entry f() { ret; }", true, true},
		{HEAD ".func g() { call g; } .entry f() { call g; }", false, false},
	};
	struct ptx *p;
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		p = ptx_read(all[i].text, NULL);
		CU_ASSERT_FATAL(p != NULL);
		CU_ASSERT_EQUAL(ptx_check(p, true), all[i].part);
		CU_ASSERT_EQUAL(ptx_check(p, false), all[i].whole);
		ptx_free(p);
	}
}

/* A trap, and a failed assertion, end the program that runs the machine. */
TEST(traps, "a trap ends the program")
{
	static const char *const ends[] = {
		"setp.eq.u32 %p1, %t, 40; @%p1 trap;",
		"{ .param .b64 x; .param .b32 l; call __assertfail, (x, x, l, x, x); }",
		"{ to: .branchtargets L; mov.u32 %c, 1; brx.idx %c, to; L: }",
	};
	struct two in[THREADS];
	uint32_t out[THREADS];
	int status;
	size_t i;

	fill(in);
	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		const pid_t child = fork();

		if (child == 0) {
			signal(SIGABRT, SIG_DFL);
			if (!freopen("/dev/null", "w", stderr))
				_exit(1);
			run_with(HEAD
				 ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param "
				 ".b32 c, .param .b64 d, .param .b64 e);\n",
				 ends[i], in, out);
			_exit(0);
		}
		CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
		CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	}
}

SUITE_MAIN("ptx_threads")
