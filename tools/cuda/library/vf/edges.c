/* SPDX-License-Identifier: MIT */
/*
 * The parts of pages at the ends of registered memory. Such a page also has bytes that are not
 * registered, so it stays where it is, and its registered bytes have a copy in the window. What one
 * side has changed since the last comparison is written to the other side: before a packet is put,
 * after a call has waited, and, while packets run, periodically by a thread, so that a GPU kernel
 * and the program can wait for each other. This file has its own lock, because a call that waits
 * holds the library's.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "cuda_vf.h"
#include "vfio/thread.h"

#define PAGE 4096u
#define WORD sizeof(uint64_t)
#define HALF sizeof(uint32_t)
/* How long the thread sleeps between two comparisons, ns: after a change, and at most. */
#define LOOK_LEAST 50000
#define LOOK_MOST 1000000

/* BASE: the bytes that both sides had after the last comparison. */
struct edge {
	uint8_t *at, *window, *base;
	uint32_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct edge *edges;
static size_t room;
static _Atomic size_t n_edges;
static _Atomic bool working; /* packets run */
static sem_t wanted;
static bool looks; /* the thread was started */

/* Returns whether the program still has all of the edge mapped. */
static bool is_there(const struct edge *e)
{
	const uintptr_t begin = (uintptr_t)e->at / PAGE * PAGE, end = (uintptr_t)e->at + e->bytes;

	return msync((void *)begin, end - begin, MS_ASYNC) == 0;
}

static uint64_t load(const uint8_t *p, size_t n)
{
	return n == WORD   ? __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE)
	       : n == HALF ? __atomic_load_n((const uint32_t *)p, __ATOMIC_ACQUIRE)
			   : __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static void store(uint8_t *p, uint64_t value, size_t n)
{
	if (n == WORD)
		__atomic_store_n((uint64_t *)p, value, __ATOMIC_RELEASE);
	else if (n == HALF)
		__atomic_store_n((uint32_t *)p, (uint32_t)value, __ATOMIC_RELEASE);
	else
		__atomic_store_n(p, (uint8_t)value, __ATOMIC_RELEASE);
}

/* Merges byte I. If both sides have changed it, the GPU's change wins. */
static void meet_byte(const struct edge *e, uint32_t i)
{
	const uint64_t own = load(e->at + i, 1), gpus = load(e->window + i, 1);

	if (gpus != e->base[i])
		store(e->at + i, gpus, 1);
	else if (own != e->base[i])
		store(e->window + i, own, 1);
	e->base[i] = (uint8_t)(gpus != e->base[i] ? gpus : own);
}

/*
 * If only one side has changed the N bytes, writes them to the other side as one value. Bytes that
 * neither side has changed must not be written, because a side may be writing them now: so this
 * returns false, and writes nothing, if both sides have changed the N bytes, or if only one half of
 * a word has changed. The caller then tries smaller parts.
 */
static bool meet_value(const struct edge *e, uint32_t i, size_t n)
{
	const uint64_t own = load(e->at + i, n), gpus = load(e->window + i, n);
	const uint64_t half = UINT32_MAX;
	uint64_t base = 0, changed, value;
	bool by_gpu;

	memcpy(&base, e->base + i, n);
	if (own == base && gpus == base)
		return true;
	if (own != base && gpus != base)
		return false;
	by_gpu = gpus != base;
	value = by_gpu ? gpus : own;
	changed = value ^ base;
	if (n == WORD && (!(changed & half) || !(changed >> 32)))
		return false;
	store(by_gpu ? e->at + i : e->window + i, value, n);
	memcpy(e->base + i, &value, n);
	return true;
}

static void meet_half(const struct edge *e, uint32_t i)
{
	uint32_t k;

	if (!meet_value(e, i, HALF))
		for (k = 0; k < HALF; k++)
			meet_byte(e, i + k);
}

static void meet_word(const struct edge *e, uint32_t i)
{
	if (meet_value(e, i, WORD))
		return;
	meet_half(e, i);
	meet_half(e, i + HALF);
}

/* Merges the edge. Returns whether anything had changed. */
static bool meet(const struct edge *e)
{
	uint32_t i = 0;

	if (memcmp(e->at, e->base, e->bytes) == 0 && memcmp(e->window, e->base, e->bytes) == 0)
		return false;
	while (i < e->bytes)
		if (((uintptr_t)e->at + i) % WORD == 0 && e->bytes - i >= WORD) {
			meet_word(e, i);
			i += WORD;
		} else if (((uintptr_t)e->at + i) % HALF == 0 && e->bytes - i >= HALF) {
			meet_half(e, i);
			i += HALF;
		} else {
			meet_byte(e, i++);
		}
	return true;
}

/* Takes the lock, with all signals blocked, because a handler could call fork(). */
static void begin_change(sigset_t *before)
{
	sigset_t every;

	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, before);
	pthread_mutex_lock(&lock);
}

