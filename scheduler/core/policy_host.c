/* SPDX-License-Identifier: MIT */
/*
 * The boundary between the core and its policy. The core does not trust the policy: it clamps the
 * policy's decisions and counts the clamped ones, and evicts a policy that breaks its contract in
 * favour of the fallback, in the same step. A change of policy is checked at once, and takes effect
 * at the next switch point, with lag carried over; but not before all VFs that waited at the last
 * change have had a turn. Each policy starts its order from the beginning; without this rule,
 * changes in quick succession would let the last VF wait for ever.
 *
 * Only the core holds the parameters in force. A change of parameters names the policy that it is
 * for: values parsed with another policy's tables could look valid.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "private.h"

static int64_t *row(int64_t *rows, uint32_t index)
{
	return rows + (size_t)index * VGPU_MAX_PARAMS;
}

/* Limits how often a VF's wake-ups preempt. */
static bool wake_is_limited(struct vgpu_core *core, struct vf *vf)
{
	bool limited = !bucket_take(&vf->wake_tokens_at, WAKE_BURST, WAKE_REFILL, core->now);

	core->ledger.wake_limited += limited;
	return limited;
}

static void woken(struct vgpu_core *core, uint32_t index, bool preempt)
{
	struct vf *vf = core_vf(core, index);
	struct dispatch *d = &core->d;

	vf->ledger.wakes++;
	if (core->phase == VGPU_PHASE_PARKED) {
		core->notes.wanted |= preempt || core->phase_deadline == VGPU_NEVER;
		return;
	}
	if (!d->open || core->in_window || core->phase == VGPU_PHASE_IDLE)
		return;
	if (preempt && d->reason == VGPU_END_SLICE && d->early == VGPU_NO_VF &&
	    !wake_is_limited(core, vf)) {
		vf->ledger.preempted++;
		if (core->phase == VGPU_PHASE_RUN)
			core->notes.waker = index;
		else
			d->early = index;
	}
	core->notes.wanted = true;
}

/*
 * Reports to the policy whether the VF has work, if that has changed. For the VF of the open
 * dispatch, this happens after its account.
 */
void policy_host_sync(struct vgpu_core *core, uint32_t index)
{
	struct vf *vf = core_vf(core, index);
	bool runnable = vf_is_runnable(vf);

	if (runnable == vf->awake || (core->d.open && core->d.vf == index))
		return;
	ledger_pay(core, vf);
	vf->awake = runnable;
	if (!runnable) {
		core->n_awake--;
		vf->slept = core->now;
		vf->ledger.wait_max_ns = nsec_max(vf->ledger.wait_max_ns, ledger_waits(core, vf));
		vf->waiting_since = VGPU_NEVER;
		core_record(core, VGPU_REC_SLEEP, index, 0, 0, 0);
		core->policy->sleep(core->memory, index, core->now);
		if (vf->owed_turn || vf->owed_round) {
			policy_host_had_turn(core, index);
			core->notes.wanted |=
				policy_host_change_is_due(core) || core->window_head != VGPU_NO_VF;
		}
		return;
	}
	core->n_awake++;
	vf->waiting_since = core->now;
	core_record(core, VGPU_REC_WAKE, index, 0, 0, 0);
	woken(core, index, core->policy->wake(core->memory, index, core->now));
}

/* The VF has no work: it goes to sleep only when its dispatch has ended, if it has none by then. */
void policy_host_drained(struct vgpu_core *core, uint32_t index)
{
	if (core->d.open && core->d.vf == index && !core->d.orphan && core->policy->drained)
		core->policy->drained(core->memory, index, core->now);
}

/* The guest driver of a VF is up, or gone. The VF's dispatch must be closed. */
void policy_host_online(struct vgpu_core *core, uint32_t index, bool online)
{
	struct vf *vf = core_vf(core, index);

	if (vf->online == online)
		return;
	assert(!core->d.open || core->d.vf != index);
	vf->online = online;
	if (online) {
		core->policy->online(core->memory, index, core->now);
	} else {
		policy_host_sync(core, index);
		core->policy->offline(core->memory, index, core->now);
	}
	ledger_share_out(core);
}

