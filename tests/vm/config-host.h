/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The configuration that QEMU's headers need outside of QEMU's tree: Debian's, on x86_64.
 */
#define CONFIG_POSIX 1
#define CONFIG_LINUX 1
#define CONFIG_IOVEC 1
#define CONFIG_MODULES 1
#define CONFIG_EVENTFD 1
#define CONFIG_TCG 1
#define CONFIG_MADVISE 1
#define CONFIG_INT128 1
#define CONFIG_CMPXCHG128 1
#define CONFIG_ATOMIC64 1
#define HOST_X86_64 1
#define HAVE_SYSTEM_FUNCTION 1
