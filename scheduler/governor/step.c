/* SPDX-License-Identifier: MIT */
/*
 * The life of an epoch:
 *
 *   TIMER      requests the counters
 *   USAGE      closes the epoch; the policy divides it; perhaps a program
 *   PROGRAMMED what the GPU has made of it
 *
 * If no counter moves for some epochs, all VFs are asleep, or the counters are frozen (after a GT
 * reset, Intel's count no VF until the VFs are enabled again). In both cases the governor
 * falls back to the static plan and reports it. It resumes as soon as a counter moves.
 */
#include <errno.h>

#include "private.h"

static bool range_is_good(const struct vgpu_setting *s)
{
	return s->min > 0 && s->step > 0 && s->max >= s->min && s->min % s->step == 0;
}

void vgpu_governor_defaults(struct vgpu_governor_config *config, uint32_t max_vfs,
			    struct vgpu_setting quantum, struct vgpu_setting timeout)
{
	*config = (struct vgpu_governor_config){
		.max_vfs = max_vfs,
		.quantum = quantum,
		.timeout = timeout,
		.epoch = 500 * VGPU_MSEC,
		.rotation = 100 * VGPU_MSEC,
		.turn = 16 * VGPU_MSEC, /* XE_FAIR_EXEC_QUANTUM_MS of Linux 7.2's xe */
		.stop = 16 * VGPU_MSEC, /* XE_FAIR_PREEMPT_TIMEOUT_US of the same */
		.slack = 3500 * VGPU_USEC,
		.settle = 500 * VGPU_MSEC,
		.tolerance_ppm = 10000,
		.still_epochs = 2,
	};
}

size_t vgpu_governor_size(void)
{
	return sizeof(struct vgpu_governor);
}

struct vgpu_governor *vgpu_governor_init(void *memory, const struct vgpu_governor_config *config,
					 const struct vgpu_program *applied, vgpu_nsec now)
{
	struct vgpu_governor *g = memory;
	vgpu_nsec round = 0;
	uint32_t i;

	if (!range_is_good(&config->quantum) || config->max_vfs == 0 ||
	    config->max_vfs > VGPU_GPU_MAX_VFS || config->epoch < VGPU_MSEC ||
	    config->settle < config->epoch ||
	    config->rotation < config->max_vfs * config->quantum.min ||
	    config->rotation / config->quantum.step > 1u << 13)
		return NULL;
	g->config = *config;
	g->facts = (struct vgpu_facts){
		.max_vfs = config->max_vfs,
		.switch_ns = config->switch_ns,
		.switch_high_ns = config->switch_ns,
		.min_slice_ns = max_ns(config->quantum.min, config->epoch / TURNS_PER_EPOCH),
		.max_slice_ns = config->epoch / 4,
		.grace_ns = config->stop,
	};
	g->now = now;
	g->virtual = now;
	g->epoch_ends = VGPU_NEVER;
	g->stretch = NO_STRETCH;
	g->kept_turns = applied->keep_turns;
	for (i = 0; i < config->max_vfs; i++) {
		g->vfs[i].quantum = max_ns(applied->vfs[i].quantum, 1);
		g->vfs[i].before = g->vfs[i].longest = g->vfs[i].quantum;
		g->vfs[i].timeout = applied->vfs[i].timeout;
		g->vfs[i].state = VGPU_GOVERNED_BUSY; /* until it has had no service for too long */
		round += g->vfs[i].quantum;
	}
	for (i = 0; i < config->max_vfs; i++)
		g->vfs[i].round = round - g->vfs[i].quantum;
	return g;
}

static int on_timer(struct vgpu_governor *g, const struct vgpu_governor_event *event)
{
	if (event->now < g->epoch_ends || g->reading)
		return 0;
	g->reading = true;
	g->out->read = true;
	return 0;
}

/* No counter moved, or one moves again. */
static void notice_still(struct vgpu_governor *g)
{
	if (g->mode == VGPU_GOVERNOR_GOVERNED && g->n_still == g->config.still_epochs) {
		g->mode = VGPU_GOVERNOR_STILL;
		g->rewrite = true;
		g->out->says = "no VF's counter moves: no VF has work, or the GPU has stopped "
			       "counting. The static plan holds until a counter moves";
	} else if (g->mode == VGPU_GOVERNOR_STILL && g->n_still == 0) {
		g->mode = VGPU_GOVERNOR_GOVERNED;
		g->out->says = "the VFs' counters move again: their shares are corrected";
	}
}

/* The dues of an epoch without usable counters are unknown: the plan in force holds, unless it must
 * be written again. */
