/* SPDX-License-Identifier: MIT */
/*
 * The library's table of entries against NVIDIA's: cudaTypedefs.h of a CUDA toolkit, which has a
 * line for each signature of each call. Without a toolkit the test is skipped.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entries.h"
#include "suite.h"

static const struct {
	const char *symbol, *name, *signature;
	int since;
} rows[] = {
#define ROW(symbol, name, since, signature) {#symbol, name, #signature, since},
	CUDA_ENTRIES(ROW)
#undef ROW
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static char *header; /* the file's text */

/* The number of arguments in TEXT, which begins with (. Commas inside of a further pair are those
 * of a function's type. */
static int arguments(const char *text)
{
	int depth = 0, n = 1;

	if (strncmp(text, "(void)", 6) == 0)
		return 0;
	for (; *text; text++) {
		depth += *text == '(';
		depth -= *text == ')';
		n += *text == ',' && depth == 1;
		if (depth == 0)
			break;
	}
	return n;
}

/* The arguments of NAME's signature as of VERSION in the header; NULL: there is none. */
static const char *find(const char *name, int version)
{
	char type[160];
	const char *at;

	snprintf(type, sizeof(type), "PFN_%s_v%d)(", name, version);
	at = strstr(header, type);
	return at ? at + strlen(type) - 1 : NULL;
}

/* A name that cuda.h defines as another call, of the row's symbol, has no line of its own. */
static const char *find_other(const char *symbol)
{
	char type[160];
	const char *at;

	snprintf(type, sizeof(type), "PFN_%s_v", symbol);
	at = strstr(header, type);
	return at ? strchr(at, '(') : NULL;
}

/* Each row's name has a signature as of that version, with as many arguments. */
static void signatures(void)
{
	const char *at;
	size_t i;

	for (i = 0; i < ROWS; i++) {
		at = find(rows[i].name, rows[i].since);
		at = at ? at : find_other(rows[i].symbol);
		if (!at || arguments(at) != arguments(rows[i].signature)) {
			printf("%s, %s of version %d: %s\n", rows[i].symbol, rows[i].name,
			       rows[i].since, at ? "other arguments" : "no such signature");
			CU_FAIL("a row is not as NVIDIA's");
		}
	}
}

/* A program that asks for a version gets the newest signature up to it. So the library has no
 * signature that a newer one of NVIDIA's, of a version that it shows, should hide. */
static void versions(void)
{
	char start[128];
	const char *at;
	size_t i, k;
	int version;
	char *end;

	for (i = 0; i < ROWS; i++) {
		snprintf(start, sizeof(start), "PFN_%s_v", rows[i].name);
		for (at = strstr(header, start); at; at = strstr(at + 1, start)) {
			version = (int)strtol(at + strlen(start), &end, 10);
			if (*end != ')') /* of a default stream of each thread */
				continue;
			if (version <= rows[i].since || version > CUDA_SHOWN)
				continue;
			for (k = 0; k < ROWS; k++)
				if (strcmp(rows[k].name, rows[i].name) == 0 &&
				    rows[k].since == version)
					break;
			if (k == ROWS) {
				printf("%s: version %d is not in the table\n", rows[i].name,
				       version);
				CU_FAIL("a newer signature is missing");
			}
		}
	}
}

static bool read_header(void)
{
	static char places[][64] = {"/usr/local/cuda/include/cudaTypedefs.h",
				    "/usr/include/cudaTypedefs.h"};
	FILE *f = NULL;
	size_t i, n;

	for (i = 0; i < sizeof(places) / sizeof(places[0]) && !f; i++)
		f = fopen(places[i], "r");
	if (!f)
		return false;
	header = calloc(1, 1 << 20);
	n = header ? fread(header, 1, (1 << 20) - 1, f) : 0;
	fclose(f);
	return n > 1000;
}

static const struct test tests[] = {
	{"each row is one of NVIDIA's signatures", signatures},
	{"no newer signature is missing", versions},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	const struct test *const tables[] = {tests, NULL};
	int r;

	if (!read_header()) {
		puts("skipped: no cudaTypedefs.h, of NVIDIA's CUDA toolkit, is installed");
		return 77;
	}
	r = suite_main("cuda_table", tables, argc, argv);
	free(header);
	return r;
}