/* Introduces all VFs to a policy that was just attached. Imports all lags before any VF wakes,
 * because lags are relative to each other. */
static void introduce(struct vgpu_core *core, const int64_t *lags)
{
	const struct vgpu_policy_ops *policy = core->policy;
	uint32_t i;

	for (i = 0; i < core->config.max_vfs && lags; i++)
		if (core->vfs[i].admitted)
			policy->import_lag(core->memory, i, lags[i]);
	for (i = 0; i < core->config.max_vfs; i++) {
		struct vf *vf = &core->vfs[i];

		if (!vf->admitted)
			continue;
		if (vf->online)
			policy->online(core->memory, i, core->now);
		if (vf->awake)
			policy->wake(core->memory, i, core->now);
	}
}

static void defaults(const struct vgpu_param *table, int64_t *values)
{
	uint32_t i;

	for (i = 0; table[i].name; i++)
		values[i] = table[i].def;
}

/* Detaches a policy, and returns its memory to the caller. */
static void retire(struct vgpu_core *core, const struct vgpu_policy_ops *policy, void *memory,
		   enum vgpu_detach why, const char *text)
{
	if (memory == core->fallback_memory)
		return;
	if (policy->detach)
		policy->detach(memory, why, text);
	core_act(core, VGPU_AC_RETIRE, VGPU_NO_VF, 0);
	core->out->actions[core->out->n_actions - 1].memory = memory;
}

/* The policy broke its contract: the fallback takes over in this step. */
static void evict(struct vgpu_core *core, enum vgpu_fault fault)
{
	const char *why = NULL;
	uint32_t i;

	assert(core->policy != core->fallback); /* the fallback keeps its contract */
	core->ledger.evictions++;
	core->condemned = VGPU_FAULT_NONE;
	core->last_fault = fault;
	memcpy(core->faulty, core->policy->name, sizeof(core->faulty));
	core_record(core, VGPU_REC_EVICTED, VGPU_NO_VF, fault, 0, 0);
	retire(core, core->policy, core->memory, VGPU_DETACH_EVICTED, vgpu_fault_text(fault));
	core->policy = core->fallback;
	core->memory = core->fallback_memory;
	memset(core->memory, 0, core->policy->memory(core->config.max_vfs));
	defaults(core->policy->params, core->params);
	core->policy->attach(core->memory, &core->facts, core->params);
	for (i = 0; i < core->config.max_vfs; i++) {
		if (!core->vfs[i].admitted)
			continue;
		defaults(core->policy->vf_params, row(core->vf_params, i));
		core->vfs[i].admitted =
			core->policy->admit(core->memory, i, row(core->vf_params, i), core->now,
					    &why);
		assert(core->vfs[i].admitted);
	}
	introduce(core, NULL);
	ledger_share_out(core);
}

/* Returns the contract violation of a pick, or VGPU_FAULT_NONE. */
static enum vgpu_fault judge(const struct vgpu_core *core, const struct vgpu_pick *pick)
{
	if (pick->vf == VGPU_NO_VF) {
		if (pick->park_until <= core->now)
			return VGPU_FAULT_PAST_PARK;
		if (core->n_awake > 0 && pick->park_until == VGPU_NEVER)
			return VGPU_FAULT_STARVED;
		if (core->n_awake > 0 && core->policy->promises & VGPU_PROMISE_WORK_CONSERVING)
			return VGPU_FAULT_STARVED;
		return VGPU_FAULT_NONE;
	}
	if (pick->vf >= core->config.max_vfs)
		return VGPU_FAULT_BAD_VF;
	if (!core->vfs[pick->vf].online)
		return VGPU_FAULT_NO_WORK;
	if (!core->vfs[pick->vf].awake && core->n_awake > 0 &&
	    core->policy->promises & VGPU_PROMISE_PROPORTIONAL)
		return VGPU_FAULT_NO_WORK;
	if (pick->slice == 0)
		return VGPU_FAULT_ZERO_SLICE;
	if (pick->not_before > core->now + core->config.max_slice)
		return VGPU_FAULT_LATE_START;
	return VGPU_FAULT_NONE;
}

