/* SPDX-License-Identifier: MIT */
/*
 * The governor: alone, with counters as a test wants them; and against the model of firmware, with
 * the figures that are promised of it. Expected values follow from the turns: with quanta q and
 * late stops l, VF i gets (q_i + l_i) of each rotation's sum (q_j + l_j).
 */
#include <errno.h>
#include <stdlib.h>

#include "builtin.h"
#include "govern_report.h"
#include "judge_governed.h"
#include "suite.h"

#define VFS 4u
#define MS VGPU_MSEC

static struct vgpu_governor *g;
static struct vgpu_governor_output out;
static struct vgpu_program in_force;
static void *memory;
static vgpu_nsec now, active[VGPU_GPU_MAX_VFS], late[VGPU_GPU_MAX_VFS];
static uint32_t n_programs;
static bool cut; /* readings may cut turns: the slack is that of a real GPU */
static int64_t params[VGPU_MAX_PARAMS], rows[VGPU_GPU_MAX_VFS * VGPU_MAX_PARAMS];

static const struct vgpu_policy_ops *policy_named(const char *name)
{
	unsigned i;

	for (i = 0; strcmp(vgpu_builtin_policies[i]->name, name) != 0; i++)
		;
	return vgpu_builtin_policies[i];
}

static int step(struct vgpu_governor_event event)
{
	int r;

	event.now = now;
	r = vgpu_governor_step(g, &event, &out);
	n_programs += out.program;
	return r;
}

static void defaults(const struct vgpu_policy_ops *policy)
{
	uint32_t i;

	vgpu_param_defaults(policy->params, params);
	for (i = 0; i < VFS; i++)
		vgpu_param_defaults(policy->vf_params, rows + i * VGPU_MAX_PARAMS);
}

/* Sets one parameter by name, of the policy or of VF. */
static void set(const struct vgpu_policy_ops *policy, uint32_t vf, const char *name,
		const char *value)
{
	bool own = vf == VGPU_NO_VF;
	struct vgpu_error err;

	CU_ASSERT_EQUAL_FATAL(vgpu_param_set(own ? policy->params : policy->vf_params, name, value,
					     own ? params : rows + vf * VGPU_MAX_PARAMS, &err),
			      0);
}

static int take(const struct vgpu_policy_ops *policy)
{
	void *lent = calloc(1, policy->memory(VFS));
	int r = step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_POLICY,
						  .policy = policy,
						  .memory = lent,
						  .params = params,
						  .vf_params = rows});

	free(r < 0 ? lent : out.retired);
	memory = r < 0 ? memory : lent;
	return r;
}

/* What all VFs have already. */
static struct vgpu_program found;

static void make_found(bool keeps_turns)
{
	struct vgpu_setting quantum = {MS, 100 * VGPU_SEC, MS};
	struct vgpu_setting timeout = {VGPU_USEC, 100 * VGPU_SEC, VGPU_USEC};
	struct vgpu_governor_config config;

	vgpu_governor_defaults(&config, VFS, quantum, timeout);
	config.keeps_turns = keeps_turns;
	if (cut)
		config.slack = config.turn + config.turn / 4;
	now = 40 * 24 * 3600 * VGPU_SEC;
	memory = NULL;
	n_programs = 0;
	in_force = found;
	memset(active, 0, sizeof(active));
	memset(late, 0, sizeof(late));
	g = vgpu_governor_init(calloc(1, vgpu_governor_size()), &config, &in_force, now);
	CU_ASSERT_PTR_NOT_NULL_FATAL(g);
}

static void find(vgpu_nsec quantum, vgpu_nsec timeout, bool keep_turns)
{
	uint32_t i;

	found = (struct vgpu_program){.keep_turns = keep_turns};
	for (i = 0; i < VFS; i++)
		found.vfs[i].quantum = quantum, found.vfs[i].timeout = timeout;
}

static void make(bool keeps_turns)
{
	find(0, 0, false);
	make_found(keeps_turns);
}

static void end(void)
{
	free(memory);
	free(g);
}

/* The last program is in force, as it was asked for. */
static void apply(void)
{
	if (!out.program)
		return;
	in_force = out.plan;
	CU_ASSERT_EQUAL(step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_PROGRAMMED,
							  .applied = &in_force}),
			0);
}

static void start(const char *name)
{
	const struct vgpu_policy_ops *policy = policy_named(name);

	make(true);
	defaults(policy);
	CU_ASSERT_EQUAL_FATAL(take(policy), 0);
	CU_ASSERT_EQUAL(step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_START}), 0);
	CU_ASSERT(out.program);
	apply();
}

/* Reads the counters as they are. */
static void read_counters(void)
{
	CU_ASSERT_EQUAL(step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_TIMER}), 0);
	CU_ASSERT(out.read);
	CU_ASSERT_EQUAL(step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_USAGE,
							  .active = active}),
			0);
}

/* An epoch in which the VFs of the bitmap BUSY always have work. Leaves the program to be applied.
 */
static void pass(uint32_t busy)
{
	vgpu_nsec rotation = 0, epoch = vgpu_governor_deadline(g) - now;
	uint32_t i;

	now += epoch;
	for (i = 0; i < VFS; i++)
		rotation += busy >> i & 1 ? in_force.vfs[i].quantum + late[i] : 0;
	for (i = 0; i < VFS && rotation; i++)
		if (busy >> i & 1)
			active[i] += (in_force.vfs[i].quantum + late[i]) * epoch / rotation;
	read_counters();
}

static struct vgpu_governed_vf_view vf_view(uint32_t vf)
{
	struct vgpu_governed_vf_view view;

	vgpu_governor_vf_view(g, vf, &view);
	return view;
}

static struct vgpu_governor_view view(void)
{
	struct vgpu_governor_view v;

	vgpu_governor_view(g, &v);
	return v;
}

/* Shares that are exact are left alone, for ever; a changed claim is one program, of the next
 * epoch.
 */
