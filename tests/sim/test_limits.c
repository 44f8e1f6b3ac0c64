/* SPDX-License-Identifier: MIT */
/*
 * The core's promises about limits: bounds hold, used memory is scrubbed, a quarantine lasts, and a
 * policy's faults harm only the policy. Under a policy that does what the test sets.
 */
#include <errno.h>

#include "puppet.h"

/* VF, whose driver is up, has the engine and does not stop; its reset succeeds. */
static void hang(uint32_t vf)
{
	tell(VGPU_EV_BUSY, vf, 0);
	settle(0);
	CU_ASSERT_EQUAL(view().current, vf);
	timer();
	CU_ASSERT(did(VGPU_AC_COMMAND, vf, VGPU_CMD_IDLE));
	timer();
	CU_ASSERT(did(VGPU_AC_RESET, vf, VGPU_RESET_VF));
	at_work = false; /* the device will not answer */
	tell(VGPU_EV_RESET_DONE, vf, VGPU_RESET_VF);
	tell(VGPU_EV_SCRUBBED, vf, 0);
}

/* From a back-off, which ends by itself, the driver comes up again. */
static void recover(uint32_t vf)
{
	CU_ASSERT_EQUAL_FATAL(view_of(vf).state, VGPU_VF_BACKOFF);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), view_of(vf).backoff_until);
	timer();
	CU_ASSERT_EQUAL(view_of(vf).state, VGPU_VF_AVAIL);
	driver_up(vf, 0);
}

static void quarantine(uint32_t vf)
{
	hang(vf);
	recover(vf);
	hang(vf);
	recover(vf);
	hang(vf);
	CU_ASSERT_EQUAL(view_of(vf).state, VGPU_VF_QUARANTINED);
}

/* Back-offs double; the third strike in a minute is the last, but those of long ago do not count.
 */
TEST(strikes, "strikes expire, back-offs double")
{
	uint32_t i;

	begin_with(1);
	hang(0);
	CU_ASSERT_EQUAL(view_of(0).backoff_until - now, VGPU_SEC);
	recover(0);
	hang(0);
	CU_ASSERT_EQUAL(view_of(0).backoff_until - now, 2 * VGPU_SEC);
	recover(0);
	for (i = 0; i < 5; i++) {
		pass(61 * VGPU_SEC);
		hang(0);
		recover(0);
	}
	hang(0);
	recover(0);
	hang(0);
	CU_ASSERT_EQUAL(view_of(0).state, VGPU_VF_QUARANTINED);
	CU_ASSERT_EQUAL(view_of(0).ledger.hangs, 9);
	end();
}

/* Work that ends in a fault keeps nobody waiting: its VF is held back, for longer each time but no
 * longer than 8 s, and never quarantined. Such faults do not count as hangs. */
TEST(faulting, "a fault holds back, and not for good")
{
	uint32_t i;

	begin_with(1);
	for (i = 0; i < 20; i++) {
		tell(VGPU_EV_HANG, 0, 0);
		CU_ASSERT(did(VGPU_AC_RESET, 0, VGPU_RESET_VF));
		tell(VGPU_EV_RESET_DONE, 0, VGPU_RESET_VF);
		tell(VGPU_EV_SCRUBBED, 0, 0);
		CU_ASSERT(view_of(0).backoff_until - now <= 8 * VGPU_SEC);
		CU_ASSERT(i > 4 ||
			  view_of(0).backoff_until - now == (i < 3 ? VGPU_SEC << i : 8 * VGPU_SEC));
		recover(0);
	}
	quarantine(0);
	end();
}

/* Only an operator ends a quarantine, not the guest and not a reset of the GPU; and then all faults
 * are forgotten. */
