/* SPDX-License-Identifier: MIT */
/*
 * wdrr: weighted deficit round robin (Shreedhar and Varghese, SIGCOMM '95), the smallest policy
 * that is fair, to learn from and to start from; docs/writing-a-policy.md walks through it.
 *
 * VFs that have work stand in a circle. Each time round, a VF's deficit grows by its quantum; it
 * may run for as long as its deficit, and what it ran is taken off. Who ran too long begins its
 * next turn with less.
 */
#include "vgpu/policy.h"

enum { P_QUANTUM };
enum { V_WEIGHT };

struct vf {
	bool admitted, awake;
	uint32_t weight;	 /* hundredths of the quantum */
	uint32_t next, previous; /* in the circle */
	int64_t deficit, worst;	 /* worst: the largest debt so far */
};

struct wdrr {
	const struct vgpu_facts *facts;
	int64_t quantum;
	uint32_t turn; /* whose it is, or VGPU_NO_VF if nobody has work */
	bool fresh;    /* it has not yet had its quantum for this turn */
	struct vf vfs[];
};

static const struct vgpu_param params[] = {
	[P_QUANTUM] = {"quantum_us", "us", "time that a VF of weight 100 gets each round",
		       VGPU_PARAM_INT, 500, 500000, 4000, NULL},
	{.name = NULL},
};

static const struct vgpu_param vf_params[] = {
	[V_WEIGHT] = {"weight", "", "hundredths of the quantum", VGPU_PARAM_INT, 1, 10000, 100,
		      NULL},
	{.name = NULL},
};

static size_t memory(uint32_t max_vfs)
{
	return sizeof(struct wdrr) + max_vfs * sizeof(struct vf);
}

static void set_params(void *state, const int64_t *values, vgpu_nsec now)
{
	struct wdrr *w = state;

	(void)now;
	w->quantum = values[P_QUANTUM] * (int64_t)VGPU_USEC;
}

static void attach(void *state, const struct vgpu_facts *facts, const int64_t *values)
{
	struct wdrr *w = state;

	w->facts = facts;
	w->turn = VGPU_NO_VF;
	set_params(state, values, 0);
}

static int64_t quantum_of(const struct wdrr *w, const struct vf *vf)
{
	return w->quantum * vf->weight / 100;
}

static bool set_vf(void *state, uint32_t index, const int64_t *values, vgpu_nsec now,
		   const char **why)
{
	struct wdrr *w = state;

	(void)now;
	(void)why;
	w->vfs[index].weight = (uint32_t)values[V_WEIGHT];
	/* What a larger weight brought is not kept under a smaller one. */
	if (w->vfs[index].deficit > quantum_of(w, &w->vfs[index]))
		w->vfs[index].deficit = quantum_of(w, &w->vfs[index]);
	return true;
}

static bool admit(void *state, uint32_t index, const int64_t *values, vgpu_nsec now,
		  const char **why)
{
	struct wdrr *w = state;

	w->vfs[index].admitted = true;
	return set_vf(state, index, values, now, why);
}

static void no_change(void *state, uint32_t index, vgpu_nsec now)
{
	(void)state;
	(void)index;
	(void)now;
}

/* Joins the circle where it has to wait longest: just before the one whose turn it is. */
static bool wake(void *state, uint32_t index, vgpu_nsec now)
{
	struct wdrr *w = state;
	struct vf *vf = &w->vfs[index];

	(void)now;
	vf->awake = true;
	if (w->turn == VGPU_NO_VF) {
		vf->next = index;
		vf->previous = index;
		w->turn = index;
		w->fresh = true;
		return true;
	}
	vf->next = w->turn;
	vf->previous = w->vfs[w->turn].previous;
	w->vfs[vf->previous].next = index;
	w->vfs[vf->next].previous = index;
	return false;
}

static void sleep_vf(void *state, uint32_t index, vgpu_nsec now)
{
	struct wdrr *w = state;
	struct vf *vf = &w->vfs[index];

	(void)now;
	vf->awake = false;
	if (vf->deficit > 0) /* who has no work is owed nothing; what it owes it goes on owing */
		vf->deficit = 0;
	if (w->turn == index) {
		w->turn = vf->next == index ? VGPU_NO_VF : vf->next;
		w->fresh = true;
	}
	w->vfs[vf->previous].next = vf->next;
	w->vfs[vf->next].previous = vf->previous;
}

