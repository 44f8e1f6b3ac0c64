/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "cuda_absent.h"
#include "cuda_base.h"

static const struct {
	const char *name;
	int since;
	void *function;
} entries[] = {
#define ROW(symbol, name, since, signature) {name, since, (void *)(uintptr_t)symbol},
	CUDA_ENTRIES(ROW)
#undef ROW
};

static const char *const absent[] = {
#define ROW(name) #name,
	CUDA_ABSENT(ROW)
#undef ROW
};

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

/* Defines the functions of absent calls, which read none of their arguments. */
#define DEFINE(name)                                                                               \
	__attribute__((visibility("default"))) CUresult name(void);                                \
	CUresult name(void)                                                                        \
	{                                                                                          \
		return log_absent(#name);                                                          \
	}
CUDA_ABSENT(DEFINE)

CUresult cuGetExportTable(const void **, const void *)
{
	log_line(
		"cuGetExportTable: NVIDIA's runtime library (cudart) asks for tables that NVIDIA's "
		"driver alone has: a program that was linked with it does not run with this "
		"library");
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* CUdriverProcAddressQueryResult */
enum { QUERY_FOUND = 0, QUERY_NOT_FOUND, QUERY_TOO_OLD };

/* Finds the newest signature of NAME that VERSION knows. All streams have one order, so entries for
 * a default stream of each thread (a flag) are the same. */
static int find(const char *name, int version, void **entry)
{
	int result = QUERY_NOT_FOUND, newest = 0;
	size_t i;

	*entry = NULL;
	for (i = 0; i < ROWS(entries); i++) {
		if (strcmp(entries[i].name, name) != 0)
			continue;
		if (result == QUERY_NOT_FOUND)
			result = QUERY_TOO_OLD;
		if (entries[i].since > version || entries[i].since < newest)
			continue;
		result = QUERY_FOUND;
		newest = entries[i].since;
		*entry = entries[i].function;
	}
	for (i = 0; result == QUERY_NOT_FOUND && i < ROWS(absent); i++)
		if (strcmp(absent[i], name) == 0)
			break;
	if (result == QUERY_TOO_OLD)
		log_lookup("cuGetProcAddress: %s is supported only for versions later than %d",
			   name, version);
	else if (result == QUERY_NOT_FOUND)
		log_lookup("cuGetProcAddress: %s %s", name,
			   i < ROWS(absent) ? "is not supported by this library" : "is unknown");
	return result;
}

/* An unknown name is not an error: *STATUS says so, and *ENTRY becomes NULL. */
CUresult cuGetProcAddress_v2(const char *name, void **entry, int version, uint64_t flags,
			     int *status)
{
	int result;

	if (!name || !entry || flags > 2)
		return CUDA_ERROR_INVALID_VALUE;
	result = find(name, version, entry);
	if (status)
		*status = result;
	return CUDA_SUCCESS;
}

/* The call of CUDA 11, which has no status, so that an unknown name is an error. */
CUresult cuGetProcAddress(const char *name, void **entry, int version, uint64_t flags)
{
	CUresult e = cuGetProcAddress_v2(name, entry, version, flags, NULL);

	return e == CUDA_SUCCESS && !*entry ? CUDA_ERROR_NOT_FOUND : e;
}
