/* SPDX-License-Identifier: MIT */
/*
 * The face of GPUs whose firmware schedules, on the null driver of that kind, in virtual time.
 * Expected values follow from the turns: with quanta q and late stops l, VF i gets (q_i + l_i) of
 * each rotation's sum (q_j + l_j).
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "asked.h"
#include "builtin.h"
#include "suite.h"
#include "vgpu/clock.h"
#include "vgpu/governor.h"

#define VFS 4u
#define MS VGPU_MSEC

static const struct vgpu_driver_ops *const ops = &vgpu_null_firmware_driver;
static struct vgpu_driver *gpu;
static struct vgpu_driver_caps caps;
static struct vgpu_event told[16];
static uint32_t n_told;
static vgpu_nsec now, before[VFS], service[VFS];

static void on_event(void *, const struct vgpu_event *event)
{
	CU_ASSERT_FATAL(n_told < 16);
	told[n_told++] = *event;
}

static void open_gpu(const char *device)
{
	struct vgpu_driver_config want = {.device = device, .n_vfs = VFS, .host_node = -1};
	struct vgpu_driver_found found;
	struct vgpu_error err;

	now = 40 * 24 * 3600 * VGPU_SEC; /* the clock of a host that has been up for 40 days */
	n_told = 0;
	CU_ASSERT_EQUAL_FATAL(ops->device->open(&gpu, &want, &caps, &found, on_event, NULL, &err),
			      0);
	CU_ASSERT(found.adopted && found.driver_up[VFS - 1]);
	CU_ASSERT_EQUAL(ops->device->dispatch(gpu, now), 0);
	CU_ASSERT_EQUAL(ops->programmed->usage(gpu, before, now), 0);
}

static void close_gpu(void)
{
	ops->device->close(gpu, false);
}

/* Lets SPAN pass. SERVICE then holds what each VF has used since the previous call. */
static void pass(vgpu_nsec span)
{
	vgpu_nsec active[VFS];
	uint32_t i;

	now += span;
	CU_ASSERT_EQUAL(ops->device->dispatch(gpu, now), 0);
	CU_ASSERT_EQUAL(ops->programmed->usage(gpu, active, now), 0);
	for (i = 0; i < VFS; i++) {
		service[i] = active[i] - before[i];
		before[i] = active[i];
	}
}

static struct vgpu_program schedule(vgpu_nsec a, vgpu_nsec b, vgpu_nsec c, vgpu_nsec d)
{
	vgpu_nsec quanta[VFS] = {a, b, c, d};
	struct vgpu_program p = {.keep_turns = false};
	uint32_t i;

	for (i = 0; i < VFS; i++) {
		p.vfs[i].quantum = quanta[i];
		p.vfs[i].timeout = 4 * MS;
	}
	return p;
}

/* Programs a schedule, and waits until it is in force and every VF has had a turn under it. */
static void program(struct vgpu_program p)
{
	struct vgpu_program applied;

	CU_ASSERT_EQUAL(ops->programmed->program(gpu, &p, now), 0);
	CU_ASSERT_EQUAL(ops->programmed->programmed(gpu, &applied), 1);
	CU_ASSERT(ops->device->deadline(gpu) != VGPU_NEVER);
	now = ops->device->deadline(gpu);
	CU_ASSERT_EQUAL(ops->device->dispatch(gpu, now), 0);
	CU_ASSERT_EQUAL(ops->programmed->programmed(gpu, &applied), 0);
	CU_ASSERT_EQUAL(applied.vfs[0].quantum, p.vfs[0].quantum);
	pass(VGPU_SEC);
}

/* Returns whether the VF used its share of the span, give or take two turns. */
static bool near(uint32_t vf, vgpu_nsec span, vgpu_nsec part, vgpu_nsec whole, vgpu_nsec turn)
{
	vgpu_nsec want = span / whole * part;
	bool is = service[vf] + 2 * turn >= want && service[vf] <= want + 2 * turn;

	if (!is)
		printf("\n  VF %u: %llu, not %llu\n", vf, (unsigned long long)service[vf],
		       (unsigned long long)want);
	return is;
}

TEST(quanta, "VFs share the engine by their quanta")
{
	uint32_t i;

	open_gpu("null-firmware:program_us=700");
	program(schedule(8 * MS, 8 * MS, 8 * MS, 8 * MS));
	pass(32 * VGPU_SEC);
	for (i = 0; i < VFS; i++)
		CU_ASSERT(near(i, 32 * VGPU_SEC, 8, 32, 8 * MS));
	program(schedule(16 * MS, 2 * MS, 2 * MS, 12 * MS));
	pass(32 * VGPU_SEC);
	CU_ASSERT(near(0, 32 * VGPU_SEC, 16, 32, 16 * MS));
	CU_ASSERT(near(1, 32 * VGPU_SEC, 2, 32, 2 * MS));
	CU_ASSERT(near(3, 32 * VGPU_SEC, 12, 32, 12 * MS));
	close_gpu();
}

