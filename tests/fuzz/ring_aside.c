/* SPDX-License-Identifier: MIT */
/* The calls of the worker that reach the kernel or other threads, which the linker leads here
 * (--wrap): the clock, futexes, and the compiler's thread. */
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>

#include "fuzz.h"
#include "ring_model.h"

/* Each look at the clock takes this long, so that whoever waits for it comes to an end. */
#define LOOK_NS 5000

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
int __real_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *data);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *data);
int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result);
int __real_sem_wait(sem_t *s);
int __wrap_sem_wait(sem_t *s);

static bool is_on;
static vgpu_nsec now;
static void *(*compiler)(void *);
static void *compiler_data;
static bool compiles;  /* the compiler's thread has the CPU */
static uint32_t begun; /* how often it had something to do */
static jmp_buf sleeps;

void aside_begin(void)
{
	now = VGPU_SEC;
	compiler = NULL;
	is_on = true;
}

void aside_end(void)
{
	HOLDS(!compiler);
	is_on = false;
}

void aside_later(vgpu_nsec by)
{
	now += by;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
	if (!is_on)
		return __real_clock_gettime(id, t);
	now += LOOK_NS;
	*t = (struct timespec){(time_t)(now / VGPU_SEC), (long)(now % VGPU_SEC)};
	on_moment(false);
	return 0;
}

/* A futex on which nobody waits needs no waking. */
long __wrap_syscall(long number, ...)
{
	long a[6];
	va_list list;
	int i;

	va_start(list, number);
	for (i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (!is_on || number != SYS_futex)
		return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if ((a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT)
		on_moment(true);
	return 0;
}

/* There is one thread beside the ring's. */
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *data)
{
	if (!is_on)
		return __real_pthread_create(out, attributes, run, data);
	HOLDS(!compiler);
	compiler = run;
	compiler_data = data;
	*out = pthread_self();
	return 0;
}

bool aside_compile(void)
{
	const uint32_t before = begun;

	if (!compiler || compiles)
		return false;
	compiles = true;
	if (setjmp(sleeps) == 0) {
		compiler(compiler_data);
		compiler = NULL;
	}
	compiles = false;
	return begun != before;
}

/* The compiler's thread begins anew, where it waits, when it has something to do again. */
int __wrap_sem_wait(sem_t *s)
{
	if (!is_on)
		return __real_sem_wait(s);
	while (sem_trywait(s) < 0) {
		if (compiles)
			longjmp(sleeps, 1);
		HOLDS(aside_compile());
	}
	begun += compiles;
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
	if (!is_on)
		return __real_pthread_join(thread, result);
	aside_compile();
	return 0;
}
