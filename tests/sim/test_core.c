/* SPDX-License-Identifier: MIT */
/*
 * The core by scenarios that read like documentation, faulty policies, and the fair policy against
 * a plain model of its rule.
 */
#include <errno.h>
#include <stdlib.h>

#include "builtin.h"
#include "suite.h"
#include "vhost.h"

/* A core that the test steps by hand; the actions of each step are written as text. */
static struct vgpu_core *core;
static struct vgpu_output out;
static void *memory, *fallback_memory, *policy_memory;
static char said[4096];
static vgpu_nsec now;

static void tell(void)
{
	static const char *const accesses[] = {"none", "work", "all"};
	static const char *const notices[] = {"ready", "reset", "reset-done", "refused"};
	size_t used = 0;
	uint32_t i;

	said[0] = '\0';
	for (i = 0; i < out.n_actions; i++) {
		const struct vgpu_action *a = &out.actions[i];
		char *to = said + used;
		size_t left = sizeof(said) - used;

		switch (a->type) {
		case VGPU_AC_COMMAND:
			used += (size_t)snprintf(to, left, "%s %u; ", vgpu_command_names[a->code],
						 a->vf);
			break;
		case VGPU_AC_RESET:
			used += (size_t)snprintf(to, left, "reset %s %u; ",
						 vgpu_reset_names[a->code], a->vf);
			break;
		case VGPU_AC_ACCESS:
			used += (size_t)snprintf(to, left, "gates %u=%s; ", a->vf,
						 accesses[a->code]);
			break;
		case VGPU_AC_NOTICE:
			used += (size_t)snprintf(to, left, "tell %u %s; ", a->vf, notices[a->code]);
			break;
		case VGPU_AC_SCRUB:
			used += (size_t)snprintf(to, left, "scrub %u; ", a->vf);
			break;
		case VGPU_AC_RETIRE:
			free(a->memory);
			if (a->memory == policy_memory)
				policy_memory = NULL;
			break;
		}
	}
}

static int event(enum vgpu_event_type type, uint32_t vf, uint32_t code, int64_t value,
		 const int64_t *params)
{
	struct vgpu_event e = {
		.now = now, .type = type, .vf = vf, .code = code, .value = value, .params = params};
	struct vgpu_core_view view;
	int r;

	vgpu_core_view(core, &view);
	e.policy = view.policy;
	r = vgpu_core_step(core, &e, &out);
	tell();
	return r;
}

/* Steps the core, and compares its actions with the expected text. */
#define STEP(at_us, type, vf, code, expected)                                                      \
	do {                                                                                       \
		now = (at_us)*VGPU_USEC;                                                           \
		event(type, vf, code, 0, NULL);                                                    \
		CU_ASSERT_STRING_EQUAL(said, expected);                                            \
		if (strcmp(said, expected) != 0)                                                   \
			printf("\n  line %d: '%s'\n", __LINE__, said);                             \
	} while (0)
#define DONE(at_us, command, vf, expected) STEP(at_us, VGPU_EV_DONE, vf, command, expected)
#define TIMER(at_us, expected)                                                                     \
	do {                                                                                       \
		CU_ASSERT_EQUAL(vgpu_core_deadline(core), (at_us)*VGPU_USEC);                      \
		if (vgpu_core_deadline(core) != (at_us)*VGPU_USEC)                                 \
			printf("\n  line %d: deadline %llu\n", __LINE__,                           \
			       (unsigned long long)vgpu_core_deadline(core));                      \
		STEP(at_us, VGPU_EV_TIMER, 0, 0, expected);                                        \
	} while (0)

static bool chains;

static void begin(const struct vgpu_policy_ops *policy, uint32_t n)
{
	static int64_t rows[8][VGPU_MAX_PARAMS];
	struct vgpu_core_config config;
	int64_t params[VGPU_MAX_PARAMS] = {0};
	struct vgpu_event e = {.type = VGPU_EV_POLICY,
			       .policy = policy,
			       .params = params,
			       .vf_params = rows[0]};
	uint32_t i, j;

	now = 0;
	vgpu_core_defaults(&config, n);
	config.chains = chains;
	memory = calloc(1, vgpu_core_size(n));
	fallback_memory = calloc(1, vgpu_fallback_policy->memory(n));
	core = vgpu_core_init(memory, &config, vgpu_fallback_policy, fallback_memory, 0);
	for (i = 0; policy->params[i].name; i++)
		params[i] = policy->params[i].def;
	for (j = 0; j < 8; j++)
		for (i = 0; policy->vf_params[i].name; i++)
			rows[j][i] = policy->vf_params[i].def;
	policy_memory = calloc(1, policy->memory(n));
	e.memory = policy_memory;
	CU_ASSERT_EQUAL(vgpu_core_step(core, &e, &out), 0);
	for (i = 0; i < n; i++) {
		CU_ASSERT_EQUAL(event(VGPU_EV_ADD, i, VGPU_CTX_NONE, 0, rows[i]), 0);
		event(VGPU_EV_SCRUBBED, i, 0, 0, NULL);
	}
	event(VGPU_EV_START, 0, 0, 0, NULL);
}

static void end(void)
{
	free(policy_memory);
	free(fallback_memory);
	free(memory);
}

/* The drivers of VFs 0 and 1 come up, one after the other, each alone on the engine. That takes no
 * time, so that no debt is charged later. */
static void two_drivers_up(void)
{
	STEP(0, VGPU_EV_REQUEST, 0, VGPU_WINDOW_INIT, "init 0; ");
	STEP(0, VGPU_EV_REQUEST, 1, VGPU_WINDOW_INIT, "");
	DONE(0, VGPU_CMD_INIT, 0, "run 0; ");
	DONE(0, VGPU_CMD_RUN, 0, "gates 0=all; tell 0 ready; ");
	STEP(0, VGPU_EV_RELEASE, 0, VGPU_WINDOW_INIT, "gates 0=work; idle 0; ");
	DONE(0, VGPU_CMD_IDLE, 0, "save 0; ");
	DONE(0, VGPU_CMD_SAVE, 0, "init 1; ");
	DONE(0, VGPU_CMD_INIT, 1, "run 1; ");
	DONE(0, VGPU_CMD_RUN, 1, "gates 1=all; tell 1 ready; ");
	STEP(0, VGPU_EV_RELEASE, 1, VGPU_WINDOW_INIT, "gates 1=work; idle 1; ");
	DONE(0, VGPU_CMD_IDLE, 1, "save 1; ");
	DONE(0, VGPU_CMD_SAVE, 1, "");
}

