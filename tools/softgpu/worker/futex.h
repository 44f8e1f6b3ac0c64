/* SPDX-License-Identifier: MIT */
/* futex(2) within a process; the C library has no function for it. */
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* TIMEOUT: relative or absolute, as OP has it; NULL: none. Returns 0 or -errno. Signal handlers may
 * call it. */
static inline int futex(_Atomic uint32_t *word, int op, uint32_t value,
			const struct timespec *timeout)
{
	if (syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0) < 0)
		return -errno;
	return 0;
}
