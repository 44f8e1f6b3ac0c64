/* SPDX-License-Identifier: MIT */
#include "played_vgpud.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "answer.h"
#include "screen.h"
#include "session.h"

struct played_vgpud gpu;
struct json_object *printed;

/* --- Time --- */

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	int64_t now = BEGAN + gpu.now;

	if (clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, t);
	*t = (struct timespec){now / SEC, now % SEC};
	return 0;
}

static void record(const char *type, int64_t t, int vf, int64_t a, int64_t b)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "type", json_object_new_string(type));
	json_object_object_add(o, "t_ns", json_object_new_int64(BEGAN + t));
	json_object_object_add(o, "vf", json_object_new_int(vf));
	json_object_object_add(o, "a", json_object_new_int64(a));
	json_object_object_add(o, "b", json_object_new_int64(b));
	json_object_array_add(gpu.records, o);
}

static int64_t gift(int vf)
{
	bool given = gpu.at == gpu.gift_at[0] || gpu.at == gpu.gift_at[1];

	return !given || vf > 1 ? 0 : vf == 0 ? gpu.gift : -gpu.gift;
}

/* Plans of other weights act from the next epoch on. */
static void put_plan_into_force(void)
{
	bool differs = false;
	int i;

	for (i = 0; i < VFS; i++)
		differs = differs || gpu.vfs[i].weight != gpu.vfs[i].in_force;
	if (!differs || gpu.plan_after < 0 || gpu.plan_after-- > 0)
		return;
	gpu.plan_after = 0;
	for (i = 0; i < VFS; i++) {
		gpu.vfs[i].in_force = gpu.vfs[i].weight;
		record("plan", gpu.at, i, gpu.vfs[i].weight * 100000, 0);
	}
}

static void epoch(void)
{
	static const int64_t before[VFS] = {200, 100, 100};
	int64_t all = 0, had;
	int i;

	gpu.at += EPOCH;
	for (i = 0; i < VFS; i++)
		all += gpu.no_effect ? before[i] : gpu.vfs[i].in_force;
	for (i = 0; i < VFS; i++) {
		had = EPOCH * (gpu.no_effect ? before[i] : gpu.vfs[i].in_force) / all + gift(i);
		had = (int64_t)(gpu.counted * (double)had);
		if (i == 1 && gpu.at > gpu.frozen[0] && gpu.at <= gpu.frozen[1])
			had = 0;
		if (i == 2 && gpu.at == gpu.back_at)
			had = -1;
		gpu.vfs[i].run += had;
		record("served", gpu.at, i, had, EPOCH);
	}
	put_plan_into_force();
}

static bool comes(int64_t *at)
{
	bool is = *at && gpu.at >= *at;

	*at = is ? 0 : *at;
	return is;
}

/* A turn of 10 ms for each weight of 100 has ended, or the switch to it. */
static void end_turn(void)
{
	int64_t granted;

	gpu.at = gpu.until;
	if (gpu.runs) {
		gpu.vfs[gpu.turn].run += gpu.at - gpu.since;
		record("stop", gpu.at, gpu.turn, gpu.at - gpu.since, 0);
		gpu.runs = false;
		gpu.turn = (gpu.turn + 1) % VFS;
		gpu.has_window = comes(&gpu.window_at);
		gpu.until += SWITCH + gpu.has_window * 100 * MS;
		if (gpu.has_window)
			record("window", gpu.at, 2, 0, 0);
		return;
	}
	if (gpu.has_window)
		record("window-end", gpu.at, 2, 0, 0);
	gpu.has_window = false;
	granted = gpu.vfs[gpu.turn].weight * MS / 10;
	if (gpu.turn == 0 && comes(&gpu.grant_at))
		granted = gpu.grant;
	record("run", gpu.at, gpu.turn, granted, 0);
	gpu.runs = true;
	gpu.since = gpu.at;
	gpu.until = gpu.at + granted;
	if (gpu.turn == 0 && comes(&gpu.overrun_at))
		gpu.until += gpu.overrun;
}

static void pass(int64_t to)
{
	gpu.now = to > gpu.now ? to : gpu.now;
	while (gpu.governed && gpu.at + EPOCH <= gpu.now)
		epoch();
	while (!gpu.governed && gpu.until <= gpu.now)
		end_turn();
	if (!gpu.governed)
		gpu.at = gpu.now;
	if (gpu.policy_at && gpu.at >= gpu.policy_at)
		gpu.policy_since = gpu.policy_at;
}

static bool is_interrupted(void)
{
	return gpu.interrupt_at && gpu.now >= gpu.interrupt_at;
}

void screen_catch(void)
{
}

int screen_wait(vgpu_nsec until)
{
	pass((int64_t)until - BEGAN);
	return is_interrupted() ? KEY_END : KEY_NONE;
}

int __wrap_sigtimedwait(const sigset_t *set, siginfo_t *, const struct timespec *t)
{
	CU_ASSERT(sigismember(set, SIGINT) && sigismember(set, SIGTERM) &&
		  sigismember(set, SIGHUP));
	pass(gpu.now + t->tv_sec * SEC + t->tv_nsec);
	return is_interrupted() ? SIGINT : -1;
}

bool view_colour;