/* Two VFs with work take turns: IDLE, SAVE, LOAD, RUN; and IDLE is issued early, by the time that
 * it takes. */
TEST(turns, "two VFs take turns")
{
	begin(vgpu_builtin_policy("equal"), 2);
	two_drivers_up();
	STEP(10000, VGPU_EV_BUSY, 0, 0, "load 0; ");
	STEP(10000, VGPU_EV_BUSY, 1, 0, "");
	DONE(10080, VGPU_CMD_LOAD, 0, "run 0; ");
	DONE(10100, VGPU_CMD_RUN, 0, "");
	TIMER(12100, "idle 0; ");
	DONE(12120, VGPU_CMD_IDLE, 0, "save 0; ");
	DONE(12200, VGPU_CMD_SAVE, 0, "load 1; ");
	DONE(12280, VGPU_CMD_LOAD, 1, "run 1; ");
	DONE(12300, VGPU_CMD_RUN, 1, "");
	TIMER(14300, "idle 1; ");
	/* late by a millisecond: the next turn of VF 1 will be shorter */
	DONE(15320, VGPU_CMD_IDLE, 1, "save 1; ");
	DONE(15400, VGPU_CMD_SAVE, 1, "load 0; ");
	DONE(15480, VGPU_CMD_LOAD, 0, "run 0; ");
	DONE(15500, VGPU_CMD_RUN, 0, "");
	/* 2 ms from here, less 20 us that it was served too much, and the 20 us that stopping takes
	 */
	TIMER(17460, "idle 0; ");
	DONE(17480, VGPU_CMD_IDLE, 0, "save 0; ");
	DONE(17560, VGPU_CMD_SAVE, 0, "load 1; ");
	DONE(17640, VGPU_CMD_LOAD, 1, "run 1; ");
	DONE(17660, VGPU_CMD_RUN, 1, "");
	/* 0.98 ms of its turn are left, less than stopping took: it gets the shortest slice */
	TIMER(17910, "idle 1; ");
	/* out of work: its context is saved, and the engine parked */
	STEP(18500, VGPU_EV_EMPTY, 0, 0, "");
	STEP(18500, VGPU_EV_EMPTY, 1, 0, "");
	DONE(18600, VGPU_CMD_IDLE, 1, "save 1; ");
	DONE(18700, VGPU_CMD_SAVE, 1, "");
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), VGPU_NEVER);
	end();
}

/* A VF that is held leaves the engine and stays off it, even if it has work; the other VF is not
 * affected. It comes back when it is released, or at once when it gets a window of its own. */
TEST(held, "a VF that is held stays away")
{
	struct vgpu_vf_view view;

	begin(vgpu_builtin_policy("equal"), 2);
	two_drivers_up();
	STEP(10000, VGPU_EV_BUSY, 0, 0, "load 0; ");
	DONE(10080, VGPU_CMD_LOAD, 0, "run 0; ");
	STEP(10090, VGPU_EV_BUSY, 1, 0, "");
	DONE(10100, VGPU_CMD_RUN, 0, "");
	/* on the engine: it goes at once, though it has work, and more of it */
	STEP(10200, VGPU_EV_HOLD, 0, 1, "");
	STEP(10200, VGPU_EV_BUSY, 0, 0, "");
	TIMER(10200, "idle 0; ");
	DONE(10220, VGPU_CMD_IDLE, 0, "save 0; ");
	DONE(10300, VGPU_CMD_SAVE, 0, "load 1; ");
	DONE(10380, VGPU_CMD_LOAD, 1, "run 1; ");
	DONE(10400, VGPU_CMD_RUN, 1, "");
	vgpu_core_vf_view(core, 0, &view);
	CU_ASSERT(view.held && view.context == VGPU_CTX_SAVED && view.has_work);
	CU_ASSERT_EQUAL(view.ledger.ends[VGPU_END_REMOVED], 1);
	/* the other has the engine for itself */
	TIMER(12400, "");
	/* back again: the other's turn is over, and ends */
	STEP(30000, VGPU_EV_HOLD, 0, 0, "");
	TIMER(30000, "idle 1; ");
	DONE(30020, VGPU_CMD_IDLE, 1, "save 1; ");
	/* on its way there: it is sent back */
	DONE(30100, VGPU_CMD_SAVE, 1, "load 0; ");
	STEP(30110, VGPU_EV_HOLD, 0, 1, "");
	DONE(30180, VGPU_CMD_LOAD, 0, "run 0; ");
	DONE(30200, VGPU_CMD_RUN, 0, "");
	TIMER(30200, "idle 0; ");
	DONE(30220, VGPU_CMD_IDLE, 0, "save 0; ");
	DONE(30300, VGPU_CMD_SAVE, 0, "load 1; ");
	/* its driver stops: that has priority */
	STEP(30310, VGPU_EV_REQUEST, 0, VGPU_WINDOW_FINI, "");
	vgpu_core_vf_view(core, 0, &view);
	CU_ASSERT(!view.held);
	/* a VF without a driver cannot be held */
	now = 30320 * VGPU_USEC;
	CU_ASSERT_EQUAL(event(VGPU_EV_HOLD, 0, 1, 0, NULL), -EBUSY);
	end();
}

/* A VF whose memory is not on the GPU stays off the engine, even if it has work, or waits for a
 * window; others do not wait for it. A VF on its way to the engine cannot be sent away. */
TEST(away, "a VF whose memory is not there stays away")
{
	struct vgpu_vf_view view;

	begin(vgpu_builtin_policy("equal"), 2);
	two_drivers_up();
	STEP(10000, VGPU_EV_BUSY, 0, 0, "load 0; ");
	STEP(10010, VGPU_EV_BUSY, 1, 0, "");
	now = 10020 * VGPU_USEC;
	CU_ASSERT_EQUAL(event(VGPU_EV_AWAY, 0, 1, 0, NULL), -EBUSY);
	DONE(10080, VGPU_CMD_LOAD, 0, "run 0; ");
	DONE(10100, VGPU_CMD_RUN, 0, "");
	/* held, and then away: a window of its own no longer frees it */
	STEP(10110, VGPU_EV_HOLD, 1, 1, "");
	STEP(10120, VGPU_EV_AWAY, 1, 1, "");
	STEP(10130, VGPU_EV_HOLD, 1, 0, "");
	STEP(10140, VGPU_EV_REQUEST, 1, VGPU_WINDOW_FINI, "");
	vgpu_core_vf_view(core, 1, &view);
	CU_ASSERT(view.away && !view.held && view.state == VGPU_VF_EXCLUSIVE);
	TIMER(12100, "");
	/* on its way to the engine: the view says so */
	vgpu_core_vf_view(core, 0, &view);
	CU_ASSERT(view.on_engine && !view.comes);
	/* back: the window is opened */
	STEP(20000, VGPU_EV_AWAY, 1, 0, "");
	TIMER(20000, "idle 0; ");
	DONE(20020, VGPU_CMD_IDLE, 0, "save 0; ");
	vgpu_core_vf_view(core, 1, &view);
	CU_ASSERT(view.comes && !view.on_engine);
	DONE(20100, VGPU_CMD_SAVE, 0, "load 1; ");
	DONE(20180, VGPU_CMD_LOAD, 1, "run 1; ");
	end();
}

