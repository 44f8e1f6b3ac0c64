/* SPDX-License-Identifier: MIT */
/*
 * What this machine itself needs for round trips between two processes: bench-trips TRIPS PER_S MS.
 * PER_S times a second, by an absolute timer, this process makes TRIPS round trips to another one
 * through eventfds, as vgpud does to a device for a world switch. Both have the engine thread's
 * priority where that is allowed. Prints JSON: how long the trips of a round took, and the CPU time
 * of this process for a round.
 */
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sample.h"
#include "vgpu/clock.h"

#define FIFO_ENGINE 50 /* as in scheduler/daemon/engine/engine.c */

static vgpu_nsec cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (vgpu_nsec)t.tv_sec * VGPU_SEC + (vgpu_nsec)t.tv_nsec;
}

static void pass(int fd)
{
	static const uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
		exit(1);
}

static void take(int fd)
{
	uint64_t n;

	if (read(fd, &n, sizeof(n)) != (ssize_t)sizeof(n))
		exit(1);
}

static void answer(int from, int to)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		take(from);
		pass(to);
	}
}

int main(int argc, char **argv)
{
	unsigned long trips = argc == 4 ? strtoul(argv[1], NULL, 10) : 0, k;
	unsigned long per_s = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
	unsigned long ms = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	struct sched_param param = {.sched_priority = FIFO_ENGINE};
	int there = eventfd(0, EFD_CLOEXEC), back = eventfd(0, EFD_CLOEXEC);
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	size_t n = per_s * ms / 1000, i;
	vgpu_nsec *ns = calloc(n ? n : 1, sizeof(*ns)), at, began, period;
	pid_t other;

	if (trips == 0 || n == 0) {
		fprintf(stderr, "usage: bench-trips TRIPS PER_S MS\n");
		return 2;
	}
	/* Not a failure: without the right to it both have an ordinary priority. */
	sched_setscheduler(0, SCHED_FIFO, &param);
	other = fork();
	if (other == 0)
		answer(there, back);
	if (there < 0 || back < 0 || timer < 0 || !ns || other < 0)
		return 1;
	period = VGPU_SEC / per_s;
	at = vgpu_now() + period;
	began = cpu_time();
	for (i = 0; i < n; i++, at += period) {
		struct itimerspec t = {
			.it_value = {(time_t)(at / VGPU_SEC), (long)(at % VGPU_SEC)}};

		timerfd_settime(timer, TFD_TIMER_ABSTIME, &t, NULL);
		take(timer);
		ns[i] = vgpu_now();
		for (k = 0; k < trips; k++) {
			pass(there);
			take(back);
		}
		ns[i] = vgpu_now() - ns[i];
	}
	printf("{\"trips\":%lu,\"per_s\":%lu,\"cpu_us\":%.2f,", trips, per_s,
	       (double)(cpu_time() - began) / 1e3 / (double)n);
	sample_print("round", ns, n, "}\n");
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	free(ns);
	return 0;
}
