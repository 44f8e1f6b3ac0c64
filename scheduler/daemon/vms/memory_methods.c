/* SPDX-License-Identifier: MIT */
#include "memory_methods.h"

#include <errno.h>
#include <string.h>

#include "control/args.h"
#include "control/log.h"
#include "control/put.h"
#include "vgpu/residency.h"

/* Memory that is being cleared still belongs to its VF. */
static bool is_being_cleared(const struct engine_snapshot *s, const struct vgpu_memory_extent *x)
{
	return x->state == VGPU_EXTENT_OWNED && x->owner != VGPU_MEMORY_PF &&
	       s->vfs[x->owner].state == VGPU_VF_SCRUBBING;
}

static bool is_movable(uint32_t vf, void *data)
{
	const struct engine_snapshot *s = data;

	return vf != VGPU_MEMORY_PF && vgpu_memory_can_move(s->vfs[vf].state);
}

static struct json_object *extent_json(struct call *call, const struct vgpu_memory_extent *x)
{
	struct json_object *e = json_object_new_object();
	bool clears = is_being_cleared(&call->snapshot, x);

	put_int(e, "offset", x->offset);
	put_int(e, "bytes", x->size);
	put_text(e, "state", vgpu_extent_state_names[clears ? VGPU_EXTENT_SCRUBBING : x->state]);
	if (x->state >= VGPU_EXTENT_OWNED)
		put_text(e, "owner", x->owner == VGPU_MEMORY_PF ? "pf" : "vf");
	if (x->state >= VGPU_EXTENT_OWNED && x->owner != VGPU_MEMORY_PF) {
		const struct lease *l = &call->gpu->leases[x->owner];

		put_int(e, "vf", x->owner);
		put_text(e, "domain", l->state == LEASE_NONE ? "" : l->domain);
	}
	return e;
}

/* Adds the size of host memory and the totals of swaps. */
static void put_host(struct json_object *o, const struct engine_snapshot *s)
{
	put_int(o, "host_bytes", s->caps.host);
	put_int(o, "swapped_out_bytes", s->memory.swapped[0]);
	put_int(o, "swapped_in_bytes", s->memory.swapped[1]);
	put_int(o, "swaps_out", s->memory.swaps[0]);
	put_int(o, "swaps_in", s->memory.swaps[1]);
	put_int(o, "aborted_swaps", s->memory.aborted_swaps);
	put_int(o, "swap_out_ns", s->memory.swap_time[0]);
	put_int(o, "swap_in_ns", s->memory.swap_time[1]);
	put_int(o, "host_write_rate", s->memory.swap_rate[0]);
	put_int(o, "host_read_rate", s->memory.swap_rate[1]);
	put_int(o, "epoch_ns", s->epoch);
	put_int(o, "swap_wait_max_ns", s->waited);
}

/* The table of a snapshot's memory, which shares its extents. */
static struct vgpu_memory memory_of(struct engine_snapshot *s)
{
	return (struct vgpu_memory){
		.extents = s->extents,
		.n = s->n_extents,
		.capacity = VGPU_MEMORY_EXTENTS,
		.total = s->caps.memory + s->caps.host,
		.local = s->caps.memory / s->caps.granule * s->caps.granule,
		.granule = s->caps.granule,
	};
}

uint64_t memory_after_compaction(const struct gpu *gpu, struct engine_snapshot *s)
{
	struct vgpu_memory all, m;
	struct vgpu_memory_extent scratch[VGPU_MEMORY_EXTENTS];
	struct vgpu_memory_request rule = {
		.placement = (enum vgpu_placement)gpu->config->placement,
		.base = s->found.partition.pf.size,
	};
	uint64_t from, to;

	if (!s->caps.granule)
		return 0;
	all = memory_of(s);
	m = vgpu_memory_local(&all);
	rule.span = m.local - rule.base;
	return vgpu_memory_plan_compaction(&m, scratch, &rule, is_movable, s, &from, &to);
}

