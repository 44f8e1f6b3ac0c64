/* SPDX-License-Identifier: MIT */
/*
 * Accesses to mapped registers. Access to the mappings of a removed device raises SIGBUS: these
 * functions return -ENODEV instead. The first bar_map() installs the handler, which passes every
 * other SIGBUS to the previous handler.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct bar {
	volatile uint8_t *at; /* NULL: not mapped */
	size_t size;
};

/* Maps SIZE bytes of FD at OFFSET, unless they are mapped already; at the address WANTED if that is
 * free. FD stays the caller's. Returns 0 or -errno. One thread. */
int bar_map(struct bar *b, void *wanted, int fd, size_t size, uint64_t offset);
void bar_unmap(struct bar *b);

/* Copy SIZE bytes in ascending order, in the largest aligned accesses, at most 8 bytes each. Return
 * 0; -EINVAL outside the region; -ENODEV if the device was removed. Any thread. */
int bar_read(const struct bar *b, uint64_t offset, void *data, uint32_t size);
int bar_write(const struct bar *b, uint64_t offset, const void *data, uint32_t size);
