/* SPDX-License-Identifier: MIT */
/* A worker's part in swapping: carries out what softgpu's own process asks of the VF's device
 * memory. Owned by the control thread. */
#pragma once

#include "device.h"
#include "protocol.h"

struct swap {
	const struct device_ops *ops;
	struct device *device;
	uint64_t bytes; /* bytes of device memory */
	bool away;	/* memory is not complete on the device: the VF cannot run */
	bool entered;	/* the device has taken memory since; UPTO is what has been copied there */
	uint64_t upto;
};

/* Does what M asks while nothing of the VF runs, and sets its result. Returns 0, or -EIO: the
 * device has failed, and the worker must end. */
int swap_serve(struct swap *s, struct worker_memory *m);
