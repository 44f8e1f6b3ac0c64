/* SPDX-License-Identifier: MIT */
/*
 * Samples of vgpud's counters, and every turn of a switched GPU: a VF waits from waking, or from
 * the end of a turn with work left, to its next turn. Waits that contain an exclusive window, a
 * reset, a change of policy or of a VF's state do not count, because the policies' bounds exclude
 * these. The host may delay vgpud, so the time of a turn beyond its grant, and of a switch beyond
 * the usual time, is counted separately.
 */
#include "verify.h"

#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "screen.h"
#include "vgpu/clock.h"

/* Records older than this, ns, are complete: a step of vgpud writes several records with one
 * time. */
#define SETTLED (20 * (int64_t)VGPU_MSEC)
#define SAMPLES_MOST 100000u
/* At least this many records of epochs are kept, and at most twice as many: 31 VFs have five
 * million in a day. */
#define EPOCHS_KEPT 100000u

struct verify_walk {
	int64_t seen;	 /* time up to which records were taken */
	int64_t stopped; /* when the last turn ended; 0: a turn runs, or unknown */
	int64_t granted, began;
	int64_t usual; /* estimated switch time, ns */
	int64_t late;  /* total lateness of turns and switches so far, ns */
	struct {
		bool works;
		int64_t since; /* when it began to wait; 0: it does not wait, or must not be
				* judged */
		int64_t late;  /* walk->late at SINCE */
	} vfs[MAX_VFS];
};

static int64_t stated(struct json_object *vf, const char *key)
{
	return get(vf, key) ? get_int(vf, key) : -1;
}

/* Returns by how many ns the sums that docs/architecture.md states for a VF do not add up. */
static int64_t vf_astray(struct json_object *vf)
{
	int64_t had = get_int(vf, "run_ns") + get_int(vf, "switch_ns") + get_int(vf, "fined_ns") +
		      get_int(vf, "debt_charged_ns");
	int64_t is =
		get_int(vf, "charged_ns") + get_int(vf, "forgiven_ns") + get_int(vf, "pending_ns");

	return had - is;
}

static void take_vf(struct verify *v, struct json_object *vf, const struct verify_sample *before,
		    struct verify_sample *to)
{
	int64_t i = get_int(vf, "vf");
	struct verify_vf *is;
	bool works;

	if (i < 0 || i >= MAX_VFS)
		return;
	is = &to->vfs[i];
	works = v->governed ? strcmp(get_text(vf, "work"), "busy") == 0 : get_bool(vf, "has_work");
	*is = (struct verify_vf){
		.present = true,
		.run = get_int(vf, "run_ns") + get_int(vf, "donated_ns"),
		.charged = v->governed ? get_int(vf, "run_ns") : get_int(vf, "charged_ns"),
		.astray = v->governed ? 0 : vf_astray(vf),
		.events = get_int(vf, "wakes") + get_int(vf, "windows") + get_int(vf, "resets") +
			  get_int(vf, "guest_resets") + get_int(vf, "hangs"),
		.late = get_int(vf, "late_ns"),
		.lag_most = stated(vf, "lag_bound_ns"),
		.wait_most = stated(vf, "wait_bound_ns"),
		.share = promised(vf),
	};
	/* A VF with a guarantee or a limit has no share in proportion. */
	if (is->lag_most < 0 || get_int(vf, "budget_ns") || get_int(vf, "limit_ppm"))
		is->share = 0;
	is->works = v->busy >> i & 1 || (works && (!before || before->vfs[i].events == is->events));
	to->astray -= get_int(vf, "run_ns") + get_int(vf, "donated_ns");
	if (!v->governed)
		to->astray -= get_int(vf, "switch_ns") + get_int(vf, "exclusive_ns") +
			      get_int(vf, "reset_ns");
	to->switching += get_int(vf, "switch_ns");
}

const struct verify_sample *verify_last(const struct verify *v, uint64_t i)
{
	return i < v->n ? &v->samples[v->n - 1 - i] : NULL;
}

static struct verify_sample *next_sample(struct verify *v)
{
	uint64_t room = v->room ? 2 * v->room : 256;
	struct verify_sample *more;

	if (v->n == SAMPLES_MOST)
		return NULL;
	if (v->n == v->room) {
		more = realloc(v->samples, room * sizeof(*more));
		if (!more)
			return NULL;
		v->samples = more;
		v->room = room;
	}
	return &v->samples[v->n];
}