static void plan(struct vgpu_governor *g)
{
	bool known = g->mode == VGPU_GOVERNOR_GOVERNED && g->out->closed;

	if (known && !virtual_run(g)) {
		known = false;
		g->mode = VGPU_GOVERNOR_FAULTY;
		g->rewrite = true;
		g->out->says = "the policy broke its contract: the static plan holds until another "
			       "policy is set";
	}
	/* The last program may have taken long, and this one may not: a wait would contain both. */
	if (g->programming || g->now - g->answered_at < promise_apart(g))
		return;
	if (known)
		schedule_due(g);
	else if (g->rewrite)
		schedule_nominal(g);
}

/*
 * An epoch is a whole number of rotations, as far as their length is predictable. Each VF then has
 * had the same number of turns when counters are read, and does not look ahead because it is in the
 * middle of one.
 */
static vgpu_nsec epoch_length(const struct vgpu_governor *g)
{
	vgpu_nsec all = 0, busy = 0, length = g->config.epoch, turn;
	uint32_t i;

	for (i = 0; i < g->config.max_vfs; i++) {
		turn = g->programming ? g->asked.vfs[i].quantum : g->vfs[i].quantum;
		turn += g->vfs[i].late + g->config.switch_ns;
		all += turn;
		busy += g->vfs[i].state == VGPU_GOVERNED_BUSY ? turn : 0;
	}
	busy = busy ? busy : all; /* before the first epoch, all may have work */
	busy = max_ns((vgpu_nsec)((unsigned __int128)busy * g->stretch / NO_STRETCH), 1);
	return busy > length ? length : (length + busy - 1) / busy * busy;
}

static int on_usage(struct vgpu_governor *g, const struct vgpu_governor_event *event)
{
	if (!g->reading)
		return -EBUSY;
	g->reading = false;
	if (g->mode == VGPU_GOVERNOR_STOPPED)
		return 0;
	g->length = g->now - g->epoch_began;
	g->out->closed = measure_close(g, event->error < 0 ? NULL : event->active);
	if (!g->out->closed)
		g->out->says = "the VFs' counters are not usable in this epoch: they could not be "
			       "read, came too late, went back, or add up to more than the time";
	g->epochs++;
	notice_still(g);
	g->epoch_began = g->now;
	plan(g);
	g->epoch_ends = g->now + epoch_length(g);
	return 0;
}

static int note_programmed(struct vgpu_governor *g, const struct vgpu_governor_event *event)
{
	uint32_t i;

	if (!g->programming)
		return -EBUSY;
	g->programming = false;
	g->answered_at = g->now;
	g->in_part = event->error < 0;
	for (i = 0; i < g->config.max_vfs; i++)
		g->vfs[i].longest = max_ns(g->vfs[i].longest, g->asked.vfs[i].quantum);
	if (event->error < 0) {
		g->failed++;
		g->rewrite = true;
		if (event->error != -EBUSY)
			g->out->says = "the GPU has refused a part of the plan: all of it is "
				       "written again in the next epoch";
		return 0;
	}
	g->placed = true;
	g->placed_at = g->now;
	g->kept_turns = event->applied->keep_turns;
	for (i = 0; i < g->config.max_vfs; i++) {
		g->clamped += event->applied->vfs[i].quantum != g->asked.vfs[i].quantum;
		g->clamped += event->applied->vfs[i].timeout != g->asked.vfs[i].timeout;
		g->vfs[i].quantum = max_ns(event->applied->vfs[i].quantum, 1);
		g->vfs[i].longest = max_ns(g->vfs[i].longest, g->vfs[i].quantum);
		g->vfs[i].timeout = event->applied->vfs[i].timeout;
	}
	return 0;
}

/* A stop during programming leaves the nominal plan, whatever the result of that program. */
static int on_programmed(struct vgpu_governor *g, const struct vgpu_governor_event *event)
{
	bool stops = g->stop_waits;
	int r = note_programmed(g, event);

	if (r == 0 && stops) {
		g->stop_waits = false;
		g->rewrite = true;
		schedule_nominal(g);
	}
	return r;
}

static int on_start(struct vgpu_governor *g, const struct vgpu_governor_event *event)
{
	bool unused;

	if (!g->policy || g->epoch_ends != VGPU_NEVER)
		return -EBUSY;
	g->mode = refuse_mode(g->policy, g->params, &unused);
	g->epoch_began = event->now;
	schedule_nominal(g);
	g->epoch_ends = event->now + epoch_length(g);
	return 0;
}

static int on_stop(struct vgpu_governor *g, const struct vgpu_governor_event *)
{
	g->mode = VGPU_GOVERNOR_STOPPED;
	g->epoch_ends = VGPU_NEVER;
	g->stop_waits = g->policy && g->programming;
	if (g->policy && !g->programming)
		schedule_nominal(g);
	return 0;
}