/* A VF gets its new quantum from its next turn on; a turn that has begun keeps its length. */
TEST(next_turn, "a new quantum applies from the next turn on")
{
	struct vgpu_program p = schedule(100 * MS, 10 * MS, 10 * MS, 10 * MS);

	open_gpu("null-firmware:");
	CU_ASSERT_EQUAL(ops->programmed->program(gpu, &p, now), 0);
	CU_ASSERT_EQUAL(ops->device->dispatch(gpu, now), 0);
	pass(4 * MS);
	/* VF 0 is still in a turn of 1 ms, the length of each turn before anything is
	 * programmed. */
	CU_ASSERT_EQUAL(service[0], 1 * MS);
	CU_ASSERT_EQUAL(service[1], 3 * MS);
	close_gpu();
}

/* A VF that stops late uses the engine for that much longer; it is reset when its time-out
 * expires. */
TEST(late, "late stops lengthen a turn up to the time-out")
{
	struct vgpu_program p = schedule(8 * MS, 8 * MS, 8 * MS, 8 * MS);

	open_gpu("null-firmware:late_vf=2,late_us=3000");
	program(p);
	pass(35 * VGPU_SEC);
	CU_ASSERT(near(2, 35 * VGPU_SEC, 11, 35, 11 * MS));
	CU_ASSERT(near(0, 35 * VGPU_SEC, 8, 35, 8 * MS));
	p.vfs[2].timeout = 1 * MS;
	program(p);
	pass(33 * VGPU_SEC);
	CU_ASSERT(near(2, 33 * VGPU_SEC, 9, 33, 9 * MS));
	close_gpu();
}

/* A VF without work is passed over, unless turns are kept. */
TEST(idle, "VFs without work are passed over, unless turns are kept")
{
	struct vgpu_program p = schedule(10 * MS, 10 * MS, 10 * MS, 10 * MS);

	open_gpu("null-firmware:busy=2");
	program(p);
	pass(20 * VGPU_SEC);
	CU_ASSERT(near(0, 20 * VGPU_SEC, 10, 20, 10 * MS) &&
		  near(1, 20 * VGPU_SEC, 10, 20, 10 * MS));
	CU_ASSERT_EQUAL(service[2] + service[3], 0);
	p.keep_turns = true;
	program(p);
	pass(40 * VGPU_SEC);
	CU_ASSERT(near(0, 40 * VGPU_SEC, 10, 40, 10 * MS) &&
		  near(1, 40 * VGPU_SEC, 10, 40, 10 * MS));
	CU_ASSERT_EQUAL(service[2] + service[3], 0);
	close_gpu();
	open_gpu("null-firmware:busy=0");
	pass(365 * 24 * 3600 * VGPU_SEC);
	CU_ASSERT_EQUAL(service[0], 0);
	close_gpu();
}

/* A GPU reports the values that it applied, not values beyond its limits. */
TEST(clamped, "settings are clamped, and read back as applied")
{
	struct vgpu_program p = schedule(0, 1500000, VGPU_NEVER, 5 * MS), applied;

	open_gpu("null-firmware:program_us=1000");
	CU_ASSERT(caps.quantum.min > 0 && caps.keeps_turns);
	p.vfs[3].timeout = 1;
	CU_ASSERT_EQUAL(ops->programmed->program(gpu, &p, now), 0);
	CU_ASSERT_EQUAL(ops->programmed->program(gpu, &p, now), -EBUSY);
	pass(2 * MS);
	CU_ASSERT_EQUAL(ops->programmed->programmed(gpu, &applied), 0);
	CU_ASSERT_EQUAL(applied.vfs[0].quantum, caps.quantum.min);
	CU_ASSERT_EQUAL(applied.vfs[1].quantum, 1 * MS);
	CU_ASSERT_EQUAL(applied.vfs[2].quantum, caps.quantum.max);
	CU_ASSERT_EQUAL(applied.vfs[3].quantum, 5 * MS);
	CU_ASSERT_EQUAL(applied.vfs[3].timeout, caps.timeout.min);
	close_gpu();
}

/* The counters stand still while the VFs run. */
TEST(frozen, "counters may stand still while VFs run")
{
	open_gpu("null-firmware:freeze_ms=1000");
	pass(999 * MS);
	CU_ASSERT(service[0] > 200 * MS);
	pass(VGPU_SEC);
	CU_ASSERT_EQUAL(service[0] + service[1] + service[2] + service[3], 0);
	close_gpu();
}

