/* SPDX-License-Identifier: MIT */
#include <sched.h>
#include <signal.h>

#include "vfio/thread.h"

void vfio_mutex_init(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
}

int vfio_thread_create(pthread_t *thread, const char *name, int policy, int priority,
		       void *(*run)(void *), void *arg)
{
	struct sched_param param = {.sched_priority = priority};
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r)
		return r;
	pthread_setname_np(*thread, name);
	if (policy != SCHED_OTHER)
		pthread_setschedparam(*thread, policy, &param);
	return 0;
}
