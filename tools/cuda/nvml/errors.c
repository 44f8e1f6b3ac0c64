/* SPDX-License-Identifier: MIT */
#include "calls.h"

const char *nvmlErrorString(nvmlReturn_t code)
{
	switch (code) {
#define ROW(code, name, text)                                                                      \
	case name:                                                                                 \
		return text;
		NVML_ERRORS(ROW)
#undef ROW
	default:
		return "an error that this library does not return";
	}
}
