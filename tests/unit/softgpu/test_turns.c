/* SPDX-License-Identifier: MIT */
/* The round robin of softgpu's own scheduler, in virtual time. */
#include <string.h>

#include "allowance.h"
#include "draw.h"
#include "suite.h"
#include "turns.h"

#define MS VGPU_MSEC
#define N 4u

static struct turns t;

static void program(vgpu_nsec a, vgpu_nsec b, vgpu_nsec c, vgpu_nsec d, bool keep)
{
	const vgpu_nsec quanta[N] = {a, b, c, d};
	struct turns_plan plan = {.keep = keep};
	uint32_t i;

	for (i = 0; i < N; i++) {
		plan.vfs[i].quantum = quanta[i];
		plan.vfs[i].timeout = 4 * MS;
	}
	turns_program(&t, &plan);
}

/* VFs have turns in their order; those that do not want one are passed over. */
TEST(order, "VFs have turns in their order")
{
	static const int want[] = {0, 2, 3, 0, 2, 3, 0};
	uint32_t i;

	turns_init(&t, N, 0);
	for (i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		CU_ASSERT_EQUAL(turns_begin(&t, 0xd, i), want[i]);
	CU_ASSERT_EQUAL(turns_begin(&t, 0, 9), TURNS_NOBODY);
	/* A VF that begins to want a turn has it in its place, not first. */
	CU_ASSERT_EQUAL(turns_begin(&t, 0x6, 10), 1);
	CU_ASSERT_EQUAL(turns_begin(&t, 0x7, 11), 2);
	CU_ASSERT_EQUAL(turns_begin(&t, 0x7, 12), 0);
}

/* A turn ends with its quantum, or when its VF wants no more and another does. */
TEST(ends, "a turn ends with its quantum, or early")
{
	turns_init(&t, N, 0);
	program(8 * MS, 2 * MS, 2 * MS, 2 * MS, false);
	CU_ASSERT_EQUAL(turns_begin(&t, 0x3, 100 * MS), 0);
	CU_ASSERT(!turns_is_over(&t, 0x3, 108 * MS - 1));
	CU_ASSERT(turns_is_over(&t, 0x3, 108 * MS));
	CU_ASSERT(turns_is_over(&t, 0x2, 101 * MS));
	CU_ASSERT(!turns_is_over(&t, 0x0, 101 * MS));
	CU_ASSERT(turns_others(&t, 0x2) && !turns_others(&t, 0x1) && !turns_others(&t, 0));
	/* A new quantum counts from the next turn on. */
	program(3 * MS, 2 * MS, 2 * MS, 2 * MS, false);
	CU_ASSERT(!turns_is_over(&t, 0x3, 108 * MS - 1));
	turns_begin(&t, 0x1, 108 * MS);
	CU_ASSERT(turns_is_over(&t, 0x1, 111 * MS) && !turns_is_over(&t, 0x1, 111 * MS - 1));
}

/* Kept turns pass unused, but not if nobody wants one. */
TEST(kept, "kept turns pass unused")
{
	turns_init(&t, N, 0);
	program(8 * MS, 2 * MS, 2 * MS, 2 * MS, true);
	CU_ASSERT_EQUAL(turns_begin(&t, 0x1, 0), 0);
	CU_ASSERT_EQUAL(turns_begin(&t, 0x1, 8 * MS), 1);
	CU_ASSERT(!turns_is_over(&t, 0x1, 9 * MS) && turns_is_over(&t, 0x1, 10 * MS));
	CU_ASSERT_EQUAL(turns_begin(&t, 0, 10 * MS), TURNS_NOBODY);
}

TEST(clamped, "plans are clamped, and 0 is not endless")
{
	struct turns_plan plan = {.keep = false};
	uint32_t i;

	plan.vfs[0].quantum = 0; /* not endless */
	plan.vfs[1].quantum = 1234567;
	plan.vfs[2].quantum = VGPU_NEVER;
	plan.vfs[2].timeout = VGPU_NEVER;
	turns_init(&t, N, 0);
	turns_program(&t, &plan);
	CU_ASSERT_EQUAL(t.plan.vfs[0].quantum, turns_quanta.min);
	CU_ASSERT_EQUAL(t.plan.vfs[0].timeout, turns_timeouts.min);
	CU_ASSERT_EQUAL(t.plan.vfs[1].quantum, 1200000);
	CU_ASSERT_EQUAL(t.plan.vfs[2].quantum, turns_quanta.max);
	CU_ASSERT_EQUAL(t.plan.vfs[2].timeout, turns_timeouts.max);
	turns_init(&t, SOFTGPU_MAX_VFS, 0);
	for (i = 0; i < SOFTGPU_MAX_VFS; i++)
		CU_ASSERT(t.plan.vfs[i].quantum >= turns_quanta.min && t.plan.vfs[i].timeout > 0);
	CU_ASSERT_EQUAL(turns_begin(&t, 1u << 30, 0), 30);
}

/* Each nanosecond is counted for one VF, or for none, and no counter goes back. */
TEST(counters, "each nanosecond is counted once")
{
	vgpu_nsec now = 5, counted = 0, sum = 0, active, last[N] = {0};
	uint32_t i, k;
	int vf = TURNS_NOBODY;

	turns_init(&t, N, now);
	for (i = 0; i < 10000; i++) {
		vgpu_nsec passed = draw(3 * MS);

		now += passed;
		counted += vf == TURNS_NOBODY ? 0 : passed;
		for (k = 0; k < N; k++) {
			active = turns_active(&t, k, now);
			CU_ASSERT_FATAL(active >= last[k]);
			last[k] = active;
		}
		vf = (int)draw(N + 1) - 1;
		turns_count(&t, vf, now);
	}
	for (k = 0; k < N; k++)
		sum += turns_active(&t, k, now);
	CU_ASSERT_EQUAL(sum, counted);
}

/* One VF may cause 5 % of a CPU, all together 20 %; a little is saved up, and little is owed. */
TEST(allowances, "what a VF causes is bought")
{
	struct allowance a;
	vgpu_nsec now = 1000 * MS;

	allowance_begin(&a, &allowance_causes, now);
	allowance_charge(&a, 40 * MS);
	CU_ASSERT_EQUAL(allowance_owes(&a, 1, now), 0);
	allowance_charge(&a, MS);
	CU_ASSERT_EQUAL(allowance_owes(&a, 1, now), 20 * MS);
	CU_ASSERT_EQUAL(allowance_owes(&a, 10, now), 50 * MS);
	now += 19 * MS;
	CU_ASSERT_EQUAL(allowance_owes(&a, 4, now), MS);
	now += MS;
	CU_ASSERT_EQUAL(allowance_owes(&a, 4, now), 0);
	/* asked often, in steps that round to nothing */
	allowance_charge(&a, MS);
	while (allowance_owes(&a, 4, now) > 0)
		now += 700;
	CU_ASSERT(now >= 1040 * MS && now < 1041 * MS);
	/* A flood is owed for 10 ms at most, and an age of silence saves up 40 ms. */
	allowance_charge(&a, 60 * VGPU_SEC);
	CU_ASSERT_EQUAL(allowance_owes(&a, 4, now), 200 * MS);
	CU_ASSERT_EQUAL(allowance_owes(&a, 4, now + 3600 * VGPU_SEC), 0);
	allowance_charge(&a, 41 * MS);
	CU_ASSERT_EQUAL(allowance_owes(&a, 4, now + 3600 * VGPU_SEC), 20 * MS);
}

/* The longest that USED of these milliseconds were in any second, ms. */
static uint32_t most_in_a_second(const bool *used, uint32_t n)
{
	uint32_t i, sum = 0, most = 0;

	for (i = 0; i < n; i++) {
		sum += used[i];
		sum -= i >= 1000 && used[i - 1000];
		most = sum > most ? sum : most;
	}
	return most;
}

/* N VFs keep the priority that they are lent for as long as they can, one after the other, as often
 * as they get it: no VF has more of it than 5 % of any second, and all have not more than 20 %. */
TEST(loans, "real-time priority is lent within limits")
{
	enum { MOST = 31, SPAN = 20000 };
	static const uint32_t counts[] = {1, 2, 4, 7, MOST};
	static bool by_all[SPAN], by[MOST][SPAN];
	struct allowance a[MOST];
	uint32_t c, n, i, at, k, loan;
	vgpu_nsec began = 1000 * MS;

	for (c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		n = counts[c];
		memset(by_all, 0, sizeof(by_all));
		memset(by, 0, sizeof(by));
		for (i = 0; i < n; i++)
			allowance_begin(&a[i], &allowance_loans, began);
		for (at = 0, i = 0; at + 3 < SPAN; i = (i + 1) % n) {
			loan = (uint32_t)(allowance_has(&a[i], n, began + at * MS) / MS);
			for (k = 0; k < loan; k++, at++)
				by_all[at] = by[i][at] = true;
			allowance_charge(&a[i], loan * MS);
			at += loan == 0 && i == n - 1;
		}
		CU_ASSERT(most_in_a_second(by_all, SPAN) <= 200);
		for (i = 0; i < n; i++)
			CU_ASSERT(most_in_a_second(by[i], SPAN) <= 50);
		/* They get what is theirs. */
		CU_ASSERT(most_in_a_second(by[0], SPAN) >= 80 / n / 4);
	}
}

SUITE_MAIN("turns")
