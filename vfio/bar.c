/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "bar.h"
#include "vfio/kernel.h"

/* where the thread continues if its access fails; NULL: it accesses nothing */
static __thread sigjmp_buf *volatile escape;
static struct sigaction before;

static void on_sigbus(int number, siginfo_t *info, void *context)
{
	sigjmp_buf *to = escape;

	if (to) {
		escape = NULL;
		siglongjmp(*to, 1);
	}
	if (before.sa_flags & SA_SIGINFO) {
		before.sa_sigaction(number, info, context);
		return;
	}
	/* Not an access of this file: it is repeated without this handler, and ends the program. */
	sigaction(SIGBUS, &before, NULL);
}

static void install(void)
{
	struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER};

	sigaction(SIGBUS, &action, &before);
}

int bar_map(struct bar *b, void *wanted, int fd, size_t size, uint64_t offset)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (b->at)
		return 0;
	pthread_once(&once, install);
	b->at = vfio_kernel->map(wanted, fd, size, offset);
	b->size = size;
	return b->at ? 0 : -ENOMEM;
}

void bar_unmap(struct bar *b)
{
	if (b->at)
		munmap((void *)(uintptr_t)b->at, b->size);
	b->at = NULL;
}

static uint32_t step(uint64_t offset, uint32_t size)
{
	return offset % 8 == 0 && size >= 8   ? 8
	       : offset % 4 == 0 && size >= 4 ? 4
	       : offset % 2 == 0 && size >= 2 ? 2
					      : 1;
}

static void read_once(const volatile uint8_t *at, uint8_t *to, uint32_t n)
{
	uint64_t value = n == 8	  ? *(const volatile uint64_t *)at
			 : n == 4 ? *(const volatile uint32_t *)at
			 : n == 2 ? *(const volatile uint16_t *)at
				  : *at;

	memcpy(to, &value, n); /* little endian, like PCI */
}

static void write_once(volatile uint8_t *at, const uint8_t *from, uint32_t n)
{
	uint64_t value = 0;

	memcpy(&value, from, n);
	if (n == 8)
		*(volatile uint64_t *)at = value;
	else if (n == 4)
		*(volatile uint32_t *)at = (uint32_t)value;
	else if (n == 2)
		*(volatile uint16_t *)at = (uint16_t)value;
	else
		*at = (uint8_t)value;
}

__attribute__((noinline)) static void transfer(const struct bar *b, uint64_t offset, uint8_t *data,
					       uint32_t size, bool write)
{
	uint32_t n;

	for (; size > 0; size -= n, offset += n, data += n) {
		n = step(offset, size);
		if (write)
			write_once(b->at + offset, data, n);
		else
			read_once(b->at + offset, data, n);
	}
}

static int access_bar(const struct bar *b, uint64_t offset, uint8_t *data, uint32_t size,
		      bool write)
{
	sigjmp_buf here;

	if (!b->at || offset > b->size || size > b->size - offset)
		return -EINVAL;
	if (sigsetjmp(here, 0))
		return -ENODEV;
	escape = &here;
	transfer(b, offset, data, size, write);
	escape = NULL;
	return 0;
}

int bar_read(const struct bar *b, uint64_t offset, void *data, uint32_t size)
{
	return access_bar(b, offset, data, size, false);
}

int bar_write(const struct bar *b, uint64_t offset, const void *data, uint32_t size)
{
	return access_bar(b, offset, (uint8_t *)(uintptr_t)data, size, true);
}
