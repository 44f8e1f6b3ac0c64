/* SPDX-License-Identifier: MIT */
#include "loan.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

#define PRIORITY 1

void loan_open(struct loan *loan, pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, pid);
	*loan = (struct loan){.pid = pid, .ran = open(path, O_RDONLY | O_CLOEXEC)};
}

void loan_close(struct loan *loan)
{
	if (loan->pid > 0)
		vgpu_close(&loan->ran);
	*loan = (struct loan){.pid = 0};
}

/* Returns the CPU time of the thread; 0: unknown. It is exact when the thread's policy has just
 * been set: the kernel then counts what a thread that runs has had until now. */
static vgpu_nsec cpu(const struct loan *loan)
{
	char text[64];
	ssize_t n = loan->ran < 0 ? -1 : pread(loan->ran, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = 0;
	return strtoull(text, NULL, 10);
}

void loan_lend(struct loan *loan)
{
	const struct sched_param param = {.sched_priority = PRIORITY};

	if (loan->out || loan->pid == 0)
		return;
	sched_setscheduler(loan->pid, SCHED_FIFO | SCHED_RESET_ON_FORK, &param);
	loan->out = true;
	loan->since = vgpu_now();
	loan->had = cpu(loan);
}

vgpu_nsec loan_used(const struct loan *loan)
{
	vgpu_nsec length = vgpu_now() - loan->since, now = cpu(loan);

	return loan->had && now >= loan->had && now - loan->had < length ? now - loan->had : length;
}

vgpu_nsec loan_take_back(struct loan *loan, int policy)
{
	const struct sched_param param = {0};

	if (loan->pid > 0)
		sched_setscheduler(loan->pid, policy | SCHED_RESET_ON_FORK, &param);
	if (!loan->out)
		return 0;
	loan->out = false;
	return loan_used(loan);
}
