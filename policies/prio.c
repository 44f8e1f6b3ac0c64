/* SPDX-License-Identifier: MIT */
/*
 * prio: eight classes. A VF runs only while no VF of an earlier class has work; inside a class VFs
 * share by weight (EEVDF). A VF that wakes takes the engine from a VF of a later class. A VF that
 * has waited for `starve_ms` gets one slice regardless of its class, the longest waiter first: a
 * flood in an earlier class delays a VF but never stops it (the online/offline mix of qGPU,
 * XSched's HPF, with an end to starvation).
 */
#include "eevdf.h"

enum { P_SLICE, P_STARVE };
enum { V_CLASS, V_WEIGHT };

#define CLASSES 8u

struct vf {
	uint32_t class, next_class;
	vgpu_nsec since; /* when it began to wait; valid while it is in the heap */
};

struct prio {
	const struct vgpu_facts *facts;
	vgpu_nsec starve;
	uint32_t n_awake[CLASSES]; /* VFs that compete, running or not */
	uint32_t current;	   /* dispatched, or VGPU_NO_VF */
	struct heap waiting;	   /* by when they began to wait */
	struct eevdf classes[CLASSES];
	struct vf *own;
	struct eevdf_vf vfs[];
};

static const struct vgpu_param params[] = {
	[P_SLICE] = {"slice_us", "us", "length of one slice", VGPU_PARAM_INT, 500, 500000, 4000,
		     NULL},
	[P_STARVE] = {"starve_ms", "ms", "a VF that has waited this long gets one slice",
		      VGPU_PARAM_INT, 1, 1000000, 500, NULL},
	{.name = NULL},
};

static const struct vgpu_param vf_params[] = {
	[V_CLASS] = {"class", "", "0 is served first, 7 last", VGPU_PARAM_INT, 0, CLASSES - 1, 4,
		     NULL},
	[V_WEIGHT] = {"weight", "", "share, relative to the weights of the VFs in its class",
		      VGPU_PARAM_INT, 1, 10000, 100, NULL},
	{.name = NULL},
};

static size_t memory(uint32_t max_vfs)
{
	return sizeof(struct prio) + max_vfs * (sizeof(struct eevdf_vf) + sizeof(struct vf)) +
	       heap_memory(max_vfs) + CLASSES * eevdf_memory(max_vfs);
}

static struct eevdf *class_of(struct prio *p, uint32_t index)
{
	return &p->classes[p->own[index].class];
}

static void set_params(void *state, const int64_t *values, vgpu_nsec now)
{
	struct prio *p = state;
	uint32_t i;

	(void)now;
	p->starve = (vgpu_nsec)values[P_STARVE] * VGPU_MSEC;
	for (i = 0; i < CLASSES; i++)
		eevdf_set_slice(&p->classes[i], (vgpu_nsec)values[P_SLICE] * VGPU_USEC);
}

static void attach(void *state, const struct vgpu_facts *facts, const int64_t *values)
{
	struct prio *p = state;
	void *rest = &p->vfs[facts->max_vfs];
	uint32_t i;

	p->facts = facts;
	p->current = VGPU_NO_VF;
	rest = heap_init(&p->waiting, rest, facts->max_vfs);
	for (i = 0; i < CLASSES; i++)
		rest = eevdf_init(&p->classes[i], facts, p->vfs, rest);
	p->own = rest;
	set_params(state, values, 0);
}

static void join(struct prio *p, uint32_t index, vgpu_nsec now)
{
	eevdf_wake(class_of(p, index), index, now);
	p->n_awake[p->own[index].class]++;
}

static void leave(struct prio *p, uint32_t index, vgpu_nsec now)
{
	eevdf_sleep(class_of(p, index), index, now);
	p->n_awake[p->own[index].class]--;
}

/* Changes a VF's class; if the VF runs, only after its account. */
static void change_class(struct prio *p, uint32_t index, vgpu_nsec now)
{
	struct vf *vf = &p->own[index];
	bool competes = p->vfs[index].competes;

	if (vf->class == vf->next_class || p->current == index)
		return;
	if (competes)
		leave(p, index, now);
	/* A debt to VFs of one class is not owed to those of another. */
	eevdf_forget(class_of(p, index), index);
	vf->class = vf->next_class;
	if (competes)
		join(p, index, now);
}

static bool set_vf(void *state, uint32_t index, const int64_t *values, vgpu_nsec now,
		   const char **why)
{
	struct prio *p = state;

	(void)why;
	eevdf_set(class_of(p, index), index, (uint32_t)values[V_WEIGHT], 0, now);
	p->own[index].next_class = (uint32_t)values[V_CLASS];
	change_class(p, index, now);
	return true;
}

static bool admit(void *state, uint32_t index, const int64_t *values, vgpu_nsec now,
		  const char **why)
{
	struct prio *p = state;

	p->vfs[index].admitted = true;
	return set_vf(state, index, values, now, why);
}

static void no_change(void *state, uint32_t index, vgpu_nsec now)
{
	(void)state;
	(void)index;
	(void)now;
}

static void wait_from(struct prio *p, uint32_t index, vgpu_nsec now)
{
	p->own[index].since = now;
	heap_insert(&p->waiting, index, now);
}

