/* SPDX-License-Identifier: MIT */
/*
 * deadline: a budget in each period, kept. EDF with hard constant-bandwidth servers; a set of
 * budgets is admitted only if it can be kept, with world switches, blocking and late stops counted
 * in. VFs without a budget take turns in the time that servers leave.
 *
 * With reclaim=grub a server is charged at the rate at which servers are active (GRUB; Lipari and
 * Baruah, ECRTS 2000; Linux: sched-deadline): the bandwidth of those that sleep goes to those that
 * work, in EDF order, and no deadline is at risk.
 */
#include "servers.h"

enum { P_CAP, P_RECLAIM, P_LATE, P_COVER, P_SLICE, P_ADMISSION };
enum { V_BUDGET, V_PERIOD };
enum { COVER_NOTHING, COVER_GRACE, COVER_WINDOWS };

struct deadline {
	struct servers s;
	uint64_t cap_ppm;
	bool reclaim;
	int64_t params[P_ADMISSION + 1];
	vgpu_nsec slice;
	uint32_t current;
	bool served; /* the current one by its budget */
	/* Whose turn it is among those without a budget, and what is left of it: budgets of others
	 * interrupt turns, always the same ones if periods and turns are in step. */
	uint32_t background;
	int64_t turn_left;
	uint64_t active_ppm;
	struct heap leaving; /* asleep, but active until their time of zero lag */
	struct vf {
		bool admitted, awake, active;
		uint64_t ppm; /* its cost, switches included, in its period */
	} vfs[];
};

static const char *const reclaims[] = {"off", "grub", NULL};
static const char *const covers[] = {"nothing", "grace", "windows", NULL};

static const struct vgpu_param params[] = {
	[P_CAP] = {"cap_pct", "%", "the most of the engine's time that budgets may add up to",
		   VGPU_PARAM_INT, 1, 100, 90, NULL},
	[P_RECLAIM] = {"reclaim", "", "what sleeping servers leave goes to those that work",
		       VGPU_PARAM_CHOICE, 0, 1, 0, reclaims},
	[P_LATE] = {"late_us", "us", "how late a VF may stop without harm to the others' budgets",
		    VGPU_PARAM_INT, 0, 100000, 500, NULL},
	[P_COVER] = {"cover", "", "what budgets are kept across, besides: hangs, windows",
		     VGPU_PARAM_CHOICE, 0, 2, COVER_NOTHING, covers},
	[P_SLICE] = {"slice_us", "us", "turns of VFs without a budget", VGPU_PARAM_INT, 500, 500000,
		     4000, NULL},
	[P_ADMISSION] = ADMISSION_PARAM,
	{.name = NULL},
};

static const struct vgpu_param vf_params[] = {
	[V_BUDGET] = {"budget_us", "us", "time in each period; 0: what others leave",
		      VGPU_PARAM_INT, 0, 10000000, 0, NULL},
	[V_PERIOD] = {"period_us", "us", "the period, and the deadline", VGPU_PARAM_INT, 5000,
		      10000000, 33000, NULL},
	{.name = NULL},
};

static size_t memory(uint32_t max_vfs)
{
	return sizeof(struct deadline) + max_vfs * sizeof(struct vf) + servers_memory(max_vfs) +
	       heap_memory(max_vfs);
}

/* What admission reckons with, under the given parameters. */
static struct admission rules(const struct deadline *d, const int64_t *values)
{
	const struct vgpu_facts *f = d->s.facts;
	vgpu_nsec more = (vgpu_nsec)values[P_LATE] * VGPU_USEC;

	if (values[P_COVER] >= COVER_GRACE)
		more += f->grace_ns;
	if (values[P_COVER] >= COVER_WINDOWS)
		more += f->window_ns;
	return servers_rules(&d->s, values[P_ADMISSION], values[P_CAP], more);
}

static bool check_params(void *state, const int64_t *values, vgpu_nsec now, const char **why)
{
	struct deadline *d = state;
	struct admission then = rules(d, values), at_present = rules(d, d->params);

	(void)now;
	return servers_may_change(&d->s, &at_present, &then, why);
}

