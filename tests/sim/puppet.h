/* SPDX-License-Identifier: MIT */
/*
 * A core that a test drives by hand: a policy that does what the test sets and records what the
 * core tells it, and a device that answers when the test says so. Each step's actions are kept
 * until the next step.
 */
#pragma once

#include <stdlib.h>

#include "builtin.h"
#include "suite.h"
#include "vgpu/core.h"

#define PUPPET_VFS 4u

/* What the policy does, set by the test, and what the core has told it. */
static struct {
	struct vgpu_pick next; /* the pick's slice, flags, late, not_before; idle_grace, or 0 */
	uint32_t only;	       /* VGPU_NO_VF: VFs with work in turn; else always this VF */
	bool parks, preempts, refuses;
	vgpu_nsec park_until;
	bool awake[PUPPET_VFS];
	uint32_t last, set;
	struct vgpu_usage usage;	   /* the last account */
	uint64_t share[PUPPET_VFS], whole; /* 0: 1 of 1 */
	int64_t lags[PUPPET_VFS], imported[PUPPET_VFS];
} puppet;

static struct vgpu_core_config config;
static struct vgpu_core *core;
static struct vgpu_output out;
static vgpu_nsec now;
static void *core_memory, *fallback_memory, *policy_memory[2];
static int64_t no_params[PUPPET_VFS * VGPU_MAX_PARAMS];
static struct vgpu_action in_flight; /* the command that the device has not answered */
static bool at_work;

static size_t puppet_memory(uint32_t max_vfs)
{
	return max_vfs;
}

static void puppet_attach(void *state, const struct vgpu_facts *facts, const int64_t *params)
{
	(void)state, (void)facts, (void)params;
}

static void puppet_set_params(void *state, const int64_t *params, vgpu_nsec t)
{
	(void)state, (void)params, (void)t;
	puppet.set++;
}

static bool puppet_admit(void *state, uint32_t vf, const int64_t *params, vgpu_nsec t,
			 const char **why)
{
	(void)state, (void)vf, (void)params, (void)t, (void)why;
	return true;
}

static void puppet_remove(void *state, uint32_t vf, vgpu_nsec t)
{
	(void)state, (void)vf, (void)t;
}

static void puppet_online(void *state, uint32_t vf, vgpu_nsec t)
{
	(void)state, (void)vf, (void)t;
}

static bool puppet_wake(void *state, uint32_t vf, vgpu_nsec t)
{
	(void)state, (void)t;
	puppet.awake[vf] = true;
	return puppet.preempts;
}

static void puppet_sleep(void *state, uint32_t vf, vgpu_nsec t)
{
	(void)state, (void)t;
	puppet.awake[vf] = false;
}

static void puppet_pick(void *state, struct vgpu_pick *pick, vgpu_nsec t)
{
	vgpu_nsec grace = puppet.next.idle_grace ? puppet.next.idle_grace : pick->idle_grace;
	uint32_t i, vf = puppet.only;

	(void)state, (void)t;
	for (i = 1; vf == VGPU_NO_VF && i <= PUPPET_VFS; i++)
		if (puppet.awake[(puppet.last + i) % PUPPET_VFS])
			vf = (puppet.last + i) % PUPPET_VFS;
	*pick = puppet.next;
	pick->idle_grace = grace;
	pick->vf = puppet.parks ? VGPU_NO_VF : vf;
	pick->park_until = puppet.parks ? puppet.park_until : VGPU_NEVER;
	puppet.last = vf == VGPU_NO_VF ? puppet.last : vf;
}

static void puppet_account(void *, const struct vgpu_usage *usage)
{
	puppet.usage = *usage;
}

static int64_t puppet_export(void *, uint32_t vf)
{
	return puppet.lags[vf];
}

static void puppet_import(void *, uint32_t vf, int64_t lag)
{
	puppet.imported[vf] = lag;
}

static void puppet_share(void *, uint32_t vf, uint64_t *numerator, uint64_t *denominator)
{
	*numerator = puppet.share[vf] ? puppet.share[vf] : 1;
	*denominator = puppet.whole ? puppet.whole : 1;
}

static void puppet_bound(void *state, uint32_t vf, struct vgpu_bound *bound)
{
	(void)state, (void)vf;
	*bound = (struct vgpu_bound){.max_lag = VGPU_NEVER, .max_wait = VGPU_NEVER};
}

static bool puppet_check(void *state, const int64_t *params, vgpu_nsec t, const char **why)
{
	(void)state, (void)params, (void)t, (void)why;
	return !puppet.refuses;
}

static const struct vgpu_param puppet_params[] = {{.name = NULL}};

static struct vgpu_policy_ops puppet_ops = {
	.size = sizeof(struct vgpu_policy_ops),
	.abi_major = VGPU_POLICY_ABI_MAJOR,
	.abi_minor = VGPU_POLICY_ABI_MINOR,
	.name = "puppet",
	.help = "does what a test says",
	.params = puppet_params,
	.vf_params = puppet_params,
	.memory = puppet_memory,
	.attach = puppet_attach,
	.set_params = puppet_set_params,
	.admit = puppet_admit,
	.set_vf = puppet_admit,
	.remove = puppet_remove,
	.online = puppet_online,
	.offline = puppet_online,
	.wake = puppet_wake,
	.sleep = puppet_sleep,
	.pick = puppet_pick,
	.account = puppet_account,
	.export_lag = puppet_export,
	.import_lag = puppet_import,
	.share = puppet_share,
	.bound = puppet_bound,
	.check_params = puppet_check,
};

