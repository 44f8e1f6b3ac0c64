/* SPDX-License-Identifier: MIT */
/* What programs of processes.h check: each returns 0, or says what is wrong and returns something
 * else. */
#pragma once

#include <stdio.h>

#include "entries.h"

#define TRY(x)                                                                                     \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			printf("line %d: %s\n", __LINE__, #x);                                     \
			return 2;                                                                  \
		}                                                                                  \
	} while (0)
#define IS(call, wanted)                                                                           \
	do {                                                                                       \
		CUresult is_ = (call);                                                             \
		if (is_ != (wanted)) {                                                             \
			printf("line %d: %s: %d\n", __LINE__, #call, is_);                         \
			return 3;                                                                  \
		}                                                                                  \
	} while (0)
#define OK(call) IS(call, CUDA_SUCCESS)

/* Brings the VF up, and makes its primary context current. */
static int begin(void)
{
	CUcontext context;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	return 0;
}
