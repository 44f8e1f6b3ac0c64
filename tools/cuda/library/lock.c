/* SPDX-License-Identifier: MIT */
#include <pthread.h>

#include "cuda_base.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void lock_take(void)
{
	pthread_mutex_lock(&lock);
}

bool lock_try(void)
{
	return pthread_mutex_trylock(&lock) == 0;
}

void lock_give(void)
{
	pthread_mutex_unlock(&lock);
}

void lock_renew(void)
{
	pthread_mutex_init(&lock, NULL);
}
