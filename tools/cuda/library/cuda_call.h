/* SPDX-License-Identifier: MIT */
#pragma once

#include "cuda_vf.h"

/* call.c */

/* Settings of a context that are stored and have no effect: the preference for cache or shared
 * memory, and the width of shared memory's banks. */
enum setting { SETTING_CACHE, SETTING_BANKS, SETTINGS };

struct context {
	void *handle; /* NULL: the primary context, which is not active */
	bool primary;
	uint64_t number;
	uint32_t retained; /* primary context: number of cuDevicePrimaryCtxRetain() without a
			    * release */
	uint32_t attached; /* number of cuCtxAttach() without a cuCtxDetach() */
	unsigned flags;
	int settings[SETTINGS];
};

/* What a call needs. NEEDS_OWNER: the call is about an object that was made in a context, which the
 * object's handle or address determines. No context need be current (docs/cuda.md, "Contexts"). */
enum needs { NEEDS_DEVICE, NEEDS_OWNER, NEEDS_CONTEXT };

/* The state of the library, which only start.c changes. CALLS_UP: the library has a VF. */
extern enum call_state { CALLS_DOWN = 0, CALLS_UP, CALLS_FORKED, CALLS_ENDED } call_state;
/* Returns the error of calls in a state other than CALLS_UP. */
CUresult call_refusal(void);
/* Takes the lock. With NEEDS_CONTEXT, sets *CONTEXT to the calling thread's current context;
 * CONTEXT may be NULL. Returns CUDA_SUCCESS, or the error with which the call must end; the lock is
 * held either way. */
CUresult call_begin(enum needs needs, struct context **context);
/* Returns the calling thread's current context, or NULL. Called with the lock. */
struct context *call_current(void);
/* Releases the lock, and logs E if it is an error. Returns E. */
CUresult call_end(const char *name, CUresult e);
#define CALL_END(e) call_end(__func__, e)
/* Lets RUN be called at the end of the current call, without the lock. */
struct call_later {
	void (*run)(struct call_later *later);
	struct call_later *next;
};
void call_later(struct call_later *later);
/* Defines FIRST, the first version of FUNCTION, which is in the same file and has the same
 * signature. */
#define CALL_FIRST(first, function)                                                                \
	extern __typeof__(function) first __attribute__((alias(#function)))
/* The handle of the calling thread's current context, which context.c sets; NULL: none. It lies in
 * static TLS (initial-exec), so that reading it needs no call of the loader. Then all of the
 * library's thread-local data does. glibc has some 1700 bytes of static TLS for all libraries that
 * a program loads later, so nothing larger than a pointer may be thread-local. */
extern __thread void *call_context __attribute__((tls_model("initial-exec")));

/* Returns OWNER if it is a context; else NULL. */
const struct context *context_of(const void *owner);