TEST(stop_and_reset, "VFs are stopped and reset")
{
	open_gpu("null-firmware:");
	program(schedule(10 * MS, 10 * MS, 10 * MS, 10 * MS));
	CU_ASSERT_EQUAL(ops->programmed->stop(gpu, 1, now), 0);
	pass(9 * VGPU_SEC);
	CU_ASSERT_EQUAL(service[1], 0);
	CU_ASSERT(near(0, 9 * VGPU_SEC, 10, 30, 10 * MS));
	CU_ASSERT_EQUAL(ops->device->reset(gpu, 1, VGPU_RESET_VF, now), 0);
	CU_ASSERT_EQUAL(ops->device->deadline(gpu), 0);
	pass(0);
	CU_ASSERT(n_told == 1 && told[0].type == VGPU_EV_RESET_DONE && told[0].vf == 1);
	pass(8 * VGPU_SEC);
	CU_ASSERT(near(1, 8 * VGPU_SEC, 10, 40, 10 * MS));
	/* A reset of the GPU keeps the schedule and clears the counters. */
	CU_ASSERT_EQUAL(ops->device->reset(gpu, 0, VGPU_RESET_GPU, now), 0);
	CU_ASSERT_EQUAL(ops->programmed->usage(gpu, before, now), 0);
	CU_ASSERT_EQUAL(before[0] + before[1] + before[2] + before[3], 0);
	pass(4 * VGPU_SEC);
	CU_ASSERT(near(3, 4 * VGPU_SEC, 10, 40, 10 * MS));
	close_gpu();
}

/* The governor's reads and programs, carried out by the driver. */
static void carry_out(struct vgpu_governor *g, struct vgpu_governor_event event)
{
	struct vgpu_governor_event next = {.now = now};
	struct vgpu_governor_output out;
	struct vgpu_program applied;
	vgpu_nsec active[VFS];

	event.now = now;
	CU_ASSERT_EQUAL(vgpu_governor_step(g, &event, &out), 0);
	if (out.read) {
		next.type = VGPU_GOVERNOR_USAGE;
		next.active = active;
		CU_ASSERT_EQUAL(ops->programmed->usage(gpu, active, now), 0);
		carry_out(g, next);
	}
	if (out.program) {
		next.type = VGPU_GOVERNOR_PROGRAMMED;
		next.applied = &applied;
		CU_ASSERT_EQUAL(ops->programmed->program(gpu, &out.plan, now), 0);
		CU_ASSERT_EQUAL(ops->device->dispatch(gpu, now), 0);
		CU_ASSERT_EQUAL(ops->programmed->programmed(gpu, &applied), 0);
		carry_out(g, next);
	}
}

/* The governor over a driver: a VF that stops late gets no more than the others, until the counters
 * freeze. */
TEST(governed, "the governor evens out a late stopper, over a driver")
{
	const struct vgpu_policy_ops *fair = vgpu_builtin_policy("fair");
	int64_t params[VGPU_MAX_PARAMS], rows[VFS * VGPU_MAX_PARAMS];
	struct vgpu_governor_event event = {.type = VGPU_GOVERNOR_POLICY, .policy = fair};
	struct vgpu_governor_config config;
	struct vgpu_program found;
	struct vgpu_governor_view view;
	struct vgpu_governor *g;
	vgpu_nsec end;
	uint32_t i;

	open_gpu("null-firmware:late_vf=2,late_us=6000,freeze_ms=40000");
	vgpu_governor_defaults(&config, VFS, caps.quantum, caps.timeout);
	config.keeps_turns = caps.keeps_turns;
	ops->device->dispatch(gpu, now);
	ops->programmed->programmed(gpu, &found);
	g = vgpu_governor_init(calloc(1, vgpu_governor_size()), &config, &found, now);
	CU_ASSERT_PTR_NOT_NULL_FATAL(g);
	vgpu_param_defaults(fair->params, params);
	for (i = 0; i < VFS; i++)
		vgpu_param_defaults(fair->vf_params, rows + i * VGPU_MAX_PARAMS);
	event.memory = calloc(1, fair->memory(VFS));
	event.params = params;
	event.vf_params = rows;
	carry_out(g, event);
	carry_out(g, (struct vgpu_governor_event){.type = VGPU_GOVERNOR_START});
	for (i = 0; i < 2; i++) {
		pass(0);
		for (end = now + 15 * VGPU_SEC; vgpu_governor_deadline(g) < end;) {
			now = vgpu_governor_deadline(g);
			carry_out(g, (struct vgpu_governor_event){.type = VGPU_GOVERNOR_TIMER});
		}
		pass(end - now);
	}
	/* Of the last 15 s each had a quarter, give or take half a point. */
	for (i = 0; i < VFS; i++)
		CU_ASSERT(near(i, 15 * VGPU_SEC, 1, 4, 37 * MS));
	now += 10 * VGPU_SEC;
	for (i = 0; i < 30; i++) {
		now = vgpu_governor_deadline(g) > now ? vgpu_governor_deadline(g) : now;
		carry_out(g, (struct vgpu_governor_event){.type = VGPU_GOVERNOR_TIMER});
	}
	vgpu_governor_view(g, &view);
	CU_ASSERT_EQUAL(view.mode, VGPU_GOVERNOR_STILL);
	ops->programmed->programmed(gpu, &found);
	CU_ASSERT_EQUAL(found.vfs[2].quantum, found.vfs[0].quantum);
	free(event.memory);
	free(g);
	close_gpu();
}

