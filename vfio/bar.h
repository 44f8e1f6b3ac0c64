/* SPDX-License-Identifier: MIT */
/*
 * Accesses of mapped registers. A device that is taken away takes its mappings with it: what would
 * be SIGBUS then is -ENODEV here. The handler is installed at the first mapping; SIGBUS from
 * elsewhere goes to whoever had it before.
 */
#ifndef VFIO_BAR_H
#define VFIO_BAR_H

#include <stddef.h>
#include <stdint.h>

struct bar {
	volatile uint8_t *at; /* NULL: not mapped */
	size_t size;
};

/* Maps SIZE bytes of FD. 0 or -errno. */
int bar_map(struct bar *b, int fd, size_t size, uint64_t offset);
void bar_unmap(struct bar *b);

/* In ascending order, by accesses of 4 or 8 bytes where that is possible. 0, -EINVAL outside of the
 * region, -ENODEV if the device has gone. */
int bar_read(const struct bar *b, uint64_t offset, void *data, uint32_t size);
int bar_write(const struct bar *b, uint64_t offset, const void *data, uint32_t size);

#endif