TEST(writes_only_what_changes, "writes only what changes")
{
	int64_t weight[VGPU_MAX_PARAMS] = {[0] = 300};
	uint32_t k;

	start("fair");
	for (k = 0; k < 200; k++) {
		pass(0xf);
		apply();
	}
	CU_ASSERT_EQUAL(n_programs, 1);
	CU_ASSERT_EQUAL(step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_SET_VF,
							  .vf = 2,
							  .params = weight}),
			0);
	CU_ASSERT_FALSE(out.program);
	pass(0xf);
	CU_ASSERT(out.program);
	apply();
	for (k = 0; k < 40; k++) {
		pass(0xf);
		apply();
	}
	k = n_programs;
	CU_ASSERT(k <= 8); /* and the payment of half an epoch */
	CU_ASSERT_EQUAL(in_force.vfs[2].quantum, 3 * in_force.vfs[0].quantum);
	CU_ASSERT_EQUAL(in_force.vfs[1].quantum, in_force.vfs[3].quantum);
	end();
}

/* What a VM was served beyond its share on another host, it is charged here: it gets that much less
 * than the others, and no more is believed than a VF can owe. */
TEST(brought_debt, "a debt from another host is charged")
{
	static const vgpu_nsec owed[] = {40 * MS, VGPU_NEVER};
	vgpu_nsec epoch, want;
	uint32_t k, n;

	for (n = 0; n < 2; n++) {
		start("equal");
		pass(0xf);
		apply();
		epoch = vgpu_governor_deadline(g) - now;
		CU_ASSERT_EQUAL(step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_BRING,
								  .vf = 1,
								  .owed = owed[n]}),
				0);
		want = vf_view(1).ledger.brought;
		CU_ASSERT(n ? want >= epoch / 2 && want <= 2 * epoch : want == owed[n]);
		for (k = 0; k < 60; k++) {
			struct vgpu_governed_ledger l = vf_view(1).ledger;

			CU_ASSERT_EQUAL(l.served + l.brought,
					l.charged + (vgpu_nsec)l.carry + (vgpu_nsec)l.lapsed);
			pass(0xf);
			apply();
		}
		/* Off by what the last epochs have left over. */
		CU_ASSERT(active[1] + want < active[0] + 30 * MS);
		CU_ASSERT(active[1] + want + 30 * MS > active[0]);
		end();
	}
}

/* An epoch in which the VFs of the bitmap BUSY are served 96 % of what eight turns of 16 ms are. */
static void pass_short(uint32_t busy)
{
	uint32_t i;

	now = vgpu_governor_deadline(g);
	for (i = 0; i < VFS; i++)
		active[i] += busy >> i & 1 ? 8 * 16 * MS / 100 * 96 : 0;
	read_counters();
}

/* Somebody else writes 0 to the files of a VF's settings, which stands for no limit. */
TEST(settings_of_zero, "settings of zero")
{
	static const char *const names[] = {"best-effort", "equal"};
	uint32_t k, n, i;

	cut = true;
	for (n = 0; n < 4; n++) {
		start(names[n / 2]);
		for (k = 0; k < 8; k++) {
			pass_short(0xf); /* turns are shorter than it seems */
			apply();
		}
		for (k = 0; k < 20 && n % 2 == 0; k++) {
			pass_short(0x1);
			apply();
		}
		CU_ASSERT_EQUAL(step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_SET_POLICY,
								  .params = params}),
				0);
		pass_short(n % 2 ? 0xf : 0x1);
		CU_ASSERT(out.program);
		out.plan.vfs[0].quantum = 0;
		apply();
		for (k = 0; k < 20; k++) {
			pass_short(n % 2 ? 0xf : 0x1);
			CU_ASSERT(vgpu_governor_deadline(g) > now);
			for (i = 0; i < VFS && out.program; i++)
				CU_ASSERT(out.plan.vfs[i].quantum >= MS &&
					  out.plan.vfs[i].quantum <= 100 * MS);
			apply();
		}
		end();
	}
	cut = false;
}

/* A VF that stops late pays: after some epochs all VFs are served equally, and the ledger closes.
 */
TEST(late_stops_are_charged, "late stops are charged")
{
	vgpu_nsec before[VFS], least = VGPU_NEVER, most = 0, served = 0;
	uint32_t k, i;

	start("equal");
	late[1] = 6 * MS;
	for (k = 0; k < 40; k++) {
		pass(0xf);
		apply();
		if (k == 19)
			memcpy(before, active, sizeof(before));
	}
	for (i = 0; i < VFS; i++) {
		struct vgpu_governed_ledger l = vf_view(i).ledger;

		least = active[i] - before[i] < least ? active[i] - before[i] : least;
		most = active[i] - before[i] > most ? active[i] - before[i] : most;
		served += l.served;
		CU_ASSERT_EQUAL(l.served, active[i]);
		CU_ASSERT_EQUAL(l.served, l.charged + (vgpu_nsec)l.carry + (vgpu_nsec)l.lapsed);
		/* What the last epochs have left over, less than two slices. */
		CU_ASSERT(llabs(l.carry) < 8 * (int64_t)MS);
	}
	CU_ASSERT(most - least < 30 * MS); /* of 2.5 s each */
	CU_ASSERT(in_force.vfs[1].quantum + 4 * MS < in_force.vfs[0].quantum);
	CU_ASSERT(vf_view(1).late > 4 * MS && vf_view(1).late < 8 * MS);
	CU_ASSERT_EQUAL(view().wall, served + view().idle);
	end();
}

static vgpu_nsec told, told_overrun; /* to a policy, of VF 0 */

static void listen(void *state, const struct vgpu_usage *usage)
{
	told += usage->vf == 0 ? usage->charge : 0;
	told_overrun += usage->vf == 0 ? usage->overrun : 0;
	CU_ASSERT_EQUAL(usage->end - usage->start, usage->used);
	CU_ASSERT(usage->charge <= 2 * usage->granted);
	policy_named("equal")->account(state, usage);
}

/* The policy hears of what a VF took too much: as overruns, none of which is longer than its turn.
 */
TEST(carry_is_charged, "carry is charged")
{
	struct vgpu_policy_ops listener = *policy_named("equal");
	uint32_t k;

	listener.account = listen;
	told = told_overrun = 0;
	make(true);
	defaults(&listener);
	CU_ASSERT_EQUAL_FATAL(take(&listener), 0);
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_START});
	apply();
	late[0] = 15 * MS;
	for (k = 0; k < 3; k++) {
		pass(0xf);
		apply();
	}
	CU_ASSERT(told_overrun > 30 * MS);
	CU_ASSERT_EQUAL(told, vf_view(0).ledger.charged);
	end();
}