static void set_params(void *state, const int64_t *values, vgpu_nsec now)
{
	struct deadline *d = state;
	uint32_t i;

	(void)now;
	d->cap_ppm = (uint64_t)values[P_CAP] * 10000;
	d->reclaim = values[P_RECLAIM];
	for (i = 0; i <= P_ADMISSION; i++)
		d->params[i] = values[i];
	d->slice = (vgpu_nsec)values[P_SLICE] * VGPU_USEC;
}

static void attach(void *state, const struct vgpu_facts *facts, const int64_t *values)
{
	struct deadline *d = state;
	void *rest = servers_init(&d->s, facts, &d->vfs[facts->max_vfs]);

	heap_init(&d->leaving, rest, facts->max_vfs);
	d->current = VGPU_NO_VF;
	set_params(state, values, 0);
}

/* Active: has work, or sleeps before its time of zero lag; then its bandwidth is in use. */
static void set_active(struct deadline *d, uint32_t index, bool active)
{
	struct vf *vf = &d->vfs[index];

	heap_remove(&d->leaving, index);
	if (vf->active == active)
		return;
	vf->active = active;
	d->active_ppm += active ? vf->ppm : -vf->ppm;
}

static void advance(struct deadline *d, vgpu_nsec now)
{
	servers_advance(&d->s, now);
	while (d->leaving.n && d->leaving.entries[0].key <= now)
		set_active(d, d->leaving.entries[0].vf, false);
}

static bool set_vf(void *state, uint32_t index, const int64_t *values, vgpu_nsec now,
		   const char **why)
{
	struct deadline *d = state;
	vgpu_nsec budget = (vgpu_nsec)values[V_BUDGET] * VGPU_USEC;
	vgpu_nsec period = (vgpu_nsec)values[V_PERIOD] * VGPU_USEC;
	struct admission a = rules(d, d->params);
	bool active = d->vfs[index].active;

	if (budget && !servers_admit(&d->s, &a, index, budget, period, why))
		return false;
	set_active(d, index, false);
	d->vfs[index].ppm = budget ? admission_ppm(budget + 2 * a.switch_ns, period) : 0;
	if (active && budget)
		set_active(d, index, true);
	servers_set(&d->s, index, budget, period, d->current == index, now);
	return true;
}

static bool admit(void *state, uint32_t index, const int64_t *values, vgpu_nsec now,
		  const char **why)
{
	struct deadline *d = state;

	if (!set_vf(state, index, values, now, why))
		return false;
	d->vfs[index].admitted = true;
	return true;
}

static void no_change(void *state, uint32_t index, vgpu_nsec now)
{
	(void)state;
	(void)index;
	(void)now;
}

static bool wake(void *state, uint32_t index, vgpu_nsec now)
{
	struct deadline *d = state;

	advance(d, now);
	d->vfs[index].awake = true;
	servers_wake(&d->s, index, now);
	if (d->s.cbs[index].budget)
		set_active(d, index, true);
	if (d->current == VGPU_NO_VF)
		return true;
	return servers_preempts(&d->s, index,
				d->served ? d->s.cbs[d->current].deadline : VGPU_NEVER);
}

static void sleep_vf(void *state, uint32_t index, vgpu_nsec now)
{
	struct deadline *d = state;
	struct cbs *c = &d->s.cbs[index];
	vgpu_nsec zero_lag = now;

	d->vfs[index].awake = false;
	servers_sleep(&d->s, index);
	if (!d->vfs[index].active)
		return;
	if (c->left > 0 && c->deadline > now)
		zero_lag = c->deadline -
			   (vgpu_nsec)((unsigned __int128)c->left * c->period / c->budget);
	else if (c->left <= 0)
		zero_lag = c->deadline;
	if (zero_lag > now)
		heap_insert(&d->leaving, index, zero_lag);
	else
		set_active(d, index, false);
}

static void remove_vf(void *state, uint32_t index, vgpu_nsec now)
{
	struct deadline *d = state;

	if (d->vfs[index].awake)
		sleep_vf(state, index, now);
	set_active(d, index, false);
	d->s.cbs[index].budget = 0;
	d->vfs[index].admitted = false;
}

static bool is_background(const struct deadline *d, uint32_t index)
{
	return d->vfs[index].awake && d->s.cbs[index].budget == 0;
}

