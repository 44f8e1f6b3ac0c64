/* SPDX-License-Identifier: MIT */
/* A VF process without a device: the caller is what softgpu is to it. Linux, for tests and
 * benchmarks. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "page.h"
#include "vgpu/types.h"

struct vf_process {
	struct vf_page *page;
	pid_t pid;
	int pidfd, control, notice;
};

/* Starts softgpu-vf, as softgpu does. ALONE: as when softgpu has died meanwhile, and
 * another process is its parent. 0 or -errno with a sentence; vf_process_end() in either case. */
int vf_process_start(struct vf_process *p, bool alone, struct vgpu_error *err);
/* Waits until it says that it is ready. False: it is not, after 10 s. */
bool vf_process_ready(const struct vf_process *p);
/* Returns whether it has ended by itself within MS milliseconds. */
bool vf_process_ended(const struct vf_process *p, int ms);
/* Kills it if it is there, and closes what P has. */
void vf_process_end(struct vf_process *p);