/* A VF whose VM has not resumed stays off the engine, whatever it asks for, and comes back when
 * both its VM has resumed and its memory is there. */
TEST(incoming, "a VF whose VM has not resumed stays out")
{
	struct vgpu_vf_view view;

	begin(vgpu_builtin_policy("equal"), 2);
	two_drivers_up();
	STEP(10000, VGPU_EV_BUSY, 0, 0, "load 0; ");
	now = 10020 * VGPU_USEC;
	CU_ASSERT_EQUAL(event(VGPU_EV_INCOMING, 0, 1, 0, NULL), -EBUSY);
	DONE(10080, VGPU_CMD_LOAD, 0, "run 0; ");
	DONE(10100, VGPU_CMD_RUN, 0, "");
	CU_ASSERT_EQUAL(event(VGPU_EV_INCOMING, 0, 1, 0, NULL), -EBUSY);
	STEP(10110, VGPU_EV_INCOMING, 1, 1, "");
	STEP(10120, VGPU_EV_BUSY, 1, 0, "");
	CU_ASSERT_EQUAL(event(VGPU_EV_HOLD, 1, 1, 0, NULL), -EBUSY);
	STEP(10130, VGPU_EV_AWAY, 1, 1, "");
	STEP(10140, VGPU_EV_AWAY, 1, 0, ""); /* its memory has come, its VM has not */
	STEP(10150, VGPU_EV_REQUEST, 1, VGPU_WINDOW_FINI, "");
	vgpu_core_vf_view(core, 1, &view);
	CU_ASSERT(view.incoming && !view.away && view.state == VGPU_VF_EXCLUSIVE);
	TIMER(12100, "");
	CU_ASSERT_EQUAL(view.ledger.run_ns + view.ledger.exclusive_ns, 0);
	STEP(13000, VGPU_EV_AWAY, 1, 1, "");
	STEP(13010, VGPU_EV_INCOMING, 1, 0, ""); /* the other way round */
	vgpu_core_vf_view(core, 1, &view);
	CU_ASSERT(view.away && !view.incoming);
	STEP(20000, VGPU_EV_AWAY, 1, 0, "");
	TIMER(20000, "idle 0; ");
	DONE(20020, VGPU_CMD_IDLE, 0, "save 0; ");
	DONE(20100, VGPU_CMD_SAVE, 0, "load 1; ");
	end();
}

/* A device: a command takes 20 us, a window no time. */
struct device {
	bool at_work;
	vgpu_nsec done_at;
	struct vgpu_event answer;
	uint32_t turns[3]; /* of each VF, while they are counted */
	bool counting;
};

static void step_device(struct device *d, struct vgpu_event e)
{
	uint32_t i, windows = 0;

	e.now = now;
	vgpu_core_step(core, &e, &out);
	for (i = 0; i < out.n_actions; i++) {
		const struct vgpu_action *a = &out.actions[i];

		if (a->type == VGPU_AC_COMMAND) {
			d->at_work = true;
			d->done_at = now + 20 * VGPU_USEC;
			d->answer = (struct vgpu_event){.type = VGPU_EV_DONE,
							.vf = a->vf,
							.code = a->code};
			d->turns[a->vf] += d->counting && a->code == VGPU_CMD_RUN;
		} else if (a->type == VGPU_AC_NOTICE && a->code == VGPU_NOTICE_READY) {
			windows = a->vf + 1;
		}
	}
	if (windows)
		step_device(d, (struct vgpu_event){.type = VGPU_EV_RELEASE,
						   .vf = windows - 1,
						   .code = VGPU_WINDOW_INIT});
}

static void run_device(struct device *d, vgpu_nsec until)
{
	vgpu_nsec t;

	while ((t = d->at_work && d->done_at < vgpu_core_deadline(core)
			    ? d->done_at
			    : vgpu_core_deadline(core)) < until) {
		now = t > now ? t : now;
		if (d->at_work && now >= d->done_at) {
			d->at_work = false;
			step_device(d, d->answer);
		} else {
			step_device(d, (struct vgpu_event){.type = VGPU_EV_TIMER});
		}
	}
	now = until;
}

/* The turns of three VFs with work in half a second, in which VF 2 is held or not. */
static void count_turns(const struct vgpu_policy_ops *policy, bool hold, uint32_t turns_of[3])
{
	struct device d = {.at_work = false};
	uint32_t vf;

	begin(policy, 3);
	for (vf = 0; vf < 3; vf++)
		step_device(&d, (struct vgpu_event){.type = VGPU_EV_REQUEST,
						    .vf = vf,
						    .code = VGPU_WINDOW_INIT});
	run_device(&d, 50 * VGPU_MSEC);
	for (vf = 0; vf < 3; vf++)
		step_device(&d, (struct vgpu_event){.type = VGPU_EV_BUSY, .vf = vf});
	run_device(&d, VGPU_SEC);
	if (hold)
		step_device(&d, (struct vgpu_event){.type = VGPU_EV_HOLD, .vf = 2, .code = 1});
	d.counting = true;
	run_device(&d, 3 * VGPU_SEC / 2);
	memcpy(turns_of, d.turns, sizeof(d.turns));
	end();
}