TEST(quarantines, "only an operator ends a quarantine")
{
	vgpu_core_defaults(&config, PUPPET_VFS);
	config.gpu_reset = true;
	begin();
	driver_up(0, 0);
	driver_up(1, 0);
	quarantine(0);
	tell(VGPU_EV_REQUEST, 0, VGPU_WINDOW_RESET);
	CU_ASSERT(did(VGPU_AC_NOTICE, 0, VGPU_NOTICE_REFUSED));
	CU_ASSERT_EQUAL(view_of(0).state, VGPU_VF_QUARANTINED);

	/* VF 1 blocks the engine, and its reset does not help. */
	tell(VGPU_EV_BUSY, 1, 0);
	settle(0);
	timer();
	timer();
	CU_ASSERT(did(VGPU_AC_RESET, 1, VGPU_RESET_VF));
	at_work = false;
	step((struct vgpu_event){
		.type = VGPU_EV_RESET_DONE, .vf = 1, .code = VGPU_RESET_VF, .value = -EIO});
	CU_ASSERT(did(VGPU_AC_RESET, 1, VGPU_RESET_GPU));
	tell(VGPU_EV_RESET_DONE, 1, VGPU_RESET_GPU);
	CU_ASSERT(did(VGPU_AC_ACCESS, 0, VGPU_ACCESS_NONE) &&
		  did(VGPU_AC_ACCESS, 2, VGPU_ACCESS_NONE));
	CU_ASSERT(did(VGPU_AC_SCRUB, 0, 0) && did(VGPU_AC_SCRUB, 1, 0) && did(VGPU_AC_SCRUB, 2, 0));
	tell(VGPU_EV_SCRUBBED, 0, 0);
	CU_ASSERT_EQUAL(view_of(0).state, VGPU_VF_QUARANTINED);

	tell(VGPU_EV_RESET_VF, 0, 0);
	tell(VGPU_EV_RESET_DONE, 0, VGPU_RESET_VF);
	tell(VGPU_EV_SCRUBBED, 0, 0);
	CU_ASSERT_EQUAL(view_of(0).state, VGPU_VF_AVAIL);
	driver_up(0, 0);
	hang(0);
	CU_ASSERT_EQUAL(view_of(0).state, VGPU_VF_BACKOFF);
	end();
}

/* A hang that was noticed is not counted again when the hardware reports it, too. */
TEST(one_hang, "a hang is counted once")
{
	begin_with(1);
	tell(VGPU_EV_BUSY, 0, 0);
	settle(0);
	timer();
	timer();
	CU_ASSERT(did(VGPU_AC_RESET, 0, VGPU_RESET_VF));
	tell(VGPU_EV_HANG, 0, 0);
	CU_ASSERT_EQUAL(view_of(0).ledger.hangs, 1);
	CU_ASSERT_EQUAL(view_of(0).ledger.resets, 1);
	end();
}

/* VF 0 hangs on the engine, and its reset fails; returns the pause until the next try. */
static vgpu_nsec failed_reset(bool gpu_reset, bool on_engine)
{
	vgpu_core_defaults(&config, PUPPET_VFS);
	config.gpu_reset = gpu_reset;
	begin();
	driver_up(0, 0);
	if (on_engine) {
		tell(VGPU_EV_BUSY, 0, 0);
		settle(0);
	}
	tell(VGPU_EV_HANG, 0, 0);
	CU_ASSERT(did(VGPU_AC_RESET, 0, VGPU_RESET_VF));
	step((struct vgpu_event){
		.type = VGPU_EV_RESET_DONE, .vf = 0, .code = VGPU_RESET_VF, .value = -EIO});
	return vgpu_core_deadline(core) - now;
}

/* The whole GPU is reset only if the operator allows it, and for a VF that blocks the engine; a
 * reset that fails is tried again, after pauses that double. */
