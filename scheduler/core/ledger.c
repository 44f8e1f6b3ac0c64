/* SPDX-License-Identifier: MIT */
/*
 * The accounts of the engine's time. Each nanosecond between two steps belongs to the phase of the
 * engine, and so to exactly one counter:
 *
 *   wall = sum over VFs (run + donated + switch + exclusive + reset) + switch + idle
 *
 * What a VF is charged is a second sum, which also closes at every step:
 *
 *   run + switch + fined + debt_charged = charged + forgiven + what its open dispatch still owes
 *
 * Windows and resets are a VF's debt. A VF with work pays by charges, if they cost it anything. A
 * VF without work uses nothing of its share, so its share of the time pays. Every nanosecond of a
 * debt is paid once:
 *
 *   exclusive + reset + brought = debt + debt_charged + debt_lapsed + written_off
 */
#include <assert.h>

#include "private.h"

/* Shares of the time are in billionths: a debt that never ends is paid for days. */
#define WHOLE UINT64_C(1000000000)

static uint64_t part_of(uint64_t whole, uint32_t share)
{
	return (uint64_t)((unsigned __int128)whole * share / WHOLE);
}

/* The amount of which PART is the share, rounded up. */
static uint64_t whole_of(uint64_t part, uint32_t share)
{
	return (uint64_t)(((unsigned __int128)part * WHOLE + share - 1) / share);
}

/* The part of a VF's debt that its share of the time has paid, and that is not booked yet. */
vgpu_nsec ledger_lapses(const struct vgpu_core *core, const struct vf *vf)
{
	vgpu_nsec since = core->now - vf->paid_until;

	if (vf->ledger.debt_ns == 0 || (vf->awake && core->charges_pay))
		return 0;
	return nsec_min(vf->ledger.debt_ns, part_of(since, vf->share));
}

/* Books the debt that passing time has paid. To be called before a change of the VF's share, its
 * debt, or whether it has work. */
void ledger_pay(struct vgpu_core *core, struct vf *vf)
{
	vgpu_nsec paid = ledger_lapses(core, vf);

	vf->ledger.debt_ns -= paid;
	vf->ledger.debt_lapsed_ns += paid;
	/* Keeps the fraction of a nanosecond, however often this is called. */
	if (vf->ledger.debt_ns > 0 && !(vf->awake && core->charges_pay) && vf->share > 0)
		vf->paid_until += whole_of(paid, vf->share);
	else
		vf->paid_until = core->now;
}

static vgpu_nsec largest_debt(const struct vgpu_core *core)
{
	return nsec_max(DEBT_MAX, WINDOW_CREDIT + core->config.window_max);
}

/* Adds to a debt whose payment by time is booked up to SINCE. */
static __attribute__((noinline)) void add_debt(struct vgpu_core *core, struct vf *vf,
					       vgpu_nsec amount, vgpu_nsec since)
{
	vgpu_nsec beyond;

	if (vf->ledger.debt_ns == 0)
		vf->paid_until = since;
	vf->ledger.debt_ns += amount;
	ledger_pay(core, vf);
	beyond = nsec_past(vf->ledger.debt_ns, largest_debt(core));
	vf->ledger.debt_ns -= beyond;
	vf->written_off += beyond;
	vf->instalment = vf->ledger.debt_ns / DEBT_TURNS + 1;
}

/* A VF pays during its own window, too. */
static void add_apart(struct vgpu_core *core, struct vf *vf, vgpu_nsec elapsed)
{
	add_debt(core, vf, elapsed, core->now - elapsed);
}

void ledger_bring(struct vgpu_core *core, struct vf *vf, vgpu_nsec amount)
{
	amount = nsec_min(amount, largest_debt(core));
	vf->ledger.brought_ns += amount;
	add_debt(core, vf, amount, core->now);
}

/* The instant at which the VF has credit for a window again, if it has no work until then. */
vgpu_nsec ledger_credit_at(struct vgpu_core *core, struct vf *vf)
{
	vgpu_nsec beyond;

	ledger_pay(core, vf);
	beyond = nsec_past(vf->ledger.debt_ns, WINDOW_CREDIT);
	if (beyond == 0)
		return core->now;
	return core->now + whole_of(beyond, vf->share);
}

/* The share that the policy promises the VF while all have work, in billionths. */
static uint64_t promised(const struct vgpu_core *core, uint32_t index)
{
	uint64_t numerator = 0, denominator = 1;

	core->policy->share(core->memory, index, &numerator, &denominator);
	if (numerator >= denominator)
		return WHOLE;
	return (uint64_t)((unsigned __int128)numerator * WHOLE / denominator);
}

/*
 * Computes the shares of the time anew from the policy's present promises. To be called when the
 * policy, its parameters or its members have changed. A policy's promises to all VFs may add up to
 * more than the whole (`prio` promises it to the VFs of one class), or less.
 *
 * A charge costs nothing under a policy that promises neither shares nor waits. Nor does it cost a
 * guaranteed budget, or make up for one that a window displaces. Under such policies only the time
 * pays a debt, and only a part of it.
 */
void ledger_share_out(struct vgpu_core *core)
{
	uint64_t promises = core->policy->promises, sum = 0, all;
	uint32_t i;

	for (i = 0; i < core->config.max_vfs; i++) {
		struct vf *vf = &core->vfs[i];

		ledger_pay(core, vf);
		vf->share = vf->admitted ? (uint32_t)promised(core, i) : 0;
		sum += vf->share;
	}
	core->charges_pay = !(promises & VGPU_PROMISE_GUARANTEE) &&
			    promises & (VGPU_PROMISE_PROPORTIONAL | VGPU_PROMISE_NO_STARVATION);
	all = core->charges_pay ? WHOLE : WHOLE / PART_UNCHARGED;
	for (i = 0; i < core->config.max_vfs; i++) {
		struct vf *vf = &core->vfs[i];
		uint64_t part = sum ? vf->share * all / sum : 0;

		vf->share = part < LEAST_SHARE ? LEAST_SHARE : (uint32_t)part;
	}
}