/* A VF that is kept from the engine takes no turn from the others, under any policy. */
TEST(others_lose_nothing, "others lose no turn to that")
{
	uint32_t i, plain[3], held_back[3];

	for (i = 0; vgpu_builtin_policies[i]; i++) {
		count_turns(vgpu_builtin_policies[i], false, plain);
		count_turns(vgpu_builtin_policies[i], true, held_back);
		CU_ASSERT(plain[0] > 10 && plain[1] > 10 && plain[2] > 10);
		CU_ASSERT(held_back[0] >= plain[0] && held_back[1] >= plain[1]);
		CU_ASSERT(held_back[2] <= 1);
		if (held_back[0] < plain[0] || held_back[1] < plain[1] || held_back[2] > 1)
			printf("\n  %s: %u %u %u, held %u %u %u\n", vgpu_builtin_policies[i]->name,
			       plain[0], plain[1], plain[2], held_back[0], held_back[1],
			       held_back[2]);
	}
}

/* A VF without competitors runs on, stopped only twice a second to see that it responds, until
 * another wakes. */
TEST(alone, "a lone VF is left alone")
{
	begin(vgpu_builtin_policy("equal"), 2);
	two_drivers_up();
	STEP(10000, VGPU_EV_BUSY, 0, 0, "load 0; ");
	DONE(10080, VGPU_CMD_LOAD, 0, "run 0; ");
	DONE(10100, VGPU_CMD_RUN, 0, "");
	TIMER(12100, "");
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), 510100 * VGPU_USEC);
	STEP(30000, VGPU_EV_BUSY, 1, 0, "");
	TIMER(30000, "idle 0; ");
	end();
}

/* A VF that runs out of work gives the engine back after a moment, unless more comes. */
TEST(yields, "a VF without work yields")
{
	begin(vgpu_builtin_policy("equal"), 2);
	two_drivers_up();
	STEP(10000, VGPU_EV_BUSY, 0, 0, "load 0; ");
	DONE(10080, VGPU_CMD_LOAD, 0, "run 0; ");
	DONE(10100, VGPU_CMD_RUN, 0, "");
	STEP(10200, VGPU_EV_EMPTY, 0, 0, "");
	STEP(10250, VGPU_EV_BUSY, 0, 0, "");
	STEP(10400, VGPU_EV_EMPTY, 0, 0, "");
	TIMER(10500, "idle 0; ");
	end();
}

/* A VF does not stop: it is reset after the grace, gets back-offs of 1 and 2 s, then quarantine. */
TEST(hangs, "hang: reset, back-off, quarantine")
{
	struct vgpu_vf_view view;
	vgpu_nsec t = 10000;
	int strike;

	begin(vgpu_builtin_policy("equal"), 2);
	two_drivers_up();
	for (strike = 1; strike <= 3; strike++) {
		STEP(t, VGPU_EV_BUSY, 1, 0, "load 1; ");
		DONE(t + 80, VGPU_CMD_LOAD, 1, "run 1; ");
		DONE(t + 100, VGPU_CMD_RUN, 1, "");
		STEP(t + 200, VGPU_EV_BUSY, 0, 0, "");
		now = vgpu_core_deadline(core);
		event(VGPU_EV_TIMER, 0, 0, 0, NULL);
		CU_ASSERT_STRING_EQUAL(said, "idle 1; ");
		CU_ASSERT_EQUAL(vgpu_core_deadline(core), now + 50 * VGPU_MSEC);
		now = vgpu_core_deadline(core);
		event(VGPU_EV_TIMER, 0, 0, 0, NULL);
		CU_ASSERT_STRING_EQUAL(said, "gates 1=none; tell 1 reset; reset vf 1; ");
		now += 20 * VGPU_MSEC;
		event(VGPU_EV_RESET_DONE, 1, VGPU_RESET_VF, 0, NULL);
		CU_ASSERT_STRING_EQUAL(said, "tell 1 reset-done; scrub 1; load 0; ");
		event(VGPU_EV_DONE, 0, VGPU_CMD_LOAD, 0, NULL);
		event(VGPU_EV_DONE, 0, VGPU_CMD_RUN, 0, NULL);
		event(VGPU_EV_EMPTY, 0, 0, 0, NULL);
		now = vgpu_core_deadline(core);
		event(VGPU_EV_TIMER, 0, 0, 0, NULL);
		event(VGPU_EV_DONE, 0, VGPU_CMD_IDLE, 0, NULL);
		event(VGPU_EV_DONE, 0, VGPU_CMD_SAVE, 0, NULL);
		if (strike == 3) /* its guest asks before the VF is quarantined */
			event(VGPU_EV_REQUEST, 1, VGPU_WINDOW_INIT, 0, NULL);
		event(VGPU_EV_SCRUBBED, 1, 0, 0, NULL);
		CU_ASSERT_STRING_EQUAL(said, strike == 3 ? "tell 1 refused; " : "");
		vgpu_core_vf_view(core, 1, &view);
		CU_ASSERT_EQUAL(view.ledger.hangs, (uint64_t)strike);
		if (strike == 3)
			break;
		CU_ASSERT_EQUAL(view.state, VGPU_VF_BACKOFF);
		event(VGPU_EV_REQUEST, 1, VGPU_WINDOW_INIT, 0, NULL);
		CU_ASSERT_STRING_EQUAL(said, "");
		CU_ASSERT_EQUAL(vgpu_core_deadline(core), view.backoff_until);
		now = view.backoff_until;
		event(VGPU_EV_TIMER, 0, 0, 0, NULL);
		CU_ASSERT_STRING_EQUAL(said, "init 1; ");
		event(VGPU_EV_DONE, 1, VGPU_CMD_INIT, 0, NULL);
		event(VGPU_EV_DONE, 1, VGPU_CMD_RUN, 0, NULL);
		event(VGPU_EV_RELEASE, 1, VGPU_WINDOW_INIT, 0, NULL);
		now += 20 * VGPU_USEC;
		event(VGPU_EV_DONE, 1, VGPU_CMD_IDLE, 0, NULL);
		event(VGPU_EV_DONE, 1, VGPU_CMD_SAVE, 0, NULL);
		t = now / VGPU_USEC + 1000;
	}
	CU_ASSERT_EQUAL(view.state, VGPU_VF_QUARANTINED);
	event(VGPU_EV_REQUEST, 1, VGPU_WINDOW_INIT, 0, NULL);
	CU_ASSERT_STRING_EQUAL(said, "tell 1 refused; ");
	/* an operator ends the quarantine */
	event(VGPU_EV_RESET_VF, 1, 0, 0, NULL);
	CU_ASSERT_STRING_EQUAL(said, "gates 1=none; tell 1 reset; reset vf 1; ");
	event(VGPU_EV_RESET_DONE, 1, VGPU_RESET_VF, 0, NULL);
	event(VGPU_EV_SCRUBBED, 1, 0, 0, NULL);
	vgpu_core_vf_view(core, 1, &view);
	CU_ASSERT_EQUAL(view.state, VGPU_VF_AVAIL);
	end();
}

