/* SPDX-License-Identifier: MIT */
/*
 * The core's promises about time: when a grant ends and what may end it, which VF is charged for
 * what, and what a policy is told. Each with its own numbers, under a policy that does what the
 * test sets.
 */
#include "puppet.h"

#define SAVE (80 * VGPU_USEC)
#define LOAD (60 * VGPU_USEC)
#define RUN (10 * VGPU_USEC)
#define SWITCH (SAVE + LOAD + RUN)

/* VF gets work and the engine, which was free. */
static void runs(uint32_t vf)
{
	tell(VGPU_EV_BUSY, vf, 0);
	answer(LOAD);
	answer(RUN);
	CU_ASSERT_EQUAL(view().current, vf);
}

/* The running VF is asked to stop, takes STOP to do so, and the next VF runs. */
static void turn(vgpu_nsec stop)
{
	timer();
	answer(stop);
	answer(SAVE);
	answer(LOAD);
	answer(RUN);
}

/* Waits are measured from having work to running, in each turn. */
TEST(waits, "waits are measured")
{
	begin_with(2);
	runs(0);
	CU_ASSERT_EQUAL(view_of(0).ledger.wait_ns, LOAD + RUN);
	tell(VGPU_EV_BUSY, 1, 0);
	turn(0);
	CU_ASSERT_EQUAL(view_of(1).ledger.wait_ns, 2 * VGPU_MSEC + SWITCH);
	turn(0);
	CU_ASSERT_EQUAL(view_of(0).ledger.wait_ns, LOAD + RUN + SWITCH + 2 * VGPU_MSEC + SWITCH);
	CU_ASSERT_EQUAL(view_of(0).ledger.wait_max_ns, SWITCH + 2 * VGPU_MSEC + SWITCH);
	end();
}

/* VF 0 runs, VF 1 wakes and preempts it; returns when IDLE is issued. */
static void wake_preempts(void)
{
	runs(0);
	pass(VGPU_MSEC);
	puppet.preempts = true;
	tell(VGPU_EV_BUSY, 1, 0);
	timer();
}

/* A VF that forces a switch by its wake pays for it, and its policy is told which part of the
 * charge that is. */
TEST(waker_pays, "a waker pays for the switch that it forces")
{
	begin_with(2);
	wake_preempts();
	answer(0);
	CU_ASSERT_EQUAL(puppet.usage.vf, 0);
	CU_ASSERT_EQUAL(puppet.usage.switched, 0);
	CU_ASSERT_EQUAL(puppet.usage.charge, VGPU_MSEC);
	answer(SAVE);
	answer(LOAD);
	answer(RUN);
	turn(0);
	CU_ASSERT_EQUAL(puppet.usage.vf, 1);
	CU_ASSERT_EQUAL(puppet.usage.used, 2 * VGPU_MSEC);
	CU_ASSERT_EQUAL(puppet.usage.switched, SWITCH);
	CU_ASSERT_EQUAL(puppet.usage.charge, 2 * VGPU_MSEC + SWITCH);
	end();
}

/* A VF that runs instead of the waker does not pay for the switch, and no VF pays for a switch that
 * was due anyway. */
TEST(others_do_not_pay, "others do not pay for it")
{
	begin_with(3);
	wake_preempts();
	puppet.only = 2;
	tell(VGPU_EV_BUSY, 2, 0);
	answer(0);
	answer(SAVE);
	answer(LOAD);
	answer(RUN);
	CU_ASSERT_EQUAL(view().current, 2);
	CU_ASSERT_EQUAL(view_of(2).pending_ns, 0);
	end();

	/* VF 0 would have been preempted, but ran out of work before. */
	begin_with(2);
	runs(0);
	puppet.preempts = true;
	tell(VGPU_EV_EMPTY, 0, 0);
	pass(10 * VGPU_USEC);
	tell(VGPU_EV_BUSY, 1, 0);
	timer();
	answer(0);
	CU_ASSERT_EQUAL(puppet.usage.reason, VGPU_END_YIELD);
	answer(SAVE);
	answer(LOAD);
	answer(RUN);
	CU_ASSERT_EQUAL(view().current, 1);
	CU_ASSERT_EQUAL(view_of(1).pending_ns, 0);
	end();
}

