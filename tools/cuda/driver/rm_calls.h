/* SPDX-License-Identifier: MIT */
/* Calls of NVIDIA's resource manager that tests make or answer, written from its interface and not
 * from tools/cuda/worker/rm.h, which they test. */
#pragma once

#include <stdint.h>
#include <sys/ioctl.h>

struct alloc {
	uint32_t client, parent, object, class;
	uint64_t params;
	uint32_t params_size, status;
};
struct gone {
	uint32_t client, parent, object, status;
};
struct control {
	uint32_t client, object, command, flags;
	uint64_t params;
	uint32_t params_size, status;
};
#define ALLOC _IOWR('F', 0x2b, struct alloc)
#define FREE _IOWR('F', 0x29, struct gone)
#define CONTROL _IOWR('F', 0x2a, struct control)