TEST(whole_gpu, "the whole GPU is the last resort")
{
	CU_ASSERT_EQUAL(failed_reset(false, true), VGPU_SEC);
	CU_ASSERT_EQUAL(out.n_actions, 0);
	timer();
	CU_ASSERT(did(VGPU_AC_RESET, 0, VGPU_RESET_VF));
	step((struct vgpu_event){
		.type = VGPU_EV_RESET_DONE, .vf = 0, .code = VGPU_RESET_VF, .value = -EIO});
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), now + 2 * VGPU_SEC);
	end();
	CU_ASSERT_EQUAL(failed_reset(true, false), VGPU_SEC);
	CU_ASSERT_EQUAL(out.n_actions, 0);
	end();
	CU_ASSERT_EQUAL(failed_reset(true, true), config.reset_timeout[VGPU_RESET_GPU]);
	CU_ASSERT(did(VGPU_AC_RESET, 0, VGPU_RESET_GPU));
	end();
}

/* A reset that is not answered gives way to the next level; its answer, when it comes, is too late.
 */
TEST(late_resets, "resets that are not answered")
{
	vgpu_core_defaults(&config, PUPPET_VFS);
	config.reset_levels |= 1u << VGPU_RESET_ENGINE;
	begin();
	driver_up(0, 0);
	tell(VGPU_EV_BUSY, 0, 0);
	settle(0);
	tell(VGPU_EV_HANG, 0, 0);
	CU_ASSERT(did(VGPU_AC_RESET, 0, VGPU_RESET_ENGINE));
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), now + config.reset_timeout[VGPU_RESET_ENGINE]);
	timer();
	CU_ASSERT(did(VGPU_AC_RESET, 0, VGPU_RESET_VF));
	tell(VGPU_EV_RESET_DONE, 0, VGPU_RESET_ENGINE);
	CU_ASSERT_EQUAL(out.n_actions, 0);
	CU_ASSERT_EQUAL(view_of(0).context, VGPU_CTX_BROKEN);
	tell(VGPU_EV_RESET_DONE, 0, VGPU_RESET_VF);
	CU_ASSERT(did(VGPU_AC_SCRUB, 0, 0));
	end();
}

/* All memory that may have been used is scrubbed before a guest gets it; only the last scrub
 * counts, and one that fails leaves a VF that no guest gets. */
TEST(scrubs, "what was used is scrubbed")
{
	uint32_t i;

	begin_with(1);
	tell(VGPU_EV_GUEST_RESET, 1, 0);
	CU_ASSERT(did(VGPU_AC_SCRUB, 1, 0));
	tell(VGPU_EV_GUEST_RESET, 1, 0);
	CU_ASSERT(did(VGPU_AC_SCRUB, 1, 0));
	tell(VGPU_EV_SCRUBBED, 1, 0);
	CU_ASSERT_EQUAL(view_of(1).state, VGPU_VF_SCRUBBING);
	tell(VGPU_EV_SCRUBBED, 1, 0);
	CU_ASSERT_EQUAL(view_of(1).state, VGPU_VF_AVAIL);

	tell(VGPU_EV_RESET_VF, 0, 0);
	tell(VGPU_EV_RESET_DONE, 0, VGPU_RESET_VF);
	CU_ASSERT(did(VGPU_AC_SCRUB, 0, 0));

	for (i = 0; i < 2; i++) {
		tell(VGPU_EV_GUEST_RESET, 2 + i, 0);
		step((struct vgpu_event){.type = VGPU_EV_SCRUBBED,
					 .vf = 2 + i,
					 .value = i ? EIO : -EIO});
		CU_ASSERT_EQUAL(view_of(2 + i).state, VGPU_VF_FAILED);
		tell(VGPU_EV_REQUEST, 2 + i, VGPU_WINDOW_INIT);
		CU_ASSERT(did(VGPU_AC_NOTICE, 2 + i, VGPU_NOTICE_REFUSED));
	}
	end();
}