static uint32_t next_in_background(struct deadline *d)
{
	uint32_t n = d->s.facts->max_vfs, i, next = VGPU_NO_VF;

	for (i = 1; i <= n && next == VGPU_NO_VF; i++)
		if (is_background(d, (d->background + i) % n))
			next = (d->background + i) % n;
	if (next == VGPU_NO_VF)
		return next;
	if (next == d->background || !is_background(d, d->background) ||
	    d->turn_left < (int64_t)d->s.facts->min_slice_ns) {
		d->background = next;
		d->turn_left = (int64_t)d->slice;
	}
	return d->background;
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct deadline *d = state;
	vgpu_nsec next, useful = d->s.facts->switch_ns + d->s.facts->min_slice_ns;

	advance(d, now);
	out->vf = heap_first(&d->s.ready);
	d->served = out->vf != VGPU_NO_VF;
	next = servers_next_budget(&d->s);
	if (d->served) {
		out->slice = servers_slice(&d->s, out->vf, now);
		out->flags = VGPU_PICK_REMAINDER;
		servers_dequeue(&d->s, out->vf);
	} else {
		/* A turn that would end with a server's next budget has to be worth a switch. */
		if (next == VGPU_NEVER || next > now + useful)
			out->vf = next_in_background(d);
		out->slice = (vgpu_nsec)d->turn_left;
		if (next != VGPU_NEVER && next > now &&
		    next - now < out->slice + d->s.facts->switch_ns)
			out->slice = next - now - d->s.facts->switch_ns;
		out->park_until = next;
	}
	d->current = out->vf;
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct deadline *d = state;
	uint64_t rate = d->vfs[usage->vf].ppm;
	vgpu_nsec charge = usage->charge;

	d->current = VGPU_NO_VF;
	if (d->s.cbs[usage->vf].budget == 0) {
		if (usage->vf == d->background)
			d->turn_left -= (int64_t)usage->charge;
		return;
	}
	advance(d, usage->end);
	rate = rate > d->active_ppm ? rate : d->active_ppm;
	if (d->reclaim && rate < d->cap_ppm)
		charge = (vgpu_nsec)((unsigned __int128)charge * rate / d->cap_ppm);
	servers_charge(&d->s, usage->vf, charge, usage->overrun);
}

static int64_t export_lag(void *state, uint32_t index)
{
	struct deadline *d = state;

	return d->s.cbs[index].left < 0 ? d->s.cbs[index].left : 0;
}

static void import_lag(void *state, uint32_t index, int64_t lag)
{
	struct deadline *d = state;

	if (lag < 0 && d->s.cbs[index].budget)
		d->s.cbs[index].left = lag;
}

static void share(void *state, uint32_t index, uint64_t *numerator, uint64_t *denominator)
{
	struct deadline *d = state;
	const struct cbs *c = &d->s.cbs[index];

	*numerator = c->budget ? c->budget * 1000000 / c->period : 0;
	*numerator += *numerator == 0;
	*denominator = 1000000;
}

/* A server has its budget by the end of each period; so it waits for two of them at the most, less
 * what it gets in them. The background is promised nothing. */
static void bound(void *state, uint32_t index, struct vgpu_bound *out)
{
	struct deadline *d = state;
	const struct cbs *c = &d->s.cbs[index];

	out->max_lag = VGPU_NEVER;
	out->max_wait = VGPU_NEVER;
	if (c->budget == 0)
		return;
	out->budget = c->budget;
	out->period = c->period;
	out->max_wait = 2 * c->period * (1 + d->s.worst / c->budget);
}

static const char *warning(void *state)
{
	struct deadline *d = state;
	struct admission a = rules(d, d->params);

	return servers_warning(&d->s, &a);
}

const struct vgpu_policy_ops POLICY_ENTRY = {
	.size = sizeof(struct vgpu_policy_ops),
	.abi_major = VGPU_POLICY_ABI_MAJOR,
	.abi_minor = VGPU_POLICY_ABI_MINOR,
	.name = "deadline",
	.help = "a budget in each period, kept: EDF, with admission that counts switches",
	.promises = VGPU_PROMISE_GUARANTEE,
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
	.check_params = check_params,
	.warning = warning,
};