static bool wake(void *state, uint32_t index, vgpu_nsec now)
{
	struct prio *p = state;
	uint32_t own = p->own[index].class, running;

	join(p, index, now);
	wait_from(p, index, now);
	if (p->current == VGPU_NO_VF)
		return true;
	running = p->own[p->current].class;
	if (own != running)
		eevdf_has_rival(&p->classes[running], now);
	return own < running || (own == running && eevdf_preempts(&p->classes[own], index));
}

static void sleep_vf(void *state, uint32_t index, vgpu_nsec now)
{
	struct prio *p = state;

	leave(p, index, now);
	heap_remove(&p->waiting, index);
}

static void remove_vf(void *state, uint32_t index, vgpu_nsec now)
{
	struct prio *p = state;

	if (p->vfs[index].competes)
		sleep_vf(state, index, now);
	p->vfs[index].admitted = false;
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct prio *p = state;
	uint32_t index = heap_first(&p->waiting), class = 0;

	if (index == VGPU_NO_VF)
		return;
	if (now - p->own[index].since < p->starve) {
		while (p->n_awake[class] == 0)
			class ++;
		index = eevdf_first(&p->classes[class]);
	}
	p->current = index;
	heap_remove(&p->waiting, index);
	out->vf = index;
	out->slice = eevdf_take(class_of(p, index), index);
}

static void run(void *state, uint32_t index, vgpu_nsec now)
{
	struct prio *p = state;

	eevdf_run(class_of(p, index), now);
}

static void drained(void *state, uint32_t index, vgpu_nsec now)
{
	struct prio *p = state;

	eevdf_drained(class_of(p, index), index, now);
}

/* Extends the VF unless another VF starves or a VF of an earlier class has work. */
static vgpu_nsec extend(void *state, uint32_t index, vgpu_nsec end)
{
	struct prio *p = state;
	uint32_t longest = heap_first(&p->waiting), class;
	vgpu_nsec more, left;

	if (p->own[index].class != p->own[index].next_class)
		return 0;
	if (longest != VGPU_NO_VF && end - p->own[longest].since >= p->starve)
		return 0;
	for (class = 0; class < p->own[index].class; class ++)
		if (p->n_awake[class])
			return 0;
	more = eevdf_extend(class_of(p, index), longest == VGPU_NO_VF, end);
	if (longest == VGPU_NO_VF)
		return more;
	left = p->own[longest].since + p->starve - end;
	return more < left ? more : left;
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct prio *p = state;

	eevdf_account(class_of(p, usage->vf), usage, (int64_t)usage->charge);
	p->current = VGPU_NO_VF;
	wait_from(p, usage->vf, usage->end);
	change_class(p, usage->vf, usage->end);
}

static int64_t export_lag(void *state, uint32_t index)
{
	struct prio *p = state;

	return eevdf_lag(class_of(p, index), index);
}

static void import_lag(void *state, uint32_t index, int64_t lag)
{
	struct prio *p = state;

	eevdf_import_lag(class_of(p, index), index, lag);
}

/* Sets the VF's share of the time that is left to its class. For a running VF whose class changes,
 * uses the new class, because the core asks only after an operator's change. */
static void share(void *state, uint32_t index, uint64_t *numerator, uint64_t *denominator)
{
	struct prio *p = state;
	uint32_t i;

	*numerator = p->vfs[index].t.weight;
	*denominator = 0;
	for (i = 0; i < p->facts->max_vfs; i++)
		if (p->vfs[i].admitted && p->own[i].next_class == p->own[index].next_class)
			*denominator += p->vfs[i].t.weight;
}

/* Writes the bounds. No share is promised across classes. A VF waits until it starves, then for the
 * VF that runs, and then for those that have starved longer, each of which gets one slice and may
 * overrun. */
static void bound(void *state, uint32_t index, struct vgpu_bound *out)
{
	struct prio *p = state;
	vgpu_nsec slice = p->classes[0].slice + 2 * p->facts->min_slice_ns, turn, most = 0;
	uint32_t i;

	out->max_lag = VGPU_NEVER;
	out->max_wait = p->starve;
	for (i = 0; i < p->facts->max_vfs; i++) {
		if (!p->vfs[i].admitted || i == index)
			continue;
		turn = slice + (vgpu_nsec)p->vfs[i].worst + (vgpu_nsec)p->vfs[i].early +
		       (vgpu_nsec)p->vfs[i].kept + 2 * p->facts->switch_high_ns;
		most = turn > most ? turn : most;
		out->max_wait += turn;
	}
	out->max_wait += most + p->facts->switch_high_ns;
}

const struct vgpu_policy_ops POLICY_ENTRY = {
	.size = sizeof(struct vgpu_policy_ops),
	.abi_major = VGPU_POLICY_ABI_MAJOR,
	.abi_minor = VGPU_POLICY_ABI_MINOR,
	.name = "prio",
	.help = "classes served in order; a VF that starves gets a slice",
	.promises = VGPU_PROMISE_WORK_CONSERVING | VGPU_PROMISE_NO_STARVATION,
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
	.run = run,
	.account = account,
	.export_lag = export_lag,
	.import_lag = import_lag,
	.share = share,
	.bound = bound,
	.extend = extend,
	.drained = drained,
};
