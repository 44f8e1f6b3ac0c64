/* SPDX-License-Identifier: MIT */
/* What the kernel says of a process. Any thread; reads /proc. */
#ifndef VGPU_PROCESS_H
#define VGPU_PROCESS_H

#include <stdint.h>

struct vgpu_process {
	uint32_t parent;
	uint64_t started; /* clock ticks after boot: a number that is used again has another one */
};

/* Returns 0, or -ESRCH: there is no such process. */
int vgpu_process_read(uint32_t pid, struct vgpu_process *out);

#endif
