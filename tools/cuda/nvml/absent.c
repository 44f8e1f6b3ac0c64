/* SPDX-License-Identifier: MIT */
#include "nvml_absent.h"
#include "library.h"

/* They read none of their arguments. */
#define DEFINE(name)                                                                               \
	__attribute__((visibility("default"))) nvmlReturn_t name(void);                            \
	nvmlReturn_t name(void)                                                                    \
	{                                                                                          \
		call_log("%s is not supported by this library", #name);                            \
		return NVML_ERROR_NOT_SUPPORTED;                                                   \
	}
NVML_ABSENT(DEFINE)