unsigned screen_width(void)
{
	return SCREEN_ANY;
}

/* --- Answers --- */

static void put(struct json_object *o, const char *key, int64_t value)
{
	json_object_object_add(o, key, value < 0 ? NULL : json_object_new_int64(value));
}

static void put_text(struct json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, json_object_new_string(text));
}

static int64_t run_of(int i)
{
	bool now = !gpu.governed && gpu.runs && gpu.turn == i;

	return gpu.vfs[i].run + (now ? gpu.now - gpu.since : 0);
}

/* What the policy promises, and the governor has put into force. */
static int64_t share_of(int i)
{
	return gpu.governed ? gpu.vfs[i].in_force : gpu.vfs[i].weight;
}

static struct json_object *show(void)
{
	struct json_object *o = json_object_new_object();

	put_text(o, "gpu", "gpu0");
	put_text(o, "state", "running");
	put_text(o, "scheduler", gpu.governed ? "firmware" : "vgpud");
	put(o, "vfs", VFS);
	put(o, "switch_estimate_ns", SWITCH);
	put(o, "policy_since_ns", gpu.policy_since);
	put(o, "wall_ns", gpu.at);
	return o;
}

static struct json_object *vf(int i)
{
	struct json_object *o = json_object_new_object(), *params = json_object_new_object();
	bool frozen = i == 1 && gpu.at > gpu.frozen[0] && gpu.at <= gpu.frozen[1];

	put(o, "vf", i);
	if (gpu.governed)
		put_text(o, "work", frozen ? "asleep" : "busy");
	json_object_object_add(o, "has_work", json_object_new_boolean(true));
	put(o, "run_ns", run_of(i));
	put(o, "charged_ns", run_of(i));
	put(o, "lag_bound_ns", gpu.vfs[i].lag);
	put(o, "wait_bound_ns", gpu.vfs[i].wait);
	put(o, "budget_ns", gpu.vfs[i].budget);
	put(o, "share_numerator", share_of(i));
	put(o, "share_denominator", share_of(0) + share_of(1) + share_of(2));
	if (share_of(i) > 0)
		put_text(o, "share_of", "engine");
	put(o, "quantum_ns", gpu.vfs[i].in_force * 100000);
	put(params, "weight", gpu.vfs[i].weight);
	json_object_object_add(o, "params", params);
	put_text(o, "domain", "secret");
	return o;
}

static struct json_object *list(void)
{
	struct json_object *o = json_object_new_object(), *vfs = json_object_new_array();
	int64_t idle = gpu.at - run_of(0) - run_of(1) - run_of(2) - gpu.stray;
	int i;

	put(o, "now_ns", BEGAN + gpu.now);
	put(o, "wall_ns", gpu.at);
	json_object_object_add(o, "idle_ns", json_object_new_int64(idle));
	for (i = 0; i < VFS; i++)
		json_object_array_add(vfs, vf(i));
	json_object_object_add(o, "vfs", vfs);
	return o;
}

static struct json_object *timeline(struct json_object *args)
{
	struct json_object *o = json_object_new_object(), *records = json_object_new_array(), *r;
	int64_t since = BEGAN + gpu.now - get_int(args, "ms") * MS;
	size_t n = count(gpu.records), i = n;

	while (i > 0 && get_int(at(gpu.records, i - 1), "t_ns") >= since)
		i--;
	for (; i < n; i++) {
		r = at(gpu.records, i);
		json_object_array_add(records, json_object_get(r));
	}
	put(o, "since_ns", since);
	json_object_object_add(o, "records", records);
	return o;
}

int session_call_gpu(struct session *s, size_t i, const char *method, struct json_object *args,
		     struct json_object **result)
{
	CU_ASSERT(s->gpus && i == 0);
	gpu.calls++;
	*result = NULL;
	if (strcmp(method, "gpu.show") == 0)
		*result = show();
	else if (strcmp(method, "vf.list") == 0)
		*result = list();
	else if (strcmp(method, "timeline") == 0)
		*result = timeline(args);
	else if (strcmp(method, "vf.set") == 0)
		gpu.vfs[get_int(args, "vf")].weight = get_int(get(args, "params"), "weight");
	else
		CU_FAIL("another method");
	json_object_put(args);
	return EXIT_OK;
}

int session_find_vf(struct session *, const char *word, struct json_object *args)
{
	put(args, "vf", atoi(word));
	return EXIT_OK;
}

void print_json(struct json_object *o)
{
	json_object_put(printed);
	printed = json_object_get(o);
}

void played_begin(bool governed)
{
	static const int64_t weights[VFS] = {200, 100, 100};
	int i;

	memset(&gpu, 0, sizeof(gpu));
	gpu.governed = governed;
	gpu.counted = 1;
	gpu.records = json_object_new_array();
	gpu.policy_since = 1;
	for (i = 0; i < VFS; i++) {
		gpu.vfs[i].weight = gpu.vfs[i].in_force = weights[i];
		gpu.vfs[i].lag = LAG;
		gpu.vfs[i].wait = 60 * MS;
	}
	pass(10 * SEC);
}

void played_end(void)
{
	json_object_put(printed);
	printed = NULL;
	json_object_put(gpu.records);
	gpu.records = NULL;
}
