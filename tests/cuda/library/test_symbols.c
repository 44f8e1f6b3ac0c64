/* SPDX-License-Identifier: MIT */
/* What the library exports, for programs that are linked to it, and what its cuGetProcAddress
 * answers to those that ask for entries. */
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_absent.h"
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

static const char *const absent[] = {
#define ROW(name) #name,
	CUDA_ABSENT(ROW)
#undef ROW
};

/* CUdriverProcAddressQueryResult */
enum { FOUND, UNKNOWN, TOO_OLD };

static void *library;
static CUresult (*get_first)(const char *, void **, int, uint64_t);
static CUresult (*get)(const char *, void **, int, uint64_t, int *);

TEST(all, "each entry is a symbol")
{
	size_t i;

	for (i = 0; i < ROWS; i++)
		CU_ASSERT_PTR_NOT_NULL(dlsym(library, rows[i].symbol));
}

/* The ending of SYMBOL's other name, for a default stream of each thread, as cuda.h has it: calls
 * that take a stream, and copies and sets that take none. NULL: it has none. */
static const char *ending(const char *symbol, const char *signature)
{
	if (strncmp(symbol, "cuStreamDestroy", 15) == 0)
		return NULL;
	if (strcmp(symbol, "cuLaunchGridAsync") == 0)
		return NULL;
	if (strstr(signature, "CUstream s") || strcmp(symbol, "cuLaunchKernelEx") == 0)
		return "_ptsz";
	if (strncmp(symbol, "cuMemcpy", 8) == 0 || strncmp(symbol, "cuMemset", 8) == 0)
		return "_ptds";
	return NULL;
}

TEST(per_thread, "there are symbols for a default stream of each thread")
{
	const char *end;
	char name[80];
	uint32_t n = 0;
	size_t i;

	for (i = 0; i < ROWS; i++) {
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

/* The answer to NAME and VERSION by the table: a status, and the symbol of the newest signature
 * that VERSION knows. */
static int wanted(const char *name, int version, const char **symbol)
{
	int status = UNKNOWN, newest = -1;
	size_t i;

	*symbol = NULL;
	for (i = 0; i < ROWS; i++) {
		if (strcmp(rows[i].name, name) != 0)
			continue;
		if (status == UNKNOWN)
			status = TOO_OLD;
		if (rows[i].since <= version && rows[i].since > newest) {
			status = FOUND;
			newest = rows[i].since;
			*symbol = rows[i].symbol;
		}
	}
	return status;
}

/* Whether both calls answer to NAME, VERSION and FLAGS with STATUS and ENTRY: the first one by an
 * error, the newer one by its status, with which it succeeds. */
static bool answers(const char *name, int version, uint64_t flags, int status, const void *entry)
{
	const CUresult first = status == FOUND ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
	void *got[] = {&library, &library, &library};
	int told = -1;

	return get(name, &got[0], version, flags, &told) == CUDA_SUCCESS && told == status &&
	       got[0] == entry && get(name, &got[1], version, flags, NULL) == CUDA_SUCCESS &&
	       got[1] == entry && get_first(name, &got[2], version, flags) == first &&
	       got[2] == entry;
}

/* With VERSION, each name of the table leads to the symbol that it should. */
static bool whole_table(int version)
{
	const char *symbol;
	uint64_t flags;
	void *entry;
	int status;
	size_t i;

	for (i = 0; i < ROWS; i++) {
		status = wanted(rows[i].name, version, &symbol);
		entry = symbol ? dlsym(library, symbol) : NULL;
		for (flags = 0; flags <= 2; flags++)
			if ((status == FOUND) != (entry != NULL) ||
			    !answers(rows[i].name, version, flags, status, entry)) {
				printf("%s, version %d, flags %d\n", rows[i].name, version,
				       (int)flags);
				return false;
			}
	}
	return true;
}

/* All versions at which an answer changes, and those beside them. */
TEST(versions, "each version is answered by the newest signature that it knows")
{
	static const int others[] = {INT_MIN, -1, 0, 2000, CUDA_SHOWN, CUDA_SHOWN + 1, INT_MAX};
	size_t i, k;
	int beside;

	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		CU_ASSERT(whole_table(others[i]));
	for (i = 0; i < ROWS; i++) {
		for (k = 0; rows[k].since != rows[i].since; k++)
			;
		for (beside = -1; beside <= 1 && k == i; beside++)
			CU_ASSERT(whole_table(rows[i].since + beside));
	}
}

/* What is no name in the table is unknown with every version: symbols that are only exported, those
 * with an ending, and text. */
static bool is_unknown(const char *name)
{
	static const int asked[] = {0, 2000, CUDA_SHOWN, INT_MAX};
	const char *symbol;
	uint64_t flags;
	size_t i;

	if (wanted(name, INT_MAX, &symbol) != UNKNOWN)
		return true;
	for (i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
		for (flags = 0; flags <= 2; flags++)
			if (!answers(name, asked[i], flags, UNKNOWN, NULL)) {
				printf("%s, version %d\n", name, asked[i]);
				return false;
			}
	return true;
}

TEST(unknown_names, "names that are none are not found")
{
	static const char *const texts[] = {"",	      " ",	 "cu",
					    "cuinit", "cuInit ", "cuNoSuchCall",
					    "malloc", "%s%n"};
	static const char *const endings[] = {"_v2", "_v3", "_ptsz", "_ptds", "x"};
	char name[96];
	size_t i, k;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		CU_ASSERT(is_unknown(texts[i]));
	for (i = 0; i < sizeof(absent) / sizeof(absent[0]); i++)
		CU_ASSERT(is_unknown(absent[i]));
	for (i = 0; i < ROWS; i++) {
		CU_ASSERT(is_unknown(rows[i].symbol));
		for (k = 0; k < sizeof(endings) / sizeof(endings[0]); k++) {
			snprintf(name, sizeof(name), "%s%s", rows[i].name, endings[k]);
			CU_ASSERT(is_unknown(name));
		}
		name[strlen(rows[i].name) - 1] = 0; /* without its last letter */
		CU_ASSERT(is_unknown(name));
	}
}

static bool is_symbol(const char *symbol)
{
	size_t i;

	for (i = 0; i < ROWS; i++)
		if (strcmp(rows[i].symbol, symbol) == 0)
			return true;
	return false;
}

/* Those that are left out, because their addresses on the device have 32 bits. */
static bool has_short_addresses(const char *symbol)
{
	static const char *const names[] = {"cuMemAlloc",
					    "cuMemAllocPitch",
					    "cuMemFree",
					    "cuMemGetAddressRange",
					    "cuMemHostGetDevicePointer",
					    "cuModuleGetGlobal",
					    "cuMemcpyHtoD",
					    "cuMemcpyDtoH",
					    "cuMemcpyDtoD",
					    "cuMemcpyHtoDAsync",
					    "cuMemcpyDtoHAsync",
					    "cuMemcpyDtoDAsync",
					    "cuMemcpy2D",
					    "cuMemcpy2DUnaligned",
					    "cuMemcpy2DAsync",
					    "cuMemcpy3D",
					    "cuMemcpy3DAsync",
					    "cuMemsetD8",
					    "cuMemsetD16",
					    "cuMemsetD32",
					    "cuMemsetD2D8",
					    "cuMemsetD2D16",
					    "cuMemsetD2D32"};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i], symbol) == 0)
			return true;
	return false;
}