static int step(struct vgpu_event e)
{
	uint32_t i;
	int r;

	e.now = now;
	r = vgpu_core_step(core, &e, &out);
	for (i = 0; i < out.n_actions; i++) {
		if (out.actions[i].type == VGPU_AC_COMMAND) {
			CU_ASSERT(!at_work);
			in_flight = out.actions[i];
			at_work = true;
		}
	}
	return r;
}

static struct vgpu_core_view view(void)
{
	struct vgpu_core_view all;

	vgpu_core_view(core, &all);
	return all;
}

/* Steps an event; its parameters, if any, are for the policy to come. */
static int tell(enum vgpu_event_type type, uint32_t vf, uint32_t code)
{
	struct vgpu_core_view v = view();

	return step((struct vgpu_event){.type = type,
					.vf = vf,
					.code = code,
					.params = no_params,
					.policy = v.next_policy ? v.next_policy : v.policy});
}

/* Returns whether the last step had that action. */
static bool did(enum vgpu_action_type type, uint32_t vf, uint32_t code)
{
	uint32_t i;

	for (i = 0; i < out.n_actions; i++)
		if (out.actions[i].type == type && out.actions[i].vf == vf &&
		    out.actions[i].code == code)
			return true;
	return false;
}

static void pass(vgpu_nsec ns)
{
	now += ns;
}

/* The device answers the command in flight, NS later. */
static void answer_with(vgpu_nsec ns, int64_t status)
{
	CU_ASSERT_FATAL(at_work);
	pass(ns);
	at_work = false;
	step((struct vgpu_event){
		.type = VGPU_EV_DONE, .vf = in_flight.vf, .code = in_flight.code, .value = status});
}

static void answer(vgpu_nsec ns)
{
	answer_with(ns, 0);
}

/* Answers all commands, each after NS, until a VF runs or no command is in flight. */
static void settle(vgpu_nsec ns)
{
	while (at_work)
		answer(ns);
}

static void timer(void)
{
	CU_ASSERT_FATAL(vgpu_core_deadline(core) != VGPU_NEVER);
	now = now > vgpu_core_deadline(core) ? now : vgpu_core_deadline(core);
	tell(VGPU_EV_TIMER, 0, 0);
}

/* Time passes; the device answers each command after NS, timers fire on time. */
static void run(vgpu_nsec length, vgpu_nsec ns)
{
	vgpu_nsec until = now + length, answered, deadline;

	for (;;) {
		answered = at_work ? now + ns : VGPU_NEVER;
		deadline = vgpu_core_deadline(core);
		if ((answered < deadline ? answered : deadline) >= until)
			break;
		if (answered <= deadline)
			answer(ns);
		else
			timer();
	}
	settle(0);
	now = until;
}

static struct vgpu_vf_view view_of(uint32_t vf)
{
	struct vgpu_vf_view view;

	vgpu_core_vf_view(core, vf, &view);
	return view;
}

static int change_policy(const struct vgpu_policy_ops *policy, void **state)
{
	*state = calloc(1, policy->memory(PUPPET_VFS));
	return step((struct vgpu_event){.type = VGPU_EV_POLICY,
					.policy = policy,
					.memory = *state,
					.params = no_params,
					.vf_params = no_params});
}

/* The guest driver of VF comes up, in an exclusive window of NS. */
static void driver_up(uint32_t vf, vgpu_nsec ns)
{
	tell(VGPU_EV_REQUEST, vf, VGPU_WINDOW_INIT);
	settle(0);
	CU_ASSERT(did(VGPU_AC_NOTICE, vf, VGPU_NOTICE_READY));
	pass(ns);
	tell(VGPU_EV_RELEASE, vf, VGPU_WINDOW_INIT);
	settle(0);
}

/* Begins a test: a core that schedules under the puppet, with VFs that are configured and scrubbed.
 * The test may change `config` before. */
static void begin(void)
{
	uint32_t i;

	memset(&puppet, 0, sizeof(puppet));
	puppet.only = VGPU_NO_VF;
	puppet.next.slice = 2 * VGPU_MSEC;
	puppet_ops.promises = VGPU_PROMISE_NO_STARVATION;
	now = VGPU_SEC;
	at_work = false;
	core_memory = calloc(1, vgpu_core_size(PUPPET_VFS));
	fallback_memory = calloc(1, vgpu_fallback_policy->memory(PUPPET_VFS));
	core = vgpu_core_init(core_memory, &config, vgpu_fallback_policy, fallback_memory, now);
	CU_ASSERT_EQUAL_FATAL(change_policy(&puppet_ops, &policy_memory[0]), 0);
	policy_memory[1] = NULL;
	for (i = 0; i < PUPPET_VFS; i++) {
		CU_ASSERT_EQUAL(tell(VGPU_EV_ADD, i, VGPU_CTX_NONE), 0);
		CU_ASSERT(did(VGPU_AC_SCRUB, i, 0));
		tell(VGPU_EV_SCRUBBED, i, 0);
	}
	tell(VGPU_EV_START, 0, 0);
}

/* The same, with the guest drivers of N VFs up; that takes no time. */
static void begin_with(uint32_t n)
{
	uint32_t i;

	vgpu_core_defaults(&config, PUPPET_VFS);
	begin();
	for (i = 0; i < n; i++)
		driver_up(i, 0);
}

static void end(void)
{
	free(policy_memory[0]);
	free(policy_memory[1]);
	free(fallback_memory);
	free(core_memory);
}
