/* SPDX-License-Identifier: MIT */
/* The engine: one VF's process executes at a time, from RUN until it has stopped. */
#include "gpu.h"
#include "link.h"

void engine_run(struct softgpu *gpu, int vf)
{
	spent_turn(gpu, vf);
	gpu->running = vf;
	memory_runs(gpu, &gpu->vfs[vf]);
	link_run(gpu->vfs[vf].link);
}

bool engine_stop(struct softgpu *gpu, bool kill)
{
	if (gpu->running >= 0 && !link_stop(gpu->vfs[gpu->running].link, kill))
		return false;
	spent_turn(gpu, -1);
	gpu->running = -1;
	return true;
}

void engine_stop_now(struct softgpu *gpu)
{
	if (!engine_stop(gpu, true))
		link_kill(gpu->vfs[gpu->running].link);
	spent_turn(gpu, -1);
	gpu->running = -1;
}

void engine_stopped(struct softgpu *gpu)
{
	spent_turn(gpu, -1);
	gpu->running = -1;
	command_engine_stopped(gpu);
}
