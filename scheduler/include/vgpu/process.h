/* SPDX-License-Identifier: MIT */
/* The identity of a process, as the kernel reports it. Any thread; reads /proc. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct vgpu_process {
	uint32_t parent;
	uint32_t threads; /* that have not ended; the first one also counts when it has */
	uint64_t started; /* clock ticks after boot; tells apart processes that reuse a number */
	bool has_ended;	  /* its first thread: others may go on */
};

/* Returns 0, or -ESRCH: no such process. */
int vgpu_process_read(uint32_t pid, struct vgpu_process *out);