/* At most the debt that the VF could have had here. */
static int on_bring(struct vgpu_governor *g, const struct vgpu_governor_event *event)
{
	struct governed *vf = &g->vfs[event->vf];
	vgpu_nsec owes = vf->ledger.carry > 0 ? (vgpu_nsec)vf->ledger.carry : 0;
	vgpu_nsec room = g->config.epoch > owes ? g->config.epoch - owes : 0;
	vgpu_nsec brought = min_ns(event->owed, room);

	vf->ledger.brought += brought;
	vf->ledger.carry += (int64_t)brought;
	return 0;
}

static const struct {
	int (*apply)(struct vgpu_governor *g, const struct vgpu_governor_event *event);
	bool needs_policy;
} events[] = {
	[VGPU_GOVERNOR_TIMER] = {on_timer, false},
	[VGPU_GOVERNOR_USAGE] = {on_usage, false},
	[VGPU_GOVERNOR_PROGRAMMED] = {on_programmed, false},
	[VGPU_GOVERNOR_POLICY] = {claims_set_policy, false},
	[VGPU_GOVERNOR_SET_POLICY] = {claims_set_params, true},
	[VGPU_GOVERNOR_SET_VF] = {claims_set_vf, true},
	[VGPU_GOVERNOR_START] = {on_start, true},
	[VGPU_GOVERNOR_STOP] = {on_stop, false},
	[VGPU_GOVERNOR_BRING] = {on_bring, true},
};

int vgpu_governor_step(struct vgpu_governor *g, const struct vgpu_governor_event *event,
		       struct vgpu_governor_output *out)
{
	assert(event->now >= g->now); /* the caller's clock must be monotonic */
	*out = (struct vgpu_governor_output){.read = false};
	g->out = out;
	g->now = event->now;
	if (events[event->type].needs_policy && !g->policy)
		return -EBUSY;
	return events[event->type].apply(g, event);
}

vgpu_nsec vgpu_governor_deadline(const struct vgpu_governor *g)
{
	return g->reading ? VGPU_NEVER : g->epoch_ends;
}

void vgpu_governor_view(const struct vgpu_governor *g, struct vgpu_governor_view *out)
{
	*out = (struct vgpu_governor_view){
		.mode = g->mode,
		.policy = g->policy,
		.wall = g->wall,
		.idle = g->idle,
		.unread = g->unread,
		.length = g->length,
		.epochs = g->epochs,
		.plans = g->plans,
		.writes = g->writes,
		.clamped = g->clamped,
		.failed = g->failed,
		.keep_turns = g->keep_turns,
	};
}

void vgpu_governor_vf_view(const struct vgpu_governor *g, uint32_t vf,
			   struct vgpu_governed_vf_view *out)
{
	const struct governed *from = &g->vfs[vf];

	*out = (struct vgpu_governed_vf_view){
		.state = from->state,
		.quantum = from->quantum,
		.timeout = from->timeout,
		.late = from->late,
		.owed = from->owed,
		.ledger = from->ledger,
	};
	promise_bound(g, vf, &out->bound);
}

void vgpu_governor_epoch(const struct vgpu_governor *g, uint32_t vf,
			 struct vgpu_governed_epoch *out)
{
	const struct governed *from = &g->vfs[vf];

	*out = (struct vgpu_governed_epoch){
		.state = from->state,
		.served = from->served,
		.late = from->late,
		.owed = from->owed,
		.ledger = from->ledger,
	};
}

void vgpu_governor_rebind(struct vgpu_governor *g, const struct vgpu_policy_ops *policy)
{
	g->policy = policy;
}

/* Returns whether a VF of PART that always stops as late as it may gets more than its share under
 * any plan. */
static bool is_too_late(const struct vgpu_governor *g, uint32_t vf, uint64_t part)
{
	vgpu_nsec least = g->config.quantum.min + g->vfs[vf].timeout;
	vgpu_nsec longest = g->config.rotation + promise_others(g, vf) + g->vfs[vf].timeout;

	return (vgpu_nsec)((unsigned __int128)part * longest >> 32) < least;
}

const char *vgpu_governor_warning(const struct vgpu_governor *g)
{
	uint64_t parts[VGPU_GPU_MAX_VFS];
	const char *warning = NULL;
	uint32_t i;

	if (g->policy && g->policy->warning)
		warning = g->policy->warning(g->memory);
	if (!warning && g->mode == VGPU_GOVERNOR_GOVERNED && promise_is_lost(g))
		warning = "the preemption time-outs of all VFs add up to more than five epochs "
			  "(2.5 s), so nothing bounds how far a VF may be from its share: lower "
			  "grace_ms";
	promise_parts(g, parts);
	for (i = 0; i < g->config.max_vfs && !warning && g->mode == VGPU_GOVERNOR_GOVERNED; i++)
		if (is_too_late(g, i, parts[i]))
			warning = "a VF may stop so late that no plan makes up for it: lower the "
				  "preemption time-out, raise the rotation, or raise its share";
	return warning;
}