/* A call of which a later version is carried is carried in each earlier one, too. */
TEST(earlier_versions, "of what is carried, each earlier version is there")
{
	char before[96];
	size_t i, n;

	for (i = 0; i < ROWS; i++) {
		n = strlen(rows[i].symbol);
		snprintf(before, sizeof(before), "%s", rows[i].symbol);
		if (n < 3 || strncmp(before + n - 3, "_v", 2) != 0)
			continue;
		if (before[n - 1] > '2')
			before[n - 1]--;
		else
			before[n - 3] = 0;
		if (is_symbol(before) == has_short_addresses(before)) {
			puts(before);
			CU_FAIL("an earlier version is missing, or is there and told as left out");
		}
	}
}

TEST(wrong_arguments, "wrong arguments are refused")
{
	static const uint64_t flags[] = {3, 4, UINT64_C(1) << 32, UINT64_MAX};
	void *entry = NULL;
	int status = -1;
	size_t i;

	for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		CU_ASSERT_EQUAL(get("cuInit", &entry, CUDA_SHOWN, flags[i], &status),
				CUDA_ERROR_INVALID_VALUE);
		CU_ASSERT_EQUAL(get_first("cuInit", &entry, CUDA_SHOWN, flags[i]),
				CUDA_ERROR_INVALID_VALUE);
	}
	CU_ASSERT_EQUAL(get(NULL, &entry, CUDA_SHOWN, 0, &status), CUDA_ERROR_INVALID_VALUE);
	CU_ASSERT_EQUAL(get("cuInit", NULL, CUDA_SHOWN, 0, &status), CUDA_ERROR_INVALID_VALUE);
	CU_ASSERT_EQUAL(get_first(NULL, &entry, CUDA_SHOWN, 0), CUDA_ERROR_INVALID_VALUE);
	CU_ASSERT_EQUAL(get_first("cuInit", NULL, CUDA_SHOWN, 0), CUDA_ERROR_INVALID_VALUE);
	CU_ASSERT(!entry && status == -1);
}

/* The lines that the library writes to standard error for three names, of which it has none, with
 * VGPU_CUDA_LOG at LEVEL. */
static int lines_of_three(const char *level)
{
	char text[4096] = "", *at = text;
	int kept = dup(STDERR_FILENO), file = memfd_create("log", 0), n = 0;
	void *entry;

	if (kept < 0 || file < 0)
		return -1;
	setenv("VGPU_CUDA_LOG", level, 1);
	dup2(file, STDERR_FILENO);
	get("cuNone", &entry, CUDA_SHOWN, 0, NULL);
	get("cuNobody", &entry, CUDA_SHOWN, 0, NULL);
	get(absent[0], &entry, CUDA_SHOWN, 0, NULL);
	dup2(kept, STDERR_FILENO);
	close(kept);
	unsetenv("VGPU_CUDA_LOG");
	if (pread(file, text, sizeof(text) - 1, 0) < 0)
		n = -1;
	close(file);
	for (; n >= 0 && (at = strchr(at, '\n')); at++)
		n++;
	return n;
}

/* NVIDIA's runtime looks up more than a hundred names before it does what the log should say. */
TEST(log_of_lookups, "names that are looked up in vain fill no log")
{
	CU_ASSERT_EQUAL(lines_of_three("0"), 0);
	CU_ASSERT_EQUAL(lines_of_three("1"), 2); /* the first name, and how to see all */
	CU_ASSERT_EQUAL(lines_of_three("1"), 0);
	CU_ASSERT_EQUAL(lines_of_three("2"), 3);
	CU_ASSERT_EQUAL(lines_of_three("3"), 0);
}

int main(int argc, char **argv)
{

	library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		puts(dlerror());
		return 1;
	}
	*(void **)&get_first = dlsym(library, "cuGetProcAddress");
	*(void **)&get = dlsym(library, "cuGetProcAddress_v2");
	return suite_main("cuda_symbols", NULL, argc, argv);
}