/* Takes a sample. On a governed GPU it is new only if counters were read since the previous one. */
static void take_sample(struct verify *v)
{
	const struct verify_sample *before = verify_last(v, 0);
	struct json_object *list = get(v->vfs, "vfs");
	struct verify_sample *to;
	size_t i;

	if (before && before->wall == get_int(v->vfs, "wall_ns"))
		return;
	to = next_sample(v);
	before = verify_last(v, 0); /* again, because the array may have moved */
	if (!to)
		return;
	*to = (struct verify_sample){
		.now = get_int(v->vfs, "now_ns"),
		.wall = get_int(v->vfs, "wall_ns"),
		.switching = get_int(v->vfs, "switch_ns"),
		.disturbances = v->disturbances,
		.policy_since = get_int(v->gpu, "policy_since_ns"),
		.refused = get_int(v->gpu, "plans_failed"),
		.clamped = get_int(v->gpu, "settings_clamped"),
		.writes = get_int(v->gpu, "plan_writes"),
	};
	to->astray = to->wall - to->switching - get_int(v->vfs, "idle_ns") -
		     get_int(v->gpu, "unread_ns");
	for (i = 0; i < count(list); i++)
		take_vf(v, at(list, i), before, to);
	/* unread_ns belongs to another answer, so the sums cannot be compared. */
	if (v->governed && get_int(v->gpu, "wall_ns") != to->wall)
		to->astray = 0;
	v->n++;
}

static void forget_waits(struct verify_walk *w)
{
	int i;

	for (i = 0; i < MAX_VFS; i++)
		w->vfs[i].since = 0;
}

static void begin_wait(struct verify_walk *w, int vf, int64_t t)
{
	w->vfs[vf].since = t;
	w->vfs[vf].late = w->late;
}

static void end_wait(struct verify *v, int vf, int64_t t)
{
	struct verify_walk *w = v->walk;
	struct verify_wait *to = &v->waits[vf];
	int64_t late = w->late - w->vfs[vf].late, wait = t - w->vfs[vf].since - late;
	int64_t bound = verify_last(v, 0)->vfs[vf].wait_most;

	if (w->vfs[vf].since == 0)
		return;
	w->vfs[vf].since = 0;
	to->n++;
	/* The bound may have changed during a wait, so the largest one counts. */
	to->bound = bound > to->bound ? bound : to->bound;
	if (wait > to->longest) {
		to->longest = wait;
		to->late = late;
	}
}

static void add_late(struct verify_walk *w, int64_t took, int64_t planned)
{
	w->late += took > planned ? took - planned : 0;
}

static void on_run(struct verify *v, int vf, int64_t t, struct json_object *r)
{
	struct verify_walk *w = v->walk;

	if (w->stopped)
		add_late(w, t - w->stopped, w->usual);
	w->stopped = 0;
	w->vfs[vf].works = true;
	end_wait(v, vf, t);
	w->began = t;
	w->granted = get_int(r, "a");
}

static void on_stop(struct verify *v, int vf, int64_t t, struct json_object *)
{
	struct verify_walk *w = v->walk;

	if (w->began)
		add_late(w, t - w->began, w->granted);
	w->began = 0;
	w->stopped = t;
	if (w->vfs[vf].works)
		begin_wait(w, vf, t);
}

static void on_wake(struct verify *v, int vf, int64_t t, struct json_object *)
{
	v->walk->vfs[vf].works = true;
	begin_wait(v->walk, vf, t);
}

static void on_sleep(struct verify *v, int vf, int64_t, struct json_object *)
{
	v->walk->vfs[vf].works = false;
	v->walk->vfs[vf].since = 0;
}

static void on_disturbance(struct verify *v, int, int64_t, struct json_object *)
{
	v->disturbances++;
	forget_waits(v->walk);
	v->walk->stopped = v->walk->began = 0;
}

static void on_park(struct verify *v, int, int64_t, struct json_object *)
{
	v->walk->stopped = 0;
}

static void on_epoch(struct verify *v, int, int64_t, struct json_object *r)
{
	int64_t length = get_int(r, "b");

	if (strcmp(get_text(r, "type"), "served") == 0 && length > v->longest_epoch)
		v->longest_epoch = length;
	json_object_array_add(v->epochs, json_object_get(r));
}

static const struct {
	const char *type;
	void (*take)(struct verify *v, int vf, int64_t t, struct json_object *r);
} takers[] = {
	{"run", on_run},
	{"stop", on_stop},
	{"wake", on_wake},
	{"sleep", on_sleep},
	{"park", on_park},
	{"window", on_disturbance},
	{"window-end", on_disturbance},
	{"reset", on_disturbance},
	{"reset-done", on_disturbance},
	{"hang", on_disturbance},
	{"state", on_disturbance},
	{"policy", on_disturbance},
	{"evicted", on_disturbance},
	{"served", on_epoch},
	{"plan", on_epoch},
};

static void take_record(struct verify *v, struct json_object *r)
{
	const char *type = get_text(r, "type");
	int64_t vf = get(r, "vf") ? get_int(r, "vf") : 0;
	size_t i;

	for (i = 0; i < sizeof(takers) / sizeof(takers[0]); i++)
		if (strcmp(takers[i].type, type) == 0 && vf >= 0 && vf < MAX_VFS)
			takers[i].take(v, (int)vf, get_int(r, "t_ns"), r);
}

