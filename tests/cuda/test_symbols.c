/* SPDX-License-Identifier: MIT */
/* What the library exports, for programs that are linked to it. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "entries.h"
#include "suite.h"

static const struct {
	const char *symbol, *signature;
} rows[] = {
#define ROW(symbol, name, since, signature) {#symbol, #signature},
	CUDA_ENTRIES(ROW)
#undef ROW
};

static void *library;

static void all(void)
{
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CU_ASSERT_PTR_NOT_NULL(dlsym(library, rows[i].symbol));
}

/* The ending of SYMBOL's other name, for a default stream of each thread, as cuda.h has it: calls
 * that take a stream, and copies and sets that take none. NULL: it has none. */
static const char *ending(const char *symbol, const char *signature)
{
	if (strcmp(symbol, "cuStreamDestroy_v2") == 0)
		return NULL;
	if (strstr(signature, "CUstream s") || strcmp(symbol, "cuLaunchKernelEx") == 0)
		return "_ptsz";
	if (strncmp(symbol, "cuMemcpy", 8) == 0 || strncmp(symbol, "cuMemset", 8) == 0)
		return "_ptds";
	return NULL;
}

static void per_thread(void)
{
	const char *end;
	char name[80];
	uint32_t n = 0;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		end = ending(rows[i].symbol, rows[i].signature);
		if (!end)
			continue;
		snprintf(name, sizeof(name), "%s%s", rows[i].symbol, end);
		n++;
		if (dlsym(library, name) != dlsym(library, rows[i].symbol)) {
			puts(name);
			CU_FAIL("there is no such symbol");
		}
	}
	CU_ASSERT(n > 40);
}

static const struct test tests[] = {
	{"each entry is a symbol", all},
	{"there are symbols for a default stream of each thread", per_thread},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	const struct test *const tables[] = {tests, NULL};

	library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		puts(dlerror());
		return 1;
	}
	return suite_main("cuda_symbols", tables, argc, argv);
}