/* A guest's requests and work do not outlive it. */
TEST(successors, "nothing outlives a guest")
{
	begin_with(1);
	tell(VGPU_EV_GUEST_RESET, 1, 0);
	tell(VGPU_EV_REQUEST, 1, VGPU_WINDOW_INIT);
	tell(VGPU_EV_GUEST_RESET, 1, 0);
	tell(VGPU_EV_SCRUBBED, 1, 0);
	tell(VGPU_EV_SCRUBBED, 1, 0);
	CU_ASSERT_EQUAL(view_of(1).state, VGPU_VF_AVAIL);
	CU_ASSERT(!at_work);

	tell(VGPU_EV_BUSY, 0, 0);
	settle(0);
	tell(VGPU_EV_REQUEST, 0, VGPU_WINDOW_FINI);
	timer();
	settle(0);
	tell(VGPU_EV_RELEASE, 0, VGPU_WINDOW_FINI);
	settle(0);
	tell(VGPU_EV_SCRUBBED, 0, 0);
	driver_up(0, 0);
	CU_ASSERT_EQUAL(view_of(0).state, VGPU_VF_ACTIVE);
	CU_ASSERT(!view_of(0).has_work && !puppet.awake[0]);
	CU_ASSERT_EQUAL(view().phase, VGPU_PHASE_PARKED);
	end();
}

/* Every requested window is opened, in order, whichever VF leaves the queue; it ends by its own
 * release, and in time. */
TEST(windows, "every window comes")
{
	begin_with(0);
	tell(VGPU_EV_REQUEST, 0, VGPU_WINDOW_INIT);
	tell(VGPU_EV_REQUEST, 1, VGPU_WINDOW_INIT);
	tell(VGPU_EV_REQUEST, 2, VGPU_WINDOW_INIT);
	tell(VGPU_EV_GUEST_RESET, 2, 0);
	tell(VGPU_EV_REQUEST, 3, VGPU_WINDOW_INIT);
	settle(0);
	CU_ASSERT(did(VGPU_AC_NOTICE, 0, VGPU_NOTICE_READY));
	CU_ASSERT_EQUAL(vgpu_core_deadline(core) - now,
			config.window_max < config.reset_timeout[VGPU_RESET_VF]
				? config.window_max
				: config.reset_timeout[VGPU_RESET_VF]);
	tell(VGPU_EV_RELEASE, 0, VGPU_WINDOW_FINI);
	CU_ASSERT_EQUAL(out.n_actions, 0);
	tell(VGPU_EV_RELEASE, 0, VGPU_WINDOW_INIT);
	CU_ASSERT(did(VGPU_AC_ACCESS, 0, VGPU_ACCESS_WORK));
	settle(0);
	CU_ASSERT(did(VGPU_AC_NOTICE, 1, VGPU_NOTICE_READY));
	tell(VGPU_EV_RELEASE, 1, VGPU_WINDOW_INIT);
	settle(0);
	CU_ASSERT(did(VGPU_AC_NOTICE, 3, VGPU_NOTICE_READY));
	end();
}

/* After any wrong answer to a command its VF is reset; an answer for another VF is dropped. */
TEST(answers, "answers that are wrong, or of others")
{
	uint64_t stale;

	begin_with(2);
	tell(VGPU_EV_BUSY, 0, 0);
	stale = view().engine.stale_answers;
	tell(VGPU_EV_DONE, 1, VGPU_CMD_LOAD);
	CU_ASSERT_EQUAL(out.n_actions, 0);
	CU_ASSERT_EQUAL(view().engine.stale_answers, stale + 1);
	CU_ASSERT_EQUAL(view_of(1).context, VGPU_CTX_SAVED);
	answer_with(0, 5);
	CU_ASSERT(did(VGPU_AC_RESET, 0, VGPU_RESET_VF));
	end();
	begin_with(1);
	tell(VGPU_EV_BUSY, 0, 0);
	answer_with(0, -EIO);
	CU_ASSERT(did(VGPU_AC_RESET, 0, VGPU_RESET_VF));
	end();
	/* An answer that does not come. */
	begin_with(1);
	tell(VGPU_EV_BUSY, 0, 0);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), now + config.command_timeout[VGPU_CMD_LOAD]);
	timer();
	CU_ASSERT(did(VGPU_AC_RESET, 0, VGPU_RESET_VF));
	end();
}

