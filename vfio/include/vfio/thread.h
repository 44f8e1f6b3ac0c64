/* SPDX-License-Identifier: MIT */
/* Threads and locks of programs that must answer in time. */
#pragma once

#include <pthread.h>

/* Initialises a mutex with priority inheritance: its holder runs with the priority of the threads
 * that wait for it. */
void vfio_mutex_init(pthread_mutex_t *mutex);

/* Starts a thread with all signals blocked and the name NAME (at most 15 bytes), with scheduling
 * POLICY (SCHED_...) and PRIORITY if permitted. Returns 0 or a positive errno. */
int vfio_thread_create(pthread_t *thread, const char *name, int policy, int priority,
		       void *(*run)(void *), void *arg);
