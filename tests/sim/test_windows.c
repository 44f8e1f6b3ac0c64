/* SPDX-License-Identifier: MIT */
/* Exclusive windows: one in a wait, each paid for before the next, and every one comes. */
#include "puppet.h"

#define WINDOW (900 * VGPU_MSEC)

static vgpu_nsec opened_at; /* the last window */
static uint32_t opened;	    /* whose */

/* Time passes, up to UNTIL, or until the window of another VF than the last one opens. */
static bool opens(vgpu_nsec until)
{
	uint32_t steps = 0, i;

	opened = VGPU_NO_VF;
	while (opened == VGPU_NO_VF) {
		CU_ASSERT_FATAL(steps++ < 10000);
		if (!at_work && vgpu_core_deadline(core) > until)
			return false;
		if (at_work)
			answer(0);
		else
			timer();
		for (i = 0; i < PUPPET_VFS; i++)
			if (did(VGPU_AC_NOTICE, i, VGPU_NOTICE_READY))
				opened = i;
	}
	opened_at = now;
	return true;
}

static void closes(vgpu_nsec after, enum vgpu_window window)
{
	pass(after);
	tell(VGPU_EV_RELEASE, opened, window);
}

/* VF has work, and runs. */
static void runs(uint32_t vf)
{
	tell(VGPU_EV_BUSY, vf, 0);
	settle(0);
	CU_ASSERT_EQUAL(view().current, vf);
}

/* VFs 0 and 1 work, and VFs 2 and 3 ask for windows, both at once. The first window is opened. */
static void two_work_and_two_ask(void)
{
	begin_with(2);
	runs(0);
	tell(VGPU_EV_BUSY, 1, 0);
	tell(VGPU_EV_REQUEST, 2, VGPU_WINDOW_INIT);
	tell(VGPU_EV_REQUEST, 3, VGPU_WINDOW_INIT);
	CU_ASSERT(opens(now + config.min_slice));
	CU_ASSERT_EQUAL(opened, 2);
}

/* Between two windows each VF that waits has one turn, and a whole one. */
TEST(a_round_between, "a round between two windows")
{
	uint64_t turns[2];
	uint32_t i;

	two_work_and_two_ask();
	for (i = 0; i < 2; i++)
		turns[i] = view_of(i).ledger.dispatches;
	closes(VGPU_MSEC, VGPU_WINDOW_INIT);
	CU_ASSERT(opens(now + VGPU_SEC));
	CU_ASSERT_EQUAL(opened, 3);
	for (i = 0; i < 2; i++)
		CU_ASSERT_EQUAL(view_of(i).ledger.dispatches, turns[i] + 1);
	CU_ASSERT_EQUAL(opened_at, VGPU_SEC + config.min_slice + 5 * VGPU_MSEC);
	end();
}

/* The turn of a VF without competitors ends, because a window waits for it. */
TEST(a_round_of_one, "a round of one VF")
{
	begin_with(1);
	puppet_ops.promises = VGPU_PROMISE_WORK_CONSERVING;
	runs(0);
	tell(VGPU_EV_REQUEST, 1, VGPU_WINDOW_INIT);
	tell(VGPU_EV_REQUEST, 2, VGPU_WINDOW_INIT);
	CU_ASSERT(opens(now + config.min_slice));
	closes(VGPU_MSEC, VGPU_WINDOW_INIT);
	CU_ASSERT(opens(now + 2 * VGPU_MSEC));
	CU_ASSERT_EQUAL(opened, 2);
	end();
}

/* A VF that has no more work is not waited for. */
TEST(a_round_without_one, "a round without one that left")
{
	two_work_and_two_ask();
	closes(VGPU_MSEC, VGPU_WINDOW_INIT);
	tell(VGPU_EV_EMPTY, 1, 0);
	CU_ASSERT(opens(now + 3 * VGPU_MSEC));
	CU_ASSERT_EQUAL(opened, 3);
	CU_ASSERT_EQUAL(opened_at, VGPU_SEC + config.min_slice + 3 * VGPU_MSEC);
	end();

	/* It leaves while the other one runs, without competitors by then, for longer than a turn.
	 */
	two_work_and_two_ask();
	puppet_ops.promises = VGPU_PROMISE_WORK_CONSERVING;
	closes(VGPU_MSEC, VGPU_WINDOW_INIT);
	puppet.only = 0;
	settle(0);
	CU_ASSERT_EQUAL(view().current, 0);
	timer();
	settle(0);
	pass(VGPU_MSEC);
	tell(VGPU_EV_EMPTY, 1, 0);
	CU_ASSERT(opens(now + config.min_slice));
	CU_ASSERT_EQUAL(opened, 3);
	end();
}