static void remove_vf(void *state, uint32_t index, vgpu_nsec now)
{
	struct wdrr *w = state;

	if (w->vfs[index].awake)
		sleep_vf(state, index, now);
	w->vfs[index].admitted = false;
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct wdrr *w = state;
	int64_t least = (int64_t)w->facts->min_slice_ns, rounds, few = INT64_MAX;
	uint32_t i;

	(void)now;
	if (w->turn == VGPU_NO_VF)
		return;
	for (i = w->turn;;) {
		struct vf *vf = &w->vfs[i];

		if (w->fresh)
			vf->deficit += quantum_of(w, vf);
		w->fresh = false;
		if (vf->deficit >= least) {
			w->turn = i;
			out->vf = i;
			out->slice = (vgpu_nsec)vf->deficit;
			return;
		}
		rounds = (least - vf->deficit + quantum_of(w, vf) - 1) / quantum_of(w, vf);
		few = rounds < few ? rounds : few;
		i = vf->next;
		w->fresh = true;
		if (i != w->turn)
			continue;
		/* Nobody may run in this round, nor in the next few: pass over those at once. */
		do {
			w->vfs[i].deficit += (few - 1) * quantum_of(w, &w->vfs[i]);
			i = w->vfs[i].next;
		} while (i != w->turn);
		few = INT64_MAX;
	}
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct wdrr *w = state;
	struct vf *vf = &w->vfs[usage->vf];

	vf->deficit -= (int64_t)usage->charge;
	if (-vf->deficit > vf->worst)
		vf->worst = -vf->deficit;
	if (vf->deficit >= (int64_t)w->facts->min_slice_ns)
		return; /* its turn was cut short, and goes on */
	w->turn = vf->next;
	w->fresh = true;
}

static int64_t export_lag(void *state, uint32_t index)
{
	struct wdrr *w = state;

	return w->vfs[index].deficit;
}

static void import_lag(void *state, uint32_t index, int64_t lag)
{
	struct wdrr *w = state;
	int64_t most = quantum_of(w, &w->vfs[index]);

	w->vfs[index].deficit = lag > most ? most : lag;
	if (-lag > w->vfs[index].worst)
		w->vfs[index].worst = -lag;
}

static void share(void *state, uint32_t index, uint64_t *numerator, uint64_t *denominator)
{
	struct wdrr *w = state;
	uint32_t i;

	*numerator = w->vfs[index].weight;
	*denominator = 0;
	for (i = 0; i < w->facts->max_vfs; i++)
		if (w->vfs[i].admitted)
			*denominator += w->vfs[i].weight;
}

/*
 * Between two of its turns each VF is passed once by every other. A deficit lies between the worst
 * debt and a quantum and a slice (what was too short to run is kept); so with share f
 *   |lag| <= quantum + slice + worst + f * sum (quantum + slice + worst)
 */
static void bound(void *state, uint32_t index, struct vgpu_bound *out)
{
	struct wdrr *w = state;
	uint64_t all = 0, round = 0, weights = 0, own = 0;
	uint32_t i;

	for (i = 0; i < w->facts->max_vfs; i++) {
		const struct vf *vf = &w->vfs[i];
		uint64_t reach;

		if (!vf->admitted)
			continue;
		reach = (uint64_t)(quantum_of(w, vf) + vf->worst) + w->facts->min_slice_ns;
		all += reach;
		round += reach + 2 * w->facts->switch_ns;
		weights += vf->weight;
		if (i == index)
			own = reach;
	}
	out->max_lag = own + all * w->vfs[index].weight / (weights ? weights : 1);
	out->max_wait = round * (2 + own / (uint64_t)quantum_of(w, &w->vfs[index]));
}

const struct vgpu_policy_ops POLICY_ENTRY = {
	.size = sizeof(struct vgpu_policy_ops),
	.abi_major = VGPU_POLICY_ABI_MAJOR,
	.abi_minor = VGPU_POLICY_ABI_MINOR,
	.name = "wdrr",
	.help = "weighted deficit round robin: the smallest fair policy",
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
