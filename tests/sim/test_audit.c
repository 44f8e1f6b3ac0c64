/* SPDX-License-Identifier: MIT */
/* The audit of recordings: what a real vgpud did on a machine that stands still at times passes,
 * and each way not to keep to the policy is found. The core and the recorder are vgpud's; the GPU
 * is the loop below. */
#include <string.h>

#include "audit.h"
#include "builtin.h"
#include "draw.h"
#include "suite.h"

#define N 3u
#define SLICE (2 * VGPU_MSEC)

static const struct vgpu_policy_ops *inner; /* the policy in force, */
static struct vgpu_policy_ops policy;	    /* and what a test makes of it */
static int64_t values[VGPU_MAX_PARAMS], vf_values[N][VGPU_MAX_PARAMS];
static struct recorder *recorder;
static struct vgpu_core *core;
static vgpu_nsec now;
static vgpu_nsec audit_from;
static struct {
	bool on;
	uint32_t vf, command;
	vgpu_nsec at;
} pending;
/* The machine: */
static vgpu_nsec timers_late;	  /* each timer comes so much late, */
static uint32_t stands_still;	  /* and one in so many up to 50 ms; 0: none */
static vgpu_nsec next_stop_late;  /* the next VF to stop takes so long, once */
static vgpu_nsec next_save_late;  /* and the next save of a context; */
static vgpu_nsec next_timer_late; /* the next timer comes so late */

static void take_defaults(const struct vgpu_param *table, int64_t *to)
{
	uint32_t i;

	for (i = 0; table[i].name; i++)
		to[i] = table[i].def;
}

static void set(const struct vgpu_param *table, int64_t *to, const char *name, int64_t value)
{
	uint32_t i;

	for (i = 0; table[i].name; i++)
		if (strcmp(table[i].name, name) == 0)
			to[i] = value;
}

static void step(struct vgpu_event event)
{
	static struct vgpu_output out;
	uint32_t i;

	event.now = now;
	CU_ASSERT_EQUAL(recorder_step(recorder, core, &event, &out), 0);
	for (i = 0; i < out.n_actions; i++) {
		const struct vgpu_action *a = &out.actions[i];

		if (a->type != VGPU_AC_COMMAND)
			continue;
		CU_ASSERT_FALSE(pending.on);
		pending.on = true;
		pending.vf = a->vf;
		pending.command = a->code;
		pending.at = now + 10 * VGPU_USEC + draw(40 * VGPU_USEC);
		if (a->code == VGPU_CMD_IDLE) {
			pending.at += draw(300 * VGPU_USEC) + next_stop_late;
			next_stop_late = 0;
		}
		if (a->code == VGPU_CMD_SAVE) {
			pending.at += next_save_late;
			next_save_late = 0;
		}
	}
}

/* N VFs that always have work, under the policy NAME with slices of SLICE. */
static void begin(const char *name)
{
	static struct vgpu_core_config config;
	struct vgpu_error err;
	uint32_t i;

	inner = vgpu_builtin_policy(name);
	policy = *inner;
	take_defaults(policy.params, values);
	set(policy.params, values, "slice_us", SLICE / VGPU_USEC);
	set(policy.params, values, "quantum_us", SLICE / VGPU_USEC);
	for (i = 0; i < N; i++)
		take_defaults(policy.vf_params, vf_values[i]);
	now = VGPU_SEC;
	pending.on = false;
	timers_late = next_stop_late = next_save_late = next_timer_late = 0;
	stands_still = 0;
	recorder = recorder_new(N, &err);
	CU_ASSERT_PTR_NOT_NULL_FATAL(recorder);
	vgpu_core_defaults(&config, N);
	config.grace = VGPU_SEC;
	core = vgpu_core_init(recorder_core_memory(recorder), &config, vgpu_builtin_policy("equal"),
			      recorder_fallback_memory(recorder), now);
}