/* From here on: vgpud's engine over this driver, in real time. */
static struct engine *engine;

static struct vgpu_driver_config on(const char *device)
{
	return (struct vgpu_driver_config){.device = device, .n_vfs = VFS, .host_node = -1};
}

/* The engine refuses what firmware cannot do, and keeps what it had; what it takes becomes quanta.
 */
TEST(engine_changes, "an engine takes changes, and refuses what firmware cannot do")
{
	const struct vgpu_policy_ops *fair = vgpu_builtin_policy("fair");
	int64_t rows[VFS * VGPU_MAX_PARAMS] = {0}, params[VGPU_MAX_PARAMS];
	struct engine_request request = {.ask = ENGINE_EVENT};
	struct vgpu_error err = {""};

	CU_ASSERT_EQUAL_FATAL(begin_engine(&engine, on("null-firmware:"), "deadline", NULL, NULL,
					   &err),
			      1); /* lost */
	engine_stop(engine);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "cannot run first the VF that is due"));
	CU_ASSERT_EQUAL_FATAL(begin_engine(&engine, on("null-firmware:program_us=2000"), "fair",
					   NULL, NULL, &err),
			      0);
	CU_ASSERT(look_at(engine)->governed && look_at(engine)->vfs[1].state == VGPU_VF_ACTIVE);

	request.event = (struct vgpu_event){.type = VGPU_EV_POLICY,
					    .policy = vgpu_builtin_policy("deadline"),
					    .params = rows,
					    .vf_params = rows};
	CU_ASSERT_EQUAL(ask_engine(engine, &request), -EOPNOTSUPP);
	CU_ASSERT_PTR_NOT_NULL(strstr(request.why, "cannot run first the VF that is due"));
	CU_ASSERT_PTR_EQUAL(look_at(engine)->core.policy, fair);
	CU_ASSERT_PTR_EQUAL(engine_policy(engine)->in_force.policy, fair);

	vgpu_param_defaults(fair->vf_params, params);
	CU_ASSERT_EQUAL(vgpu_param_set(fair->vf_params, "weight", "300", params, &err), 0);
	request.event = (struct vgpu_event){.type = VGPU_EV_SET_VF,
					    .vf = 1,
					    .policy = fair,
					    .params = params};
	CU_ASSERT_EQUAL(ask_engine(engine, &request), 0);
	CU_ASSERT_EQUAL(engine_policy(engine)->in_force.vf_params[1][0], params[0]);
	request.event.policy = vgpu_builtin_policy("wdrr");
	CU_ASSERT_EQUAL(ask_engine(engine, &request), -ESTALE);
	request = (struct engine_request){.ask = ENGINE_MEMORY};
	CU_ASSERT_EQUAL(ask_engine(engine, &request), -EOPNOTSUPP);
	engine_stop(engine);
}

/* Waits until the governor has closed N epochs. */
static const struct engine_snapshot *epochs(uint64_t n)
{
	vgpu_nsec until = vgpu_now() + 60 * VGPU_SEC;
	const struct engine_snapshot *s = look_at(engine);

	while (s->governor.epochs < n && vgpu_now() < until) {
		nanosleep(&(struct timespec){0, 20000000}, NULL);
		s = look_at(engine);
	}
	return s;
}

/* What VFs were served before the engine began counts for nothing: the first epoch can be used, and
 * the sums close. */
TEST(engine_begins, "an engine begins with the counters that it finds")
{
	const struct engine_snapshot *s;
	struct vgpu_error err = {""};
	vgpu_nsec sum = 0;
	uint32_t i;

	CU_ASSERT_EQUAL_FATAL(begin_engine(&engine, on("null-firmware:served_ms=90000"), "fair",
					   NULL, NULL, &err),
			      0);
	s = epochs(3);
	CU_ASSERT(s->governor.epochs >= 3 && s->governor.unread == 0);
	for (i = 0; i < VFS; i++)
		sum += s->governed_vfs[i].ledger.served;
	CU_ASSERT_EQUAL(s->governor.wall, sum + s->governor.idle + s->governor.unread);
	CU_ASSERT(sum > VGPU_SEC && s->governor.idle < VGPU_SEC / 2);
	CU_ASSERT(s->governor.plans >= 1);
	engine_stop(engine);
}

SUITE_MAIN("programmed")
