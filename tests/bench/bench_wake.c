/* SPDX-License-Identifier: MIT */
/*
 * What this machine itself needs to wake threads by timers: bench-wake THREADS PER_S MS. Each
 * thread does what an engine thread does for a switch, and nothing else: it arms an absolute timer
 * and waits for it with epoll, PER_S times a second, with the engine thread's priority where that
 * is allowed. Prints JSON: the CPU time for a wake-up, and how late the wake-ups were.
 */
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "sample.h"
#include "vgpu/clock.h"

#define MOST_THREADS 64u
#define FIFO_ENGINE 50 /* as in scheduler/daemon/engine/engine.c */

struct sleeper {
	pthread_t thread;
	int epoll, timer;
	vgpu_nsec period, from;
	size_t n;
	vgpu_nsec *late; /* N of them */
	vgpu_nsec cpu;
};

static vgpu_nsec cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (vgpu_nsec)t.tv_sec * VGPU_SEC + (vgpu_nsec)t.tv_nsec;
}

static void *wake_often(void *arg)
{
	struct sleeper *s = arg;
	struct epoll_event events[4];
	vgpu_nsec at = s->from, began = cpu_time();
	size_t i;

	for (i = 0; i < s->n; i++) {
		struct itimerspec t = {
			.it_value = {(time_t)(at / VGPU_SEC), (long)(at % VGPU_SEC)}};

		timerfd_settime(s->timer, TFD_TIMER_ABSTIME, &t, NULL);
		epoll_wait(s->epoll, events, 4, -1);
		s->late[i] = vgpu_now() - at;
		at += s->period;
	}
	s->cpu = cpu_time() - began;
	return NULL;
}

static int start(struct sleeper *s)
{
	struct sched_param param = {.sched_priority = FIFO_ENGINE};
	struct epoll_event want = {.events = EPOLLIN};
	pthread_attr_t attr;

	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (s->epoll < 0 || s->timer < 0 || epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->timer, &want) < 0)
		return -1;
	pthread_attr_init(&attr);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &param);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	return pthread_create(&s->thread, &attr, wake_often, s) == 0 ||
			       pthread_create(&s->thread, NULL, wake_often, s) == 0
		       ? 0
		       : -1;
}

int main(int argc, char **argv)
{
	static struct sleeper sleepers[MOST_THREADS];
	unsigned long threads = argc == 4 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned long per_s = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
	unsigned long ms = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	vgpu_nsec period = per_s ? VGPU_SEC / per_s : 0, from = vgpu_now() + 10 * VGPU_MSEC,
		  cpu = 0;
	size_t n = per_s * ms / 1000, i;
	vgpu_nsec *late;

	if (threads == 0 || threads > MOST_THREADS || n == 0) {
		fprintf(stderr, "usage: bench-wake THREADS PER_S MS\n");
		return 2;
	}
	late = calloc(threads * n, sizeof(*late));
	if (!late)
		return 1;
	for (i = 0; i < threads; i++) {
		/* The threads' wake-ups are spread over the period, as those of GPUs are. */
		sleepers[i] = (struct sleeper){.period = period,
					       .from = from + period * i / threads,
					       .n = n,
					       .late = late + i * n};
		if (start(&sleepers[i]) < 0)
			return 1;
	}
	for (i = 0; i < threads; i++) {
		pthread_join(sleepers[i].thread, NULL);
		cpu += sleepers[i].cpu;
	}
	printf("{\"threads\":%lu,\"per_s\":%lu,\"cpu_us\":%.2f,", threads, per_s,
	       (double)cpu / 1e3 / (double)(threads * n));
	sample_print("late", late, threads * n, "}\n");
	free(late);
	return 0;
}