/* A save beyond twice the usual is charged to the VF whose state is so large; nothing is charged
 * twice. */
TEST(long_saves, "long saves are charged to the VF that is saved")
{
	uint32_t i;

	begin_with(2);
	runs(0);
	tell(VGPU_EV_BUSY, 1, 0);
	for (i = 0; i < 40; i++)
		turn(0);
	puppet.preempts = true;
	tell(VGPU_EV_EMPTY, 1, 0); /* VF 0 runs */
	CU_ASSERT_EQUAL(view().current, 0);
	pass(VGPU_MSEC);
	tell(VGPU_EV_BUSY, 1, 0);
	timer();
	answer(0);
	answer(10 * SAVE);
	answer(LOAD);
	answer(RUN);
	CU_ASSERT(view_of(0).ledger.switch_ns >= 7 * SAVE);
	CU_ASSERT(view_of(0).ledger.switch_ns <= 9 * SAVE);
	CU_ASSERT_EQUAL(view_of(0).ledger.switch_ns + view_of(1).ledger.switch_ns,
			10 * SAVE + LOAD + RUN);
	end();
}

/* Time used beyond a grant is overrun; at most debt_cap of it is charged at once. */
TEST(overruns, "overruns are charged, up to a cap")
{
	vgpu_core_defaults(&config, PUPPET_VFS);
	config.debt_cap = 10 * VGPU_MSEC;
	begin();
	driver_up(0, 0);
	driver_up(1, 0);
	runs(0);
	tell(VGPU_EV_BUSY, 1, 0);
	turn(3 * VGPU_MSEC);
	CU_ASSERT_EQUAL(puppet.usage.overrun, 3 * VGPU_MSEC);
	CU_ASSERT_EQUAL(puppet.usage.charge, 5 * VGPU_MSEC);
	turn(30 * VGPU_MSEC);
	CU_ASSERT_EQUAL(puppet.usage.vf, 1);
	CU_ASSERT_EQUAL(puppet.usage.overrun, 30 * VGPU_MSEC);
	CU_ASSERT_EQUAL(puppet.usage.charge, 12 * VGPU_MSEC);
	CU_ASSERT_EQUAL(view_of(1).ledger.forgiven_ns, 20 * VGPU_MSEC);
	CU_ASSERT_EQUAL(view_of(1).ledger.max_overrun_ns, 30 * VGPU_MSEC);
	end();
}

/* In another VF's slot only the time within the grant is donated. */
TEST(gifts, "what is given")
{
	begin_with(2);
	puppet.next.flags = VGPU_PICK_DONATED;
	runs(0);
	tell(VGPU_EV_BUSY, 1, 0);
	turn(3 * VGPU_MSEC);
	CU_ASSERT(puppet.usage.donated);
	CU_ASSERT_EQUAL(puppet.usage.charge, 3 * VGPU_MSEC);
	CU_ASSERT_EQUAL(view_of(0).ledger.donated_ns, 2 * VGPU_MSEC);
	CU_ASSERT_EQUAL(view_of(0).ledger.run_ns, 3 * VGPU_MSEC);
	end();
}

/* A quarter of a window, the VF's share, is paid for by the time that it takes. A VF with work pays
 * the rest in sixty turns, to the last nanosecond, however short the window was. */