static void end_change(const sigset_t *before)
{
	pthread_mutex_unlock(&lock);
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

static bool meet_all(void)
{
	bool changed = false;
	sigset_t before;
	size_t i;

	begin_change(&before);
	for (i = 0; i < n_edges; i++)
		if (is_there(&edges[i]))
			changed |= meet(&edges[i]);
	end_change(&before);
	return changed;
}

static void *look(void *)
{
	struct timespec pause = {0, LOOK_LEAST};

	for (;;) {
		while (sem_wait(&wanted) < 0 && errno == EINTR)
			;
		pause.tv_nsec = LOOK_LEAST;
		while (working && n_edges > 0) {
			nanosleep(&pause, NULL);
			if (working && meet_all())
				pause.tv_nsec = LOOK_LEAST;
			else if (pause.tv_nsec < LOOK_MOST)
				pause.tv_nsec *= 2;
		}
	}
	return NULL;
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

/* Called in the child of fork(), which has private memory and no thread. */
static void in_child(void)
{
	n_edges = 0;
	pthread_mutex_unlock(&lock);
}

static bool begin(void)
{
	pthread_t thread;

	if (!looks)
		looks = sem_init(&wanted, 0, 0) == 0 &&
			pthread_atfork(before_fork, in_parent, in_child) == 0 &&
			vfio_thread_create(&thread, "vgpu-cuda-edges", SCHED_OTHER, 0, look,
					   NULL) == 0;
	return looks;
}

bool edges_add(uint8_t *at, uint8_t *window, uint32_t bytes)
{
	struct edge e = {at, window, malloc(bytes), bytes};
	struct edge *more;
	bool ok = e.base && begin();
	sigset_t before;

	begin_change(&before);
	if (ok && n_edges == room) {
		more = realloc(edges, (2 * room + 16) * sizeof(*edges));
		ok = more;
		edges = ok ? more : edges;
		room = ok ? 2 * room + 16 : room;
	}
	if (ok) {
		memcpy(e.base, at, bytes);
		memcpy(window, e.base, bytes);
		edges[n_edges++] = e;
	}
	end_change(&before);
	if (!ok)
		free(e.base);
	return ok;
}

void edges_remove(const uint8_t *at, uint64_t bytes)
{
	sigset_t before;
	size_t i = 0;

	begin_change(&before);
	while (i < n_edges)
		if (edges[i].at >= at && edges[i].at < at + bytes) {
			free(edges[i].base);
			edges[i] = edges[--n_edges];
		} else {
			i++;
		}
	end_change(&before);
}

void edges_end(void)
{
	sigset_t before;

	begin_change(&before);
	working = false;
	while (n_edges > 0)
		free(edges[--n_edges].base);
	end_change(&before);
}

void edges_put(void)
{
	if (n_edges == 0)
		return;
	meet_all();
	if (!atomic_exchange(&working, true))
		sem_post(&wanted);
}

void edges_done(bool all)
{
	if (n_edges == 0)
		return;
	meet_all();
	if (all)
		working = false;
}
