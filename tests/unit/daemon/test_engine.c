/* SPDX-License-Identifier: MIT */
/*
 * The engine thread and its requests: real threads, core, policies and recorder, on the quick GPU.
 * Requests are answered in rounds, no request waits behind a change, no answer is lost, and the
 * core alone owns the policy.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "builtin.h"
#include "engine/engine_private.h"
#include "quick_gpu.h"
#include "suite.h"
#include "vgpu/clock.h"

/* A deadline far beyond the time that any step here takes. */
#define PATIENCE (20 * VGPU_SEC)

static struct engine *e;
static struct engine_snapshot shot;

static void begin(const struct engine_config *config)
{
	struct vgpu_error err = {""};

	CU_ASSERT_EQUAL_FATAL(engine_start(&e, config, &err), 0);
}

static void begin_with(const char *policy)
{
	struct engine_config config;

	quick_reset();
	quick_config(&config, vgpu_builtin_policy(policy));
	begin(&config);
}

/* Returns an answer that arrives before UNTIL; NULL if there is none. */
static struct engine_request *answer(vgpu_nsec until)
{
	struct pollfd fd = {.fd = engine_fd(e), .events = POLLIN};
	struct engine_request *request;
	uint64_t count;

	for (;;) {
		request = engine_receive(e);
		if (request || vgpu_now() >= until)
			return request;
		if (poll(&fd, 1, 100) > 0 && read(fd.fd, &count, sizeof(count)) < 0)
			continue;
	}
}

/* Sends a request and returns the result of its answer. */
static int ask(struct engine_request *request)
{
	CU_ASSERT_FATAL(engine_send(e, request));
	CU_ASSERT_PTR_EQUAL_FATAL(answer(vgpu_now() + PATIENCE), request);
	return request->result;
}

static void look(void)
{
	struct engine_request request = {.ask = ENGINE_SNAPSHOT, .snapshot = &shot};

	CU_ASSERT_EQUAL_FATAL(ask(&request), 0);
}

static int event(struct vgpu_event event)
{
	struct engine_request request = {.event = event};

	return ask(&request);
}

static int set_vf(const struct vgpu_policy_ops *policy, uint32_t vf, const int64_t *params)
{
	return event((struct vgpu_event){
		.type = VGPU_EV_SET_VF, .vf = vf, .policy = policy, .params = params});
}

static int64_t rows[QUICK_VFS][VGPU_MAX_PARAMS];

static int set_policy(const struct vgpu_policy_ops *policy)
{
	static int64_t params[VGPU_MAX_PARAMS];
	uint32_t i;

	vgpu_param_defaults(policy->params, params);
	for (i = 0; i < QUICK_VFS; i++)
		vgpu_param_defaults(policy->vf_params, rows[i]);
	return event((struct vgpu_event){
		.type = VGPU_EV_POLICY, .policy = policy, .params = params, .vf_params = rows[0]});
}

/* Takes snapshots until the condition holds. */
static void await(bool (*is)(void))
{
	vgpu_nsec until = vgpu_now() + PATIENCE;

	for (look(); !is() && vgpu_now() < until; look())
		poll(NULL, 0, 1);
	CU_ASSERT_FATAL(is());
}

static bool one_runs(void)
{
	return shot.core.phase == VGPU_PHASE_RUN;
}

static bool change_is_over(void)
{
	return !shot.core.next_policy;
}

/* Returns whether values are within their tables, so that a reader of choices[] stays in bounds. */
static bool in_tables(const struct vgpu_param *table, const int64_t *values)
{
	uint32_t i;

	for (i = 0; table[i].name; i++)
		if (values[i] < table[i].min || values[i] > table[i].max)
			return false;
	return true;
}

static int read_back(const char *file, size_t size)
{
	struct recording recording;
	struct vgpu_error err;
	FILE *f = fmemopen((void *)file, size, "r");
	int r;

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	r = recording_read(&recording, f, &err);
	fclose(f);
	if (r == 0)
		recording_free(&recording);
	return r;
}

