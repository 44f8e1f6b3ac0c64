/* SPDX-License-Identifier: MIT */
/* Threads and locks of programs that must answer in time. */
#ifndef VFIO_THREAD_H
#define VFIO_THREAD_H

#include <pthread.h>

/* A mutex that lends its holder the priority of who waits for it. */
void vfio_mutex_init(pthread_mutex_t *mutex);

/* Starts a thread with all signals blocked, called NAME (15 bytes at most), under POLICY
 * (SCHED_...) with PRIORITY where that is allowed. Returns 0 or a positive errno. */
int vfio_thread_create(pthread_t *thread, const char *name, int policy, int priority,
		       void *(*run)(void *), void *arg);

#endif