TEST(debts, "debts are paid in full")
{
	uint32_t i;

	vgpu_core_defaults(&config, PUPPET_VFS);
	begin();
	driver_up(0, 80 * VGPU_MSEC);
	CU_ASSERT_EQUAL(view_of(0).ledger.debt_ns, 60 * VGPU_MSEC);
	CU_ASSERT_EQUAL(view_of(0).ledger.debt_lapsed_ns, 20 * VGPU_MSEC);
	runs(0);
	turn(0);
	CU_ASSERT_EQUAL(puppet.usage.used, 2 * VGPU_MSEC);
	CU_ASSERT(puppet.usage.charge >= 3 * VGPU_MSEC);
	CU_ASSERT(puppet.usage.charge <= 3 * VGPU_MSEC + 1);
	for (i = 0; i < 60; i++)
		turn(0);
	CU_ASSERT_EQUAL(view_of(0).ledger.debt_ns, 0);
	CU_ASSERT_EQUAL(view_of(0).ledger.debt_charged_ns, 60 * VGPU_MSEC);
	end();

	begin();
	driver_up(0, 40);
	runs(0);
	for (i = 0; i < 60; i++)
		turn(0);
	CU_ASSERT_EQUAL(view_of(0).ledger.debt_ns, 0);
	CU_ASSERT_EQUAL(view_of(0).ledger.debt_charged_ns, 30);
	end();
}

/* A VF owes at most two seconds for windows and resets, or half a second and the longest window;
 * the rest is counted. */
TEST(debts_are_bounded, "debts are bounded")
{
	vgpu_core_defaults(&config, PUPPET_VFS);
	config.window_max = 4 * VGPU_SEC;
	begin();
	driver_up(0, 10 * VGPU_SEC);
	CU_ASSERT_EQUAL(view_of(0).ledger.debt_ns, 4500 * VGPU_MSEC);
	end();

	vgpu_core_defaults(&config, PUPPET_VFS);
	begin();
	driver_up(0, 7 * VGPU_SEC);
	CU_ASSERT_EQUAL(view_of(0).ledger.debt_ns, 2 * VGPU_SEC);
	CU_ASSERT_EQUAL(view_of(0).ledger.debt_lapsed_ns, 7 * VGPU_SEC / 4);
	CU_ASSERT_EQUAL(view_of(0).written_off_ns, 7 * VGPU_SEC / 4 * 3 - 2 * VGPU_SEC);
	end();
}

/* What a VM owed at the host from which it comes is a debt like any other: it is paid in sixty
 * turns, it is bounded, and a claim to the contrary is nothing. */
TEST(brought_debts, "debts from another host")
{
	static const struct {
		int64_t value;
		vgpu_nsec owes;
	} brought[] = {{60 * VGPU_MSEC, 60 * VGPU_MSEC},
		       {-(int64_t)VGPU_SEC, 0},
		       {INT64_MIN, 0},
		       {INT64_MAX, 2 * VGPU_SEC}};
	uint32_t i, k;

	for (i = 0; i < sizeof(brought) / sizeof(brought[0]); i++) {
		vgpu_core_defaults(&config, PUPPET_VFS);
		begin();
		step((struct vgpu_event){.type = VGPU_EV_INCOMING, .code = 1});
		CU_ASSERT(view_of(0).incoming);
		step((struct vgpu_event){.type = VGPU_EV_INCOMING, .value = brought[i].value});
		CU_ASSERT_FALSE(view_of(0).incoming);
		CU_ASSERT_EQUAL(view_of(0).ledger.debt_ns, brought[i].owes);
		CU_ASSERT_EQUAL(view_of(0).ledger.brought_ns, brought[i].owes);
		/* said again, it is not owed again */
		step((struct vgpu_event){.type = VGPU_EV_INCOMING, .value = brought[i].value});
		CU_ASSERT_EQUAL(view_of(0).ledger.brought_ns, brought[i].owes);
		if (i == 0) {
			driver_up(0, 0);
			runs(0);
			for (k = 0; k < 61; k++)
				turn(0);
			CU_ASSERT_EQUAL(view_of(0).ledger.debt_ns, 0);
			CU_ASSERT(view_of(0).ledger.debt_charged_ns > 55 * VGPU_MSEC);
		}
		end();
	}
}