/* A VF without work keeps its quantum, and saves nothing up. */
TEST(sleepers_save_nothing_up, "sleepers save nothing up")
{
	vgpu_nsec nominal;
	uint32_t k;

	start("fair");
	nominal = in_force.vfs[3].quantum;
	for (k = 0; k < 100; k++) {
		pass(0x7);
		apply();
	}
	CU_ASSERT_EQUAL(vf_view(3).state, VGPU_GOVERNED_ASLEEP);
	CU_ASSERT_EQUAL(in_force.vfs[3].quantum, nominal);
	CU_ASSERT_EQUAL(vf_view(3).ledger.carry, 0);
	for (k = 0; k < 6; k++) {
		pass(0xf);
		apply();
		CU_ASSERT(in_force.vfs[3].quantum <= nominal + 2 * MS);
	}
	CU_ASSERT_EQUAL(vf_view(3).state, VGPU_GOVERNED_BUSY);
	end();
}

/* A VF that was owed time because of another's lateness has no claim when it sleeps. */
TEST(claims_end_with_work, "claims end with work")
{
	start("equal");
	late[0] = 15 * MS;
	pass(0xf);
	apply();
	CU_ASSERT(vf_view(3).ledger.carry < -10 * (int64_t)MS);
	pass(0x7);
	apply();
	CU_ASSERT_EQUAL(vf_view(3).state, VGPU_GOVERNED_ASLEEP);
	CU_ASSERT_EQUAL(vf_view(3).ledger.carry, 0);
	CU_ASSERT(vf_view(3).ledger.lapsed < 0);
	end();
}

/* A VF that leaves most of its turns unused is owed nothing for them. */
TEST(light_vfs_are_owed_nothing, "light VFs are owed nothing")
{
	uint32_t k, i;

	start("fair");
	for (k = 0; k < 40; k++) {
		vgpu_nsec epoch = vgpu_governor_deadline(g) - now;

		now += epoch;
		active[0] += epoch / 100;
		for (i = 1; i < VFS; i++)
			active[i] += epoch * 33 / 100;
		read_counters();
		apply();
		CU_ASSERT_EQUAL(vf_view(0).state, VGPU_GOVERNED_PARTIAL);
		CU_ASSERT(vf_view(0).ledger.carry >= 0);
	}
	CU_ASSERT_EQUAL(n_programs, 1);
	end();
}

TEST(frozen_counters, "frozen counters")
{
	vgpu_nsec nominal;
	uint32_t k;

	start("fair");
	nominal = in_force.vfs[0].quantum;
	late[0] = 6 * MS;
	for (k = 0; k < 10; k++) {
		pass(0xf);
		apply();
	}
	CU_ASSERT(in_force.vfs[0].quantum < nominal);
	pass(0);
	apply();
	CU_ASSERT_EQUAL(view().mode, VGPU_GOVERNOR_GOVERNED);
	pass(0);
	CU_ASSERT_EQUAL(view().mode, VGPU_GOVERNOR_STILL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(out.says);
	CU_ASSERT_PTR_NOT_NULL(strstr(out.says, "static plan holds"));
	CU_ASSERT(out.program);
	apply();
	CU_ASSERT_EQUAL(in_force.vfs[0].quantum, nominal);
	CU_ASSERT_EQUAL(in_force.vfs[1].quantum, nominal);
	pass(0);
	CU_ASSERT_PTR_NULL(out.says);
	pass(0xf);
	CU_ASSERT_EQUAL(view().mode, VGPU_GOVERNOR_GOVERNED);
	CU_ASSERT_PTR_NOT_NULL(out.says);
	end();
}

/* An epoch of which nothing is known, because counters cannot be read. */
static void pass_unread(void)
{
	now = vgpu_governor_deadline(g);
	CU_ASSERT_EQUAL(step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_TIMER}), 0);
	CU_ASSERT_EQUAL(step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_USAGE,
							  .error = -EIO}),
			0);
	CU_ASSERT_PTR_NOT_NULL(out.says);
}

/* What corrects a late VF, and what weights say, still holds after it; what was changed takes
 * effect all the same. */
TEST(unread_epochs, "an epoch that is not read changes nothing")
{
	int64_t weight[VGPU_MAX_PARAMS] = {[0] = 300};
	struct vgpu_program before;
	uint32_t k;

	start("fair");
	late[0] = 6 * MS;
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_SET_VF, .vf = 2, .params = weight});
	for (k = 0; k < 40; k++) {
		pass(0xf);
		apply();
	}
	before = in_force;
	CU_ASSERT(before.vfs[0].quantum < before.vfs[1].quantum);
	CU_ASSERT(before.vfs[2].quantum > 2 * before.vfs[1].quantum);
	pass_unread();
	CU_ASSERT_FALSE(out.program);
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_SET_VF, .vf = 1, .params = weight});
	pass_unread();
	CU_ASSERT(out.program);
	apply();
	CU_ASSERT_EQUAL(in_force.vfs[1].quantum, in_force.vfs[2].quantum);
	CU_ASSERT_EQUAL(in_force.vfs[2].quantum, 3 * in_force.vfs[3].quantum);
	end();
}

/* Counters that go back, or count more than the time, are not believed. */
TEST(absurd_counters, "absurd counters")
{
	vgpu_nsec served;
	uint32_t i;

	start("fair");
	pass(0xf);
	apply();
	served = vf_view(0).ledger.served;
	now = vgpu_governor_deadline(g);
	/* The counter of one VF was reset; the sum of all is believable. */
	active[0] -= 50 * MS;
	for (i = 1; i < VFS; i++)
		active[i] += 150 * MS;
	read_counters();
	apply();
	CU_ASSERT_PTR_NOT_NULL(out.says);
	CU_ASSERT_EQUAL(vf_view(0).ledger.served, served);
	CU_ASSERT(view().unread >= 500 * MS);
	pass(0xf);
	apply();
	CU_ASSERT_PTR_NULL(out.says);
	CU_ASSERT(vf_view(0).ledger.served > served);
	served = vf_view(0).ledger.served;
	now = vgpu_governor_deadline(g);
	active[1] += 10 * VGPU_SEC;
	read_counters();
	CU_ASSERT_PTR_NOT_NULL(out.says);
	CU_ASSERT_EQUAL(vf_view(0).ledger.served, served);
	end();
	/* So with a counter that goes back before it has counted: it is counted from a base. */
	start("fair");
	now = vgpu_governor_deadline(g);
	active[0] -= 50 * MS;
	for (i = 1; i < VFS; i++)
		active[i] += 150 * MS;
	read_counters();
	CU_ASSERT_PTR_NOT_NULL(out.says);
	CU_ASSERT_EQUAL(vf_view(0).ledger.served + vf_view(1).ledger.served, 0);
	end();
}

