/* SPDX-License-Identifier: MIT */
#include "map.h"

#include <errno.h>
#include <string.h>

/* Granules that are mapped before a stop is looked for: some system calls for each. */
#define STEP 16u

void map_init(struct map *m, const struct device_ops *ops, struct device *device,
	      uint64_t window_size)
{
	*m = (struct map){
		.ops = ops,
		.device = device,
		.arena = ops->arena ? ops->arena(device) : NULL,
		.window_size = window_size,
	};
}

/* Returns the first granule of SOURCE's range. */
static uint64_t first_of(const struct map *m, uint32_t source)
{
	return source * m->arena->granules;
}

void map_limit(const struct map *m, uint32_t source, struct packet_limits *l)
{
	const struct device_arena *a = m->arena;

	if (!a)
		return;
	l->arena = a->mapped + first_of(m, source);
	l->arena_at = SOFTGPU_ARENA_AT + first_of(m, source) * a->granule;
	l->granules = a->granules;
	l->granule = a->granule;
}

bool map_executes(uint32_t opcode)
{
	return opcode >= SOFTGPU_ARENA && opcode <= SOFTGPU_UNMAP;
}

static void tell(const struct map *m, uint32_t source, void *to)
{
	struct softgpu_arena answer = {0};

	if (m->arena)
		answer = (struct softgpu_arena){
			.at = m->arena->at + first_of(m, source) * m->arena->granule,
			.offset = SOFTGPU_ARENA_AT + first_of(m, source) * m->arena->granule,
			.bytes = m->arena->granules * m->arena->granule,
			.granule = m->arena->granule,
		};
	memcpy(to, &answer, sizeof(answer));
}

/* Unmaps what is mapped of the granules from AT to END. Returns 0 or -EIO. */
static int unmap_range(const struct map *m, uint64_t at, uint64_t end)
{
	uint64_t n;

	for (; at < end; at += n) {
		for (n = 0; at + n < end && m->arena->mapped[at + n] != 0; n++)
			;
		if (n > 0 && m->ops->unmap(m->device, at, n) < 0)
			return -EIO;
		n += n == 0;
	}
	return 0;
}

/* Returns the next step of TOTAL granules. */
static uint64_t step_of(const struct piece_job *job, uint64_t total)
{
	return total - job->at < STEP ? total - job->at : STEP;
}

static int map(const struct map *m, struct piece_job *job)
{
	const uint64_t *a = job->packet.arg, grain = m->arena->granule;
	uint64_t at = (a[0] - SOFTGPU_ARENA_AT) / grain, from = (a[1] - m->window_size) / grain;
	uint64_t total = a[2] / grain, n = step_of(job, total);
	int r = m->ops->map(m->device, at + job->at, from + job->at, n);

	if (r == -ENOMEM && unmap_range(m, at, at + job->at) == 0)
		return -SOFTGPU_BAD_MAP;
	if (r < 0)
		return -SOFTGPU_FAULTED;
	job->at += n;
	return job->at < total ? MAP_MORE : MAP_DONE;
}

static int unmap(const struct map *m, struct piece_job *job)
{
	const uint64_t *a = job->packet.arg, grain = m->arena->granule;
	uint64_t at = (a[0] - SOFTGPU_ARENA_AT) / grain + job->at, total = a[1] / grain;
	uint64_t n = step_of(job, total);

	if (unmap_range(m, at, at + n) < 0)
		return -SOFTGPU_FAULTED;
	job->at += n;
	return job->at < total ? MAP_MORE : MAP_DONE;
}

int map_packet(const struct map *m, uint32_t source, struct piece_job *job, uint8_t *window)
{
	switch (job->packet.opcode) {
	case SOFTGPU_MAP:
		return map(m, job);
	case SOFTGPU_UNMAP:
		return unmap(m, job);
	default:
		tell(m, source, window + job->packet.arg[1]);
		return MAP_DONE;
	}
}

int map_close(const struct map *m, uint32_t source)
{
	return m->arena ? unmap_range(m, first_of(m, source), first_of(m, source + 1)) : 0;
}