/* After a stop no command is issued, whatever timers fire, and no timer is requested. */
TEST(stops, "a stop is a stop")
{
	begin_with(1);
	tell(VGPU_EV_BUSY, 0, 0);
	settle(0);
	tell(VGPU_EV_STOP, 0, 0);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), VGPU_NEVER);
	pass(VGPU_SEC);
	tell(VGPU_EV_TIMER, 0, 0);
	CU_ASSERT_EQUAL(out.n_actions, 0);
	CU_ASSERT_EQUAL(view().current, 0);
	end();

	begin_with(1);
	puppet.parks = true;
	puppet.park_until = now + VGPU_MSEC;
	tell(VGPU_EV_BUSY, 0, 0);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), puppet.park_until);
	tell(VGPU_EV_STOP, 0, 0);
	puppet.parks = false;
	pass(VGPU_SEC);
	tell(VGPU_EV_TIMER, 0, 0);
	CU_ASSERT_EQUAL(out.n_actions, 0);
	end();

	/* Not for a VF that wakes, either. */
	begin_with(1);
	tell(VGPU_EV_STOP, 0, 0);
	tell(VGPU_EV_BUSY, 0, 0);
	CU_ASSERT_EQUAL(out.n_actions, 0);
	tell(VGPU_EV_START, 0, 0);
	CU_ASSERT(did(VGPU_AC_COMMAND, 0, VGPU_CMD_LOAD));
	end();
}

/* A VF's wakes preempt 200 times a second and ten times at once, however long it slept before. */
TEST(wakes, "wakes preempt so often")
{
	uint32_t i;

	begin_with(2);
	puppet.preempts = true;
	pass(60 * VGPU_SEC);
	tell(VGPU_EV_BUSY, 0, 0);
	settle(0);
	puppet.next.slice = 100 * VGPU_MSEC;
	for (i = 0; i < 50; i++) {
		run(700 * VGPU_USEC, VGPU_USEC);
		tell(VGPU_EV_BUSY, 1, 0);
		run(700 * VGPU_USEC, VGPU_USEC);
		tell(VGPU_EV_EMPTY, 1, 0);
	}
	CU_ASSERT(view_of(1).ledger.preempted >= 10);
	CU_ASSERT(view_of(1).ledger.preempted <= 10 + 70 / 5);
	CU_ASSERT(view().engine.wake_limited > 0);
	end();
}

/* Slices are kept between the shortest and the longest; the rest of a budget may be shorter. */
TEST(slices, "slices within their limits")
{
	static const struct {
		vgpu_nsec asked, granted;
		uint32_t flags;
	} cases[] = {
		{VGPU_SEC, 500 * VGPU_MSEC, 0},
		{1000, 500 * VGPU_USEC, 0},
		{700000, 700000, 0},
		{1000, 1000, VGPU_PICK_REMAINDER},
		{1000, 1000, VGPU_PICK_DONATED},
		{VGPU_SEC, 500 * VGPU_MSEC, VGPU_PICK_REMAINDER},
	};
	uint32_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin_with(2);
		puppet.next.slice = cases[i].asked;
		puppet.next.flags = cases[i].flags;
		tell(VGPU_EV_BUSY, 0, 0);
		settle(0);
		CU_ASSERT_EQUAL(view().engine.clamped, cases[i].asked != cases[i].granted);
		tell(VGPU_EV_BUSY, 1, 0);
		timer();
		answer(0);
		CU_ASSERT_EQUAL(puppet.usage.granted, cases[i].granted);
		end();
	}
}

/* A policy is evicted that parks although a VF has work, against its promise, or until an instant
 * that has passed, or that picks a VF without a driver. */
