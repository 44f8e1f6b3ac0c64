/* SPDX-License-Identifier: MIT */
#include "cuda_base.h"

static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
#define ROW(code, name, text) {code, #name, text},
	CUDA_ERRORS(ROW)
#undef ROW
};

#define ERRORS (sizeof(errors) / sizeof(errors[0]))

/* Returns the row of CODE; ERRORS if there is none. */
static size_t find_error(CUresult code)
{
	size_t i = 0;

	while (i < ERRORS && errors[i].code != code)
		i++;
	return i;
}

CUresult cuGetErrorName(CUresult code, const char **name)
{
	size_t i = find_error(code);

	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	*name = i < ERRORS ? errors[i].name : NULL;
	return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **text)
{
	size_t i = find_error(code);

	if (!text)
		return CUDA_ERROR_INVALID_VALUE;
	*text = i < ERRORS ? errors[i].text : NULL;
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