/* The wait for a planned start is idle time of the engine, and no VF runs before. */
TEST(planned_starts, "planned starts are kept")
{
	vgpu_nsec idle, switching;

	begin_with(1);
	puppet.next.not_before = now + 3 * VGPU_MSEC;
	tell(VGPU_EV_BUSY, 0, 0);
	idle = view().engine.idle_ns;
	switching = view().engine.switch_ns;
	answer(VGPU_MSEC);
	CU_ASSERT(!at_work);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), puppet.next.not_before);
	timer();
	answer(0);
	CU_ASSERT_EQUAL(now, puppet.next.not_before);
	CU_ASSERT_EQUAL(view().engine.idle_ns - idle, 2 * VGPU_MSEC);
	CU_ASSERT_EQUAL(view().engine.switch_ns - switching, VGPU_MSEC);
	end();
}

/* Guarantees assume a switch of the mean and four deviations, but at least the configured one. */
TEST(measured_switch, "the world switch is measured")
{
	uint32_t i;

	begin_with(2);
	CU_ASSERT_EQUAL(view().facts.switch_high_ns, config.switch_nominal);
	tell(VGPU_EV_BUSY, 0, 0);
	settle(VGPU_USEC);
	tell(VGPU_EV_BUSY, 1, 0);
	for (i = 0; i < 100; i++)
		run(2 * VGPU_MSEC, VGPU_USEC);
	CU_ASSERT(view().facts.switch_ns <= 4 * VGPU_USEC);
	CU_ASSERT_EQUAL(view().facts.switch_high_ns, config.switch_nominal);
	/* Saves of 50 and of 450 us in turn: 250 us, and 200 us beside it. */
	for (i = 0; i < 200; i++) {
		timer();
		answer(0);
		answer(i % 2 ? 50 * VGPU_USEC : 450 * VGPU_USEC);
		settle(0);
	}
	CU_ASSERT(view().facts.switch_ns > 300 * VGPU_USEC);
	CU_ASSERT(view().facts.switch_ns < 400 * VGPU_USEC);
	CU_ASSERT(view().facts.switch_high_ns > 950 * VGPU_USEC);
	CU_ASSERT(view().facts.switch_high_ns < 1150 * VGPU_USEC);
	end();
}

/* IDLE is issued early by the median of the last five stops: two late ones do not count, three do.
 */
TEST(learnt_stops, "preemption times are learnt")
{
	static const vgpu_nsec took[] = {20, 20, 20, 20, 20, 900, 900, 20, 900};
	vgpu_nsec start;
	uint32_t i;

	begin_with(2);
	runs(0);
	tell(VGPU_EV_BUSY, 1, 0);
	for (i = 0; i < sizeof(took) / sizeof(took[0]); i++) {
		turn(took[i] * VGPU_USEC);
		CU_ASSERT_EQUAL(puppet.usage.vf, 0);
		CU_ASSERT(i < 4 || view_of(0).ledger.preempt_ns ==
					   (i < 8 ? 20 * VGPU_USEC : 900 * VGPU_USEC));
		turn(0);
	}
	start = now;
	CU_ASSERT_EQUAL(view().current, 0);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), start + 1100 * VGPU_USEC);
	/* As late as the policy allows. */
	timer();
	answer(900 * VGPU_USEC);
	puppet.next.late = 700 * VGPU_USEC;
	settle(0);
	turn(0);
	CU_ASSERT_EQUAL(view().current, 0);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), now + 1800 * VGPU_USEC);
	end();
}

/* The median of the last five stops, or of all if there were fewer; of two or four, the larger of
 * the two in the middle. */