/* The VF, which was chosen, has its window and gives it back. */
static void has_window(uint32_t vf, enum vgpu_window window)
{
	bool ends = window == VGPU_WINDOW_FINI;

	event(VGPU_EV_DONE, vf, ends ? VGPU_CMD_LOAD : VGPU_CMD_INIT, 0, NULL);
	event(VGPU_EV_DONE, vf, VGPU_CMD_RUN, 0, NULL);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "ready; "));
	event(VGPU_EV_RELEASE, vf, window, 0, NULL);
	event(VGPU_EV_DONE, vf, VGPU_CMD_IDLE, 0, NULL);
	event(VGPU_EV_DONE, vf, VGPU_CMD_SAVE, 0, NULL);
	if (!ends)
		return;
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "shutdown"));
	event(VGPU_EV_DONE, vf, VGPU_CMD_SHUTDOWN, 0, NULL);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "scrub"));
	event(VGPU_EV_SCRUBBED, vf, 0, 0, NULL);
}

/* VF 0, in back-off, comes back and keeps its window. WAITS: the window that VF 2 asks for
 * meanwhile, and has then; VGPU_WINDOW_COUNT: none. */
static void overstays(enum vgpu_window waits)
{
	struct vgpu_vf_view view;

	vgpu_core_vf_view(core, 0, &view);
	now = view.backoff_until;
	event(VGPU_EV_TIMER, 0, 0, 0, NULL);
	now += 10 * VGPU_SEC; /* what it owes for windows is paid */
	event(VGPU_EV_REQUEST, 0, VGPU_WINDOW_INIT, 0, NULL);
	event(VGPU_EV_DONE, 0, VGPU_CMD_INIT, 0, NULL);
	event(VGPU_EV_DONE, 0, VGPU_CMD_RUN, 0, NULL);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "tell 0 ready; "));
	if (waits < VGPU_WINDOW_COUNT)
		event(VGPU_EV_REQUEST, 2, waits, 0, NULL);
	now += VGPU_SEC;
	event(VGPU_EV_TIMER, 0, 0, 0, NULL);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "reset vf 0; "));
	event(VGPU_EV_RESET_DONE, 0, VGPU_RESET_VF, 0, NULL);
	event(VGPU_EV_SCRUBBED, 0, 0, 0, NULL);
	if (waits < VGPU_WINDOW_COUNT)
		has_window(2, waits);
}

/* A window that is not given back ends in a reset, the second time that somebody has waited for it
 * in quarantine. Forty windows are granted at once, then one each 100 ms. */
TEST(windows, "exclusive windows are bounded, and limited")
{
	struct vgpu_vf_view view;
	int i;

	begin(vgpu_builtin_policy("equal"), 3);
	STEP(0, VGPU_EV_REQUEST, 0, VGPU_WINDOW_INIT, "init 0; ");
	DONE(0, VGPU_CMD_INIT, 0, "run 0; ");
	DONE(0, VGPU_CMD_RUN, 0, "gates 0=all; tell 0 ready; ");
	TIMER(1000000, "gates 0=none; tell 0 reset; reset vf 0; ");
	event(VGPU_EV_RESET_DONE, 0, VGPU_RESET_VF, 0, NULL);
	event(VGPU_EV_SCRUBBED, 0, 0, 0, NULL);
	vgpu_core_vf_view(core, 0, &view);
	CU_ASSERT_EQUAL(view.state, VGPU_VF_BACKOFF);
	CU_ASSERT_EQUAL(view.ledger.exclusive_ns, VGPU_SEC);
	/* Nobody waited: it has cost nobody anything, and may go on for ever. */
	for (i = 0; i < 4; i++) {
		overstays(VGPU_WINDOW_COUNT);
		vgpu_core_vf_view(core, 0, &view);
		CU_ASSERT_EQUAL(view.state, VGPU_VF_BACKOFF);
	}
	overstays(VGPU_WINDOW_INIT);
	vgpu_core_vf_view(core, 0, &view);
	CU_ASSERT_EQUAL(view.state, VGPU_VF_BACKOFF);
	overstays(VGPU_WINDOW_FINI);
	vgpu_core_vf_view(core, 0, &view);
	CU_ASSERT_EQUAL(view.state, VGPU_VF_QUARANTINED);

	for (i = 0; i < 40; i++) {
		event(VGPU_EV_REQUEST, 1, i % 2 ? VGPU_WINDOW_FINI : VGPU_WINDOW_INIT, 0, NULL);
		event(VGPU_EV_DONE, 1, i % 2 ? VGPU_CMD_LOAD : VGPU_CMD_INIT, 0, NULL);
		event(VGPU_EV_DONE, 1, VGPU_CMD_RUN, 0, NULL);
		CU_ASSERT_STRING_EQUAL(said, "gates 1=all; tell 1 ready; ");
		event(VGPU_EV_RELEASE, 1, i % 2 ? VGPU_WINDOW_FINI : VGPU_WINDOW_INIT, 0, NULL);
		event(VGPU_EV_DONE, 1, VGPU_CMD_IDLE, 0, NULL);
		event(VGPU_EV_DONE, 1, VGPU_CMD_SAVE, 0, NULL);
		if (i % 2) {
			CU_ASSERT_STRING_EQUAL(said, "shutdown 1; ");
			event(VGPU_EV_DONE, 1, VGPU_CMD_SHUTDOWN, 0, NULL);
			CU_ASSERT_STRING_EQUAL(said, "scrub 1; ");
			event(VGPU_EV_SCRUBBED, 1, 0, 0, NULL);
		}
	}
	event(VGPU_EV_REQUEST, 1, VGPU_WINDOW_INIT, 0, NULL);
	CU_ASSERT_STRING_EQUAL(said, "tell 1 refused; ");
	now += 100 * VGPU_MSEC;
	event(VGPU_EV_REQUEST, 1, VGPU_WINDOW_INIT, 0, NULL);
	CU_ASSERT_STRING_EQUAL(said, "init 1; ");
	end();
}

