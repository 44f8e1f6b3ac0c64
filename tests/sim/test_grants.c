/* SPDX-License-Identifier: MIT */
/* What ends a grant, or a pause, when something happens that was not known when it was planned. */
#include "plain.h"

static void done(void)
{
	CU_ASSERT_EQUAL(h.violations, 0);
	vhost_finish(&h);
}

/*
 * A VF that is alone in its class goes on, but by one slice at a time. The requests of a VF with a
 * hundredth of the weight are long, so another VF of its class does not preempt it; it waits for
 * the end of the slice, not of the longest grant.
 */
TEST(alone_in_its_class, "alone in its class")
{
	struct vgpu_vf_view v;

	machine("prio", 3);
	vhost_param(policy->params, params, "starve_ms", 1000000);
	set_vf(0, "class", 2);
	set_vf(0, "weight", 1);
	set_vf(1, "class", 2);
	h.vfs[1].work = VHOST_BURSTS;
	h.vfs[1].burst = (struct vhost_range){4 * VGPU_MSEC, 4 * VGPU_MSEC};
	h.vfs[1].think = (struct vhost_range){7300 * VGPU_USEC, 7300 * VGPU_USEC};
	start();
	vhost_run(&h, 10 * VGPU_SEC);
	vgpu_core_vf_view(h.core, 1, &v);
	CU_ASSERT(v.ledger.dispatches > 500);
	CU_ASSERT(v.ledger.wait_max_ns < 50 * VGPU_MSEC);
	done();
}

/* No VF has budget left, and the engine is parked until one is due. A new budget is due sooner. */
TEST(changed_while_parked, "changed while parked")
{
	struct vgpu_vf_view v;
	uint64_t before;

	machine("deadline", 1);
	set_vf(0, "budget_us", 2000);
	set_vf(0, "period_us", 10000000);
	start();
	vhost_run(&h, VGPU_SEC);
	vgpu_core_vf_view(h.core, 0, &v);
	CU_ASSERT(v.ledger.dispatches <= 2);
	before = v.ledger.dispatches;
	set_vf(0, "period_us", 20000);
	CU_ASSERT_EQUAL(vhost_event(&h, &(struct vgpu_event){.type = VGPU_EV_SET_VF,
							     .vf = 0,
							     .params = rows[0]}),
			0);
	vhost_run(&h, 2 * VGPU_SEC);
	vgpu_core_vf_view(h.core, 0, &v);
	CU_ASSERT(v.ledger.dispatches - before >= 48);
	done();
}

SUITE_MAIN("grants end")
