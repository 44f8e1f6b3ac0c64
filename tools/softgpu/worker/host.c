/* SPDX-License-Identifier: MIT */
/*
 * The CPU as a device: one thread executes pieces in order, block by block, with the code that
 * kernels.ptx is made of. A signal stops the thread hard, at any instruction: it stays in the
 * signal's handler until the device is resumed. There is no compiler for modules.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "futex.h"
#include "protocol.h"
#include "vfio/thread.h"

#define STOP_SIGNAL SIGUSR1
#define STOP_TIMEOUT_S 10 /* a busy machine lets the thread wait for its CPU */

_Thread_local uint32_t kernel_block, kernel_thread;

#define DECLARE(number, name) void kernel_##name(struct kernel_args p);
#define POINTER(number, name) kernel_##name,
KERNEL_LIST(DECLARE)
static void (*const kernels[KERNELS])(struct kernel_args p) = {KERNEL_LIST(POINTER)};

struct slot {
	struct piece piece;
	_Atomic uint32_t state; /* enum device_state */
	uint64_t marks[4096];	/* a piece with more blocks has no gate */
};

struct device {
	uint8_t *window, *memory, *stage;
	uint64_t window_size, size;
	uint64_t scratch[8];
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	uint32_t queue[DEVICE_SLOTS], head, n;
	bool quit;
	_Atomic bool shut;
	struct slot slots[DEVICE_SLOTS];
};

/* There is one device in a process. The computing thread holds the lock ENGINE; the thread that
 * stops it takes the lock. While that thread waits, the computing thread runs at its priority, so
 * that a busy machine does not delay the stop (priority inheritance; futex(2), FUTEX_LOCK_PI). */
static _Atomic uint32_t engine, frozen;

/* UNTIL: when to give up, by CLOCK_REALTIME; NULL: never. Returns 0 or -errno. */
static int take_engine(const struct timespec *until)
{
	return futex(&engine, FUTEX_LOCK_PI, 0, until);
}

static void give_engine(void)
{
	futex(&engine, FUTEX_UNLOCK_PI, 0, NULL);
}

/* The handler of STOP_SIGNAL, on the computing thread. */
static void park(int)
{
	int saved = errno;

	give_engine();
	while (atomic_load(&frozen))
		futex(&frozen, FUTEX_WAIT, 1, NULL);
	take_engine(NULL);
	errno = saved;
}

/* The gate, as gate.c puts it before each block: returns whether the block runs now, and marks it
 * if so. *SKIPPED: the gate was shut. */
static bool enter_block(struct device *d, struct slot *s, uint32_t block, bool *skipped)
{
	const struct piece *p = &s->piece;

	if (!p->gated || p->grid[0] > sizeof(s->marks) / sizeof(s->marks[0]))
		return true;
	if (s->marks[block] == p->serial)
		return false;
	if (atomic_load(&d->shut)) {
		*skipped = true;
		return false;
	}
	s->marks[block] = p->serial;
	return true;
}

static void execute(struct device *d, struct slot *s)
{
	const struct piece *p = &s->piece;
	struct kernel_args args;
	bool skipped = false;

	if (p->kind == PIECE_TRANSFER) {
		memcpy((void *)(uintptr_t)p->dst, (void *)(uintptr_t)p->src, p->bytes);
	} else {
		memcpy(&args, p->params, sizeof(args));
		for (kernel_block = 0; kernel_block < p->grid[0]; kernel_block++) {
			if (!enter_block(d, s, kernel_block, &skipped))
				continue;
			for (kernel_thread = 0; kernel_thread < p->block[0]; kernel_thread++)
				kernels[p->kernel](args);
		}
	}
	atomic_store(&s->state, skipped ? DEVICE_SKIPPED : DEVICE_DONE);
}

static void *work(void *arg)
{
	struct device *d = arg;
	uint32_t slot;

	take_engine(NULL);
	pthread_mutex_lock(&d->lock);
	while (!d->quit) {
		if (d->n == 0) {
			pthread_cond_wait(&d->cond, &d->lock);
			continue;
		}
		slot = d->queue[d->head % DEVICE_SLOTS];
		d->head++;
		d->n--;
		pthread_mutex_unlock(&d->lock);
		execute(d, &d->slots[slot]);
		pthread_mutex_lock(&d->lock);
	}
	pthread_mutex_unlock(&d->lock);
	give_engine();
	return NULL;
}

static int host_prepare(struct device **out, const struct device_setup *, struct vgpu_error *err)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	return 0;
}