/* A program that the GPU refuses is written again, whole, in the next epoch; what it has clamped is
 * what is in force. */
TEST(answers, "answers")
{
	struct vgpu_program applied;
	uint32_t n;

	/* The quanta are right already, the time-outs are not. */
	find(16 * MS, 0, false);
	make_found(true);
	defaults(policy_named("fair"));
	CU_ASSERT_EQUAL_FATAL(take(policy_named("fair")), 0);
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_START});
	CU_ASSERT(out.program);
	in_force = out.plan;
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_PROGRAMMED, .error = -EUCLEAN});
	CU_ASSERT_PTR_NOT_NULL(out.says);
	n = n_programs;
	pass(0xf);
	CU_ASSERT_EQUAL(n_programs, n + 1);
	applied = out.plan;
	applied.vfs[0].quantum += MS;
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_PROGRAMMED, .applied = &applied});
	CU_ASSERT_EQUAL(vf_view(0).quantum, applied.vfs[0].quantum);
	CU_ASSERT_EQUAL(view().clamped, 1);
	CU_ASSERT_EQUAL(view().failed, 1);
	CU_ASSERT_EQUAL(step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_PROGRAMMED,
							  .applied = &applied}),
			-EBUSY);
	end();
}

static bool starts(const char *name, const char *idle)
{
	const struct vgpu_policy_ops *policy = policy_named(name);

	defaults(policy);
	if (idle)
		set(policy, VGPU_NO_VF, "idle", idle);
	CU_ASSERT_EQUAL_FATAL(take(policy), 0);
	CU_ASSERT_EQUAL(step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_START}), 0);
	return out.program;
}

/* Whether turns are kept is in force, too: it is written if nothing else differs. */
TEST(kept_turns_are_in_force, "kept turns are in force")
{
	find(16 * MS, 16 * MS, false);
	make_found(true);
	CU_ASSERT_FALSE(starts("fair", NULL));
	end();
	make_found(true);
	CU_ASSERT(starts("strict", "hold") && out.plan.keep_turns);
	apply();
	CU_ASSERT(view().keep_turns);
	end();
	find(16 * MS, 16 * MS, true);
	make_found(true);
	CU_ASSERT(starts("fair", NULL) && !out.plan.keep_turns);
	end();
	make_found(true);
	CU_ASSERT_FALSE(starts("strict", "hold"));
	end();
}

/* Time-outs that the first plan overwrites refuse no guarantee. */
TEST(found_time_outs_refuse_nothing, "found time-outs refuse nothing")
{
	const struct vgpu_policy_ops *qos = policy_named("qos");
	uint32_t i;

	find(16 * MS, 500 * MS, false);
	make_found(true);
	defaults(qos);
	for (i = 0; i < VFS; i++) {
		set(qos, i, "min_ppm", "120000");
		set(qos, i, "period_ms", "500");
	}
	CU_ASSERT_EQUAL_FATAL(take(qos), 0);
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_START});
	CU_ASSERT(out.program);
	apply();
	for (i = 0; i < VFS; i++)
		CU_ASSERT(vf_view(i).bound.least_ppm >= 120000);
	end();
}

/* While no VF works, a change is written all the same, for when one does. */
TEST(changes_while_still, "changes while still")
{
	const struct vgpu_policy_ops *strict = policy_named("strict"), *fair = policy_named("fair");
	uint32_t k;

	start("fair");
	for (k = 0; k < 5; k++) {
		pass(0);
		apply();
	}
	CU_ASSERT_EQUAL(view().mode, VGPU_GOVERNOR_STILL);
	defaults(fair);
	set(fair, 0, "weight", "300");
	CU_ASSERT_EQUAL_FATAL(take(fair), 0);
	pass(0);
	CU_ASSERT(out.program && out.plan.vfs[0].quantum > 2 * out.plan.vfs[1].quantum);
	apply();
	pass(0);
	CU_ASSERT_FALSE(out.program);
	/* idle = hold is the static plan for ever, from whatever state it comes. */
	defaults(strict);
	set(strict, VGPU_NO_VF, "idle", "compress");
	CU_ASSERT_EQUAL_FATAL(take(strict), 0);
	pass(0xf);
	apply();
	for (k = 0; k < 5; k++) {
		pass(0);
		apply();
	}
	CU_ASSERT_EQUAL(view().mode, VGPU_GOVERNOR_STILL);
	set(strict, VGPU_NO_VF, "idle", "hold");
	CU_ASSERT_EQUAL(step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_SET_POLICY,
							  .params = params}),
			0);
	for (k = 0; k < 3; k++) {
		pass(0xf);
		apply();
		CU_ASSERT_EQUAL(view().mode, VGPU_GOVERNOR_STATIC);
	}
	CU_ASSERT(in_force.keep_turns);
	end();
}

TEST(stop_leaves_the_nominal_plan, "stop leaves the nominal plan")
{
	struct vgpu_program nominal;
	uint32_t k, i;

	start("fair");
	nominal = in_force;
	late[2] = 8 * MS;
	for (k = 0; k < 10; k++) {
		pass(0xf);
		apply();
	}
	CU_ASSERT(in_force.vfs[2].quantum < nominal.vfs[2].quantum);
	CU_ASSERT_EQUAL(step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_STOP}), 0);
	CU_ASSERT(out.program);
	for (i = 0; i < VFS; i++)
		CU_ASSERT_EQUAL(out.plan.vfs[i].quantum, nominal.vfs[i].quantum);
	apply();
	CU_ASSERT_EQUAL(vgpu_governor_deadline(g), VGPU_NEVER);
	end();
}

/* The stop comes while a program is under way, which ends so: the nominal plan
 * follows. */
