/* SPDX-License-Identifier: MIT */
/*
 * turns: VFs that have work take turns of one length. The example of docs/writing-a-policy.md; it
 * builds against the installed header alone.
 */
#include <vgpu/policy.h>

enum { P_SLICE };

struct vf {
	bool awake, admitted;
};

struct turns {
	const struct vgpu_facts *facts;
	vgpu_nsec slice;
	uint32_t last;
	struct vf vfs[];
};

static const struct vgpu_param params[] = {
	[P_SLICE] = {"slice_us", "us", "length of one turn", VGPU_PARAM_INT, 500, 500000, 4000,
		     NULL},
	{.name = NULL},
};

static const struct vgpu_param vf_params[] = {{.name = NULL}};

static size_t memory(uint32_t max_vfs)
{
	return sizeof(struct turns) + max_vfs * sizeof(struct vf);
}

static void set_params(void *state, const int64_t *values, vgpu_nsec now)
{
	struct turns *t = state;

	(void)now;
	t->slice = (vgpu_nsec)values[P_SLICE] * VGPU_USEC;
}

static void attach(void *state, const struct vgpu_facts *facts, const int64_t *values)
{
	struct turns *t = state;

	t->facts = facts;
	set_params(state, values, 0);
}

static bool set_vf(void *state, uint32_t vf, const int64_t *values, vgpu_nsec now, const char **why)
{
	(void)state;
	(void)vf;
	(void)values;
	(void)now;
	(void)why;
	return true;
}

static bool admit(void *state, uint32_t vf, const int64_t *values, vgpu_nsec now, const char **why)
{
	struct turns *t = state;

	t->vfs[vf].admitted = true;
	return set_vf(state, vf, values, now, why);
}

static void remove_vf(void *state, uint32_t vf, vgpu_nsec now)
{
	struct turns *t = state;

	(void)now;
	t->vfs[vf] = (struct vf){.awake = false};
}

static void no_change(void *state, uint32_t vf, vgpu_nsec now)
{
	(void)state;
	(void)vf;
	(void)now;
}

static bool wake(void *state, uint32_t vf, vgpu_nsec now)
{
	struct turns *t = state;

	(void)now;
	t->vfs[vf].awake = true;
	return false;
}

static void sleep_vf(void *state, uint32_t vf, vgpu_nsec now)
{
	struct turns *t = state;

	(void)now;
	t->vfs[vf].awake = false;
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct turns *t = state;
	uint32_t n = t->facts->max_vfs, i;

	(void)now;
	for (i = 1; i <= n; i++) {
		uint32_t vf = (t->last + i) % n;

		if (!t->vfs[vf].awake)
			continue;
		t->last = vf;
		out->vf = vf;
		out->slice = t->slice;
		return;
	}
}

static void account(void *state, const struct vgpu_usage *usage)
{
	(void)state;
	(void)usage;
}

static int64_t export_lag(void *state, uint32_t vf)
{
	(void)state;
	(void)vf;
	return 0;
}

static void import_lag(void *state, uint32_t vf, int64_t lag)
{
	(void)state;
	(void)vf;
	(void)lag;
}

static void share(void *state, uint32_t vf, uint64_t *numerator, uint64_t *denominator)
{
	struct turns *t = state;
	uint32_t i;

	*numerator = 1;
	*denominator = 0;
	for (i = 0; i < t->facts->max_vfs; i++)
		*denominator += t->vfs[i].admitted || i == vf;
}

static void bound(void *state, uint32_t vf, struct vgpu_bound *out)
{
	(void)state;
	(void)vf;
	out->max_lag = VGPU_NEVER;
	out->max_wait = VGPU_NEVER;
}

const struct vgpu_policy_ops vgpu_policy_entry = {
	.size = sizeof(struct vgpu_policy_ops),
	.abi_major = VGPU_POLICY_ABI_MAJOR,
	.abi_minor = VGPU_POLICY_ABI_MINOR,
	.name = "turns",
	.help = "turns of one length",
	.promises = VGPU_PROMISE_WORK_CONSERVING,
	.params = params,
	.vf_params = vf_params,
	.memory = memory,
	.attach = attach,
	.set_params = set_params,
	.admit = admit,
	.set_vf = set_vf,
	.remove = remove_vf,
	.online = no_change,
	.offline = no_change,
	.wake = wake,
	.sleep = sleep_vf,
	.pick = pick,
	.account = account,
	.export_lag = export_lag,
	.import_lag = import_lag,
	.share = share,
	.bound = bound,
};
