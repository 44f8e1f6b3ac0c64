/* SPDX-License-Identifier: MIT */
#pragma once

#include "cuda_vf.h"

/* call.c */

/* Settings of a context that are stored and have no effect: the preference for cache or shared
 * memory, and the width of banks. */
enum setting { SETTING_CACHE, SETTING_BANKS, SETTINGS };

struct context {
	void *handle; /* NULL: the primary one, which is not active */
	bool primary;
	uint64_t number;
	uint32_t retained; /* the primary one: how often */
	uint32_t attached; /* calls of cuCtxAttach() without a cuCtxDetach() */
	unsigned flags;
	int settings[SETTINGS];
};

/* What a call needs. NEEDS_OWNER: a call about something that was made in a context, whose handle
 * or address says which. That context need not be current; no context need be (docs/cuda.md,
 * "Contexts"). */
enum needs { NEEDS_DEVICE, NEEDS_OWNER, NEEDS_CONTEXT };

/* The state of the library: CALLS_UP: it has a VF. start.c changes it. */
extern enum call_state { CALLS_DOWN = 0, CALLS_UP, CALLS_FORKED, CALLS_ENDED } call_state;
/* Returns the error of calls in a state other than CALLS_UP. */
CUresult call_refusal(void);
/* Takes the lock. CUDA_SUCCESS, or why the call cannot go on. *CONTEXT, which may be NULL: the
 * calling thread's current context. */
CUresult call_begin(enum needs needs, struct context **context);
/* The calling thread's current context, or NULL; called with the lock. */
struct context *call_current(void);
/* Gives the lock back, and logs E if it is an error. Returns E. */
CUresult call_end(const char *name, CUresult e);
#define CALL_END(e) call_end(__func__, e)
/* A function to run at the end of the call, without the lock. */
struct call_later {
	void (*run)(struct call_later *later);
	struct call_later *next;
};
void call_later(struct call_later *later);
/* The first version of FUNCTION, which is in the same file and has the same signature. */
#define CALL_FIRST(first, function)                                                                \
	extern __typeof__(function) first __attribute__((alias(#function)))
/* The handle of the context that context.c has made the calling thread's; NULL: none. It has a
 * place in each thread from the start, so that a call reads it without a call of the loader. Then
 * all that the library has for each thread needs one, and glibc has some 1700 bytes for all
 * libraries that a program loads later: what is larger than a pointer must be elsewhere. */
extern __thread void *call_context __attribute__((tls_model("initial-exec")));

/* Returns OWNER if it is a context; else NULL. */
const struct context *context_of(const void *owner);