/* Resets escalate only as far as allowed. */
TEST(ladder, "the ladder of resets")
{
	begin(vgpu_builtin_policy("equal"), 2);
	two_drivers_up();
	STEP(10000, VGPU_EV_RESET_VF, 0, 0, "gates 0=none; tell 0 reset; reset vf 0; ");
	now += VGPU_MSEC;
	event(VGPU_EV_RESET_DONE, 0, VGPU_RESET_VF, -EIO, NULL);
	CU_ASSERT_STRING_EQUAL(said, ""); /* the VF is not on the engine, so the GPU is not reset */
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), now + VGPU_SEC);
	now = vgpu_core_deadline(core);
	event(VGPU_EV_TIMER, 0, 0, 0, NULL);
	CU_ASSERT_STRING_EQUAL(said, "reset vf 0; ");
	now = vgpu_core_deadline(core); /* no answer */
	event(VGPU_EV_TIMER, 0, 0, 0, NULL);
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), now + 2 * VGPU_SEC);
	/* the others run meanwhile */
	event(VGPU_EV_BUSY, 1, 0, 0, NULL);
	CU_ASSERT_STRING_EQUAL(said, "load 1; ");
	end();
}

static void is_late_from(vgpu_nsec at)
{
	CU_ASSERT_EQUAL(vgpu_core_deadline(core), at);
	CU_ASSERT_FALSE(vgpu_core_is_overdue(core, at - 1));
	CU_ASSERT_TRUE(vgpu_core_is_overdue(core, at));
}

static void nobody_is_late(void)
{
	CU_ASSERT_FALSE(vgpu_core_is_overdue(core, VGPU_NEVER - 1));
}

/* Answers of the device and ends of windows can be overdue; ends of slices and of parking cannot.
 */
TEST(overdue, "what may be overdue")
{
	begin(vgpu_builtin_policy("equal"), 2);
	event(VGPU_EV_REQUEST, 0, VGPU_WINDOW_INIT, 0, NULL);
	is_late_from(now + 3 * VGPU_SEC); /* INIT */
	event(VGPU_EV_DONE, 0, VGPU_CMD_INIT, 0, NULL);
	is_late_from(now + 500 * VGPU_MSEC); /* RUN */
	event(VGPU_EV_DONE, 0, VGPU_CMD_RUN, 0, NULL);
	is_late_from(now + VGPU_SEC); /* the window */
	event(VGPU_EV_RELEASE, 0, VGPU_WINDOW_INIT, 0, NULL);
	is_late_from(now + 50 * VGPU_MSEC); /* IDLE */
	event(VGPU_EV_DONE, 0, VGPU_CMD_IDLE, 0, NULL);
	is_late_from(now + 500 * VGPU_MSEC); /* SAVE */
	event(VGPU_EV_DONE, 0, VGPU_CMD_SAVE, 0, NULL);
	nobody_is_late(); /* parked */
	event(VGPU_EV_BUSY, 0, 0, 0, NULL);
	event(VGPU_EV_DONE, 0, VGPU_CMD_LOAD, 0, NULL);
	event(VGPU_EV_DONE, 0, VGPU_CMD_RUN, 0, NULL);
	nobody_is_late(); /* it runs */
	event(VGPU_EV_RESET_VF, 0, 0, 0, NULL);
	is_late_from(now + 500 * VGPU_MSEC); /* the reset */
	end();
}

/* On a GPU that takes a whole switch at once, VF 0 is being saved, and VF 1 will run. */
static void begin_chain(void)
{
	chains = true;
	begin(vgpu_builtin_policy("equal"), 2);
	chains = false;
	STEP(0, VGPU_EV_REQUEST, 0, VGPU_WINDOW_INIT, "init 0; run 0; ");
	STEP(0, VGPU_EV_REQUEST, 1, VGPU_WINDOW_INIT, "");
	DONE(0, VGPU_CMD_INIT, 0, "");
	DONE(0, VGPU_CMD_RUN, 0, "gates 0=all; tell 0 ready; ");
	STEP(0, VGPU_EV_RELEASE, 0, VGPU_WINDOW_INIT, "gates 0=work; idle 0; ");
	DONE(0, VGPU_CMD_IDLE, 0, "save 0; init 1; run 1; ");
	DONE(0, VGPU_CMD_SAVE, 0, "");
	DONE(0, VGPU_CMD_INIT, 1, "");
	DONE(0, VGPU_CMD_RUN, 1, "gates 1=all; tell 1 ready; ");
	STEP(0, VGPU_EV_RELEASE, 1, VGPU_WINDOW_INIT, "gates 1=work; idle 1; ");
	DONE(0, VGPU_CMD_IDLE, 1, "save 1; ");
	DONE(0, VGPU_CMD_SAVE, 1, "");
	STEP(10000, VGPU_EV_BUSY, 0, 0, "load 0; run 0; ");
	STEP(10000, VGPU_EV_BUSY, 1, 0, "");
	DONE(10080, VGPU_CMD_LOAD, 0, "");
	DONE(10100, VGPU_CMD_RUN, 0, "");
	TIMER(12100, "idle 0; ");
	DONE(12120, VGPU_CMD_IDLE, 0, "save 0; load 1; run 1; ");
}

static bool runs(uint32_t vf)
{
	struct vgpu_core_view view;

	vgpu_core_view(core, &view);
	return view.phase == VGPU_PHASE_RUN && view.current == vf;
}

/* An operator resets the VF that is being saved: the reset waits until it is saved, because the GPU
 * goes on with the other VF. */
TEST(reset_in_a_chain, "a VF that is reset while it is saved lets the switch end")
{
	begin_chain();
	STEP(12130, VGPU_EV_RESET_VF, 0, 0, "");
	DONE(12200, VGPU_CMD_SAVE, 0, "gates 0=none; tell 0 reset; reset vf 0; ");
	DONE(12280, VGPU_CMD_LOAD, 1, "");
	DONE(12300, VGPU_CMD_RUN, 1, "");
	CU_ASSERT(runs(1));
	end();
}

/* The same if the GPU says that the VF is at fault: it may have saved that VF all the same, and run
 * the other one, which is not to suffer. */
