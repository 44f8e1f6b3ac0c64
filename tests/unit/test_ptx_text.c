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
static void declarations(void)
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

static const struct test tests[] = {
	{"declarations that no compiler writes are refused", declarations},
	{NULL, NULL},
};

SUITE_MAIN("ptx_text", tests)
