/* SPDX-License-Identifier: MIT */
/* A fault to plant, by LD_PRELOAD: timers of the process expire LATE ns after their instant. */
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LATE 1500000

int timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *old)
{
	struct itimerspec late = *when;

	if (late.it_value.tv_sec || late.it_value.tv_nsec)
		late.it_value.tv_nsec += LATE;
	if (late.it_value.tv_nsec >= 1000000000) {
		late.it_value.tv_nsec -= 1000000000;
		late.it_value.tv_sec++;
	}
	return (int)syscall(SYS_timerfd_settime, fd, flags, &late, old);
}