TEST(fault_in_a_chain, "a VF that is at fault while it is saved costs the next one nothing")
{
	struct vgpu_vf_view view;

	begin_chain();
	STEP(12130, VGPU_EV_HANG, 0, 0, "");
	STEP(12130, VGPU_EV_HANG, 0, 0, ""); /* it is said once more */
	DONE(12200, VGPU_CMD_SAVE, 0, "gates 0=none; tell 0 reset; reset vf 0; ");
	DONE(12280, VGPU_CMD_LOAD, 1, "");
	DONE(12300, VGPU_CMD_RUN, 1, "");
	CU_ASSERT(runs(1));
	vgpu_core_vf_view(core, 0, &view);
	CU_ASSERT_EQUAL(view.ledger.hangs, 1);
	vgpu_core_vf_view(core, 1, &view);
	CU_ASSERT_EQUAL(view.ledger.hangs, 0);
	end();
	/* It was not saved: the chain has ended, and nothing waits. */
	begin_chain();
	STEP(12130, VGPU_EV_HANG, 0, 0, "");
	CU_ASSERT_EQUAL(event(VGPU_EV_DONE, 0, VGPU_CMD_SAVE, 1, NULL), 0);
	CU_ASSERT_STRING_EQUAL(said, "gates 0=none; tell 0 reset; reset vf 0; ");
	end();
	/* It never will be: no answer is waited for. */
	begin_chain();
	STEP(12130, VGPU_EV_HANG, 0, 0, "");
	STEP(12140, VGPU_EV_HANG, 0, 1, "gates 0=none; tell 0 reset; reset vf 0; ");
	vgpu_core_vf_view(core, 0, &view);
	CU_ASSERT_EQUAL(view.ledger.hangs, 1);
	end();
	begin_chain();
	STEP(12130, VGPU_EV_HANG, 0, 1, "gates 0=none; tell 0 reset; reset vf 0; ");
	end();
}

/* A VF that overran and is then reset by its guest owes as much as before. */
TEST(debt_survives_reset, "debt survives a reset")
{
	struct vgpu_vf_view view;

	begin(vgpu_builtin_policy("equal"), 2);
	two_drivers_up();
	STEP(10000, VGPU_EV_BUSY, 1, 0, "load 1; ");
	STEP(10000, VGPU_EV_BUSY, 0, 0, "");
	DONE(10000, VGPU_CMD_LOAD, 1, "run 1; ");
	DONE(10000, VGPU_CMD_RUN, 1, "");
	TIMER(12000, "idle 1; ");
	DONE(27000, VGPU_CMD_IDLE, 1, "save 1; ");
	vgpu_core_vf_view(core, 1, &view);
	/* Its debt, and the quarter of a turn by which each of two VFs is ahead after its own. */
	CU_ASSERT_EQUAL(view.lag_ns, -15 * (int64_t)VGPU_MSEC - (int64_t)VGPU_MSEC / 2);
	event(VGPU_EV_DONE, 1, VGPU_CMD_SAVE, 0, NULL);
	event(VGPU_EV_GUEST_RESET, 1, 0, 0, NULL);
	CU_ASSERT_STRING_EQUAL(said, "gates 1=none; tell 1 reset; reset vf 1; ");
	event(VGPU_EV_RESET_DONE, 1, VGPU_RESET_VF, 0, NULL);
	event(VGPU_EV_SCRUBBED, 1, 0, 0, NULL);
	vgpu_core_vf_view(core, 1, &view);
	CU_ASSERT_EQUAL(view.state, VGPU_VF_AVAIL);
	CU_ASSERT_EQUAL(view.lag_ns, -15 * (int64_t)VGPU_MSEC);
	end();
}

/* The others wait while a VF that does not stop is reset: it owes that time, but for what its share
 * of the time, a third here, pays meanwhile. */
TEST(reset_is_charged, "the time of a reset is charged to the VF at fault")
{
	struct vgpu_vf_view before, view, other;

	begin(vgpu_builtin_policy("equal"), 2);
	two_drivers_up();
	STEP(10000, VGPU_EV_BUSY, 1, 0, "load 1; ");
	DONE(10080, VGPU_CMD_LOAD, 1, "run 1; ");
	DONE(10100, VGPU_CMD_RUN, 1, "");
	STEP(10200, VGPU_EV_BUSY, 0, 0, "");
	now = vgpu_core_deadline(core);
	event(VGPU_EV_TIMER, 0, 0, 0, NULL);
	now = vgpu_core_deadline(core);
	event(VGPU_EV_TIMER, 0, 0, 0, NULL);
	CU_ASSERT_STRING_EQUAL(said, "gates 1=none; tell 1 reset; reset vf 1; ");
	vgpu_core_vf_view(core, 1, &before);
	now += 20 * VGPU_MSEC;
	event(VGPU_EV_RESET_DONE, 1, VGPU_RESET_VF, 0, NULL);
	vgpu_core_vf_view(core, 1, &view);
	vgpu_core_vf_view(core, 0, &other);
	CU_ASSERT_EQUAL(view.ledger.reset_ns - before.ledger.reset_ns, 20 * VGPU_MSEC);
	CU_ASSERT_EQUAL(view.ledger.debt_ns - before.ledger.debt_ns,
			20 * VGPU_MSEC - 20 * VGPU_MSEC / 3);
	CU_ASSERT_EQUAL(other.ledger.debt_ns, 0);
	CU_ASSERT_EQUAL(other.ledger.reset_ns, 0);
	end();
}

/* VFs found in use at the start are adopted: the running one is preempted first. */
TEST(adoption, "adoption of what runs")
{
	int64_t params[VGPU_MAX_PARAMS] = {0};
	struct vgpu_core_config config;
	struct vgpu_vf_view view;

	now = 0;
	vgpu_core_defaults(&config, 3);
	memory = calloc(1, vgpu_core_size(3));
	fallback_memory = calloc(1, vgpu_fallback_policy->memory(3));
	policy_memory = NULL;
	core = vgpu_core_init(memory, &config, vgpu_fallback_policy, fallback_memory, 0);
	event(VGPU_EV_ADD, 0, VGPU_CTX_RUNNING, 1, params);
	CU_ASSERT_STRING_EQUAL(said, "");
	event(VGPU_EV_ADD, 1, VGPU_CTX_SAVED, 1, params);
	CU_ASSERT_STRING_EQUAL(said, "");
	event(VGPU_EV_ADD, 2, VGPU_CTX_SAVED, 0, params); /* was in a window */
	CU_ASSERT_STRING_EQUAL(said, "gates 2=none; tell 2 reset; reset vf 2; ");
	CU_ASSERT_EQUAL(event(VGPU_EV_ADD, 1, VGPU_CTX_SAVED, 1, params), -EINVAL);
	STEP(100, VGPU_EV_BUSY, 0, 0, "");
	STEP(100, VGPU_EV_BUSY, 1, 0, "");
	STEP(200, VGPU_EV_START, 0, 0, "idle 0; ");
	DONE(300, VGPU_CMD_IDLE, 0, "save 0; ");
	vgpu_core_vf_view(core, 0, &view);
	CU_ASSERT_EQUAL(view.ledger.run_ns, 100 * VGPU_USEC);
	CU_ASSERT_EQUAL(view.ledger.forgiven_ns, 100 * VGPU_USEC);
	end();
}