TEST(faults, "policies that break their promises")
{
	uint32_t i;

	begin_with(2);
	puppet_ops.promises = VGPU_PROMISE_WORK_CONSERVING;
	puppet.parks = true;
	puppet.park_until = now + VGPU_MSEC;
	tell(VGPU_EV_BUSY, 0, 0);
	CU_ASSERT_EQUAL(view().engine.evictions, 1);
	CU_ASSERT_EQUAL(view().last_fault, VGPU_FAULT_STARVED);
	CU_ASSERT(did(VGPU_AC_COMMAND, 0, VGPU_CMD_LOAD));
	end();

	begin_with(1);
	puppet.only = 2;
	tell(VGPU_EV_BUSY, 0, 0);
	CU_ASSERT_EQUAL(view().last_fault, VGPU_FAULT_NO_WORK);
	CU_ASSERT(did(VGPU_AC_COMMAND, 0, VGPU_CMD_LOAD));
	end();

	for (i = 0; i < 2; i++) {
		begin_with(1);
		puppet.parks = true;
		puppet.park_until = now - i * VGPU_MSEC;
		tell(VGPU_EV_BUSY, 0, 0);
		CU_ASSERT_EQUAL(view().engine.evictions, 1);
		CU_ASSERT_EQUAL(view().last_fault, VGPU_FAULT_PAST_PARK);
		CU_ASSERT(did(VGPU_AC_COMMAND, 0, VGPU_CMD_LOAD));
		end();
	}

	/* A nanosecond is enough. */
	begin_with(1);
	puppet.parks = true;
	puppet.park_until = now + 1;
	tell(VGPU_EV_BUSY, 0, 0);
	CU_ASSERT_EQUAL(view().engine.evictions, 0);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), now + 1);
	end();
}

/* A change of policy takes effect at the next switch point, which it does not wait for long, and
 * carries over what each VF is owed; nothing that was accepted meanwhile is lost. */
TEST(changes, "changes of policy")
{
	begin_with(2);
	puppet_ops.promises = VGPU_PROMISE_WORK_CONSERVING;
	tell(VGPU_EV_BUSY, 0, 0);
	settle(0);
	timer(); /* no other VF has work: it goes on */
	CU_ASSERT(vgpu_core_deadline(core) > now + 100 * VGPU_MSEC);
	puppet.lags[0] = 5 * VGPU_MSEC;
	puppet.lags[1] = -7 * VGPU_MSEC;
	CU_ASSERT_EQUAL(change_policy(&puppet_ops, &policy_memory[1]), 0);
	CU_ASSERT(vgpu_core_deadline(core) <= now + config.min_slice);
	/* A fault of the old policy is not the new one's. */
	CU_ASSERT_EQUAL(tell(VGPU_EV_CONDEMN, 0, VGPU_FAULT_SLOW), 0);
	timer();
	CU_ASSERT_PTR_NOT_NULL(view().next_policy);
	answer(0);
	CU_ASSERT_PTR_NULL(view().next_policy);
	CU_ASSERT_EQUAL(puppet.imported[0], 5 * (int64_t)VGPU_MSEC);
	CU_ASSERT_EQUAL(puppet.imported[1], -7 * (int64_t)VGPU_MSEC);
	settle(0);
	CU_ASSERT_EQUAL(view().engine.evictions, 0);
	CU_ASSERT_PTR_EQUAL(view().policy, &puppet_ops);
	/* Refused parameters change nothing. */
	puppet.refuses = true;
	CU_ASSERT_EQUAL(tell(VGPU_EV_SET_POLICY, 0, 0), -EINVAL);
	CU_ASSERT_EQUAL(puppet.set, 0);
	end();
}

/* Parameters for POLICY, of VF or (VGPU_NO_VF) its own. */
static int set_params(const struct vgpu_policy_ops *policy, uint32_t vf, const int64_t *params)
{
	return step(
		(struct vgpu_event){.type = vf == VGPU_NO_VF ? VGPU_EV_SET_POLICY : VGPU_EV_SET_VF,
				    .vf = vf,
				    .policy = policy,
				    .params = params});
}

/* While a change waits, the parameters in force stay as they are, and new ones are for the next
 * policy: parameters that were parsed for the old one are refused. */
