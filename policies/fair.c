/* SPDX-License-Identifier: MIT */
/*
 * fair: shares by weight, with slices long enough to be worth their switch; the default. EEVDF over
 * all VFs.
 *
 * An overrun counts against the VF's next request at once and in full: this keeps lag small, but
 * stops a VF that overran by much for long. With `debt_turns` it counts over several dispatches, as
 * with NVIDIA's averaging factor: then lag grows by what is not counted yet.
 *
 * VFs that render frames are favoured (`favour`): they are due at once, and may be ahead by a part
 * of a slice. So are VFs that wake, where a switch is cheap. They are served sooner, but get no
 * larger share.
 */
#include "auto_slice.h"
#include "eevdf_bound.h"

enum { P_SLICE, P_DEBT_TURNS, P_MODE, P_OVERHEAD, P_ROTATION, P_FAVOUR };
enum { V_WEIGHT, V_LATENCY_SLICE };

struct fair {
	struct eevdf e;
	struct auto_slice length;
	int64_t debt_turns, worst_deferred, favour;
	uint32_t n;
	struct eevdf_vf vfs[];
};

static const char *const favours[] = {"throughput", "balanced", "frames", NULL};

/* How far a VF that wakes at regular times may be ahead, in quarters of a slice; by `favour`. */
static const vgpu_nsec quarters[] = {0, 1, 4};

static const struct vgpu_param params[] = {
	[P_SLICE] = AUTO_SLICE_PARAM("length of one slice", 10000),
	[P_DEBT_TURNS] = {"debt_turns", "turns",
			  "number of turns over which an overrun is charged; 1: at once, in full",
			  VGPU_PARAM_INT, 1, 60, 1, NULL},
	[P_MODE] = AUTO_SLICE_MODE_PARAM,
	[P_OVERHEAD] = AUTO_SLICE_OVERHEAD_PARAM,
	[P_ROTATION] = AUTO_SLICE_ROTATION_PARAM,
	[P_FAVOUR] = {"favour", "",
		      "how far VFs that render frames (and, where a switch is cheap, VFs that "
		      "wake) may be ahead of their share: throughput (not at all), balanced (a "
		      "quarter of a slice) or frames (a slice)",
		      VGPU_PARAM_CHOICE, 0, 2, 1, favours},
	{.name = NULL},
};

static const struct vgpu_param vf_params[] = {
	[V_WEIGHT] = {"weight", "", "share, relative to the other VFs' weights", VGPU_PARAM_INT, 1,
		      10000, 100, NULL},
	[V_LATENCY_SLICE] = {"latency_slice_us", "us",
			     "service time in which each slice is due: a smaller value serves the "
			     "VF sooner, but not more; 0: slice_us",
			     VGPU_PARAM_INT, 0, 500000, 0, NULL},
	{.name = NULL},
};

static size_t memory(uint32_t max_vfs)
{
	return sizeof(struct fair) + max_vfs * sizeof(struct eevdf_vf) + eevdf_memory(max_vfs);
}

static void update_slice(struct fair *f)
{
	f->e.slice = auto_slice(&f->length, f->e.facts, f->n);
	if (f->e.slice <= f->e.longest)
		return;
	f->e.longest = f->e.slice;
	f->e.favour = f->e.longest * quarters[f->favour] / 4;
}

static void set_params(void *state, const int64_t *values, vgpu_nsec now)
{
	struct fair *f = state;
	uint32_t i;

	eevdf_update(&f->e, now);
	auto_slice_set(&f->length, values[P_SLICE], values[P_MODE], values[P_OVERHEAD],
		       values[P_ROTATION]);
	f->debt_turns = values[P_DEBT_TURNS];
	f->favour = values[P_FAVOUR];
	f->e.longest = 0;
	update_slice(f);
	for (i = 0; i < f->e.facts->max_vfs; i++)
		eevdf_favour_anew(&f->e, i);
}

static void attach(void *state, const struct vgpu_facts *facts, const int64_t *values)
{
	struct fair *f = state;

	eevdf_init(&f->e, facts, f->vfs, &f->vfs[facts->max_vfs]);
	set_params(state, values, 0);
}

static bool set_vf(void *state, uint32_t index, const int64_t *values, vgpu_nsec now,
		   const char **why)
{
	struct fair *f = state;

	(void)why;
	eevdf_set(&f->e, index, (uint32_t)values[V_WEIGHT],
		  (vgpu_nsec)values[V_LATENCY_SLICE] * VGPU_USEC, now);
	return true;
}