/* Policies that break their contract. */
static uint32_t bad_vf;
static vgpu_nsec bad_slice, bad_start, bad_park;
static bool bad_parks, bad_yet;

static void bad_pick(void *, struct vgpu_pick *pick, vgpu_nsec t)
{
	pick->park_until = VGPU_NEVER;
	if (!bad_yet)
		return; /* no VF has work */
	pick->vf = bad_parks ? VGPU_NO_VF : bad_vf;
	pick->slice = bad_slice;
	pick->not_before = bad_start ? t + bad_start : 0;
	pick->park_until = bad_park;
}

static void one_bad_policy(enum vgpu_fault fault)
{
	struct vgpu_policy_ops bad = *vgpu_builtin_policy("equal");
	struct vgpu_core_view view;

	strcpy(bad.name, "bad");
	bad.pick = bad_pick;
	bad_yet = false;
	begin(&bad, 2);
	two_drivers_up();
	bad_yet = true;
	/* The fallback picks, in the same step. */
	STEP(10000, VGPU_EV_BUSY, 0, 0, "load 0; ");
	vgpu_core_view(core, &view);
	CU_ASSERT_EQUAL(view.engine.evictions, 1);
	CU_ASSERT_EQUAL(view.last_fault, fault);
	CU_ASSERT_STRING_EQUAL(view.faulty, "bad");
	CU_ASSERT_STRING_EQUAL(view.policy->name, "equal");
	CU_ASSERT(strlen(vgpu_fault_text(fault)) > 10);
	end();
}

TEST(bad_policies, "faulty policies are evicted")
{
	bad_vf = 7;
	bad_slice = VGPU_MSEC;
	one_bad_policy(VGPU_FAULT_BAD_VF);
	bad_vf = 0;
	bad_slice = 0;
	one_bad_policy(VGPU_FAULT_ZERO_SLICE);
	bad_vf = 1;
	bad_slice = VGPU_MSEC;
	one_bad_policy(VGPU_FAULT_NO_WORK);
	bad_vf = 0;
	bad_start = VGPU_SEC;
	one_bad_policy(VGPU_FAULT_LATE_START);
	bad_start = 0;
	bad_parks = true;
	bad_park = VGPU_NEVER;
	one_bad_policy(VGPU_FAULT_STARVED);
	bad_parks = false;
}

/*
 * The fair policy without heaps: every v as a fraction, V as their mean, and a scan of all VFs for
 * each decision.
 */
struct model {
	__int128 v[64], deadline[64]; /* times 2^20 */
	uint64_t weight[64];
	uint32_t n;
	uint64_t request;
};

static uint32_t model_pick(const struct model *m, vgpu_nsec *slice)
{
	__int128 sum = 0, weights = 0;
	uint32_t i, best = 64;

	for (i = 0; i < m->n; i++) {
		sum += m->v[i] * (__int128)m->weight[i];
		weights += (__int128)m->weight[i];
	}
	for (i = 0; i < m->n; i++)
		if ((m->v[i] - ((__int128)500000 << 20) / (__int128)m->weight[i]) * weights <=
			    sum &&
		    (best == 64 || m->deadline[i] < m->deadline[best]))
			best = i;
	*slice = (vgpu_nsec)((m->deadline[best] - m->v[best]) * (__int128)m->weight[best] >> 20);
	return best;
}

static void model_account(struct model *m, uint32_t vf, vgpu_nsec used, vgpu_nsec least)
{
	__int128 request = (((__int128)m->request << 20) / (__int128)m->weight[vf]);

	m->v[vf] += ((__int128)used << 20) / (__int128)m->weight[vf];
	while (m->deadline[vf] - m->v[vf] < ((__int128)least << 20) / (__int128)m->weight[vf])
		m->deadline[vf] += request;
}

TEST(fair_against_model, "fair equals its plain model")
{
	int64_t params[VGPU_MAX_PARAMS];
	const struct vgpu_policy_ops *fair = vgpu_builtin_policy("fair");
	struct vgpu_facts facts = {.max_vfs = 64,
				   .switch_ns = 100000,
				   .min_slice_ns = 500000,
				   .max_slice_ns = 500000000};
	struct model m;
	uint64_t decisions = 0, round;
	unsigned seed;
	uint32_t i;

	vgpu_param_defaults(fair->params, params);
	vhost_param(fair->params, params, "slice_us", 4000);
	for (seed = 1; seed <= 12; seed++) {
		int64_t row[VGPU_MAX_PARAMS] = {0};
		void *state = calloc(1, fair->memory(64));
		const char *why = NULL;
		vgpu_nsec t = 0;

		srand(seed);
		memset(&m, 0, sizeof(m));
		m.n = 1 + seed * 5;
		m.request = 4000000;
		fair->attach(state, &facts, params);
		for (i = 0; i < m.n; i++) {
			/* powers of two divide 2^20: the model has no remainders to carry */
			m.weight[i] = 1u << rand() % 10;
			row[0] = (int64_t)m.weight[i];
			m.deadline[i] = ((__int128)m.request << 20) / (__int128)m.weight[i];
			CU_ASSERT(fair->admit(state, i, row, 0, &why));
			fair->wake(state, i, 0);
		}
		for (round = 0; round < 40000; round++) {
			struct vgpu_pick pick = {.vf = VGPU_NO_VF};
			struct vgpu_usage usage;
			vgpu_nsec slice, used;
			uint32_t expected = model_pick(&m, &slice);

			fair->pick(state, &pick, t);
			CU_ASSERT_EQUAL_FATAL(pick.vf, expected);
			CU_ASSERT_EQUAL_FATAL(pick.slice, slice);
			used = slice + (vgpu_nsec)(rand() % 8 ? rand() % 50000 : rand() % 9000000);
			fair->run(state, pick.vf, t);
			usage = (struct vgpu_usage){.vf = pick.vf,
						    .start = t,
						    .end = t + used,
						    .granted = slice,
						    .used = used,
						    .charge = used};
			t += used + 100000;
			fair->account(state, &usage);
			model_account(&m, pick.vf, used, facts.min_slice_ns);
			decisions++;
		}
		free(state);
	}
	printf("[%llu decisions] ", (unsigned long long)decisions);
}

SUITE_MAIN("core")