static void clamp(struct vgpu_core *core, struct vgpu_pick *pick)
{
	vgpu_nsec least = pick->flags & (VGPU_PICK_DONATED | VGPU_PICK_REMAINDER)
				  ? 1
				  : core->config.min_slice;
	vgpu_nsec slice = nsec_min(nsec_max(pick->slice, least), core->config.max_slice);

	if (slice != pick->slice) {
		core->ledger.clamped++;
		core->vfs[pick->vf].ledger.clamped++;
	}
	pick->slice = slice;
}

/* Asks the policy which VF is next. False: park until pick->park_until. */
bool policy_host_pick(struct vgpu_core *core, struct vgpu_pick *pick)
{
	enum vgpu_fault fault;

	if (core->condemned)
		evict(core, core->condemned);
	for (;;) {
		*pick = (struct vgpu_pick){.vf = VGPU_NO_VF,
					   .park_until = VGPU_NEVER,
					   .idle_grace = core->config.idle_grace};
		core->policy->pick(core->memory, pick, core->now);
		fault = judge(core, pick);
		if (fault == VGPU_FAULT_NONE)
			break;
		evict(core, fault);
	}
	if (pick->flags & VGPU_PICK_NEW_SHARES)
		ledger_share_out(core);
	if (pick->vf == VGPU_NO_VF)
		return false;
	clamp(core, pick);
	return true;
}

void policy_host_account(struct vgpu_core *core, const struct vgpu_usage *usage)
{
	core->policy->account(core->memory, usage);
}

/*
 * Parameters are for the policy to come, or for the one in force if no change is pending. While a
 * change is pending, parameters accepted by the old policy would be lost, although the sender was
 * told that they hold.
 */
static int check_policy(struct vgpu_core *core, const struct vgpu_policy_ops *policy)
{
	if (policy == (core->next_policy ? core->next_policy : core->policy))
		return 0;
	core->out->why = "the parameters were made for another policy";
	return -ESTALE;
}

int policy_host_add(struct vgpu_core *core, const struct vgpu_event *event)
{
	int r;

	/* A new VF would need parameters for both policies. */
	if (core->next_policy) {
		core->out->why = "a change of policy is under way";
		return -EBUSY;
	}
	r = check_policy(core, event->policy);
	if (r < 0)
		return r;
	if (!core->policy->admit(core->memory, event->vf, event->params, core->now,
				 &core->out->why))
		return -EINVAL;
	core->vfs[event->vf].admitted = true;
	memcpy(row(core->vf_params, event->vf), event->params, sizeof(int64_t) * VGPU_MAX_PARAMS);
	/* A VF that was found on the engine may owe for its reset before any VF comes online. */
	ledger_share_out(core);
	return 0;
}

/* The running VF and the next pick were decided with the old parameters. */
static void decide_anew(struct vgpu_core *core)
{
	core->notes.anew = true;
	core->d.anew = true;
}

int policy_host_set_vf(struct vgpu_core *core, const struct vgpu_event *event)
{
	const struct vgpu_policy_ops *policy = event->policy;
	bool waits = core->next_policy != NULL;
	int r = check_policy(core, policy);

	if (r < 0)
		return r;
	if (!policy->set_vf(waits ? core->next_memory : core->memory, event->vf, event->params,
			    core->now, &core->out->why))
		return -EINVAL;
	memcpy(row(waits ? core->next_vf_params : core->vf_params, event->vf), event->params,
	       sizeof(int64_t) * VGPU_MAX_PARAMS);
	if (!waits)
		decide_anew(core);
	ledger_share_out(core);
	return 0;
}