static void stop_while_programming(struct vgpu_governor_event end_of_it)
{
	struct vgpu_program nominal;
	uint32_t i;

	start("fair");
	nominal = in_force;
	late[2] = 15 * MS;
	pass(0xf);
	CU_ASSERT(out.program);
	in_force = out.plan;
	CU_ASSERT_EQUAL(step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_STOP}), 0);
	CU_ASSERT_FALSE(out.program);
	step(end_of_it);
	CU_ASSERT(out.program);
	for (i = 0; i < VFS; i++)
		CU_ASSERT_EQUAL(out.plan.vfs[i].quantum, nominal.vfs[i].quantum);
}

TEST(stop_waits_for_the_program, "stop waits for the program")
{
	stop_while_programming((struct vgpu_governor_event){.type = VGPU_GOVERNOR_PROGRAMMED,
							    .applied = &in_force});
	apply();
	CU_ASSERT_FALSE(out.program);
	end();
}

/* A nominal plan that the GPU refuses is not tried again. */
TEST(stop_after_a_refusal, "stop after a refusal")
{
	const struct vgpu_governor_event refused = {.type = VGPU_GOVERNOR_PROGRAMMED,
						    .error = -EIO};

	stop_while_programming(refused);
	step(refused);
	CU_ASSERT_FALSE(out.program);
	end();
}

static void pick_nobody_there(void *, struct vgpu_pick *pick, vgpu_nsec)
{
	pick->vf = VFS;
	pick->slice = MS;
}

/* A policy that breaks its contract is not asked again, and the static plan holds. */
TEST(faulty_policy, "faulty policy")
{
	struct vgpu_policy_ops faulty = *policy_named("equal");
	const struct vgpu_policy_ops *fair = policy_named("fair");
	uint32_t k;

	faulty.pick = pick_nobody_there;
	make(true);
	defaults(&faulty);
	CU_ASSERT_EQUAL_FATAL(take(&faulty), 0);
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_START});
	apply();
	late[0] = 10 * MS;
	pass(0xf);
	CU_ASSERT_EQUAL(view().mode, VGPU_GOVERNOR_FAULTY);
	CU_ASSERT_PTR_NOT_NULL(out.says && strstr(out.says, "broke its contract") ? out.says
										  : NULL);
	apply();
	CU_ASSERT_EQUAL(in_force.vfs[0].quantum, in_force.vfs[1].quantum);
	defaults(fair);
	CU_ASSERT_EQUAL(take(fair), 0);
	for (k = 0; k < 10; k++) {
		pass(0xf);
		apply();
	}
	CU_ASSERT_EQUAL(view().mode, VGPU_GOVERNOR_GOVERNED);
	CU_ASSERT(in_force.vfs[0].quantum + 5 * MS < in_force.vfs[1].quantum);
	end();
}

/* What firmware cannot do: each is refused in a sentence, and nothing changes. */
TEST(refusals, "refusals")
{
	static const struct {
		const char *policy, *param, *value;
		uint32_t vf;
		bool keeps_turns;
		const char *says; /* NULL: accepted */
	} cases[] = {
		{"deadline", NULL, NULL, 0, true, "in a fixed order"},
		{"strict", "idle", "donate", VGPU_NO_VF, true, "cannot lend the turn"},
		{"strict", "idle", "hold", VGPU_NO_VF, false, "skips"},
		{"strict", "idle", "hold", VGPU_NO_VF, true, NULL},
		{"strict", "idle", "compress", VGPU_NO_VF, false, NULL},
		{"fair", "latency_slice_us", "2000", 1, true, "latency_slice_us"},
		{"qos", "max_ppm", "500000", 1, true, "limits no VF"},
		{"qos", "min_ppm", "200000", 1, true, "two rotations"},
		{"qos", NULL, NULL, 0, true, NULL},
		{"prio", NULL, NULL, 0, true, NULL},
		{"best-effort", NULL, NULL, 0, true, NULL},
	};
	const struct vgpu_policy_ops *policy;
	uint32_t i;
	int r;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		policy = policy_named(cases[i].policy);
		make(cases[i].keeps_turns);
		defaults(policy);
		if (cases[i].param)
			set(policy, cases[i].vf, cases[i].param, cases[i].value);
		r = take(policy);
		CU_ASSERT_EQUAL(r, cases[i].says ? -EOPNOTSUPP : 0);
		if (cases[i].says && out.why)
			CU_ASSERT_PTR_NOT_NULL(strstr(out.why, cases[i].says));
		CU_ASSERT_EQUAL(out.why != NULL, cases[i].says != NULL);
		CU_ASSERT_EQUAL(view().policy, cases[i].says ? NULL : policy);
		end();
	}
}

/* A guarantee is admitted if the firmware alone ensures it, and then every plan keeps it. */
TEST(guarantees, "guarantees")
{
	const struct vgpu_policy_ops *qos = policy_named("qos");
	uint32_t k, i;

	make(true);
	defaults(qos);
	set(qos, 0, "min_ppm", "800000");
	set(qos, 0, "period_ms", "1000");
	CU_ASSERT_EQUAL(take(qos), -EOPNOTSUPP);
	CU_ASSERT_PTR_NOT_NULL(out.why && strstr(out.why, "do not fit") ? out.why : NULL);
	set(qos, 0, "min_ppm", "400000");
	CU_ASSERT_EQUAL_FATAL(take(qos), 0);
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_START});
	CU_ASSERT(out.program);
	apply();
	for (i = 1; i < VFS; i++)
		late[i] = 15 * MS;
	for (k = 0; k < 20; k++) {
		pass(0xf);
		apply();
		CU_ASSERT(vf_view(0).bound.least_ppm >= 400000);
	}
	/* A change that does not fit is refused, and the old guarantee still holds. */
	set(qos, 0, "min_ppm", "800000");
	CU_ASSERT_EQUAL(step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_SET_VF,
							  .vf = 0,
							  .params = rows}),
			-EOPNOTSUPP);
	CU_ASSERT(vf_view(0).bound.least_ppm >= 400000);
	end();
}

