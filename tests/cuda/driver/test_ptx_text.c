/* SPDX-License-Identifier: MIT */
/* The machine that runs PTX (ptx.h): how it reads texts, and which it refuses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx.h"
#include "suite.h"

#define HEAD ".version 7.0\n.target sm_80\n.address_size 64\n"

/* Whether the text, and entry f if the text has it, can be read. */
static bool reads(const char *text)
{
	struct ptx *p = ptx_read(text, strstr(text, ".entry f") ? "f" : NULL);
	bool ok = p;

	if (p)
		ptx_free(p);
	return ok;
}

/* Declarations that no compiler writes are refused. Without that, another's memory is written. */
TEST(declarations, "declarations that no compiler writes are refused")
{
	static const char *const bad[] = {
		HEAD ".global .align 0 .pred a;",
		HEAD ".global .align 4294967296 .b8 a[4];",
		HEAD ".global .b64 a[600000000];",
		HEAD ".global .b64 a[8388607]; .global .b64 b[4];",
		HEAD ".global .u32 a[2] = {1, 2, 3};",
		HEAD ".entry f(.param .b64 a[9000000]) { ret; }",
		HEAD ".entry f() { .local .b64 a[9000000]; ret; }",
		HEAD ".entry f() { .shared .b64 a[9000000]; ret; }",
		HEAD ".entry f() { .reg .b32 %r<5000000>; ret; }",
	};
	size_t i;

	CU_ASSERT(reads(HEAD ".global .align 4 .u32 a[2] = {1, 2};"));
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT(!reads(bad[i]));
}

/* An entry that writes *x to *out: of 32 bits, in the state space SPACE. */
#define WRITES_X(space)                                                                            \
	".visible .entry f(.param .u64 out) { .reg .b64 %d; .reg .b32 %r;\n"                       \
	"ld.param.u64 %d, [out]; ld." space ".u32 %r, [x]; st.global.u32 [%d], %r; ret; }\n"

/* What the one thread of entry f writes. */
static uint64_t written(const char *text)
{
	uint64_t out = 0, *params = &out;
	struct ptx_launch l = {.grid = {1, 1, 1},
			       .block = {1, 1, 1},
			       .shared = 64,
			       .params = &params};
	struct ptx *p = ptx_read(text, "f");

	if (!p)
		return UINT64_MAX;
	ptx_run(p, &l);
	ptx_free(p);
	return out;
}

/* A name's definition may be anywhere in the text. */
TEST(externs, "a name's definition may be anywhere")
{
	static const char declared[] = HEAD ".extern .global .align 4 .u32 x;\n" WRITES_X("global");
	static const char defined[] = HEAD ".visible .global .align 4 .u32 x = 5;\n";
	static const char own[] = HEAD ".global .align 4 .u32 x = 6;\n";
	char text[1000];
	struct ptx *all, *f;
	void *x;
	size_t bytes;
	uint64_t out, *params = &out;
	struct ptx_launch l = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .params = &params};

	CU_ASSERT_EQUAL(written(HEAD WRITES_X("global") ".global .u32 x = 7;"), 7);
	snprintf(text, sizeof(text), "%s%s%s", own, declared, defined);
	CU_ASSERT_EQUAL(written(text), 5);
	snprintf(text, sizeof(text), "%s%s%s", defined, declared, own);
	CU_ASSERT_EQUAL(written(text), 5);
	snprintf(text, sizeof(text), "%s%s%s%s", own, WRITES_X("global"), defined, own);
	CU_ASSERT_EQUAL(written(text), 6);
	snprintf(text, sizeof(text), "%s%s", own, declared + strlen(HEAD)); /* of one file */
	CU_ASSERT_EQUAL(written(text), 6);
	CU_ASSERT_EQUAL(written(HEAD ".extern .const .u32 x[];" WRITES_X("const") HEAD
				".visible .const .u32 x[3] = {8, 1, 2};"),
			8);
	CU_ASSERT(!reads(declared));
	/* an entry's variables are those of the module that it is read in */
	snprintf(text, sizeof(text), "%s%s", declared, defined);
	all = ptx_read(text, NULL);
	CU_ASSERT_FATAL(ptx_global(all, "x", &x, &bytes));
	CU_ASSERT_EQUAL(bytes, 4);
	CU_ASSERT_EQUAL(ptx_globals(all), 4);
	*(uint32_t *)x = 9;
	f = ptx_read_in(all, "f");
	ptx_run(f, &l);
	CU_ASSERT_EQUAL((uint32_t)out, 9);
	ptx_free(f);
	ptx_free(all);
}

