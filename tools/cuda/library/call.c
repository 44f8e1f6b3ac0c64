/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "find.h"
#include "library.h"
#include "record.h"

#include "vgpu/clock.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum { STATE_DOWN = 0, STATE_UP, STATE_FORKED, STATE_ENDED } state;
/* Why a call cannot go on. */
static const CUresult reasons[] = {
	[STATE_DOWN] = CUDA_ERROR_NOT_INITIALIZED,
	[STATE_FORKED] = CUDA_ERROR_NOT_INITIALIZED,
	[STATE_ENDED] = CUDA_ERROR_DEINITIALIZED,
};
__thread void *call_context __attribute__((tls_model("initial-exec")));

/* VGPU_CUDA_LOG: 0 is nothing, 1 what a program's author must know, 2 also each name that the
 * program looks up in vain. */
static int log_level(void)
{
	const char *wanted = getenv("VGPU_CUDA_LOG");

	return wanted && wanted[0] >= '0' && wanted[0] <= '2' && !wanted[1] ? wanted[0] - '0' : 0;
}

__attribute__((format(printf, 1, 0))) static void write_line(const char *format, va_list list)
{
	char text[512];

	vsnprintf(text, sizeof(text), format, list);
	fprintf(stderr, "vgpu-cuda: %s\n", text);
}

void call_log(const char *format, ...)
{
	va_list list;

	if (log_level() < 1)
		return;
	va_start(list, format);
	write_line(format, list);
	va_end(list);
}

void call_log_lookup(const char *format, ...)
{
	static atomic_bool shown;
	const int level = log_level();
	va_list list;

	if (level < 1 || (level < 2 && atomic_exchange(&shown, true)))
		return;
	va_start(list, format);
	write_line(format, list);
	va_end(list);
	if (level < 2)
		call_log("VGPU_CUDA_LOG=2 shows each name that is looked up in vain");
}

void call_lock(void)
{
	pthread_mutex_lock(&lock);
}

void call_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* The child of fork() has no VF: CUDA does not carry over either. No other thread is left. */
static void in_child(void)
{
	pthread_mutex_init(&lock, NULL);
	flush_abandon();
	record_end();
	link_abandon();
	state = STATE_FORKED;
}

/* A process that ends without this has its VF reset, which its host counts. */
__attribute__((destructor)) static void stop(void)
{
	const struct timespec rest = {.tv_nsec = (long)VGPU_MSEC};
	vgpu_nsec until = vgpu_now() + VGPU_SEC;

	/* flush.c may have the lock for an instant. A thread that waits for the VF keeps it. */
	while (pthread_mutex_trylock(&lock) != 0) {
		if (vgpu_now() >= until)
			return;
		nanosleep(&rest, NULL);
	}
	if (state == STATE_UP)
		link_leave();
	record_end();
	state = STATE_ENDED;
	pthread_mutex_unlock(&lock);
	flush_end();
}

CUresult call_start(void)
{
	static bool forks; /* a child would keep locks of the VF */
	struct vgpu_error err = {""};
	char name[FIND_NAME_SIZE];
	CUresult e;

	if (state == STATE_UP)
		return link_lost();
	if (state != STATE_DOWN)
		return reasons[state];
	if (find_vf(name, &err) < 0) {
		call_log("%s", err.text);
		return CUDA_ERROR_NO_DEVICE;
	}
	/* Before the VF is opened: it has room for few programs. */
	if (!find_is_visible(name, getenv(FIND_VISIBLE))) {
		call_log(FIND_VISIBLE "=%s: this program sees no device", getenv(FIND_VISIBLE));
		return CUDA_ERROR_NO_DEVICE;
	}
	record_begin(name);
	if (!forks)
		forks = pthread_atfork(NULL, NULL, in_child) == 0;
	e = link_up(name, &err);
	if (e != CUDA_SUCCESS) {
		record_end();
		call_log("%s: %s", name, err.text);
		return e;
	}
	heap_reset(link_parts.memory_size);
	arena_reset();
	physical_reset();
	launch_reset();
	memory_is_unified(); /* before the program has other memory at the device's addresses */
	record_show(link_parts.memory_size, &link_about);
	flush_start();
	state = STATE_UP;
	return CUDA_SUCCESS;
}

struct context *call_current(void)
{
	return handle_find(HANDLE_CONTEXT, call_context);
}

CUresult call_begin(enum needs needs, struct context **context)
{
	struct context *current;

	call_lock();
	if (state != STATE_UP)
		return reasons[state];
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
	pthread_mutex_unlock(&lock);
	for (; later; later = next) {
		next = later->next;
		later->run(later);
	}
	if (e != CUDA_SUCCESS && e != CUDA_ERROR_NOT_READY) {
		cuGetErrorName(e, &code);
		call_log("%s: %s", name, code ? code : "?");
	}
	return e;
}