static int host_open(struct device *d, const struct device_setup *setup, struct vgpu_error *err)
{
	struct sigaction action = {.sa_handler = park, .sa_flags = SA_RESTART};
	uint64_t behind = setup->size - setup->window_size;
	int r;

	d->window = setup->window;
	d->window_size = setup->window_size;
	d->size = setup->size;
	d->stage = setup->stage;
	if (behind > 0) {
		d->memory = mmap(NULL, behind, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (d->memory == MAP_FAILED) {
			free(d);
			return vgpu_error_set(err, -ENOMEM, "%llu MiB of host memory: %s",
					      (unsigned long long)(behind >> 20), strerror(errno));
		}
	}
	sigaction(STOP_SIGNAL, &action, NULL);
	vfio_mutex_init(&d->lock);
	pthread_cond_init(&d->cond, NULL);
	r = pthread_create(&d->thread, NULL, work, d);
	if (r != 0) {
		free(d);
		return vgpu_error_set(err, -EAGAIN, "a thread cannot be started: %s", strerror(r));
	}
	return 0;
}

/* Gives the memory back: the kernel frees the pages, and later accesses read zeros. */
static int host_leave(struct device *d)
{
	const uint64_t n = d->size - d->window_size;

	if (d->memory &&
	    (madvise(d->memory, n, MADV_DONTNEED) < 0 || mprotect(d->memory, n, PROT_NONE) < 0))
		return -EIO;
	return 0;
}

static void host_close(struct device *d)
{
	pthread_mutex_lock(&d->lock);
	d->quit = true;
	pthread_cond_signal(&d->cond);
	pthread_mutex_unlock(&d->lock);
	pthread_join(d->thread, NULL);
	host_leave(d);
	if (d->memory)
		munmap(d->memory, d->size - d->window_size);
	pthread_mutex_destroy(&d->lock);
	pthread_cond_destroy(&d->cond);
	free(d);
}

static void host_about(struct device *, struct device_about *about)
{
	*about = (struct device_about){
		.name = "the CPU",
		.limit_error = "the device is the CPU",
		.stops = WORKER_STOP_BLOCK | WORKER_STOP_CHANNELS,
	};
}

static uint64_t host_address(struct device *d, uint64_t offset)
{
	return (uint64_t)(uintptr_t)(offset < d->window_size
					     ? d->window + offset
					     : d->memory + (offset - d->window_size));
}

static uint64_t host_scratch(struct device *d)
{
	return (uint64_t)(uintptr_t)d->scratch;
}

static int host_copy(struct device *d, uint64_t at, uint64_t bytes, bool out)
{
	memcpy(out ? d->stage : d->memory + at, out ? d->memory + at : d->stage, bytes);
	return 0;
}

static int host_enter(struct device *d)
{
	const uint64_t n = d->size - d->window_size;

	if (d->memory && mprotect(d->memory, n, PROT_READ | PROT_WRITE) < 0)
		return errno == ENOMEM ? -ENOMEM : -EIO;
	return 0;
}

static int host_launch(struct device *d, uint32_t slot, const struct piece *p)
{
	struct slot *s = &d->slots[slot];

	pthread_mutex_lock(&d->lock);
	s->piece = *p;
	atomic_store(&s->state, DEVICE_RUNNING);
	d->queue[(d->head + d->n++) % DEVICE_SLOTS] = slot;
	pthread_cond_signal(&d->cond);
	pthread_mutex_unlock(&d->lock);
	return 0;
}

static enum device_state host_poll(struct device *d, uint32_t slot)
{
	return atomic_load(&d->slots[slot].state);
}

static void host_gate(struct device *d, bool shut)
{
	atomic_store(&d->shut, shut);
}

static void unfreeze(void)
{
	atomic_store(&frozen, 0);
	futex(&frozen, FUTEX_WAKE, 1, NULL);
}

static int host_stop(struct device *d, uint32_t method)
{
	struct timespec until;
	int r;

	if (method != WORKER_STOP_CHANNELS)
		return -EOPNOTSUPP;
	atomic_store(&frozen, 1);
	r = -pthread_kill(d->thread, STOP_SIGNAL);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += STOP_TIMEOUT_S;
	if (r == 0)
		r = take_engine(&until);
	if (r < 0)
		unfreeze(); /* no caller calls host_resume() after a stop that has failed */
	return r;
}

static int host_resume(struct device *)
{
	give_engine();
	unfreeze();
	return 0;
}

static int host_compile(struct device *, uint32_t, uint8_t *image, uint64_t, uint32_t, void **,
			char *log, uint32_t log_size)
{
	free(image);
	snprintf(log, log_size, "the engine \"host\" has no compiler for modules");
	return -EOPNOTSUPP;
}

static int host_load(struct device *, uint32_t, void *)
{
	return -EOPNOTSUPP;
}

static void host_drop(void *)
{
}

static void host_unload(struct device *, uint32_t)
{
}

static int host_function(struct device *, uint32_t, const char *, struct piece *,
			 struct device_params *)
{
	return -EOPNOTSUPP;
}

const struct device_ops device_host = {
	.prepare = host_prepare,
	.open = host_open,
	.close = host_close,
	.about = host_about,
	.address = host_address,
	.scratch = host_scratch,
	.copy = host_copy,
	.leave = host_leave,
	.enter = host_enter,
	.launch = host_launch,
	.poll = host_poll,
	.gate = host_gate,
	.stop = host_stop,
	.resume = host_resume,
	.compile = host_compile,
	.load = host_load,
	.drop = host_drop,
	.unload = host_unload,
	.function = host_function,
};