/* How policies are carried out: once, with or without idle turns; or by the loop. */
TEST(modes, "modes")
{
	uint32_t k;

	start("best-effort");
	CU_ASSERT_EQUAL(view().mode, VGPU_GOVERNOR_STATIC);
	CU_ASSERT_EQUAL(in_force.vfs[0].quantum, in_force.vfs[3].quantum);
	CU_ASSERT_FALSE(in_force.keep_turns);
	late[0] = 6 * MS;
	for (k = 0; k < 20; k++) {
		pass(0xf);
		apply();
	}
	CU_ASSERT_EQUAL(n_programs, 1);
	CU_ASSERT_EQUAL(vf_view(0).bound.max_lag, VGPU_NEVER);
	CU_ASSERT_EQUAL(vf_view(0).bound.leak_ppm, 0);
	end();
	start("strict");
	CU_ASSERT_EQUAL(view().mode, VGPU_GOVERNOR_STATIC);
	CU_ASSERT(in_force.keep_turns);
	end();
	start("prio");
	CU_ASSERT_EQUAL(view().mode, VGPU_GOVERNOR_GOVERNED);
	CU_ASSERT_EQUAL(vf_view(0).bound.leak_ppm, 30000); /* 3 turns of 1 ms in 100 */
	end();
}

/* Under prio, VFs of later classes get the least quantum while an earlier one has work. */
TEST(classes, "classes")
{
	const struct vgpu_policy_ops *prio = policy_named("prio");
	uint32_t k, i;

	make(true);
	defaults(prio);
	set(prio, 0, "class", "0");
	CU_ASSERT_EQUAL_FATAL(take(prio), 0);
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_START});
	apply();
	for (k = 0; k < 30; k++) {
		pass(0xf);
		apply();
	}
	for (i = 1; i < VFS; i++)
		CU_ASSERT(in_force.vfs[i].quantum <= 2 * MS);
	CU_ASSERT(in_force.vfs[0].quantum >= 30 * MS);
	end();
}

/* --- Against the model of firmware --- */

static struct govern_result run_file(const char *name, bool fixed, vgpu_nsec epoch)
{
	struct govern_line line = {.label = "", .fixed = fixed, .epoch = epoch};
	struct govern_result result = {.violation = "not run"};
	struct vgpu_error err;
	struct scenario s;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s.scn", SCENARIOS, name);
	CU_ASSERT_EQUAL_FATAL(scenario_read(&s, path, &err), 0);
	CU_ASSERT_EQUAL(govern_run(&s, &line, &result, &err), 0);
	CU_ASSERT_STRING_EQUAL(result.violation, "");
	scenario_free(&s);
	return result;
}

/* One of ten VFs stops working, and others have whole turns before it could have waited too long.
 */
TEST(one_that_stops, "a VF that stops accuses no policy")
{
	struct govern_result r = run_file("ten-one-stops", false, 0);

	CU_ASSERT(r.wait <= 1 && !r.still);
}

/* A plan that takes long to be in force makes no VF look as if it had left turns unused; at any
 * length of the epoch. */
TEST(slow_first_plan, "the first plan is slow")
{
	static const vgpu_nsec epochs[] = {0, 100 * MS, 350 * MS, 500 * MS};
	uint32_t i;

	for (i = 0; i < sizeof(epochs) / sizeof(epochs[0]); i++)
		CU_ASSERT(run_file("first-plan-slow", false, epochs[i]).lag <= 1);
}

/* Quanta that were set by hand are in force, however often the GPU refuses a program; and
 * bounds count what a refused plan costs. */
TEST(refused_programs, "refused programs")
{
	CU_ASSERT_DOUBLE_EQUAL(run_file("programs-refused", true, 0).shares[0], 0.65, 0.02);
	CU_ASSERT(run_file("programs-refused", false, 0).lag <= 1);
}

/* A wait contains turns of two plans, however long a program takes and however short the next. */
TEST(slow_then_refused, "slow, then refused")
{
	double wait = run_file("slow-then-refused", false, 0).wait;

	CU_ASSERT(wait > 0.5 && wait <= 1);
}

/* What a VF pays of what it owes, while the one that is owed it stands aside, is in the bound. */
TEST(paid_beside_one_in_doubt, "what is paid beside one in doubt")
{
	double lag = run_file("paid-beside-one-in-doubt", false, 0).lag;

	CU_ASSERT(lag > 0.5 && lag <= 1);
}

/* A VF whose turn does not come in the first epoch, because the quanta that were found are long, is
 * owed its part of it. */
TEST(late_for_the_first_epoch, "late for the first epoch")
{
	find(200 * MS, 16 * MS, false);
	make_found(true);
	defaults(policy_named("equal"));
	CU_ASSERT_EQUAL_FATAL(take(policy_named("equal")), 0);
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_START});
	now = vgpu_governor_deadline(g);
	active[0] = active[1] = 200 * MS;
	active[2] = 100 * MS;
	read_counters();
	CU_ASSERT_EQUAL(vf_view(3).state, VGPU_GOVERNED_BUSY);
	CU_ASSERT(vf_view(3).ledger.carry < -50 * (int64_t)MS);
	end();
}

/* A governor with the time-out STOP for each VF, and quanta of whole STEPs. */
static struct vgpu_governor *with(vgpu_nsec stop, vgpu_nsec step)
{
	struct vgpu_governor_config config;
	struct vgpu_setting quantum = {step, 100 * VGPU_SEC, step};
	struct vgpu_setting timeout = {VGPU_USEC, 100 * VGPU_SEC, VGPU_USEC};

	vgpu_governor_defaults(&config, VFS, quantum, timeout);
	config.stop = stop;
	return vgpu_governor_init(calloc(1, vgpu_governor_size()), &config, &in_force, now);
}

/* A VF has work, as long as its turn may not have come yet: three others may take 400 ms each. */
TEST(turns_to_come, "turns to come")
{
	uint32_t k;

	make(true);
	free(g);
	g = with(400 * MS, MS);
	CU_ASSERT(starts("fair", NULL));
	apply();
	pass(0xf);
	apply();
	for (k = 1; k <= 3; k++) { /* of 0.5 s */
		pass(0x7);
		apply();
		CU_ASSERT_EQUAL(vf_view(3).state,
				k < 3 ? VGPU_GOVERNED_BUSY : VGPU_GOVERNED_ASLEEP);
	}
	end();
}

/* Counters after an epoch in which VF 2 had LIGHT of the time, and others always had work; 0: it
 * had work, too. */
