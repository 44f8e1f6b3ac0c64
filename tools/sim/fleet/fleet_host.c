/* SPDX-License-Identifier: MIT */
#include "fleet_host.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"
#include "vgpu/core.h"

#define MIB (UINT64_C(1) << 20)
#define WHOLE 1000u

static const struct vgpu_policy_ops *qos(void)
{
	return peer_or_policy("qos");
}

int fleet_kind_init(struct fleet_kind *kind, const struct fleet_options *o)
{
	struct vgpu_core_config config;

	vgpu_core_defaults(&config, o->vfs);
	*kind = (struct fleet_kind){
		.o = o,
		/* As vgpud begins, but with switches of the length that was measured. */
		.facts = {.max_vfs = o->vfs,
			  .switch_ns = o->switch_ns,
			  .switch_high_ns = o->switch_ns,
			  .min_slice_ns = config.min_slice,
			  .max_slice_ns = config.max_slice,
			  .min_run_ns = config.min_run,
			  .grace_ns = config.grace,
			  .window_ns = config.window_max},
		.extents = 2 * o->vfs + 4,
	};
	vgpu_param_defaults(qos()->params, kind->params);
	kind->scratch = calloc(kind->extents, sizeof(*kind->scratch));
	return kind->scratch ? 0 : -ENOMEM;
}

void fleet_kind_finish(struct fleet_kind *kind)
{
	free(kind->scratch);
}

static bool guarantee(struct fleet_gpu *gpu, uint32_t vf, uint64_t share, bool is_new)
{
	int64_t values[VGPU_MAX_PARAMS];
	char text[24];
	const char *why;

	vgpu_param_defaults(qos()->vf_params, values);
	snprintf(text, sizeof(text), "%" PRIu64, share * 1000);
	vgpu_param_set(qos()->vf_params, "min_ppm", text, values, NULL);
	return is_new ? qos()->admit(gpu->policy, vf, values, 0, &why)
		      : qos()->set_vf(gpu->policy, vf, values, 0, &why);
}

int fleet_gpu_init(struct fleet_gpu *gpu, const struct fleet_kind *kind)
{
	struct vgpu_memory_extent *extents = calloc(kind->extents, sizeof(*extents));
	uint32_t vf;

	*gpu = (struct fleet_gpu){.policy = calloc(1, qos()->memory(kind->o->vfs))};
	if (!gpu->policy || !extents) {
		free(extents);
		free(gpu->policy);
		gpu->policy = NULL;
		return -ENOMEM;
	}
	vgpu_memory_init(&gpu->memory, extents, kind->extents, kind->o->memory_mib * MIB,
			 kind->o->granule_mib * MIB);
	qos()->attach(gpu->policy, &kind->facts, kind->params);
	for (vf = 0; vf < kind->o->vfs; vf++)
		guarantee(gpu, vf, 0, true);
	return 0;
}

void fleet_gpu_finish(struct fleet_gpu *gpu)
{
	free(gpu->memory.extents);
	free(gpu->policy);
}

static bool movable(uint32_t, void *)
{
	return true;
}

/* Moves partitions to make room for WANTED, as vgpud does while VFs run. */
static void make_room(struct fleet_gpu *gpu, const struct fleet_kind *kind,
		      const struct vgpu_memory_request *wanted)
{
	const struct vgpu_memory_extent *moved;
	uint64_t from, to;

	while (vgpu_memory_plan_move(&gpu->memory, kind->scratch, wanted, movable, NULL, &from,
				     &to)) {
		moved = vgpu_memory_at(&gpu->memory, from);
		gpu->offset[moved->owner] = to;
		vgpu_memory_move_begin(&gpu->memory, from, to);
		vgpu_memory_move_end(&gpu->memory, from, to);
		vgpu_memory_all_scrubbed(&gpu->memory);
	}
}

static void give_memory(struct fleet_gpu *gpu, uint32_t vf)
{
	vgpu_memory_release(&gpu->memory, gpu->offset[vf]);
	vgpu_memory_all_scrubbed(&gpu->memory);
}

enum fleet_why fleet_gpu_take(struct fleet_gpu *gpu, const struct fleet_kind *kind,
			      const struct fleet_size *size, uint32_t *vf)
{
	struct vgpu_memory_request wanted = {
		.size = size->memory_mib * MIB,
		.placement = kind->o->profile ? VGPU_PLACE_PROFILE : VGPU_PLACE_BEST_FIT,
		.span = gpu->memory.total,
	};

	for (*vf = 0; *vf < kind->o->vfs && gpu->used >> *vf & 1; ++*vf)
		;
	if (*vf == kind->o->vfs)
		return FLEET_NO_VF;
	wanted.owner = *vf;
	make_room(gpu, kind, &wanted);
	if (vgpu_memory_alloc(&gpu->memory, &wanted, &gpu->offset[*vf]) < 0)
		return FLEET_NO_MEMORY;
	if (!guarantee(gpu, *vf, size->share, false)) {
		give_memory(gpu, *vf);
		return FLEET_NO_TIME;
	}
	gpu->used |= 1u << *vf;
	return FLEET_TAKEN;
}

void fleet_gpu_give(struct fleet_gpu *gpu, const struct fleet_kind *, uint32_t vf)
{
	guarantee(gpu, vf, 0, false);
	give_memory(gpu, vf);
	gpu->used &= ~(1u << vf);
}

/* Returns whether the first N VFs can have SHARE each. */
static bool admits(struct fleet_gpu *gpu, uint32_t n, uint64_t share)
{
	uint32_t vf, had;
	bool ok = true;

	for (vf = 0; vf < n && ok; vf++)
		ok = guarantee(gpu, vf, share, false);
	for (had = 0; had < vf; had++)
		guarantee(gpu, had, 0, false);
	return ok;
}

/* Returns the largest share, up to MOST, that N VFs can have each; 0: none. */
static uint64_t largest(struct fleet_gpu *gpu, uint32_t n, uint64_t most)
{
	while (most > 0 && !admits(gpu, n, most))
		most--;
	return most;
}

bool fleet_gpu_inventory(struct fleet_gpu *gpu, const struct fleet_kind *kind,
			 struct fleet_inventory *out)
{
	const struct fleet_options *o = kind->o;
	uint64_t least = 1, one = largest(gpu, 1, WHOLE), each = 0;
	uint64_t unit = o->profile ? vgpu_memory_profile_of(o->memory_mib, o->granule_mib, 1)
				   : o->granule_mib;
	uint32_t n;

	for (n = o->vfs; n > 0 && each == 0; n--)
		each = largest(gpu, n, WHOLE / n) * n;
	while (least < WHOLE && !admits(gpu, 1, least))
		least++;
	*out = (struct fleet_inventory){
		.total = {o->vfs, each, o->memory_mib / unit * unit},
		.least = {1, least, unit},
		.step = {1, 1, unit},
	};
	memcpy(out->most, out->total, sizeof(out->most));
	out->most[FLEET_SHARE] = one < each ? one : each;
	return each > 0;
}
