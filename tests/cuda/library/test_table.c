/* SPDX-License-Identifier: MIT */
/*
 * The library's table of entries against NVIDIA's: cudaTypedefs.h of a CUDA toolkit, which has a
 * line for each signature of each call, and cuda.h. Without a toolkit the test is skipped.
 */
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

/* the texts of cudaTypedefs.h, cudaProfilerTypedefs.h and cuda.h */
static char *header, *profiler, *errors;

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
	at = at ? at : strstr(profiler, type);
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
TEST(signatures, "each row is one of NVIDIA's signatures")
{
	const char *at;
	size_t i;

	for (i = 0; i < ROWS; i++) {
		at = find(rows[i].name, rows[i].since);
		if (!at && strcmp(rows[i].name, rows[i].symbol) != 0)
			at = find_other(rows[i].symbol);
		if (!at || arguments(at) != arguments(rows[i].signature)) {
			printf("%s, %s of version %d: %s\n", rows[i].symbol, rows[i].name,
			       rows[i].since, at ? "other arguments" : "no such signature");
			CU_FAIL("a row is not as NVIDIA's");
		}
	}
}

/* A program that asks for a version gets the newest signature up to it. So the library has no
 * signature that a newer one of NVIDIA's, of a version that it shows, should hide. */
TEST(versions, "no newer signature is missing")
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

/* The number of the error NAME in cuda.h; -1: it has none. */
static int code_of(const char *name)
{
	const char *at = errors;
	int code;

	for (; (at = strstr(at, name)); at++)
		if (sscanf(at + strlen(name), " = %d", &code) == 1)
			return code;
	return -1;
}

TEST(error_codes, "each error has NVIDIA's number")
{
	static const struct {
		int code;
		const char *name;
	} known[] = {
#define ERROR_ROW(code, name, text) {code, #name},
		CUDA_ERRORS(ERROR_ROW)
#undef ERROR_ROW
	};
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (code_of(known[i].name) != known[i].code) {
			printf("%s\n", known[i].name);
			CU_FAIL("an error has another number");
		}
}

/* The text of the header NAME; NULL: there is none. */
static char *read_header(const char *name)
{
	static const char *const places[] = {"/usr/local/cuda/include", "/usr/include"};
	const size_t room = 4 << 20;
	char path[64], *text;
	FILE *f = NULL;
	size_t i;

	for (i = 0; i < sizeof(places) / sizeof(places[0]) && !f; i++) {
		snprintf(path, sizeof(path), "%s/%s", places[i], name);
		f = fopen(path, "r");
	}
	if (!f)
		return NULL;
	text = calloc(1, room);
	if (text && fread(text, 1, room - 1, f) < 1000) {
		free(text);
		text = NULL;
	}
	fclose(f);
	return text;
}

int main(int argc, char **argv)
{
	int r = 77;

	header = read_header("cudaTypedefs.h");
	profiler = read_header("cudaProfilerTypedefs.h");
	errors = read_header("cuda.h");
	if (header && profiler && errors)
		r = suite_main("cuda_table", NULL, argc, argv);
	else
		puts("skipped: NVIDIA's CUDA toolkit is not installed");
	free(header);
	free(profiler);
	free(errors);
	return r;
}