/* A recording with one changed byte, or without its end, is refused. */
static void damage(const struct recording *recording)
{
	struct vgpu_error err;
	char *file = NULL;
	size_t size, i, at;
	FILE *f = open_memstream(&file, &size);

	CU_ASSERT_EQUAL_FATAL(recording_write(recording, f, &err), 0);
	fclose(f);
	CU_ASSERT_EQUAL(read_back(file, size), 0);
	for (i = 0; i < 500; i++) {
		/* First the header, then the whole file. */
		at = i < 200 ? i : (size - 1) * (i - 200) / 299;
		file[at] ^= (char)(1 << i % 8);
		CU_ASSERT_EQUAL(read_back(file, size), -EINVAL);
		CU_ASSERT_EQUAL(read_back(file, at + 1), -EINVAL);
		file[at] ^= (char)(1 << i % 8);
	}
	free(file);
}

/* A replay makes the same decisions again at the same addresses, with the policies that each set of
 * parameters was for. */
static void stop_and_replay(void)
{
	struct recording recording;
	struct vgpu_error err = {""};
	struct replay replay;

	CU_ASSERT_EQUAL_FATAL(engine_recording(e, &recording), 0);
	engine_stop(e);
	damage(&recording);
	CU_ASSERT_EQUAL(recording_replay(&recording, vgpu_builtin_policy, NULL, &replay, &err), 0);
	CU_ASSERT_EQUAL(replay.events, recording.header.n_entries);
	CU_ASSERT_FALSE(replay.differs);
	recording_free(&recording);
}

/* A change of policy waits for a VF that does not stop. Requests that only read are answered
 * meanwhile, and show each policy with its own parameters. A second change is refused, not kept.
 * Parameters for the outgoing policy are refused; parameters for the incoming one are stored for
 * it. */
TEST(while_a_change_waits, "requests are answered while a change of policy waits")
{
	const struct vgpu_policy_ops *fair = vgpu_builtin_policy("fair");
	const struct vgpu_policy_ops *strict = vgpu_builtin_policy("strict");
	int64_t params[VGPU_MAX_PARAMS];
	const struct engine_policy *p;

	begin_with("fair");
	p = engine_policy(e);
	CU_ASSERT_PTR_EQUAL(p->in_force.policy, fair);
	CU_ASSERT_EQUAL(p->in_force.vf_params[1][0], 100);
	memcpy(params, p->in_force.vf_params[1], sizeof(params));
	quick_stops(false);
	quick_busy(0, true);
	await(one_runs);
	CU_ASSERT_EQUAL(set_policy(strict), 0);
	look();
	CU_ASSERT_PTR_EQUAL(shot.core.policy, fair);
	CU_ASSERT_PTR_EQUAL(shot.core.next_policy, strict);
	CU_ASSERT(in_tables(fair->params, shot.core.params));
	CU_ASSERT(in_tables(fair->vf_params, shot.vfs[1].params));
	CU_ASSERT(in_tables(strict->params, shot.core.next_params));
	p = engine_policy(e);
	CU_ASSERT(p->change_waits);
	CU_ASSERT_PTR_EQUAL(p->in_force.policy, fair);
	CU_ASSERT_PTR_EQUAL(p->to_come.policy, strict);
	CU_ASSERT_EQUAL(set_policy(fair), -EBUSY);
	CU_ASSERT_EQUAL(set_vf(fair, 1, params), -ESTALE);
	rows[1][0] = 2; /* slots */
	CU_ASSERT_EQUAL(set_vf(strict, 1, rows[1]), 0);
	CU_ASSERT_EQUAL(engine_policy(e)->to_come.vf_params[1][0], 2);
	CU_ASSERT_EQUAL(engine_policy(e)->in_force.vf_params[1][0], 100);
	quick_stops(true);
	await(change_is_over);
	CU_ASSERT_PTR_EQUAL(shot.core.policy, strict);
	CU_ASSERT_EQUAL(shot.vfs[1].params[0], 2);
	p = engine_policy(e);
	CU_ASSERT(!p->change_waits);
	CU_ASSERT_PTR_EQUAL(p->in_force.policy, strict);
	CU_ASSERT_EQUAL(set_policy(fair), 0);
	await(change_is_over);
	stop_and_replay();
}

/* A request that is answered -EBUSY for a long time does not delay other requests. */
TEST(what_stays_busy, "a busy request does not delay others")
{
	struct vgpu_event away = {.type = VGPU_EV_AWAY, .code = 1};

	begin_with("fair");
	quick_stops(false);
	quick_busy(0, true);
	await(one_runs);
	CU_ASSERT_EQUAL(event(away), -EBUSY);
	look();
	CU_ASSERT_EQUAL(event(away), -EBUSY);
	quick_stops(true);
	engine_stop(e);
}