/* Returns whether a VF has its VM's claimed memory, rounded up to the granule. It has more if its
 * partition existed before the claim, and with profiles. */
static bool is_exact(const struct gpu_config *config)
{
	bool exact = config->on_demand && config->placement != VGPU_PLACE_PROFILE;
	int64_t vf;

	for (vf = 0; vf < config->vfs; vf++)
		exact &= config->memory_mib[vf] == 0;
	return exact;
}

struct json_object *memory_json(struct call *call)
{
	struct engine_snapshot *s = &call->snapshot;
	struct vgpu_memory all = memory_of(s), m = vgpu_memory_local(&all);
	struct json_object *o = json_object_new_object(), *here = json_object_new_array();
	struct json_object *host = json_object_new_array();
	uint32_t i;

	put_text(o, "gpu", call->gpu->config->name);
	put_int(o, "total_bytes", m.total);
	put_int(o, "granule_bytes", m.granule);
	put_bool(o, "exact", is_exact(call->gpu->config));
	put_int(o, "free_bytes", vgpu_memory_in(&m, VGPU_EXTENT_FREE));
	put_int(o, "scrubbing_bytes", vgpu_memory_in(&m, VGPU_EXTENT_SCRUBBING));
	put_int(o, "largest_free_bytes", vgpu_memory_largest_free(&m));
	put_int(o, "after_compaction_bytes", memory_after_compaction(call->gpu, s));
	put_int(o, "cleared_bytes", s->memory.cleared);
	put_int(o, "moved_bytes", s->memory.moved);
	put_int(o, "moves", s->memory.moves);
	put_int(o, "aborted_moves", s->memory.aborted_moves);
	put_int(o, "failed_pieces", s->memory.failed_pieces);
	put_int(o, "waited_ns", s->memory.waited);
	put_host(o, s);
	for (i = 0; i < all.n; i++)
		json_object_array_add(i < m.n ? here : host, extent_json(call, &all.extents[i]));
	json_object_object_add(o, "extents", here);
	json_object_object_add(o, "host_extents", host);
	return o;
}

/* The time after which Windows considers a GPU hung (TdrDelay). */
#define WATCHDOG (2 * VGPU_SEC)

bool memory_cost(const struct engine_snapshot *s, uint32_t vf, uint64_t size, char *text,
		 size_t length)
{
	struct vgpu_residency residency = {.epoch = s->epoch};
	const uint64_t *rate = s->memory.swap_rate;
	uint64_t room = s->caps.memory - s->found.partition.pf.size, swapped = 0, rounds;
	double cost, epoch, away;
	uint32_t i;
	int n;

	for (i = 0; i < s->n_vfs; i++) {
		uint64_t has = i == vf ? size : s->found.partition.vfs[i].size;

		if (s->pinned >> i & 1)
			room -= has < room ? has : room;
		else
			swapped += has;
	}
	if (s->caps.host == 0 || s->pinned >> vf & 1 || swapped <= room || size == 0 || room == 0)
		return false;
	if (!rate[0] || !rate[1]) {
		snprintf(text, length,
			 "its memory is swapped to host memory; the cost is not measured yet");
		return true;
	}
	cost = (double)size / (double)rate[0] + (double)size / (double)rate[1];
	residency.cost = (vgpu_nsec)(cost * 1e9);
	epoch = (double)vgpu_residency_epoch(&residency) / 1e9;
	rounds = (swapped + room - 1) / room;
	away = (double)(rounds - 1) * (epoch + cost);
	n = snprintf(text, length,
		     "its memory is swapped to host memory, out and in within %.2f s (%.1f and "
		     "%.1f GB/s): at most %.0f %% of the time, in epochs of %.1f s; while all VFs "
		     "have work, it is out for %.1f s at a time",
		     cost, (double)rate[0] / 1e9, (double)rate[1] / 1e9,
		     100 * cost / (epoch + cost), epoch, away);
	if (away * 1e9 >= (double)WATCHDOG && n > 0 && (size_t)n < length)
		snprintf(text + n, length - (size_t)n,
			 "; guest drivers may take that for a hang (Windows after 2 s): pinned = "
			 "yes prevents it");
	return true;
}