static bool admit(void *state, uint32_t index, const int64_t *values, vgpu_nsec now,
		  const char **why)
{
	struct fair *f = state;

	f->vfs[index].admitted = true;
	f->n++;
	update_slice(f);
	return set_vf(state, index, values, now, why);
}

static void online(void *state, uint32_t index, vgpu_nsec now)
{
	(void)state;
	(void)index;
	(void)now;
}

static bool wake(void *state, uint32_t index, vgpu_nsec now)
{
	struct fair *f = state;

	eevdf_wake(&f->e, index, now);
	return f->e.current == VGPU_NO_VF || eevdf_preempts(&f->e, index);
}

static void sleep_vf(void *state, uint32_t index, vgpu_nsec now)
{
	struct fair *f = state;

	eevdf_sleep(&f->e, index, now);
}

static void remove_vf(void *state, uint32_t index, vgpu_nsec now)
{
	struct fair *f = state;

	if (f->vfs[index].competes)
		eevdf_sleep(&f->e, index, now);
	f->vfs[index].admitted = false;
	f->n--;
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct fair *f = state;

	(void)now;
	update_slice(f);
	out->vf = eevdf_first(&f->e);
	if (out->vf != VGPU_NO_VF)
		out->slice = eevdf_take(&f->e, out->vf);
}

static void run(void *state, uint32_t index, vgpu_nsec now)
{
	struct fair *f = state;

	(void)index;
	eevdf_run(&f->e, now);
}

static void drained(void *state, uint32_t index, vgpu_nsec now)
{
	struct fair *f = state;

	eevdf_drained(&f->e, index, now);
}

static vgpu_nsec extend(void *state, uint32_t index, vgpu_nsec end)
{
	struct fair *f = state;

	(void)index;
	return eevdf_extend(&f->e, true, end);
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct fair *f = state;
	struct eevdf_vf *vf = &f->vfs[usage->vf];
	int64_t deferred = vf->deferred;

	if (f->debt_turns > 1 || deferred > 0) {
		if (usage->charge > usage->granted)
			deferred += (int64_t)(usage->charge - usage->granted);
		deferred -= (deferred + f->debt_turns - 1) / f->debt_turns;
		if (deferred > f->worst_deferred)
			f->worst_deferred = deferred;
		eevdf_defer(vf, deferred);
	}
	eevdf_account(&f->e, usage, (int64_t)usage->charge);
}

static int64_t export_lag(void *state, uint32_t index)
{
	struct fair *f = state;

	return eevdf_lag(&f->e, index);
}

static void import_lag(void *state, uint32_t index, int64_t lag)
{
	struct fair *f = state;

	eevdf_import_lag(&f->e, index, lag);
}

static void share(void *state, uint32_t index, uint64_t *numerator, uint64_t *denominator)
{
	struct fair *f = state;
	uint32_t i;

	*numerator = f->vfs[index].t.weight;
	*denominator = 0;
	for (i = 0; i < f->e.facts->max_vfs; i++)
		if (f->vfs[i].admitted)
			*denominator += f->vfs[i].t.weight;
}

static void bound(void *state, uint32_t index, struct vgpu_bound *out)
{
	struct fair *f = state;

	eevdf_bound(&f->e, index, (vgpu_nsec)f->worst_deferred + f->e.favour, out);
}

static const char *warning(void *state)
{
	struct fair *f = state;

	return auto_slice_warning(&f->length, f->e.facts, f->n);
}

const struct vgpu_policy_ops POLICY_ENTRY = {
	.size = sizeof(struct vgpu_policy_ops),
	.abi_major = VGPU_POLICY_ABI_MAJOR,
	.abi_minor = VGPU_POLICY_ABI_MINOR,
	.name = "fair",
	.help = "shares by weight; latency by how soon each slice is due (EEVDF)",
	.promises = VGPU_PROMISE_WORK_CONSERVING | VGPU_PROMISE_PROPORTIONAL |
		    VGPU_PROMISE_NO_STARVATION,
	.params = params,
	.vf_params = vf_params,
	.memory = memory,
	.attach = attach,
	.set_params = set_params,
	.admit = admit,
	.set_vf = set_vf,
	.remove = remove_vf,
	.online = online,
	.offline = online,
	.wake = wake,
	.sleep = sleep_vf,
	.pick = pick,
	.run = run,
	.account = account,
	.export_lag = export_lag,
	.import_lag = import_lag,
	.share = share,
	.bound = bound,
	.warning = warning,
	.extend = extend,
	.drained = drained,
};
