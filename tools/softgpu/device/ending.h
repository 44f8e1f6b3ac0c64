/* SPDX-License-Identifier: MIT */
/*
 * Ends softgpu: it runs until SIGTERM or SIGINT; or, after SIGUSR1, until no VF has a client,
 * because the end of softgpu is the end of each VM that has a VF. Tells systemd that softgpu is
 * ready, and which VFs have clients.
 */
#pragma once

#include <stdint.h>

#include "vgpu/types.h"

struct softgpu;

struct ending {
	int signals, changed; /* descriptors */
};

/* Blocks the signals: before there are other threads. Returns 0, or -errno with the reason. */
int ending_create(struct ending *ending, struct vgpu_error *err);

/* Must be called when a VF has got a client, or has lost it (softgpu_used()). Any thread. */
void ending_used(struct ending *ending);

/* Reports that GPU is ready, and waits until softgpu must end. */
void ending_await(struct ending *ending, struct softgpu *gpu);