/* The policy does not serve VF 1: the window comes a second after the last first turn, whether the
 * engine works or is parked. */
TEST(a_round_stalls, "a round that stalls")
{
	vgpu_nsec turn;

	two_work_and_two_ask();
	closes(0, VGPU_WINDOW_INIT);
	turn = now + 2 * VGPU_MSEC;
	puppet.only = 0;
	CU_ASSERT(!opens(turn + VGPU_SEC - 1));
	CU_ASSERT(opens(turn + VGPU_SEC + config.min_slice));
	CU_ASSERT_EQUAL(opened, 3);
	end();

	two_work_and_two_ask();
	puppet.parks = true;
	puppet.park_until = now + 100 * VGPU_SEC;
	turn = now;
	closes(0, VGPU_WINDOW_INIT);
	CU_ASSERT(opens(turn + 2 * VGPU_SEC));
	CU_ASSERT_EQUAL(opened, 3);
	CU_ASSERT_EQUAL(opened_at, turn + VGPU_SEC);
	end();
}

/* Where no VF has work, windows follow each other at once. */
TEST(nobody_waits, "at once where nobody waits")
{
	uint32_t i;

	begin_with(0);
	for (i = 0; i < PUPPET_VFS; i++)
		tell(VGPU_EV_REQUEST, i, VGPU_WINDOW_INIT);
	for (i = 0; i < PUPPET_VFS; i++) {
		if (i > 0)
			CU_ASSERT(opens(now));
		opened = i;
		settle(0);
		closes(WINDOW, VGPU_WINDOW_INIT);
	}
	settle(0);
	CU_ASSERT_EQUAL(now, VGPU_SEC + PUPPET_VFS * WINDOW);
	end();
}

/* Of its window of 0.9 s, VF 0 owes three quarters at the end; it may owe half a second when the
 * next begins. One that owes nothing goes first. PART: of the whole, for windows. */
static void paid_before_the_next(uint64_t promises, vgpu_nsec part)
{
	vgpu_nsec owes, begins;

	begin_with(1);
	CU_ASSERT_EQUAL(view_of(0).ledger.debt_ns, 0);
	puppet_ops.promises = promises;
	driver_up(1, 0);
	tell(VGPU_EV_REQUEST, 0, VGPU_WINDOW_FINI);
	opened = 0;
	settle(0);
	closes(WINDOW, VGPU_WINDOW_FINI);
	settle(0);
	tell(VGPU_EV_SCRUBBED, 0, 0);
	owes = WINDOW - WINDOW / 4 / part;
	CU_ASSERT_EQUAL(view_of(0).ledger.debt_ns, owes);
	begins = now + (owes - 500 * VGPU_MSEC) * 4 * part;
	tell(VGPU_EV_REQUEST, 0, VGPU_WINDOW_INIT);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), begins);
	pass(100 * VGPU_MSEC);
	driver_up(2, 0);
	CU_ASSERT_EQUAL(view_of(0).ledger.debt_ns, owes - 100 * VGPU_MSEC / 4 / part);
	CU_ASSERT(!opens(begins - 1));
	CU_ASSERT(opens(begins));
	CU_ASSERT_EQUAL(opened, 0);
	end();
}

TEST(debts, "each is paid for before the next")
{
	paid_before_the_next(VGPU_PROMISE_NO_STARVATION, 1);
	paid_before_the_next(VGPU_PROMISE_PROPORTIONAL, 1);
	paid_before_the_next(VGPU_PROMISE_PROPORTIONAL | VGPU_PROMISE_GUARANTEE, 8);
	paid_before_the_next(VGPU_PROMISE_WORK_CONSERVING, 8);
}