static void start(void)
{
	static int64_t rows[N * VGPU_MAX_PARAMS];
	uint32_t i;

	memcpy(rows, vf_values, sizeof(rows));
	step((struct vgpu_event){.type = VGPU_EV_POLICY,
				 .policy = &policy,
				 .memory = recorder_slot_memory(recorder, 0),
				 .params = values,
				 .vf_params = rows});
	for (i = 0; i < N; i++)
		step((struct vgpu_event){.type = VGPU_EV_ADD,
					 .vf = i,
					 .code = VGPU_CTX_SAVED,
					 .value = 1,
					 .policy = &policy,
					 .params = vf_values[i]});
	step((struct vgpu_event){.type = VGPU_EV_START});
	for (i = 0; i < N; i++)
		step((struct vgpu_event){.type = VGPU_EV_BUSY, .vf = i});
}

static void run_events(uint32_t n)
{
	while (n-- > 0) {
		vgpu_nsec timer = vgpu_core_deadline(core);

		if (timer != VGPU_NEVER) {
			timer = (timer > now ? timer : now) + draw(60 * VGPU_USEC) + timers_late;
			timer += next_timer_late;
			if (stands_still && draw(stands_still) == 0)
				timer += draw(50 * VGPU_MSEC);
		}
		if (pending.on && pending.at <= timer) {
			now = pending.at > now ? pending.at : now;
			pending.on = false;
			step((struct vgpu_event){.type = VGPU_EV_DONE,
						 .vf = pending.vf,
						 .code = pending.command});
		} else {
			now = timer;
			next_timer_late = 0;
			step((struct vgpu_event){.type = VGPU_EV_TIMER});
		}
	}
}

static void save(struct recording *to)
{
	CU_ASSERT_EQUAL_FATAL(recorder_copy(recorder, to), 0);
}

static const struct vgpu_policy_ops *find(const char *name)
{
	return strcmp(name, policy.name) == 0 ? &policy : vgpu_builtin_policy(name);
}

/* The recordings are given up, and so is the recorder, whose place they want. */
static void audit(struct recording *recordings, uint32_t n, struct audit_result *out)
{
	struct vgpu_error err = {""};
	struct audit *a = audit_new(0, audit_from);
	uint32_t i;

	recorder_free(recorder);
	for (i = 0; i < n; i++) {
		CU_ASSERT_EQUAL(audit_add(a, &recordings[i], find, &err), 0);
		if (err.text[0])
			puts(err.text);
		recording_free(&recordings[i]);
	}
	audit_finish(a, out);
	audit_free(a);
}

static void save_and_audit(struct audit_result *out)
{
	struct recording recording;

	save(&recording);
	audit(&recording, 1, out);
}

static const char *const proportional[] = {"fair", "strict", "equal", "wdrr"};
#define POLICIES (sizeof(proportional) / sizeof(proportional[0]))

TEST(a_machine_that_stands_still_is_no_fault, "a machine that stands still is no fault")
{
	struct audit_result r;
	uint32_t i, k;

	for (i = 0; i < POLICIES; i++) {
		begin(proportional[i]);
		set(policy.vf_params, vf_values[1], "weight", 300);
		set(policy.vf_params, vf_values[1], "slots", 3);
		stands_still = 40;
		start();
		run_events(20000);
		save_and_audit(&r);
		if (r.n_broken)
			printf("%s: %s\n", proportional[i], r.broken);
		CU_ASSERT_EQUAL(r.n_broken, 0);
		CU_ASSERT(r.events > 8000 && r.turns > 1000);
		CU_ASSERT(r.late_max_ns > 10 * VGPU_MSEC);
		for (k = 0; k < N; k++)
			CU_ASSERT(r.vfs[k].active && r.vfs[k].had_ns > 0);
	}
}

/* Audits the policy NAME on a machine that stands still ten times, when *LATE is next of use. */
static struct audit_result stand_still(const char *name, vgpu_nsec *late)
{
	struct audit_result r;
	uint32_t k;

	begin(name);
	start();
	for (k = 0; k < 10; k++) {
		run_events(1000);
		*late = 400 * VGPU_MSEC;
	}
	run_events(1000);
	save_and_audit(&r);
	if (r.n_broken)
		printf("%s: %s\n", name, r.broken);
	CU_ASSERT_EQUAL(r.n_broken, 0);
	return r;
}

