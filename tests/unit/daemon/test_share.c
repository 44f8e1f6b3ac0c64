/* SPDX-License-Identifier: MIT */
/* What readers pay for: the CPU time of their work, and no other time. */
#include <event2/event.h>

#include "control/share.h"
#include "suite.h"
#include "vgpu/clock.h"

static struct event_base *base;
static struct share share;
static unsigned ran;
static vgpu_nsec began, ended; /* when a piece did last */

static void make(void)
{
	base = event_base_new();
	CU_ASSERT_EQUAL_FATAL(share_start(&share, base), 0);
	ran = 0;
}

static void unmake(void)
{
	share_stop(&share);
	event_base_free(base);
}

static void computes(struct piece *)
{
	vgpu_nsec begun = share_clock();

	while (share_clock() - begun < 2 * SHARE_BURST)
		;
	ended = vgpu_now();
	ran++;
}

static void rests(struct piece *)
{
	const struct timespec rest = {.tv_nsec = 10 * SHARE_BURST};

	began = vgpu_now();
	nanosleep(&rest, NULL);
	ran++;
}

static void run_once(void (*run)(struct piece *piece))
{
	struct piece piece = {.run = run};
	unsigned before = ran;

	share_add(&share, &piece);
	while (ran == before)
		event_base_loop(base, EVLOOP_ONCE);
}

/* What is computed beyond the credit is waited for, five times as long. */
TEST(pays, "readers pay for what they compute")
{
	make();
	run_once(computes);
	run_once(rests);
	CU_ASSERT(began - ended >= (SHARE_OF - 1) * SHARE_BURST);
	unmake();
}

/* A host that does not run the thread costs readers nothing: otherwise a pause of 0.4 s, on a
 * loaded host, kept all of them waiting for 2 s. */
TEST(waits_for_nothing, "readers do not pay for time in which the thread does not run")
{
	make();
	run_once(rests);
	CU_ASSERT_EQUAL(share_wait(&share), 0);
	unmake();
}

static void counts(struct piece *)
{
	ran++;
}

TEST(one_at_a_time, "between two pieces, the event loop takes what others have sent")
{
	struct piece pieces[3] = {{.run = counts}, {.run = counts}, {.run = counts}};
	unsigned i;

	make();
	for (i = 0; i < 3; i++)
		share_add(&share, &pieces[i]);
	for (i = 1; i <= 3; i++) {
		while (ran < i)
			event_base_loop(base, EVLOOP_ONCE);
		CU_ASSERT_EQUAL(ran, i);
	}
	unmake();
}

SUITE_MAIN("share")
