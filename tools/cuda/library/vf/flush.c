/* SPDX-License-Identifier: MIT */
/*
 * Doorbells that no call waits for. A doorbell costs a message to the host, or an exit of the VM,
 * so calls in quick succession share one: the first call rings it, the others leave their packets
 * in the ring, and this thread rings it for them after LINK_RING_EVERY.
 */
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <time.h>

#include "cuda_vf.h"
#include "vfio/thread.h"

static pthread_t thread;
static sem_t wanted;
static bool runs;
static void (*rings)(void);

/* Accessed only with the lock. */
static bool armed, ending;

static void *flush(void *)
{
	const struct timespec pause = {0, LINK_RING_EVERY};
	bool ends = false;

	while (!ends) {
		while (sem_wait(&wanted) < 0 && errno == EINTR)
			;
		nanosleep(&pause, NULL);
		lock_take();
		armed = false;
		ends = ending;
		if (!ends)
			rings();
		lock_give();
	}
	return NULL;
}

void flush_start(void (*ring)(void))
{
	rings = ring;
	armed = ending = false;
	runs = sem_init(&wanted, 0, 0) == 0 &&
	       vfio_thread_create(&thread, "vgpu-cuda", SCHED_OTHER, 0, flush, NULL) == 0;
}

bool flush_later(void)
{
	if (runs && !armed) {
		armed = true;
		sem_post(&wanted);
	}
	return runs;
}

void flush_abandon(void)
{
	runs = false;
}

void flush_end(void)
{
	bool ran;

	lock_take();
	ran = runs;
	runs = false;
	ending = true;
	lock_give();
	if (!ran)
		return;
	sem_post(&wanted);
	pthread_join(thread, NULL);
}
