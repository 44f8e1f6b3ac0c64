/* SPDX-License-Identifier: MIT */
/* futex(2), for which the C library has no function; within a process. */
#ifndef WORKER_FUTEX_H
#define WORKER_FUTEX_H

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* TIMEOUT: as OP has it, NULL for none. 0 or -errno; from a signal's handler, too. */
static inline int futex(_Atomic uint32_t *word, int op, uint32_t value,
			const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0) < 0
		       ? -errno
		       : 0;
}

#endif
