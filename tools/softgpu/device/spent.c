/* SPDX-License-Identifier: MIT */
#include "spent.h"

#include <string.h>
#include <time.h>

#include "gpu.h"
#include "link.h"
#include "workers.h"
#include "vgpu/clock.h"

/* What a VF's process may use beside the engine's time: above what it lets its client cause
 * (SERVER_PERCENT in vf/main.c). */
#define BESIDE_PERCENT 35
/* What can be saved up of that, and is there at first: a start takes some. */
#define SAVED ((int64_t)(300 * VGPU_MSEC))

static vgpu_nsec cpu_of(pid_t pid)
{
	struct timespec t = {0, 0};
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) == 0)
		clock_gettime(clock, &t);
	return (vgpu_nsec)t.tv_sec * VGPU_SEC + (vgpu_nsec)t.tv_nsec;
}

void spent_begin(struct softgpu *gpu)
{
	uint32_t i;

	for (i = 0; i < SOFTGPU_MAX_VFS; i++)
		gpu->spent[i] = (struct spent){.has_since = VGPU_NEVER, .left = SAVED};
}

static vgpu_nsec had(const struct spent *s)
{
	return s->had + (s->has_since == VGPU_NEVER ? 0 : vgpu_now() - s->has_since);
}

void spent_turn(struct softgpu *gpu, int vf)
{
	struct spent *s;

	if (gpu->running >= 0) {
		s = &gpu->spent[gpu->running];
		s->had = had(s);
		s->has_since = VGPU_NEVER;
	}
	if (vf >= 0)
		gpu->spent[vf].has_since = vgpu_now();
}

/* Counts one that lives. What it says of fences, it may say wrongly, but it takes none back. */
static void count(struct spent *s, int kind, pid_t pid, uint64_t fences)
{
	vgpu_nsec cpu = pid > 0 ? cpu_of(pid) : 0;

	if (cpu > s->last[kind].cpu) {
		s->cpu += cpu - s->last[kind].cpu;
		s->process_cpu += kind == SPENT_PROCESS ? cpu - s->last[kind].cpu : 0;
		s->last[kind].cpu = cpu;
	}
	if (fences > s->last[kind].fences) {
		s->fences += fences - s->last[kind].fences;
		s->last[kind].fences = fences;
	}
}

void spent_count(struct softgpu *gpu, int vf)
{
	uint64_t fences = 0;
	const struct link *link = gpu->vfs[vf].link; /* NULL when the device ends */
	pid_t pid = link ? link_process(link, &fences) : 0;

	count(&gpu->spent[vf], SPENT_PROCESS, pid, fences);
	fences = 0;
	pid = gpu->workers ? workers_process(gpu, vf, &fences) : 0;
	count(&gpu->spent[vf], SPENT_WORKER, pid, fences);
}

void spent_ends(struct softgpu *gpu, int vf, int kind)
{
	spent_count(gpu, vf);
	memset(&gpu->spent[vf].last[kind], 0, sizeof(gpu->spent[vf].last[kind]));
}

bool spent_too_much(struct softgpu *gpu, int vf)
{
	struct spent *s = &gpu->spent[vf];
	vgpu_nsec now = vgpu_now(), engine = had(s);

	spent_count(gpu, vf);
	s->left += (int64_t)(engine - s->left_had) +
		   (int64_t)((now - s->left_at) * BESIDE_PERCENT / 100) -
		   (int64_t)(s->process_cpu - s->left_cpu);
	s->left = s->left < SAVED ? s->left : SAVED;
	s->left_had = engine;
	s->left_at = now;
	s->left_cpu = s->process_cpu;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	s->left = SAVED; /* all that a process does takes it many times as long */
#endif
	if (s->left >= 0)
		return false;
	s->left = SAVED;
	return true;
}

vgpu_nsec spent_owed(const struct softgpu *gpu, int vf)
{
	return (vgpu_nsec)(SAVED - gpu->spent[vf].left) * 100 / BESIDE_PERCENT;
}

uint32_t spent_read(struct softgpu *gpu, uint32_t offset)
{
	uint32_t at = (offset - SOFTGPU_SPENT) / 4, i, n = SOFTGPU_SPENT_WORDS;

	if (offset < SOFTGPU_SPENT || at >= n * gpu->config.n_vfs)
		return 0;
	for (i = 0; i < gpu->config.n_vfs && at == 0; i++) {
		spent_count(gpu, (int)i);
		gpu->shown_spent[i][0] = gpu->spent[i].cpu;
		gpu->shown_spent[i][1] = gpu->spent[i].fences;
	}
	return (uint32_t)(gpu->shown_spent[at / n][at % n / 2] >> (at % 2 ? 32 : 0));
}