TEST(while_a_change_waits, "parameters while a change waits")
{
	const struct vgpu_policy_ops *fair = vgpu_builtin_policy("fair");
	int64_t rows[PUPPET_VFS][VGPU_MAX_PARAMS] = {{0}}, params[VGPU_MAX_PARAMS];
	uint32_t i;

	begin_with(2);
	CU_ASSERT_EQUAL(set_params(&puppet_ops, VGPU_NO_VF, no_params), 0);
	tell(VGPU_EV_BUSY, 0, 0);
	settle(0);
	vgpu_param_defaults(fair->params, params);
	for (i = 0; i < PUPPET_VFS; i++)
		vgpu_param_defaults(fair->vf_params, rows[i]);
	policy_memory[1] = calloc(1, fair->memory(PUPPET_VFS));
	CU_ASSERT_EQUAL(step((struct vgpu_event){.type = VGPU_EV_POLICY,
						 .policy = fair,
						 .memory = policy_memory[1],
						 .params = params,
						 .vf_params = rows[0]}),
			0);
	CU_ASSERT_PTR_EQUAL(view().policy, &puppet_ops);
	CU_ASSERT_PTR_EQUAL(view().next_policy, fair);
	CU_ASSERT_EQUAL(memcmp(view().params, no_params, sizeof(params)), 0);
	CU_ASSERT_EQUAL(memcmp(view().next_params, params, sizeof(params)), 0);
	/* Parameters must name their policy. */
	CU_ASSERT_EQUAL(set_params(&puppet_ops, 0, no_params), -ESTALE);
	CU_ASSERT_EQUAL(set_params(&puppet_ops, VGPU_NO_VF, no_params), -ESTALE);
	CU_ASSERT_EQUAL(set_params(NULL, 0, no_params), -ESTALE);
	CU_ASSERT_EQUAL(puppet.set, 1);
	CU_ASSERT_EQUAL(memcmp(view_of(0).next_params, rows[0], sizeof(rows[0])), 0);
	rows[0][0] = 300; /* its weight */
	params[0] = 7000; /* slice_us */
	CU_ASSERT_EQUAL(set_params(fair, 0, rows[0]), 0);
	CU_ASSERT_EQUAL(set_params(fair, VGPU_NO_VF, params), 0);
	CU_ASSERT_EQUAL(view_of(0).params[0], 0);
	CU_ASSERT_EQUAL(view_of(0).next_params[0], 300);
	CU_ASSERT_EQUAL(view().params[0], 0);
	timer();
	settle(0);
	CU_ASSERT_PTR_EQUAL_FATAL(view().policy, fair);
	CU_ASSERT_PTR_NULL(view().next_policy);
	CU_ASSERT_EQUAL(view().params[0], 7000);
	CU_ASSERT_EQUAL(view_of(0).params[0], 300);
	CU_ASSERT_EQUAL(view_of(0).share_numerator * 6, view_of(0).share_denominator * 3);
	end();
}

/* Parameters for a policy that was evicted meanwhile are refused: the fallback does not get them.
 */
TEST(after_an_eviction, "parameters after an eviction")
{
	begin_with(2);
	tell(VGPU_EV_BUSY, 0, 0);
	tell(VGPU_EV_BUSY, 1, 0);
	settle(0);
	CU_ASSERT_EQUAL(tell(VGPU_EV_CONDEMN, 0, VGPU_FAULT_SLOW), 0);
	timer();
	settle(0);
	CU_ASSERT_PTR_EQUAL_FATAL(view().policy, vgpu_fallback_policy);
	CU_ASSERT(view().params[0] > 0);
	CU_ASSERT_EQUAL(set_params(&puppet_ops, VGPU_NO_VF, no_params), -ESTALE);
	CU_ASSERT_EQUAL(set_params(&puppet_ops, 0, no_params), -ESTALE);
	timer(); /* the fallback picks, and divides by its parameters */
	settle(0);
	CU_ASSERT_EQUAL(change_policy(&puppet_ops, &policy_memory[1]), 0);
	end();
}

SUITE_MAIN("limits of the core")