static bool both_have_run(void)
{
	return shot.vfs[0].ledger.dispatches > 1 && shot.vfs[1].ledger.dispatches > 1;
}

/* The number of answers that had been given when the first slice after the flood ended. */
static _Atomic uint32_t answered;
static _Atomic bool ended;

static void at_the_end(void)
{
	if (!ended)
		answered = e->replies.tail - e->replies.head;
	ended = true;
}

/* Blocks the engine thread while a VF runs. During a world switch it would be too early: the slice
 * would only begin afterwards. */
static void block_in_a_slice(void)
{
	vgpu_nsec until = vgpu_now() + PATIENCE;
	struct vgpu_core_view view;

	for (;;) {
		quick_block();
		vgpu_core_view(e->core, &view);
		if (view.phase == VGPU_PHASE_RUN)
			return;
		quick_unblock();
		CU_ASSERT_FATAL(vgpu_now() < until);
	}
}

/* More requests than fit, while the engine thread is blocked for longer than the current slice. It
 * accepts as many as it can answer and answers all of them; the end of the slice waits for at most
 * one of them. */
TEST(floods, "a flood of requests does not delay a slice's end")
{
	static struct engine_request requests[2 * ENGINE_REQUESTS];
	static struct engine_snapshot looks[2 * ENGINE_REQUESTS];
	vgpu_nsec until;
	uint32_t i, n = 0, back;

	begin_with("best-effort"); /* takes turns regardless of history: each slice ends */
	quick_busy(0, true);
	quick_busy(1, true);
	await(both_have_run); /* both VFs have work, so slices end when due */
	ended = false;
	block_in_a_slice();
	quick_watch(at_the_end);
	for (i = 0; i < 2 * ENGINE_REQUESTS; i++) {
		requests[i] =
			(struct engine_request){.ask = ENGINE_SNAPSHOT, .snapshot = &looks[i]};
		n += engine_send(e, &requests[i]);
	}
	CU_ASSERT_EQUAL(n, ENGINE_REQUESTS);
	until = vgpu_now() + 50 * VGPU_MSEC; /* longer than a slice */
	while (vgpu_now() < until)
		poll(NULL, 0, 1);
	quick_unblock();
	until = vgpu_now() + PATIENCE;
	while (!ended && vgpu_now() < until)
		poll(NULL, 0, 1);
	/* All requests are answered but no answer is received yet, so there is no room for another
	 * request. */
	while (!spsc_is_empty(&e->requests) && vgpu_now() < until)
		poll(NULL, 0, 1);
	requests[n] = (struct engine_request){.ask = ENGINE_SNAPSHOT, .snapshot = &looks[n]};
	CU_ASSERT_FALSE(engine_send(e, &requests[n]));
	for (back = 0; back < n && answer(until);)
		back++;
	CU_ASSERT_EQUAL(back, n);
	look(); /* now there is room again */
	CU_ASSERT(ended);
	CU_ASSERT(answered <= 2);
	quick_watch(NULL);
	engine_stop(e);
}

/* A policy that can be told to refuse VFs, and whose VFs have a guarantee if their parameter says
 * so. */
static _Atomic bool refuses, no_way_back;
static _Atomic bool guaranteed[QUICK_VFS];
static struct vgpu_policy_ops picky;

static bool picky_admit(void *state, uint32_t vf, const int64_t *params, vgpu_nsec now,
			const char **why)
{
	if (refuses) {
		*why = "it is out of sorts";
		return false;
	}
	guaranteed[vf] = params[0];
	return vgpu_fallback_policy->admit(state, vf, params, now, why);
}

static bool picky_set_vf(void *state, uint32_t vf, const int64_t *params, vgpu_nsec now,
			 const char **why)
{
	(void)state, (void)now;
	if (no_way_back && !params[0]) {
		*why = "there is no way back";
		return false;
	}
	guaranteed[vf] = params[0];
	return true;
}

static void picky_bound(void *state, uint32_t vf, struct vgpu_bound *out)
{
	vgpu_fallback_policy->bound(state, vf, out);
	out->budget = guaranteed[vf] ? VGPU_MSEC : 0;
	out->period = guaranteed[vf] ? VGPU_SEC : 0;
}