TEST(medians, "the usual time to stop is a median")
{
	vgpu_nsec took[200] = {0}; /* the first: at the end of its window */
	uint32_t i, k, first, n, less, as_much;

	begin_with(2);
	runs(0);
	tell(VGPU_EV_BUSY, 1, 0);
	for (i = 1; i < 200; i++) {
		took[i] = (i * i * 7919 % 31 + 1) * 20 * VGPU_USEC;
		turn(took[i]);
		turn(0);
		first = i < 5 ? 0 : i - 4;
		n = i + 1 - first;
		for (less = as_much = 0, k = first; k <= i; k++) {
			less += took[k] < view_of(0).ledger.preempt_ns;
			as_much += took[k] <= view_of(0).ledger.preempt_ns;
		}
		CU_ASSERT(less <= n / 2 && as_much > n / 2);
	}
	end();
}

/* A VF that has just begun to run is not preempted for min_run, whether the waker came before or
 * after; the account has the grant as it was in the end. */
TEST(protected_start, "a VF that has begun to run is protected")
{
	vgpu_nsec start;

	begin_with(2);
	runs(0);
	start = now;
	puppet.preempts = true;
	tell(VGPU_EV_BUSY, 1, 0);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), start + config.min_run);
	timer();
	answer(0);
	CU_ASSERT_EQUAL(puppet.usage.reason, VGPU_END_WAKE_PREEMPT);
	CU_ASSERT_EQUAL(puppet.usage.granted, config.min_run);
	settle(0);
	end();

	begin_with(2);
	tell(VGPU_EV_BUSY, 0, 0);
	puppet.preempts = true;
	tell(VGPU_EV_BUSY, 1, 0);
	settle(LOAD);
	CU_ASSERT_EQUAL(view().current, 0);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), now + config.min_run);
	end();
}

/* A requested window leaves the running VF the shortest slice, and begins then. */
TEST(windows_cut, "windows leave the shortest slice")
{
	vgpu_nsec start;

	begin_with(1);
	runs(0);
	start = now;
	pass(10 * VGPU_USEC);
	tell(VGPU_EV_REQUEST, 1, VGPU_WINDOW_INIT);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), start + config.min_slice);
	timer();
	CU_ASSERT(did(VGPU_AC_COMMAND, 0, VGPU_CMD_IDLE));
	settle(0);
	CU_ASSERT(did(VGPU_AC_NOTICE, 1, VGPU_NOTICE_READY));
	end();
}

/* A grant is not prolonged for a window or a policy that came just then, nor in another VF's slot.
 */
TEST(not_prolonged, "grants that end, and one that goes on")
{
	puppet_ops.promises = 0;
	begin_with(1);
	puppet_ops.promises = VGPU_PROMISE_WORK_CONSERVING;
	runs(0);
	now = vgpu_core_deadline(core);
	tell(VGPU_EV_REQUEST, 1, VGPU_WINDOW_INIT);
	timer();
	CU_ASSERT(did(VGPU_AC_COMMAND, 0, VGPU_CMD_IDLE));
	end();

	begin_with(1);
	puppet_ops.promises = VGPU_PROMISE_WORK_CONSERVING;
	runs(0);
	now = vgpu_core_deadline(core);
	CU_ASSERT_EQUAL(change_policy(&puppet_ops, &policy_memory[1]), 0);
	timer();
	CU_ASSERT(did(VGPU_AC_COMMAND, 0, VGPU_CMD_IDLE));
	end();

	begin_with(1);
	puppet_ops.promises = VGPU_PROMISE_WORK_CONSERVING;
	puppet.next.flags = VGPU_PICK_DONATED;
	runs(0);
	timer();
	CU_ASSERT(did(VGPU_AC_COMMAND, 0, VGPU_CMD_IDLE));
	end();

	/* A VF without competitors goes on, and is stopped in time to see that it responds. */
	begin_with(1);
	puppet_ops.promises = VGPU_PROMISE_WORK_CONSERVING;
	runs(0);
	timer();
	CU_ASSERT_EQUAL(out.n_actions, 0);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), now - 2 * VGPU_MSEC + config.lone_slice);
	end();
}

/* A VF that is alone and is to yield goes on if it has work again, to the end of its grant, which
 * is prolonged as ever. It is idled all the same if another one waits, before or by then; and a
 * device that says so unasked has failed. */