/* What is charged for such a world switch is the policy's affair from the next account on, and at
 * most the cap; until then nobody has had it. */
TEST(a_switch_in_which_the_machine_stands_still, "a switch in which the machine stands still")
{
	struct audit_result r;
	uint32_t i, k;

	for (i = 0; i < POLICIES; i++) {
		r = stand_still(proportional[i], &next_save_late);
		for (k = 0; k < N; k++)
			CU_ASSERT(r.vfs[k].active && r.vfs[k].had_ns > 0);
	}
}

/* Such a turn is longer than a VF is charged for. What is forgiven is no credit: the VF's next turn
 * is not as long as that. */
TEST(a_turn_in_which_the_machine_stands_still, "a turn in which the machine stands still")
{
	uint32_t i;

	for (i = 0; i < POLICIES; i++)
		CU_ASSERT(stand_still(proportional[i], &next_timer_late).late_max_ns >
			  300 * VGPU_MSEC);
}

TEST(turns_are_as_long_as_they_were_set, "turns are as long as they were set")
{
	struct audit_result r;
	uint32_t i, k;

	for (i = 0; i < POLICIES; i++) {
		begin(proportional[i]);
		start();
		run_events(5000);
		save_and_audit(&r);
		CU_ASSERT_EQUAL(r.n_broken, 0);
		for (k = 0; k < N; k++)
			CU_ASSERT(r.vfs[k].planned_ns > SLICE * 3 / 4 &&
				  r.vfs[k].planned_ns <= SLICE);
	}
}

/* A policy that takes all for alike, whatever their shares. */
static bool admit_alike(void *state, uint32_t vf, const int64_t *, vgpu_nsec t, const char **why)
{
	int64_t same[VGPU_MAX_PARAMS];

	take_defaults(inner->vf_params, same);
	return inner->admit(state, vf, same, t, why);
}

static void share_by_number(void *, uint32_t vf, uint64_t *numerator, uint64_t *denominator)
{
	*numerator = vf == 1 ? 3 : 1;
	*denominator = 5;
}

static void unfair(const char *name)
{
	begin(name);
	policy.admit = admit_alike;
	policy.share = share_by_number;
}

TEST(weights_that_nobody_minds, "weights that nobody minds")
{
	struct audit_result r;
	uint32_t i;

	for (i = 0; i < POLICIES; i++) {
		unfair(proportional[i]);
		start();
		run_events(2000);
		save_and_audit(&r);
		CU_ASSERT(r.n_broken > 0 && strstr(r.broken, "times as far apart"));
	}
}

/* The policy's own bound has grown then, for good. */
TEST(what_was_late_once_excuses_nothing, "what was late once excuses nothing")
{
	struct vgpu_vf_view v;
	struct audit_result r;

	unfair("fair");
	start();
	run_events(100);
	next_stop_late = 900 * VGPU_MSEC;
	run_events(40000);
	vgpu_core_vf_view(core, 0, &v);
	CU_ASSERT(v.bound.max_lag > 300 * VGPU_MSEC);
	save_and_audit(&r);
	CU_ASSERT(r.n_broken > 0 && strstr(r.broken, "times as far apart"));
}

/* What was before an instant is not counted, and who has no work does not wait. */
TEST(waits_are_measured, "waits and sleep are measured")
{
	struct audit_result r;
	vgpu_nsec slept, woke;
	uint32_t late;

	for (late = 0; late < 2; late++) {
		begin("equal");
		start();
		run_events(500);
		next_stop_late = 500 * VGPU_MSEC;
		run_events(500);
		audit_from = late ? now - VGPU_SEC : 0; /* when the core began */
		slept = now;
		step((struct vgpu_event){.type = VGPU_EV_EMPTY, .vf = 1});
		run_events(500);
		woke = now;
		step((struct vgpu_event){.type = VGPU_EV_BUSY, .vf = 1});
		run_events(500);
		save_and_audit(&r);
		audit_from = 0;
		CU_ASSERT_EQUAL(r.vfs[0].asleep_ns, 0);
		CU_ASSERT_EQUAL(r.vfs[0].naps, 0);
		CU_ASSERT_EQUAL(r.vfs[1].asleep_ns, woke - slept);
		CU_ASSERT_EQUAL(r.vfs[1].naps, 1);
		CU_ASSERT(r.vfs[0].waited_ns > SLICE && r.vfs[1].waited_ns > SLICE);
		CU_ASSERT_EQUAL(r.vfs[0].waited_ns > 500 * VGPU_MSEC ||
					r.vfs[1].waited_ns > 500 * VGPU_MSEC,
				late == 0);
		CU_ASSERT(!late || r.vfs[0].waited_ns < 4 * SLICE);
	}
}

