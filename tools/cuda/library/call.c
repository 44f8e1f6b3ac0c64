/* SPDX-License-Identifier: MIT */
#include "cuda_call.h"

enum call_state call_state;
/* The error that calls return in each state of the library. */
static const CUresult reasons[] = {
	[CALLS_DOWN] = CUDA_ERROR_NOT_INITIALIZED,
	[CALLS_FORKED] = CUDA_ERROR_NOT_INITIALIZED,
	[CALLS_ENDED] = CUDA_ERROR_DEINITIALIZED,
};

CUresult call_refusal(void)
{
	return reasons[call_state];
}

__thread void *call_context __attribute__((tls_model("initial-exec")));

const struct context *context_of(const void *owner)
{
	const struct context *c;
	uint32_t i;

	for (i = 0; (c = handle_next(HANDLE_CONTEXT, &i));)
		if (c == owner)
			return c;
	return NULL;
}

struct context *call_current(void)
{
	return handle_find(HANDLE_CONTEXT, call_context);
}

CUresult call_begin(enum needs needs, struct context **context)
{
	struct context *current;

	lock_take();
	if (call_state != CALLS_UP)
		return call_refusal();
	if (needs == NEEDS_DEVICE)
		return CUDA_SUCCESS;
	if (needs == NEEDS_OWNER)
		return link_lost();
	current = call_current();
	if (!current)
		return call_context ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
	if (context)
		*context = current;
	return link_lost();
}

static struct call_later *all_later;

void call_later(struct call_later *later)
{
	later->next = all_later;
	all_later = later;
}

CUresult call_end(const char *name, CUresult e)
{
	struct call_later *later = all_later, *next;
	const char *code = NULL;

	all_later = NULL;
	lock_give();
	output_write();
	for (; later; later = next) {
		next = later->next;
		later->run(later);
	}
	if (e != CUDA_SUCCESS && e != CUDA_ERROR_NOT_READY) {
		cuGetErrorName(e, &code);
		log_line("%s: %s", name, code ? code : "?");
	}
	return e;
}
