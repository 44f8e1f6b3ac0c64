/* SPDX-License-Identifier: MIT */
/* A VF pays what it owes: spread over turns, out of its limit, and to its own class only. */
#include "plain.h"

static struct vgpu_vf_view view_of(uint32_t vf)
{
	struct vgpu_vf_view view;

	vgpu_core_vf_view(h.core, vf, &view);
	return view;
}

static void done(void)
{
	CU_ASSERT_EQUAL(h.violations, 0);
	vhost_finish(&h);
}

/* An overrun that is charged over several turns is charged completely: beside a VF that is late
 * each time the other gets as much. */
TEST(spread_over_turns, "spread over turns")
{
	vgpu_nsec had[2];

	machine("fair", 2);
	vhost_param(policy->params, params, "debt_turns", 8);
	h.vfs[0].late = (struct vhost_range){3 * VGPU_MSEC, 6 * VGPU_MSEC};
	start();
	vhost_run(&h, 60 * VGPU_SEC);
	had[0] = vhost_service(&h, 0);
	had[1] = vhost_service(&h, 1);
	CU_ASSERT((had[0] > had[1] ? had[0] - had[1] : had[1] - had[0]) <=
		  view_of(0).bound.max_lag + view_of(1).bound.max_lag);
	CU_ASSERT(view_of(0).bound.max_lag < 200 * VGPU_MSEC);
	done();
}

/* Service by a guarantee counts towards the VF's limit. */
TEST(out_of_a_limit, "out of a limit")
{
	struct vgpu_bound bound;

	machine("qos", 2);
	set_vf(0, "min_ppm", 200000);
	set_vf(0, "max_ppm", 250000);
	start();
	vhost_run(&h, 20 * VGPU_SEC);
	bound = view_of(0).bound;
	CU_ASSERT(vhost_service(&h, 0) <= 20 * VGPU_SEC / 4 + bound.burst);
	CU_ASSERT(vhost_service(&h, 0) >= 4 * VGPU_SEC);
	CU_ASSERT(bound.burst < 100 * VGPU_MSEC);
	done();
}

/* A VF that moves to another class begins there as an equal, whatever it was served elsewhere. */
TEST(to_its_class, "to its class alone")
{
	vgpu_nsec had[2];

	machine("prio", 3);
	vhost_param(policy->params, params, "starve_ms", 1000000);
	set_vf(0, "class", 3);
	set_vf(1, "class", 3);
	set_vf(2, "class", 5);
	h.vfs[0].late = (struct vhost_range){40 * VGPU_MSEC, 40 * VGPU_MSEC};
	h.vfs[1].work = VHOST_BURSTS; /* it keeps the class busy for a second */
	h.vfs[1].burst = (struct vhost_range){VGPU_SEC, VGPU_SEC};
	h.vfs[1].think = (struct vhost_range){1000 * VGPU_SEC, 1000 * VGPU_SEC};
	start();
	vhost_run(&h, 400 * VGPU_MSEC);
	CU_ASSERT(view_of(0).lag_ns < 0 || view_of(0).ledger.overrun_ns > 0);
	h.vfs[0].late = (struct vhost_range){0, 0};
	set_vf(0, "class", 5);
	CU_ASSERT_EQUAL(vhost_event(&h, &(struct vgpu_event){.type = VGPU_EV_SET_VF,
							     .vf = 0,
							     .params = rows[0]}),
			0);
	vhost_run(&h, 600 * VGPU_MSEC); /* what it had begun has ended */
	had[0] = vhost_service(&h, 0);
	had[1] = vhost_service(&h, 2);
	CU_ASSERT_EQUAL(had[1], 0);
	vhost_run(&h, 5 * VGPU_SEC);
	had[0] = vhost_service(&h, 0) - had[0];
	had[1] = vhost_service(&h, 2) - had[1];
	CU_ASSERT(had[1] > VGPU_SEC);
	CU_ASSERT((had[0] > had[1] ? had[0] - had[1] : had[1] - had[0]) <
		  100 * VGPU_MSEC); /* two turns, each 40 ms late at first */
	done();
}

SUITE_MAIN("debts are paid")
