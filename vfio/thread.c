/* SPDX-License-Identifier: MIT */
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

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
	char own[16] = "";
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	/* A thread inherits its creator's name. Renaming another thread needs a file of /proc,
	 * which a confined process cannot open, so the creator renames itself for a moment. */
	prctl(PR_GET_NAME, own);
	prctl(PR_SET_NAME, name);
	r = pthread_create(thread, NULL, run, arg);
	prctl(PR_SET_NAME, own);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r)
		return r;
	if (policy != SCHED_OTHER)
		pthread_setschedparam(*thread, policy, &param);
	return 0;
}