static const struct vgpu_policy_ops *the_picky(void)
{
	static const struct vgpu_param params[] = {{"guarantee", "", "whether there is one",
						    VGPU_PARAM_INT, 0, 1, 0, NULL},
						   {.name = NULL}};

	picky = *vgpu_fallback_policy;
	snprintf(picky.name, sizeof(picky.name), "picky");
	picky.vf_params = params;
	picky.admit = picky_admit;
	picky.set_vf = picky_set_vf;
	picky.bound = picky_bound;
	refuses = no_way_back = false;
	return &picky;
}

static bool is_lost(void)
{
	return shot.lost;
}

static bool is_found(void)
{
	return !shot.lost;
}

static bool policy_refuses(void)
{
	return strstr(shot.lost_why, "out of sorts") != NULL;
}

/* A GPU that returns while its policy refuses a VF stays lost, with that reason. As soon as the
 * policy admits the VF, the GPU runs as before, with every change that had been made. */
TEST(cannot_be_set_up, "a GPU whose policy refuses its VFs stays lost")
{
	struct engine_config config;
	int64_t params[VGPU_MAX_PARAMS] = {1};

	quick_reset();
	quick_config(&config, the_picky());
	begin(&config);
	CU_ASSERT_EQUAL(set_vf(&picky, 2, params), 0);
	CU_ASSERT_PTR_NULL(engine_trouble(e));
	quick_present(false);
	await(is_lost);
	CU_ASSERT_PTR_NOT_NULL(engine_trouble(e));
	CU_ASSERT_EQUAL(set_vf(&picky, 1, params), -ENODEV);
	refuses = true;
	quick_present(true);
	engine_retry(e);
	await(policy_refuses);
	CU_ASSERT(shot.lost);
	CU_ASSERT_PTR_NOT_NULL_FATAL(engine_trouble(e));
	CU_ASSERT_PTR_NOT_NULL(strstr(engine_trouble(e), "cannot be set up"));
	CU_ASSERT_EQUAL(set_vf(&picky, 1, params), -ENODEV);
	refuses = false;
	engine_retry(e);
	await(is_found);
	CU_ASSERT_PTR_NULL(engine_trouble(e));
	CU_ASSERT_PTR_EQUAL(shot.core.policy, &picky);
	CU_ASSERT_EQUAL(shot.vfs[2].params[0], 1);
	CU_ASSERT_EQUAL(shot.vfs[1].params[0], 0);
	engine_stop(e);
}

/* A GPU that is not there at the start is lost from the start; it gets what was set meanwhile when
 * it comes. */
TEST(comes_later, "a GPU that is not there at the start comes later")
{
	const struct vgpu_policy_ops *fair = vgpu_builtin_policy("fair");
	struct vgpu_error err = {""};
	struct engine_config config;

	quick_reset();
	quick_present(false);
	quick_config(&config, fair);
	CU_ASSERT_EQUAL_FATAL(engine_start(&e, &config, &err), 1);
	CU_ASSERT_PTR_NOT_NULL(engine_trouble(e));
	CU_ASSERT_STRING_NOT_EQUAL(err.text, "");
	CU_ASSERT_STRING_EQUAL(engine_policy(e)->lost_why, err.text);
	await(is_lost);
	CU_ASSERT_STRING_EQUAL(shot.lost_why, err.text);
	CU_ASSERT_PTR_EQUAL(shot.core.policy, fair);
	rows[1][0] = 250;
	CU_ASSERT_EQUAL(set_vf(fair, 1, rows[1]), 0);
	CU_ASSERT_EQUAL(engine_policy(e)->to_come.vf_params[1][0], 250);
	quick_present(true);
	engine_retry(e);
	await(is_found);
	CU_ASSERT_PTR_NULL(engine_trouble(e));
	CU_ASSERT_PTR_NOT_NULL(engine_caps(e));
	CU_ASSERT_EQUAL(shot.vfs[1].params[0], 250);
	CU_ASSERT(shot.found.partition.vfs[1].size > 0);
	engine_stop(e);
}

