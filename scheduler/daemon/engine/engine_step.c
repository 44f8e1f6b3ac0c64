/* SPDX-License-Identifier: MIT */
/*
 * Steps of the core: passes events to it, carries out its actions, and publishes its records for
 * the control thread.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "builtin.h"
#include "engine_private.h"
#include "vgpu/clock.h"

/* Interval between attempts to find a lost device. It grows after many failures: each attempt may
 * unbind and rebind a host driver. */
#define REOPEN_AFTER (500 * VGPU_MSEC)
#define OFTEN 20u /* this many attempts at the short interval */
#define RARER 4u  /* then the interval doubles with each attempt, this many times */
/* SLOW_LIMIT decisions that take SLOW_DECISION or longer within SLOW_SPAN evict a plug-in. */
#define SLOW_DECISION (2 * VGPU_MSEC)
#define SLOW_LIMIT 3u
#define SLOW_SPAN (10 * VGPU_SEC)

void engine_sink(void *data, const struct vgpu_event *event)
{
	struct engine *e = data;

	/* LOCAL_EVENTS is more than VGPU_GPU_MAX_VFS can cause between two drains: each causes a
	 * few. */
	assert(e->local_tail - e->local_head < LOCAL_EVENTS);
	e->local[e->local_tail++ % LOCAL_EVENTS] = *event;
}

const char *engine_why_lost(int r)
{
	static const struct {
		int error;
		const char *text;
	} texts[] = {
		{-ESTALE, "the kernel took the device back"},
		{-EREMOTEIO, "PCI Express reported an uncorrectable error"},
		{-ECONNRESET, "the device was reset, but not by vgpud"},
	};
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].error == r)
			return texts[i].text;
	return "the device stopped answering";
}

void engine_try_later(struct engine *e)
{
	uint32_t doubled = e->failures > OFTEN ? e->failures - OFTEN : 0;

	e->reopen_at = vgpu_now() + (REOPEN_AFTER << (doubled < RARER ? doubled : RARER));
}

void engine_let_go(struct engine *e, bool lost)
{
	gpu_memory_close(&e->memory);
	e->ops->device->close(e->driver, lost);
	e->driver = NULL;
	e->driver_fd = -1;
	e->local_head = e->local_tail;
	memset(&e->spent, 0, sizeof(e->spent)); /* the next GPU counts from zero */
	engine_try_later(e);
}

void engine_lose(struct engine *e, int r)
{
	vgpu_error_set(&e->lost_why, r, "%s", engine_why_lost(r));
	e->policy_changed = true;
	atomic_store(&e->trouble, engine_why_lost(r));
	/* The next core or governor starts with the present values of this one. */
	if (e->is_set_up)
		e->time->values(e, true, &e->config.begin);
	engine_let_go(e, true);
}

void engine_publish(struct engine *e)
{
	struct engine_policy *p = latest_next(&e->policy);

	if (!e->policy_changed)
		return;
	if (e->is_set_up && e->driver) {
		e->time->values(e, false, &p->in_force);
		p->change_waits = e->time->values(e, true, &p->to_come);
	} else {
		p->in_force = p->to_come = e->config.begin;
		p->change_waits = false;
	}
	p->opened = e->opened;
	snprintf(p->lost_why, sizeof(p->lost_why), "%s", e->lost_why.text);
	p->caps = e->caps;
	e->is_plugin = !vgpu_builtin_policy(p->in_force.policy->name);
	e->policy_changed = false;
	latest_publish(&e->policy);
}

/* Issues the commands of this step, of which A is the first. */
static int issue(struct engine *e, const struct vgpu_action *a, vgpu_nsec now)
{
	const struct vgpu_action *end = &e->out.actions[e->out.n_actions];
	struct vgpu_order orders[VGPU_CHAIN];
	uint32_t n = 0;

	if (a->code == VGPU_CMD_IDLE) {
		e->idle_issued = now;
		if (a->planned && now >= a->planned)
			histogram_add(&e->lateness, now - a->planned);
	}
	for (; a < end && a->type == VGPU_AC_COMMAND && n < VGPU_CHAIN; a++)
		orders[n++] =
			(struct vgpu_order){a->vf, (enum vgpu_command)a->code, a->unless_busy};
	return e->ops->switched->commands(e->driver, orders, n, now);
}

static int carry_out(struct engine *e, const struct vgpu_action *a, vgpu_nsec now)
{
	uint32_t slot;

	switch (a->type) {
	case VGPU_AC_COMMAND:
		if (a > e->out.actions && a[-1].type == VGPU_AC_COMMAND)
			return 0; /* issued with the first command */
		return issue(e, a, now);
	case VGPU_AC_RESET:
		return e->ops->device->reset(e->driver, a->vf, (enum vgpu_reset_level)a->code, now);
	case VGPU_AC_ACCESS:
		return e->ops->switched->gates(e->driver, a->vf, (enum vgpu_access)a->code);
	case VGPU_AC_NOTICE:
		return e->ops->switched->notice(e->driver, a->vf, (enum vgpu_notice)a->code);
	case VGPU_AC_SCRUB:
		gpu_memory_scrub(&e->memory, a->vf);
		return 0;
	case VGPU_AC_RETIRE:
		slot = recorder_slot_of(e->recorder, a->memory);
		if (slot < RECORD_SLOTS)
			e->slot_used[slot] = false;
		return 0;
	}
	return 0;
}