static void pass_light(vgpu_nsec light)
{
	vgpu_nsec epoch = vgpu_governor_deadline(g) - now, rotation = 0;
	uint32_t i;

	if (light == 0) {
		pass(0xf);
		return;
	}
	now += epoch;
	for (i = 0; i < VFS; i++)
		rotation += i == 2 ? 0 : in_force.vfs[i].quantum + late[i];
	for (i = 0; i < VFS; i++)
		active[i] +=
			i == 2 ? light
			       : (in_force.vfs[i].quantum + late[i]) * (epoch - light) / rotation;
	read_counters();
}

/* A VF in doubt that has work has its share within three seconds, and not more, also if it is due
 * most of the time, or if all others stop so late that it is served little in turns of the usual
 * length. */
TEST(doubt_ends_with_work, "doubt ends with work")
{
	static const struct {
		const char *weight;
		vgpu_nsec stop, late[VFS];
		double first, least, most; /* shares: of the first 3 s at most; then */
	} cases[] = {{"100", 400 * MS, {6 * MS}, 0.35, 0.24, 0.26},
		     {"300", 400 * MS, {6 * MS}, 0.6, 0.48, 0.52},
		     {"900", 400 * MS, {6 * MS}, 0.85, 0.72, 0.78},
		     {"100", 50 * MS, {50 * MS, 50 * MS, 0, 50 * MS}, 0.3, 0.18, 0.3}};
	vgpu_nsec before[VFS], all;
	uint32_t c, k, i;
	double share;

	for (c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		make(true);
		free(g);
		g = with(cases[c].stop, MS);
		defaults(policy_named("fair"));
		set(policy_named("fair"), 2, "weight", cases[c].weight);
		CU_ASSERT_EQUAL_FATAL(take(policy_named("fair")), 0);
		step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_START});
		apply();
		memcpy(late, cases[c].late, sizeof(cases[c].late));
		for (k = 0; k < 66; k++) {
			if (k == 40 || k == 46)
				memcpy(before, active, sizeof(before));
			pass_light(k < 40 ? 5 * MS : 0);
			apply();
			if (k != 45 && k != 65)
				continue;
			for (all = 0, i = 0; i < VFS; i++)
				all += active[i] - before[i];
			share = (double)(active[2] - before[2]) / (double)all;
			CU_ASSERT(share < (k == 45 ? cases[c].first : cases[c].most));
			CU_ASSERT(k == 45 || share > cases[c].least);
		}
		end();
	}
}

/* A VF that has more than the others of the first epoch, because it began to work before them,
 * seems to stop late. It has its share afterwards. */
TEST(begins_early, "begins early")
{
	static const unsigned parts[VFS] = {2, 2, 1, 6}; /* of the first epoch */
	vgpu_nsec before[VFS], all = 0, epoch;
	uint32_t k, i;

	make(true);
	free(g);
	g = with(400 * MS, MS / 10);
	defaults(policy_named("fair"));
	set(policy_named("fair"), 0, "weight", "200");
	CU_ASSERT_EQUAL_FATAL(take(policy_named("fair")), 0);
	step((struct vgpu_governor_event){.type = VGPU_GOVERNOR_START});
	apply();
	for (k = 0; k < 50; k++) {
		epoch = vgpu_governor_deadline(g) - now;
		if (k == 30)
			memcpy(before, active, sizeof(before));
		late[3] = 6 * MS;
		if (k > 5) {
			pass(0xf);
		} else {
			now += epoch;
			for (i = 0; i < VFS && k == 5; i++)
				active[i] += epoch * parts[i] / 11;
			read_counters();
		}
		apply();
	}
	for (i = 0; i < VFS; i++)
		all += active[i] - before[i];
	for (i = 0; i < VFS; i++)
		CU_ASSERT_DOUBLE_EQUAL((double)(active[i] - before[i]) / (double)all,
				       i == 0 ? 0.4 : 0.2, 0.01);
	end();
}

/* Time-outs that add up to more than five epochs: no bound is stated, and a warning is. */
TEST(late_stops_bound_nothing, "late stops bound nothing")
{
	uint32_t k;

	for (k = 0; k < 2; k++) {
		make(true);
		free(g);
		g = with((5 * 500 - 100) * MS / VFS + k * MS, MS); /* epochs and rotation */
		CU_ASSERT(starts("fair", NULL));
		apply();
		CU_ASSERT_EQUAL(vf_view(0).bound.max_lag == VGPU_NEVER, k == 1);
		CU_ASSERT_EQUAL(vgpu_governor_warning(g) &&
					strstr(vgpu_governor_warning(g), "more than five epochs"),
				k == 1);
		end();
	}
}

/* Worst errors of shares, in points, and settings written in a second. */
TEST(figures, "figures")
{
	static const struct {
		const char *name;
		double fixed_1s, fixed_10s; /* of static quanta, give or take a point */
		double most_1s, most_10s, writes;
	} cases[] = {
		{"four-equal-one-late", 9.9, 7.0, 5, 0.5, 3},
		{"constant-late", 7.8, 6.5, 3, 0.4, 0.2},
		{"rounded-late", 6.3, 6.0, 3, 0.7, 0.2},
		{"fine-late", 6.3, 6.0, 3, 0.5, 0.2},
		{"two-equal-time-out-abused", 9.6, 8.3, 4.8, 0.6, 5},
		{"weights-100-70-30", 2.9, 2.5, 3.3, 0.3, 0.2},
		{"eight-one-one-late", 14.9, 12.1, 7.6, 0.5, 3},
		{"one-visited", 7.9, 7.7, 3.2, 0.5, 2},
		{"two-visited", 7.8, 7.5, 4, 0.6, 2.5},
		{"now-and-then", 8.3, 7.4, 4.5, 0.6, 3},
		{"half-visited", 6.3, 5.6, 3, 0.4, 1},
		{"most-visited", 5.5, 4.5, 5, 0.6, 1},
		{"three-stop-late", 18.6, 17.6, 13, 6, 7},
	};
	struct govern_result r;
	uint32_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		r = run_file(cases[i].name, true, 0);
		CU_ASSERT_DOUBLE_EQUAL(100 * r.worst_1s, cases[i].fixed_1s, 1);
		CU_ASSERT_DOUBLE_EQUAL(100 * r.worst_10s, cases[i].fixed_10s, 1);
		CU_ASSERT_EQUAL(r.writes_per_s, 0);
		r = run_file(cases[i].name, false, 0);
		CU_ASSERT(r.worst_1s >= 0 && 100 * r.worst_1s <= cases[i].most_1s);
		CU_ASSERT(r.worst_10s >= 0 && 100 * r.worst_10s <= cases[i].most_10s);
		CU_ASSERT(r.writes_per_s <= cases[i].writes);
		CU_ASSERT(r.plans_per_s <= 2);
	}
}