static void add_run(struct vgpu_core *core, struct vf *vf, vgpu_nsec elapsed)
{
	vgpu_nsec from = core->now - elapsed, donated = 0;

	/* In another VF's slot only the time within the grant is donated; the rest is overrun. */
	if (core->d.open && core->d.flags & VGPU_PICK_DONATED)
		donated = nsec_past(nsec_min(core->now, core->d.end), from);
	vf->ledger.donated_ns += donated;
	vf->ledger.run_ns += elapsed - donated;
	vf->open_run += elapsed - donated;
}

/* Out of line: most steps of a switch share one instant, and need not save the registers for
 * this. */
static __attribute__((noinline)) void spend(struct vgpu_core *core, vgpu_nsec elapsed)
{
	struct vf *resident, *target;

	switch (core->phase) {
	case VGPU_PHASE_PARKED:
		core->ledger.idle_ns += elapsed;
		return;
	case VGPU_PHASE_LOAD:
	case VGPU_PHASE_START:
	case VGPU_PHASE_READY:
		if (core->in_window) {
			target = &core->vfs[core->target];
			target->ledger.exclusive_ns += elapsed;
			add_apart(core, target, elapsed);
		} else if (core->phase == VGPU_PHASE_READY) {
			core->ledger.idle_ns += elapsed;
		} else {
			core->ledger.switch_ns += elapsed;
			core->switch_cost += elapsed;
		}
		return;
	case VGPU_PHASE_RUN:
	case VGPU_PHASE_IDLE:
		resident = &core->vfs[core->resident];
		if (core->in_window) {
			resident->ledger.exclusive_ns += elapsed;
			add_apart(core, resident, elapsed);
		} else {
			add_run(core, resident, elapsed);
		}
		return;
	case VGPU_PHASE_SAVE:
	case VGPU_PHASE_DROP:
		core->ledger.switch_ns += elapsed;
		core->switch_cost += elapsed;
		return;
	case VGPU_PHASE_RESET:
		resident = &core->vfs[core->resident];
		resident->ledger.reset_ns += elapsed;
		add_apart(core, resident, elapsed);
		return;
	case VGPU_PHASE_COUNT:
		break;
	}
	assert(false); /* all phases are handled above */
}

void ledger_advance(struct vgpu_core *core, vgpu_nsec now)
{
	vgpu_nsec elapsed = now - core->now;

	assert(now >= core->now); /* the caller's clock must be monotonic */
	core->now = now;
	core->ledger.wall_ns += elapsed;
	if (elapsed > 0)
		spend(core, elapsed);
}

/* Charges up to AMOUNT of the present switch to a VF. */
void ledger_charge_switch(struct vgpu_core *core, uint32_t index, vgpu_nsec amount)
{
	struct vf *vf = core_vf(core, index);

	amount = nsec_min(amount, core->switch_cost);
	core->switch_cost -= amount;
	core->ledger.switch_ns -= amount;
	vf->ledger.switch_ns += amount;
	vf->surcharge += amount;
}

/*
 * Closes the account of a dispatch, and returns the charge for the policy. It exceeds the grant by
 * at most debt_cap; the rest is written off and counted.
 */
vgpu_nsec ledger_close(struct vgpu_core *core, struct vf *vf, bool donated, vgpu_nsec overrun,
		       vgpu_nsec fine)
{
	vgpu_nsec due = core->charges_pay ? nsec_min(vf->instalment, vf->ledger.debt_ns) : 0;
	vgpu_nsec instalment = nsec_min(due, core->config.debt_cap);
	vgpu_nsec beyond = overrun + vf->surcharge + fine + instalment;
	vgpu_nsec forgiven = nsec_past(beyond, core->config.debt_cap);
	vgpu_nsec charge = vf->open_run + vf->surcharge + fine + instalment - forgiven;

	assert(!donated || vf->open_run == overrun);
	vf->ledger.debt_ns -= instalment;
	vf->ledger.debt_charged_ns += instalment;
	vf->ledger.fined_ns += fine;
	vf->ledger.charged_ns += charge;
	vf->ledger.forgiven_ns += forgiven;
	vf->ledger.overrun_ns += overrun;
	vf->ledger.max_overrun_ns = nsec_max(vf->ledger.max_overrun_ns, overrun);
	vf->surcharge = 0;
	vf->open_run = 0;
	if (forgiven > 0)
		core_record(core, VGPU_REC_FORGIVEN, (uint32_t)(vf - core->vfs), 0, forgiven, 0);
	return charge;
}

/* Records one more occurrence at NOW, unless that makes more than LIMIT within SPAN; returns
 * whether it would. */
bool history_exceeds(struct history *h, uint32_t limit, vgpu_nsec span, vgpu_nsec now)
{
	uint32_t kept = 0, i;

	assert(limit <= HISTORY);
	for (i = 0; i < h->n; i++)
		if (now - h->at[i] < span)
			h->at[kept++] = h->at[i];
	h->n = kept;
	if (h->n >= limit)
		return true;
	h->at[h->n++] = now;
	return false;
}

bool bucket_take(vgpu_nsec *full_at, uint32_t burst, vgpu_nsec refill, vgpu_nsec now)
{
	vgpu_nsec then = nsec_max(*full_at, now) + refill;

	if (then > now + burst * refill)
		return false;
	*full_at = then;
	return true;
}