static int begin_change(struct control *control, struct call *call, enum vgpu_memory_what what,
			struct vgpu_error *err)
{
	struct vgpu_memory_change *want = &call->request.memory;
	int r = call_find_gpu(control, call, err);

	if (r == 0 && what != VGPU_MEMORY_COMPACT)
		r = call_find_vf(call, &want->vf, err);
	if (r < 0)
		return r;
	want->what = what;
	want->size = (uint64_t)call_int(call, "mib", 0) << 20;
	want->usual = what == VGPU_MEMORY_SET;
	call->request.ask = ENGINE_MEMORY;
	call->request.snapshot = &call->snapshot;
	return call_send(call, err);
}

int memory_plan_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	return begin_change(control, call, VGPU_MEMORY_PLAN, err);
}

int memory_set_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	struct json_object *force;

	call->request.memory.force = json_object_object_get_ex(call->args, "force", &force) &&
				     json_object_get_boolean(force);
	return begin_change(control, call, VGPU_MEMORY_SET, err);
}

int memory_compact_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	return begin_change(control, call, VGPU_MEMORY_COMPACT, err);
}

struct json_object *memory_plan_json(struct call *call)
{
	const struct vgpu_memory_change *want = &call->request.memory;
	const struct vgpu_memory_plan *plan = &call->request.plan;
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();
	char cost[400];
	uint32_t vf;

	put_text(o, "gpu", call->gpu->config->name);
	put_int(o, "vf", want->vf);
	put_int(o, "bytes", want->size);
	put_int(o, "offset", plan->offset);
	put_int(o, "clear_bytes", plan->clear);
	put_int(o, "move_bytes", plan->move);
	for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++)
		if (plan->movers >> vf & 1)
			json_object_array_add(list, json_object_new_int64(vf));
	json_object_object_add(o, "move_vfs", list);
	put_bool(o, "host", plan->offset >= call->snapshot.caps.memory);
	if (memory_cost(&call->snapshot, want->vf, want->size, cost, sizeof(cost)))
		put_text(o, "cost", cost);
	return o;
}

static void on_usual(struct call *call)
{
	const struct vgpu_memory_change *want = &call->request.memory;
	int r = call->request.result;

	call->gpu->sizing.asked &= ~VGPU_VF_BIT(want->vf);
	/* The VF is in use, another change is in progress, or the GPU is lost: memory_retry tries
	 * again. */
	if (r == -EBUSY || r == -ENODEV || r == -ETIMEDOUT)
		call->gpu->sizing.wanted |= VGPU_VF_BIT(want->vf);
	else if (r < 0 && r != -EOPNOTSUPP) /* a GPU whose partitions are fixed */
		log_about(about_vf(call->gpu, want->vf, LOG_PLAIN), LOG_WARNING,
			  "%s; the VF keeps its memory", call->request.why);
	call_drop(call);
}

void memory_give_usual(struct gpu *gpu, uint32_t vf)
{
	struct call *call;

	gpu->sizing.wanted &= ~VGPU_VF_BIT(vf);
	call = gpu->leases[vf].state == LEASE_NONE ? call_new(gpu->control, gpu) : NULL;
	if (!call)
		return;
	call->request.ask = ENGINE_MEMORY;
	call->request.memory = (struct vgpu_memory_change){.what = VGPU_MEMORY_SET,
							   .vf = vf,
							   .size = VGPU_MEMORY_USUAL};
	call->then = on_usual;
	gpu->sizing.asked |= VGPU_VF_BIT(vf);
	call_queue(call);
}

void memory_retry(struct gpu *gpu)
{
	vgpu_vf_set again = gpu->sizing.wanted;
	uint32_t vf;

	for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++)
		if (again >> vf & 1 && !(gpu->heard.in_use >> vf & 1))
			memory_give_usual(gpu, vf);
}