static int read_records(struct verify *v)
{
	struct verify_walk *w = v->walk;
	int64_t until = (int64_t)vgpu_now() - SETTLED;
	int64_t ms = (until + SETTLED - w->seen) / (int64_t)VGPU_MSEC + 100;
	struct json_object *args = json_object_new_object(), *answer, *records, *r;
	int64_t t;
	size_t i;
	int e;

	json_object_object_add(args, "ms", json_object_new_int64(ms > 60000 ? 60000 : ms));
	e = session_call_gpu(v->session, 0, "timeline", args, &answer);
	if (e != EXIT_OK)
		return e;
	records = get(answer, "records");
	/* vgpud keeps a limited number of records: waits in missing ones cannot be judged. */
	if (count(records) && get_int(at(records, 0), "t_ns") > w->seen &&
	    get_int(answer, "since_ns") <= w->seen && count(records) > 32000)
		on_disturbance(v, 0, 0, NULL);
	for (i = 0; i < count(records); i++) {
		r = at(records, i);
		t = get_int(r, "t_ns");
		if (t > w->seen && t <= until)
			take_record(v, r);
	}
	w->seen = until;
	json_object_put(answer);
	return EXIT_OK;
}

static int ask_gpu(struct verify *v)
{
	struct json_object *gpu, *vfs;
	int r = session_call_gpu(v->session, 0, "gpu.show", NULL, &gpu);

	if (r != EXIT_OK)
		return r;
	json_object_put(v->gpu);
	v->gpu = gpu;
	r = session_call_gpu(v->session, 0, "vf.list", NULL, &vfs);
	if (r != EXIT_OK)
		return r;
	json_object_put(v->vfs);
	v->vfs = vfs;
	return EXIT_OK;
}

int verify_look(struct verify *v)
{
	int r = ask_gpu(v);

	if (r != EXIT_OK)
		return r;
	if (strcmp(get_text(v->gpu, "state"), "running") != 0) {
		fprintf(stderr, "vgpuctl: gpu %s is lost: %s\n", get_text(v->gpu, "gpu"),
			get_text(v->gpu, "why"));
		return EXIT_FAILED;
	}
	v->walk->usual = get_int(v->gpu, "switch_estimate_ns");
	take_sample(v);
	return read_records(v);
}

/* Returns why nothing of the GPU can be judged, or NULL if something can. */
static const char *tells_nothing(const struct verify *v)
{
	struct json_object *vf = at(get(v->vfs, "vfs"), 0);

	if (strcmp(get_text(v->gpu, "scheduler"), "driver") == 0)
		return "its driver schedules it, and states no bounds";
	return strcmp(get_text(vf, "work"), "unknown") == 0 ? "it does not tell what VFs use"
							    : NULL;
}

int verify_begin(struct verify *v)
{
	const char *why;
	int i;

	v->walk = calloc(1, sizeof(*v->walk));
	v->epochs = json_object_new_array();
	v->checks = json_object_new_array();
	if (!v->walk)
		return EXIT_FAILED;
	v->walk->seen = (int64_t)vgpu_now() - SETTLED;
	for (i = 0; i < MAX_VFS; i++)
		v->waits[i] = (struct verify_wait){.longest = -1, .bound = -1};
	if (ask_gpu(v) != EXIT_OK)
		return EXIT_FAILED;
	why = tells_nothing(v);
	if (why) {
		fprintf(stderr, "vgpuctl: gpu %s: nothing can be judged: %s\n",
			get_text(v->gpu, "gpu"), why);
		return EXIT_NOT_JUDGED;
	}
	v->governed = strcmp(get_text(v->gpu, "scheduler"), "firmware") == 0;
	v->n_vfs = spans_vfs(v->gpu);
	return EXIT_OK;
}

static void leave_out_old_epochs(struct verify *v)
{
	if (count(v->epochs) <= 2 * EPOCHS_KEPT)
		return;
	v->left_out += count(v->epochs) - EPOCHS_KEPT;
	json_object_array_del_idx(v->epochs, 0, count(v->epochs) - EPOCHS_KEPT);
}

int verify_watch(struct verify *v, int64_t until, int64_t interval)
{
	int64_t due = (int64_t)vgpu_now();
	int r = EXIT_OK;

	while (r == EXIT_OK && !v->interrupted && due < until) {
		due += interval;
		v->interrupted = screen_wait((vgpu_nsec)due) == KEY_END;
		r = verify_look(v);
		leave_out_old_epochs(v);
	}
	return r;
}

void verify_end(struct verify *v)
{
	json_object_put(v->gpu);
	json_object_put(v->vfs);
	json_object_put(v->epochs);
	json_object_put(v->checks);
	free(v->samples);
	free(v->walk);
}
