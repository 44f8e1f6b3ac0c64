/* SPDX-License-Identifier: MIT */
#include "vgpu/wall.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

#define SUBMITS(nr)                                                                                \
	{                                                                                          \
		.number = nr, .kind = VGPU_WALL_SUBMITS                                            \
	}
#define REFUSED(nr)                                                                                \
	{                                                                                          \
		.number = nr, .kind = VGPU_WALL_REFUSED                                            \
	}

/*
 * Linux 6.12, include/uapi/drm. i915, xe, panthor and amdgpu refuse priorities above the default to
 * processes without CAP_SYS_NICE, which programs behind the wall lack.
 */
const struct vgpu_wall vgpu_walls[] = {
	{"amdgpu",
	 {
		 SUBMITS(0x44), /* CS */
		 /* CTX: op at 0 and priority at 12. Refuses stable clocks (op 6) and priorities
		  * above the default. */
		 {.number = 0x42,
		  .kind = VGPU_WALL_LOOKED,
		  .command = 0xc0106442u,
		  .rules = {{0, 0, 6, 0, 0}, {0, 12, 1, INT_MIN, 0}},
		  .n_rules = 2},
		 REFUSED(0x53), /* VM: reserves a VMID */
		 REFUSED(0x55), /* SCHED: sets other processes' priorities */
		 REFUSED(0x56), /* USERQ, and its SIGNAL and WAIT */
		 REFUSED(0x57),
		 REFUSED(0x58),
	 }},
	{"i915",
	 {
		 SUBMITS(0x69), /* GEM_EXECBUFFER2 */
		 REFUSED(0x54), /* GEM_EXECBUFFER */
		 REFUSED(0x76), /* PERF_OPEN */
	 }},
	{"xe",
	 {
		 SUBMITS(0x49), /* EXEC */
		 REFUSED(0x4b), /* OBSERVATION */
	 }},
	{"nouveau",
	 {
		 SUBMITS(0x52), /* EXEC */
		 REFUSED(0x81), /* GEM_PUSHBUF */
	 }},
	{"msm",
	 {
		 SUBMITS(0x46), /* GEM_SUBMIT */
		 /* SUBMITQUEUE_NEW: its priority at 4; 0 is the highest. */
		 {.number = 0x4a,
		  .kind = VGPU_WALL_LOOKED,
		  .command = 0xc00c644au,
		  .rules = {{4, 4, 0, 1, 1}},
		  .n_rules = 1},
	 }},
	{"panfrost",
	 {
		 SUBMITS(0x40),
		 REFUSED(0x46), /* PERFCNT_ENABLE, _DUMP */
		 REFUSED(0x47),
	 }},
	{"panthor", {SUBMITS(0x49)}},
	{"v3d",
	 {
		 SUBMITS(0x40), /* CL */
		 SUBMITS(0x46), /* TFU */
		 SUBMITS(0x47), /* CSD */
		 SUBMITS(0x4b), /* CPU */
		 REFUSED(0x48), /* PERFMON_CREATE */
	 }},
	{"vc4", {SUBMITS(0x40)}},
	{"etnaviv", {SUBMITS(0x46)}},
	{"lima", {SUBMITS(0x43)}},
	{"asahi", {SUBMITS(0x4a)}},
	{"powervr", {SUBMITS(0x4d)}},
	{"vmwgfx", {SUBMITS(0x4c)}},
	{"virtio_gpu", {SUBMITS(0x42)}},
	{.driver = NULL},
};

/* Drivers with another name in /sys: for msm, that of the display driver or, without one, of the
 * GPU's. */
static const struct {
	const char *name, *driver;
} in_sys[] = {{"msm_dpu", "msm"},
	      {"msm_mdp", "msm"},
	      {"mdp4", "msm"},
	      {"adreno", "msm"},
	      {"vc4-drm", "vc4"}};

const struct vgpu_wall *vgpu_wall_of(const char *driver)
{
	const struct vgpu_wall *w;
	size_t i;

	for (i = 0; i < sizeof(in_sys) / sizeof(in_sys[0]); i++)
		if (strcmp(in_sys[i].name, driver) == 0)
			driver = in_sys[i].driver;
	for (w = vgpu_walls; w->driver && strcmp(w->driver, driver) != 0; w++)
		;
	return w->driver ? w : NULL;
}

const struct vgpu_wall_row *vgpu_wall_row_of(const struct vgpu_wall *wall, uint64_t command)
{
	uint32_t i;

	for (i = 0; i < VGPU_WALL_CALLS && wall->rows[i].number; i++)
		if (wall->rows[i].number == (command & 0xff))
			return &wall->rows[i];
	return NULL;
}

static int32_t word_at(const void *argument, uint32_t at)
{
	int32_t word;

	memcpy(&word, (const char *)argument + at, sizeof(word));
	return word;
}

bool vgpu_wall_allows(const struct vgpu_wall_row *row, const void *argument)
{
	uint32_t i;

	for (i = 0; i < row->n_rules; i++) {
		const struct vgpu_wall_rule *rule = &row->rules[i];
		int32_t then = word_at(argument, rule->then);

		if (word_at(argument, rule->when) == rule->is &&
		    (then < rule->low || then > rule->high))
			return false;
	}
	return true;
}
