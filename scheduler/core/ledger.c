/* SPDX-License-Identifier: MIT */
/*
 * Where the time goes. Each nanosecond between two steps belongs to the phase that the engine was
 * in, and so to exactly one counter:
 *
 *   wall = sum over VFs (run + donated + switch + exclusive + reset) + switch + idle
 *
 * What a VF is charged is a second sum, which also closes at every step:
 *
 *   run + switch + debt_charged = charged + forgiven + what its open dispatch still owes
 */
#include <assert.h>

#include "private.h"

static void add_debt(struct vf *vf, vgpu_nsec amount)
{
	vgpu_nsec room = nsec_past(DEBT_MAX, vf->ledger.debt_ns);
	vgpu_nsec taken = nsec_min(room, amount);

	vf->ledger.debt_ns += taken;
	vf->written_off += amount - taken;
	vf->instalment = vf->ledger.debt_ns / DEBT_TURNS + 1;
}

static void add_run(struct vgpu_core *core, struct vf *vf, vgpu_nsec from, vgpu_nsec to)
{
	vgpu_nsec donated = 0;

	/* In another VF's slot only the time within the grant is donated; the rest is overrun. */
	if (core->d.open && core->d.flags & VGPU_PICK_DONATED)
		donated = nsec_past(nsec_min(to, core->d.end), from);
	vf->ledger.donated_ns += donated;
	vf->ledger.run_ns += to - from - donated;
	vf->open_run += to - from - donated;
}

void ledger_advance(struct vgpu_core *core, vgpu_nsec now)
{
	vgpu_nsec from = core->now, elapsed;
	struct vf *resident, *target;

	assert(now >= from); /* the caller's clock must be monotonic */
	elapsed = now - from;
	core->now = now;
	core->ledger.wall_ns += elapsed;
	if (elapsed == 0)
		return;

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
			add_debt(target, elapsed);
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
			add_debt(resident, elapsed);
		} else {
			add_run(core, resident, from, now);
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
		add_debt(resident, elapsed);
		return;
	case VGPU_PHASE_COUNT:
		break;
	}
	assert(false); /* all phases are handled above */
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
 * Closes the account of a dispatch, and returns what the policy is to charge. At most debt_cap is
 * charged beyond the grant; the rest is written off, and counted.
 */
vgpu_nsec ledger_close(struct vgpu_core *core, struct vf *vf, bool donated, vgpu_nsec overrun)
{
	vgpu_nsec instalment = nsec_min(vf->instalment, vf->ledger.debt_ns);
	vgpu_nsec beyond = overrun + vf->surcharge + instalment;
	vgpu_nsec forgiven = nsec_past(beyond, core->config.debt_cap);
	vgpu_nsec charge = vf->open_run + vf->surcharge + instalment - forgiven;

	assert(!donated || vf->open_run == overrun);
	vf->ledger.debt_ns -= instalment;
	vf->ledger.debt_charged_ns += instalment;
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

	assert(limit <= WINDOWS_PER_MINUTE);
	for (i = 0; i < h->n; i++)
		if (now - h->at[i] < span)
			h->at[kept++] = h->at[i];
	h->n = kept;
	if (h->n >= limit)
		return true;
	h->at[h->n++] = now;
	return false;
}