/* A VF with a millionth of the GPU has a thousandth of the time for windows. */
TEST(least_share, "a small share")
{
	vgpu_nsec begins;

	begin_with(0);
	puppet.share[0] = 1;
	puppet.share[1] = puppet.share[2] = puppet.share[3] = 1000000;
	puppet.whole = 1000000;
	driver_up(0, VGPU_SEC - 1);
	CU_ASSERT(view_of(0).ledger.debt_ns >= 999 * VGPU_MSEC - 1);
	tell(VGPU_EV_REQUEST, 0, VGPU_WINDOW_FINI);
	begins = now + 499 * VGPU_SEC;
	CU_ASSERT(opens(begins));
	CU_ASSERT(opened_at >= begins - VGPU_MSEC);
	end();
}

/* Where shares depend on whose drivers are up, they count from then on. */
TEST(other_members, "other members")
{
	vgpu_nsec owes;
	uint32_t i;

	begin_with(0);
	driver_up(0, WINDOW);
	tell(VGPU_EV_REQUEST, 1, VGPU_WINDOW_INIT);
	settle(0);
	puppet.whole = 10;
	for (i = 0; i < PUPPET_VFS; i++)
		puppet.share[i] = i ? 1 : 7;
	tell(VGPU_EV_RELEASE, 1, VGPU_WINDOW_INIT);
	settle(0);
	owes = view_of(0).ledger.debt_ns;
	pass(100 * VGPU_MSEC);
	tell(VGPU_EV_EMPTY, 0, 0); /* views are of the last step */
	CU_ASSERT_EQUAL(view_of(0).ledger.debt_ns, owes - 70 * VGPU_MSEC);
	end();
}

/* A VF with work pays by charges alone. */
TEST(work_pays_by_charges, "work pays by charges")
{
	vgpu_nsec owes;

	begin_with(1);
	driver_up(1, WINDOW);
	tell(VGPU_EV_BUSY, 1, 0);
	settle(0);
	puppet.only = 0;
	tell(VGPU_EV_BUSY, 0, 0);
	timer();
	settle(0);
	owes = view_of(1).ledger.debt_ns;
	CU_ASSERT(owes > 500 * VGPU_MSEC);
	run(VGPU_SEC, 0);
	CU_ASSERT_EQUAL(view_of(1).ledger.debt_ns, owes);
	tell(VGPU_EV_EMPTY, 1, 0);
	run(VGPU_SEC, 0);
	tell(VGPU_EV_EMPTY, 1, 0); /* views are of the last step */
	CU_ASSERT_EQUAL(view_of(1).ledger.debt_ns, owes - VGPU_SEC / 4);
	end();
}

/* Under a policy that a charge costs nothing, only the time pays, with work or without. */
TEST(time_pays, "the time pays where charges cost nothing")
{
	vgpu_nsec owes;

	begin_with(1);
	puppet_ops.promises = VGPU_PROMISE_WORK_CONSERVING;
	driver_up(1, WINDOW);
	runs(1);
	owes = view_of(1).ledger.debt_ns;
	timer();
	timer();
	pass(config.grace / 2);
	answer(0);
	CU_ASSERT_EQUAL(puppet.usage.charge, puppet.usage.used);
	CU_ASSERT_EQUAL(view_of(1).ledger.debt_charged_ns, 0);
	CU_ASSERT_EQUAL(view_of(1).ledger.debt_ns, owes - puppet.usage.used / 32);
	end();
}

/* A wait in progress counts for the longest wait, and so does one that ended without a turn. */
TEST(waits_in_progress, "waits in progress")
{
	begin_with(2);
	puppet.only = 0;
	runs(0);
	tell(VGPU_EV_BUSY, 1, 0);
	pass(VGPU_MSEC);
	tell(VGPU_EV_BUSY, 0, 0); /* views are of the last step */
	CU_ASSERT_EQUAL(view_of(1).ledger.wait_max_ns, VGPU_MSEC);
	tell(VGPU_EV_EMPTY, 1, 0);
	pass(100 * VGPU_USEC);
	tell(VGPU_EV_BUSY, 0, 0);
	CU_ASSERT_EQUAL(view_of(1).ledger.wait_max_ns, VGPU_MSEC);
	CU_ASSERT_EQUAL(view_of(1).ledger.wait_ns, 0);
	end();
}

SUITE_MAIN("exclusive windows")