TEST(goes_on, "a VF that was to yield goes on")
{
	vgpu_nsec start;

	begin_with(2);
	puppet_ops.promises = VGPU_PROMISE_WORK_CONSERVING;
	runs(0);
	start = now;
	tell(VGPU_EV_EMPTY, 0, 0);
	timer();
	CU_ASSERT(did(VGPU_AC_COMMAND, 0, VGPU_CMD_IDLE) && in_flight.unless_busy);
	tell(VGPU_EV_BUSY, 0, 0);
	answer_with(0, VGPU_HAS_WORK);
	CU_ASSERT_EQUAL(view().current, 0);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), start + 2 * VGPU_MSEC);
	timer();
	CU_ASSERT_EQUAL(out.n_actions, 0);
	tell(VGPU_EV_EMPTY, 0, 0); /* it has none, again */
	timer();
	answer_with(0, VGPU_HAS_WORK);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), now + config.idle_grace);
	timer();
	CU_ASSERT(in_flight.unless_busy);
	tell(VGPU_EV_BUSY, 1, 0);
	answer_with(0, VGPU_HAS_WORK);
	CU_ASSERT(did(VGPU_AC_COMMAND, 0, VGPU_CMD_IDLE) && !in_flight.unless_busy);
	settle(0);
	CU_ASSERT_EQUAL(view().current, 1);
	tell(VGPU_EV_BUSY, 0, 0);
	tell(VGPU_EV_EMPTY, 1, 0);
	timer();
	CU_ASSERT(did(VGPU_AC_COMMAND, 1, VGPU_CMD_IDLE) && !in_flight.unless_busy);
	answer_with(0, VGPU_HAS_WORK);
	CU_ASSERT_EQUAL(view_of(1).ledger.hangs, 1);
	end();
}

/* A VF without work gives the engine back after idle_grace, the host's or the policy's, whether it
 * lost its work on the way to the engine or reports that again and again; but not in a slot that is
 * held. */
TEST(yields, "a VF without work yields")
{
	vgpu_nsec since;
	uint32_t i;

	begin_with(1);
	tell(VGPU_EV_BUSY, 0, 0);
	tell(VGPU_EV_EMPTY, 0, 0);
	settle(0);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), now + config.idle_grace);
	end();

	begin_with(1);
	runs(0);
	since = now;
	for (i = 0; i < 20 && vgpu_core_deadline(core) > now; i++) {
		tell(VGPU_EV_EMPTY, 0, 0);
		pass(config.idle_grace / 2);
	}
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), since + config.idle_grace);
	end();

	/* The policy may set it, up to the end of the grant. */
	begin_with(1);
	puppet.next.idle_grace = 700 * VGPU_USEC;
	runs(0);
	tell(VGPU_EV_EMPTY, 0, 0);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), now + 700 * VGPU_USEC);
	timer();
	answer(0);
	CU_ASSERT_EQUAL(puppet.usage.reason, VGPU_END_YIELD);
	CU_ASSERT_EQUAL(puppet.usage.charge, 700 * VGPU_USEC);
	end();

	begin_with(1);
	puppet.next.idle_grace = 700 * VGPU_USEC;
	tell(VGPU_EV_BUSY, 0, 0);
	tell(VGPU_EV_EMPTY, 0, 0);
	settle(0);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), now + 700 * VGPU_USEC);
	end();

	begin_with(1);
	puppet.next.idle_grace = VGPU_NEVER;
	runs(0);
	tell(VGPU_EV_EMPTY, 0, 0);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), now + 2 * VGPU_MSEC);
	end();

	begin_with(1);
	puppet.next.flags = VGPU_PICK_HOLD;
	runs(0);
	tell(VGPU_EV_EMPTY, 0, 0);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), now + 2 * VGPU_MSEC);
	end();
}

SUITE_MAIN("charges, and ends of grants")