static void measure(struct engine *e, const struct vgpu_event *event)
{
	if (event->type != VGPU_EV_DONE || event->value == VGPU_HAS_WORK)
		return;
	if (event->code == VGPU_CMD_IDLE) {
		e->idle_acked = event->now;
		if (e->idle_issued && event->now >= e->idle_issued)
			histogram_add(&e->preemption, event->now - e->idle_issued);
		e->idle_issued = 0;
	} else if (event->code == VGPU_CMD_RUN) {
		if (e->idle_acked)
			histogram_add(&e->switches, event->now - e->idle_acked);
		e->idle_acked = 0;
	} else if (event->code == VGPU_CMD_SHUTDOWN || event->code == VGPU_CMD_INIT) {
		e->idle_acked = 0; /* the next interval is not that of a plain switch */
	}
}

/* CPU time of this thread: the policy is not to blame for time in which the host did not run it. */
static vgpu_nsec cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (vgpu_nsec)t.tv_sec * VGPU_SEC + (vgpu_nsec)t.tv_nsec;
}

/* Evicts a plug-in whose decisions are too slow: a step normally takes about 1 us. */
static void judge_decision(struct engine *e, vgpu_nsec took)
{
	vgpu_nsec now;

	if (took < SLOW_DECISION)
		return;
	now = vgpu_now();
	e->n_slow = now - e->slow_since > SLOW_SPAN ? 1 : e->n_slow + 1;
	if (e->n_slow == 1)
		e->slow_since = now;
	if (e->n_slow < SLOW_LIMIT)
		return;
	e->n_slow = 0;
	engine_sink(e, &(struct vgpu_event){.type = VGPU_EV_CONDEMN, .code = VGPU_FAULT_SLOW});
}

/* Returns whether an event may change the published policy or values. */
static bool sets_policy(const struct vgpu_event *event)
{
	return event->type == VGPU_EV_POLICY || event->type == VGPU_EV_SET_POLICY ||
	       event->type == VGPU_EV_SET_VF;
}

/* Publishes the step's records, and updates statistics from them. */
static void pass_on(struct engine *e)
{
	const struct vgpu_record *r = e->out.records, *end = r + e->out.n_records;

	for (; r < end; r++) {
		if (r->type == VGPU_REC_PARK)
			e->idle_acked = 0;
		else if (r->type == VGPU_REC_POLICY || r->type == VGPU_REC_EVICTED)
			e->policy_changed = true;
		trail_add(&e->records, r);
	}
}

/* The time of EVENT: as the driver reports it, but neither before the last step nor in the
 * future. */
static vgpu_nsec instant(const struct engine *e, const struct vgpu_event *event, vgpu_nsec now)
{
	if (event->type != VGPU_EV_DONE || event->now == 0 || event->now > now)
		return now;
	return event->now > e->stepped_at ? event->now : e->stepped_at;
}

int engine_step(struct engine *e, struct vgpu_event *event)
{
	vgpu_nsec computed, began = vgpu_now(), now;
	uint32_t i;
	int r, failed = 0;

	event->now = e->stepped_at = instant(e, event, began);
	measure(e, event);
	computed = e->is_plugin ? cpu_time() : 0;
	r = recorder_step(e->recorder, e->core, event, &e->out);
	now = vgpu_now();
	histogram_add(&e->decisions, now - began);
	if (e->is_plugin)
		judge_decision(e, cpu_time() - computed);
	e->steps++;
	e->policy_changed |= sets_policy(event);
	gpu_memory_stepped(&e->memory);
	for (i = 0; i < e->out.n_actions; i++)
		if (failed == 0 || e->out.actions[i].type == VGPU_AC_RETIRE)
			failed = carry_out(e, &e->out.actions[i], now) < 0 ? -EIO : failed;
	pass_on(e);
	if (failed < 0)
		engine_lose(e, -ENODEV);
	return r;
}

void engine_drain(struct engine *e)
{
	while (e->driver && e->local_head != e->local_tail) {
		struct vgpu_event event = e->local[e->local_head++ % LOCAL_EVENTS];

		e->time->step(e, &event);
	}
	/* Reuses the place of the last events, which is in the cache. */
	if (e->local_head == e->local_tail)
		e->local_head = e->local_tail = 0;
}

bool engine_is_planned(const struct engine *e, vgpu_nsec at)
{
	return e->time->is_planned && e->time->is_planned(e, at);
}

int engine_look(struct engine *e)
{
	vgpu_nsec at = e->time->deadline(e);
	int r;

	if (e->ops->device->expect)
		e->ops->device->expect(e->driver, engine_is_planned(e, at) ? at : VGPU_NEVER);
	r = e->ops->device->dispatch(e->driver, vgpu_now());
	e->device_speaks = false;
	if (r == 0)
		engine_drain(e);
	if (r == 0 && e->driver)
		engine_look_at_spent(e);
	return r;
}

void *engine_take_slot(struct engine *e, const struct vgpu_policy_ops *policy)
{
	size_t size = policy->memory(e->config.core.max_vfs);
	uint32_t slot = e->slot_used[0] ? 1 : 0;

	if (size > RECORD_SLOT_SIZE || e->slot_used[slot])
		return NULL;
	e->slot_used[slot] = true;
	return memset(recorder_slot_memory(e->recorder, slot), 0, size);
}