/* What a comparison says of a rule: the worst error over 10 s, in points, and settings written in a
 * second. Returns how many rows the rule has. */
static unsigned row_of(const char *table, const char *rule, double *worst, double *writes)
{
	size_t length = strlen(rule);
	const char *line = table;
	unsigned n = 0;

	for (; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
		if (strncmp(line, rule, length) == 0 && strncmp(line + length, "  ", 2) == 0 &&
		    sscanf(line + length, "%*s %lf %*s %lf", worst, writes) == 2)
			n++;
	return n;
}

/* Each policy that firmware can do stands beside its own static quanta; one that it cannot do says
 * why. */
TEST(comparison, "comparison")
{
	static const char *const rules[] = {"fair", "equal", "wdrr"};
	struct compare_line lines[16];
	unsigned n = compare_builtin(lines, 16), i;
	double worst, writes, fixed_worst, fixed_writes;
	char *table = NULL, fixed[64];
	struct vgpu_error err;
	struct scenario s;
	size_t size;
	FILE *f;

	CU_ASSERT_EQUAL_FATAL(scenario_read(&s, SCENARIOS "/four-equal-one-late.scn", &err), 0);
	s.until = 40 * VGPU_SEC;
	f = open_memstream(&table, &size);
	CU_ASSERT_EQUAL(govern_compare_policies(&s, lines, n, false, f), 0);
	fclose(f);
	for (i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		snprintf(fixed, sizeof(fixed), "%s, static quanta", rules[i]);
		worst = writes = fixed_worst = fixed_writes = -1;
		CU_ASSERT_EQUAL(row_of(table, rules[i], &worst, &writes), 1);
		CU_ASSERT_EQUAL(row_of(table, fixed, &fixed_worst, &fixed_writes), 1);
		/* One VF stops late: a loop gives back to the others what it took. */
		CU_ASSERT(worst >= 0 && worst < 1 && fixed_worst > 5);
		CU_ASSERT(writes > 0 && fixed_writes == 0);
	}
	CU_ASSERT_PTR_NOT_NULL(strstr(table, "refused: deadline: firmware gives VFs"));
	CU_ASSERT_PTR_NULL(strstr(table, "deadline, static"));
	free(table);
	/* With parameters, for programs. */
	CU_ASSERT_EQUAL(compare_parse(&lines[0], "fair slice_us=4000", &err), 0);
	CU_ASSERT_EQUAL(compare_parse(&lines[1], "strict idle=donate", &err), 0);
	f = open_memstream(&table, &size);
	CU_ASSERT_EQUAL(govern_compare_policies(&s, lines, 2, true, f), 0);
	fclose(f);
	CU_ASSERT_PTR_NOT_NULL(strstr(table, "\"rule\":\"fair slice_us=4000, static quanta\""));
	CU_ASSERT_PTR_NOT_NULL(strstr(table, "\"refused\":\"idle = donate: firmware cannot"));
	free(table);
	scenario_free(&s);
	/* Quanta of 8:6:2 by hand are for the scenario's weights, and not for equal shares. */
	CU_ASSERT_EQUAL_FATAL(scenario_read(&s, SCENARIOS "/weights-100-70-30.scn", &err), 0);
	s.until = 40 * VGPU_SEC;
	f = open_memstream(&table, &size);
	CU_ASSERT_EQUAL(govern_compare_policies(&s, lines, compare_builtin(lines, 16), false, f),
			0);
	fclose(f);
	CU_ASSERT_EQUAL(row_of(table, "fair, static quanta", &fixed_worst, &fixed_writes), 1);
	CU_ASSERT_DOUBLE_EQUAL(fixed_worst, 2.5, 0.5);
	CU_ASSERT_EQUAL(row_of(table, "equal, static quanta", &fixed_worst, &fixed_writes), 1);
	CU_ASSERT_DOUBLE_EQUAL(fixed_worst, 0, 0.5);
	free(table);
	scenario_free(&s);
}

TEST(freezes, "freezes")
{
	struct govern_result r = run_file("frozen-counters", false, 0);

	CU_ASSERT(r.still);
	CU_ASSERT_EQUAL(r.vfs[0].quantum, r.vfs[1].quantum);
}

/* The judge notices what is wrong: each of its rules, with one thing planted. */
TEST(judge_notices, "judge notices")
{
	static struct firmware f;
	struct judge_governed judge;
	struct govern_result result;
	struct vgpu_program program = {.keep_turns = false};
	const double even[VFS] = {1, 1, 1, 1}, wrong[VFS] = {1e6, 1, 1, 1};
	struct scenario s;
	uint32_t plant, k, i;

	for (plant = 0; plant < 6; plant++) {
		start("fair");
		scenario_init(&s, VFS);
		firmware_init(&f, &s);
		f.now = now;
		f.freeze_at = VGPU_NEVER;
		result = (struct govern_result){.worst_1s = -1};
		judge = (struct judge_governed){.scenario = &s,
						.result = &result,
						.epoch = 500 * MS};
		judge_governed_change(&judge, VFS, plant == 1 ? wrong : even);
		for (k = 0; k < 40; k++) {
			pass(0xf);
			for (i = 0; i < VFS; i++)
				f.vfs[i].active = active[i] + (plant == 2 && i == 3);
			f.vfs[1].waited = plant == 3 ? VGPU_SEC : 0;
			judge_governed_epoch(&judge, &f, g);
			apply();
		}
		for (i = 0; i < VFS; i++)
			program.vfs[i].quantum = plant == 4 ? 40 * MS : 16 * MS;
		judge_governed_program(&judge, &program, plant == 5 ? 400 * MS : 500 * MS);
		CU_ASSERT_EQUAL(result.violation[0] != '\0', plant != 0);
		scenario_free(&s);
		end();
	}
}

SUITE_MAIN("governor")