/* A GPU that is lost during a change of policy is set up with the new policy. */
TEST(lost_in_a_change, "a GPU lost during a change of policy gets the new policy")
{
	const struct vgpu_policy_ops *strict = vgpu_builtin_policy("strict");

	begin_with("fair");
	quick_stops(false);
	quick_busy(0, true);
	await(one_runs);
	CU_ASSERT_EQUAL(set_policy(strict), 0);
	rows[1][0] = 3;
	CU_ASSERT_EQUAL(set_vf(strict, 1, rows[1]), 0);
	quick_present(false);
	await(is_lost);
	quick_stops(true);
	quick_present(true);
	engine_retry(e);
	await(is_found);
	CU_ASSERT_PTR_EQUAL(shot.core.policy, strict);
	CU_ASSERT_PTR_NULL(shot.core.next_policy);
	CU_ASSERT_EQUAL(shot.vfs[1].params[0], 3);
	CU_ASSERT_PTR_EQUAL(engine_policy(e)->in_force.policy, strict);
	engine_stop(e);
}

/* A guarantee for which the GPU has no room is withdrawn and refused. If the policy does not allow
 * the withdrawal, the request is refused all the same, and the guarantee is shown. */
TEST(pins, "a guarantee without room is refused")
{
	struct engine_config config;
	int64_t params[VGPU_MAX_PARAMS] = {1};
	uint32_t i;

	for (i = 0; i < 2; i++) {
		quick_reset();
		quick_host(256 * QUICK_MIB, 2); /* 96 MiB on the GPU; three VFs of 48 MiB each */
		quick_config(&config, the_picky());
		begin(&config);
		CU_ASSERT_EQUAL(set_vf(&picky, 0, params), 0);
		no_way_back = i == 1;
		CU_ASSERT_EQUAL(set_vf(&picky, 1, params), -ENOSPC);
		look();
		CU_ASSERT_EQUAL(shot.vfs[1].params[0], i);
		CU_ASSERT_EQUAL(engine_policy(e)->in_force.vf_params[1][0], i);
		engine_stop(e);
	}
}

static bool is_parked(void)
{
	return shot.core.phase == VGPU_PHASE_PARKED;
}

static vgpu_nsec since;

static bool a_while_later(void)
{
	return shot.now >= since + 200 * VGPU_MSEC;
}

/* The time of a GPU without work goes on in every view. */
TEST(idle_time, "the time of a GPU without work goes on")
{
	vgpu_nsec wall, idle, now;

	begin_with("fair");
	await(is_parked);
	wall = shot.core.engine.wall_ns;
	idle = shot.core.engine.idle_ns;
	since = now = shot.now;
	await(a_while_later);
	/* A view may be 10 ms old. */
	CU_ASSERT(shot.core.engine.wall_ns - wall + 10 * VGPU_MSEC >= shot.now - now);
	CU_ASSERT(shot.core.engine.idle_ns - idle + 10 * VGPU_MSEC >= shot.now - now);
	stop_and_replay();
}

static vgpu_nsec spin_of;

static void take_turns(vgpu_nsec spin)
{
	struct engine_config config;

	quick_reset();
	quick_config(&config, vgpu_builtin_policy("best-effort"));
	config.spin = spin;
	begin(&config);
	quick_busy(0, true);
	quick_busy(1, true);
	await(both_have_run);
	spin_of = shot.spun;
	since = shot.now;
	await(a_while_later);
}

/* An engine waits on the CPU for the ends of slices if it is told to, for at most so long each. It
 * answers requests meanwhile, and sleeps while nothing is planned. */
TEST(spins_for_ends, "ends of slices are waited for on the CPU, if told so")
{
	vgpu_nsec spin = 200 * VGPU_USEC;
	uint64_t turns;

	take_turns(0);
	CU_ASSERT_EQUAL(shot.spun, 0);
	engine_stop(e);
	take_turns(spin);
	CU_ASSERT(shot.spun > spin_of);
	turns = shot.vfs[0].ledger.dispatches + shot.vfs[1].ledger.dispatches;
	CU_ASSERT(shot.spun <= (turns + 1) * spin);
	quick_busy(0, false);
	quick_busy(1, false);
	await(is_parked);
	spin_of = shot.spun;
	since = shot.now;
	await(a_while_later);
	CU_ASSERT_EQUAL(shot.spun, spin_of);
	stop_and_replay();
}

SUITE_MAIN("engine")