TEST(timers_that_come_late_always, "timers that come late always")
{
	struct audit_result r;

	begin("fair");
	timers_late = SLICE / 2;
	start();
	run_events(5000);
	save_and_audit(&r);
	CU_ASSERT(r.n_broken == 1 && strstr(r.broken, "after the planned instant"));
	CU_ASSERT(r.late_ns >= SLICE / 2 && r.late_part > 0.4);
}

static void promise_no_wait(void *state, uint32_t vf, struct vgpu_bound *out)
{
	inner->bound(state, vf, out);
	out->max_wait = SLICE;
}

TEST(waits_beyond_the_bound, "waits beyond the bound")
{
	struct audit_result r;

	begin("fair");
	policy.bound = promise_no_wait;
	start();
	run_events(500);
	save_and_audit(&r);
	CU_ASSERT(r.n_broken > 0 && strstr(r.broken, "has waited for"));
}

static void attach_with_longer_slices(void *state, const struct vgpu_facts *facts,
				      const int64_t *params)
{
	int64_t longer[VGPU_MAX_PARAMS];

	memcpy(longer, params, sizeof(longer));
	set(inner->params, longer, "slice_us", SLICE * 3 / 2 / VGPU_USEC);
	inner->attach(state, facts, longer);
}

TEST(turns_that_are_too_long_are_seen, "turns that are too long are seen")
{
	struct audit_result r;

	begin("fair");
	policy.attach = attach_with_longer_slices;
	start();
	run_events(2000);
	save_and_audit(&r);
	CU_ASSERT(r.vfs[0].planned_ns > SLICE * 5 / 4);
}

/* A recording has the last events only: several make the whole run, if none is missing. */
TEST(recordings_join, "recordings join")
{
	struct recording all[3];
	struct audit_result r;
	uint32_t i;

	begin("fair");
	start();
	for (i = 0; i < 3; i++) {
		run_events(6000);
		save(&all[i]);
	}
	audit(all, 3, &r);
	CU_ASSERT_EQUAL(r.n_broken, 0);
	CU_ASSERT_EQUAL(r.events, 18000 + 2 + 2 * N);
	CU_ASSERT_EQUAL(r.gaps, 0);
}

/* Nobody knows what was in it, and nothing is compared across it. */
TEST(a_gap_is_seen, "a gap is seen")
{
	struct recording recordings[2];
	struct vgpu_error err = {""};
	struct audit_result r;
	struct audit *a;

	begin("fair");
	start();
	run_events(1000);
	save(&recordings[0]);
	run_events(30000);
	save(&recordings[1]);
	a = audit_new(0, 0);
	recorder_free(recorder);
	CU_ASSERT_EQUAL(audit_add(a, &recordings[0], find, &err), 0);
	CU_ASSERT_EQUAL(audit_add(a, &recordings[1], find, &err), 0);
	CU_ASSERT(audit_add(a, &recordings[0], find, &err) < 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "older than"));
	audit_finish(a, &r);
	CU_ASSERT_EQUAL(r.n_broken, 0);
	CU_ASSERT_EQUAL(r.gaps, 1);
	CU_ASSERT(r.events > 8000 && r.events < 20000);
	audit_free(a);
	recording_free(&recordings[0]);
	recording_free(&recordings[1]);
}

SUITE_MAIN("audit")