int policy_host_set_policy(struct vgpu_core *core, const struct vgpu_event *event)
{
	const struct vgpu_policy_ops *policy = event->policy;
	bool waits = core->next_policy != NULL;
	void *memory = waits ? core->next_memory : core->memory;
	int r = check_policy(core, policy);

	if (r < 0)
		return r;
	if (policy->check_params &&
	    !policy->check_params(memory, event->params, core->now, &core->out->why))
		return -EINVAL;
	memcpy(waits ? core->next_params : core->params, event->params, sizeof(core->params));
	policy->set_params(memory, event->params, core->now);
	if (!waits)
		decide_anew(core);
	ledger_share_out(core);
	return 0;
}

/* The host has found the policy at fault: the core evicts it at the next pick. */
int policy_host_condemn(struct vgpu_core *core, uint32_t fault)
{
	if (fault == VGPU_FAULT_NONE || fault >= VGPU_FAULT_COUNT || core->policy == core->fallback)
		return -EINVAL;
	core->condemned = (enum vgpu_fault)fault;
	return 0;
}

/* Checks that the new policy admits all VFs; it takes over at the next switch point. */
int policy_host_begin_change(struct vgpu_core *core, const struct vgpu_event *event)
{
	const struct vgpu_policy_ops *policy = event->policy;
	size_t bytes = (size_t)core->config.max_vfs * VGPU_MAX_PARAMS * sizeof(int64_t);
	uint32_t i;

	if (core->next_policy) {
		core->out->why = "another change of policy is under way";
		return -EBUSY;
	}
	policy->attach(event->memory, &core->facts, event->params);
	for (i = 0; i < core->config.max_vfs; i++)
		if (core->vfs[i].admitted &&
		    !policy->admit(event->memory, i, event->vf_params + (size_t)i * VGPU_MAX_PARAMS,
				   core->now, &core->out->why))
			return -EINVAL;
	memcpy(core->next_vf_params, event->vf_params, bytes);
	memcpy(core->next_params, event->params, sizeof(core->next_params));
	core->next_policy = policy;
	core->next_memory = event->memory;
	if (core->phase == VGPU_PHASE_PARKED && !core->d.open && policy_host_change_is_due(core))
		policy_host_finish_change(core);
	core->notes.wanted = true;
	return 0;
}

void policy_host_had_turn(struct vgpu_core *core, uint32_t index)
{
	struct vf *vf = core_vf(core, index);

	core->n_owed_turns -= vf->owed_turn;
	vf->owed_turn = false;
	if (!vf->owed_round)
		return;
	vf->owed_round = false;
	core->n_owed_round--;
	core->round_stalls_at = core->now + ROUND_STALLS;
}

bool policy_host_change_is_due(const struct vgpu_core *core)
{
	return core->next_policy &&
	       (core->n_owed_turns == 0 || core->now - core->policy_since >= POLICY_STAYS);
}

void policy_host_finish_change(struct vgpu_core *core)
{
	size_t bytes = (size_t)core->config.max_vfs * VGPU_MAX_PARAMS * sizeof(int64_t);
	const struct vgpu_policy_ops *old = core->policy;
	void *old_memory = core->memory;
	uint32_t i;

	assert(!core->d.open);
	core->n_owed_turns = 0;
	core->policy_since = core->now;
	for (i = 0; i < core->config.max_vfs; i++) {
		struct vf *vf = core_vf(core, i);

		if (vf->admitted)
			core->lags[i] = vgpu_lag(old, old_memory, i);
		vf->owed_turn = vf->awake;
		core->n_owed_turns += vf->owed_turn;
	}
	core->policy = core->next_policy;
	core->memory = core->next_memory;
	core->condemned = VGPU_FAULT_NONE;
	core->next_policy = NULL;
	memcpy(core->params, core->next_params, sizeof(core->params));
	memcpy(core->vf_params, core->next_vf_params, bytes);
	introduce(core, core->lags);
	ledger_share_out(core);
	core_record(core, VGPU_REC_POLICY, VGPU_NO_VF, 0, 0, 0);
	retire(core, old, old_memory, VGPU_DETACH_REPLACED, "an operator chose another policy");
}