/* Dynamic shared memory is declared like a name that is defined elsewhere, and is not. */
TEST(dynamic_memory, "dynamic shared memory needs no definition")
{
#define STORES(entry, value)                                                                       \
	HEAD ".extern .shared .align 4 .b8 s[];\n.visible .entry " entry "(.param .u64 out) {\n"   \
	     ".reg .b64 %d; .reg .b32 %r; ld.param.u64 %d, [out];\n"                               \
	     "st.shared.u32 [s+4], " value "; ld.shared.u32 %r, [s+4];\n"                          \
	     "st.global.u32 [%d], %r; ret; }\n"
	struct ptx *all = ptx_read(STORES("e", "3") STORES("f", "4"), NULL);

	CU_ASSERT(!ptx_missing(all) && !ptx_twice(all));
	ptx_free(all);
	CU_ASSERT_EQUAL(written(STORES("e", "3") STORES("f", "4")), 4);
}

/* The name that ASKS gives of the text. */
static const char *name_in(const char *text, const char *(*asks)(const struct ptx *))
{
	static char name[64];
	struct ptx *p = ptx_read(text, NULL);
	const char *found;

	CU_ASSERT_FATAL(p != NULL);
	found = asks(p);
	snprintf(name, sizeof(name), "%s", found ? found : "");
	ptx_free(p);
	return name;
}

#define MISSING(text, name) CU_ASSERT_STRING_EQUAL(name_in(text, ptx_missing), name)
#define TWICE(text, name) CU_ASSERT_STRING_EQUAL(name_in(text, ptx_twice), name)

TEST(missing_names, "names that nothing defines")
{
#define USES(name) ".visible .entry f() { ld.global.u32 %r, [" name "]; ret; }\n"
	MISSING(HEAD ".extern .global .u32 x;" USES("y"), "");
	MISSING(HEAD ".extern .global .u32 x;" USES("x"), "x");
	MISSING(HEAD ".extern .func (.param .b32 r) g (.param .b32 a);"
		     ".func h() { call.uni (r), g, (a); }",
		"g");
	MISSING(HEAD ".visible .func g(); .func h() { call.uni g, (); }"
		     ".visible .func g() { ret; }",
		"");
	/* a name of another file is not meant */
	MISSING(HEAD ".extern .global .u32 x;" USES("x") HEAD ".global .u32 x;", "x");
	MISSING(HEAD ".func g(); .func h() { call.uni g, (); }" HEAD ".visible .func g() { ret; }",
		"g");
	MISSING(HEAD ".extern .func (.param .b32 r) vprintf (.param .b64 a);"
		     ".func h() { call.uni (r), vprintf, (a); }",
		"");
}

TEST(double_names, "names that are defined twice")
{
#define X(linkage, value) HEAD linkage " .global .u32 x = " value ";\n"
	TWICE(X(".visible", "1") X(".visible", "2"), "x");
	TWICE(HEAD ".global .u32 x; .global .u32 x;", "x");
	TWICE(HEAD ".func g() { ret; } .func g() { ret; }", "g");
	TWICE(HEAD ".visible .entry e() { ret; }" HEAD ".visible .func e() { ret; }", "e");
	TWICE(X("", "1") X("", "2") X(".visible", "3") X("", "4"), "");
	TWICE(X(".weak", "1") X(".weak", "2"), "");
	TWICE(X(".weak", "1") X(".visible", "2") X(".weak", "3"), "");
	CU_ASSERT_EQUAL(written(X(".weak", "1") X(".visible", "2") X(".weak", "3")
					WRITES_X("global")),
			2);
	CU_ASSERT_EQUAL(written(X(".weak", "1") X(".weak", "2") WRITES_X("global")), 1);
}

SUITE_MAIN("ptx_text")
