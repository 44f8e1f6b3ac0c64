/* SPDX-License-Identifier: MIT */
/*
 * Measures how soon a change takes effect: doubles the weight of a VF (halves it, if it is too
 * large to double), and restores it. Notes the first plan with other quanta for the VF (governed
 * GPUs), and the first span in which the VF's part of the service of all VFs with work is past the
 * middle between the old part and the new one.
 *
 * Signals are blocked meanwhile, so that neither the first nor a second one ends vgpuctl before the
 * weight is restored.
 */
#include <signal.h>
#include <string.h>

#include "answer.h"
#include "verify.h"
#include "vgpu/clock.h"

#define GIVE_UP (20 * (int64_t)VGPU_SEC)
#define LOOK_EACH (50 * (int64_t)VGPU_MSEC)
#define PUT_BACK_TRIES 5
/* Length of a span, ns. On a switched GPU turns are short, so what VFs had in this time shows their
 * parts. */
#define SPAN (250 * (int64_t)VGPU_MSEC)

struct change {
	int64_t vf, was, is; /* weights */
	int64_t asked;	     /* when the weight was changed */
	int64_t planned;     /* when a plan with other quanta was in force; 0: not seen yet */
	int64_t acted;	     /* when its part had changed; 0: not seen yet */
	double part_was, part_is;
	double quantum_was; /* its part of all quanta before the change */
	vgpu_vf_set others; /* VFs with which it is compared */
	size_t epochs;	    /* number of records in v->epochs before the change */
};

static int set_weight(struct verify *v, int64_t vf, int64_t weight)
{
	struct json_object *args = json_object_new_object(), *params = json_object_new_object();
	struct json_object *answer = NULL;
	int r;

	json_object_object_add(params, "weight", json_object_new_int64(weight));
	json_object_object_add(args, "vf", json_object_new_int64(vf));
	json_object_object_add(args, "params", params);
	r = session_call_gpu(v->session, 0, "vf.set", args, &answer);
	if (r == EXIT_OK)
		json_object_put(answer);
	return r;
}

static int put_back(struct verify *v, const struct change *c)
{
	int i, r = EXIT_FAILED;

	/* Without a connection further tries cannot help. */
	for (i = 0; i < PUT_BACK_TRIES && r != EXIT_OK && r != EXIT_NO_DAEMON; i++)
		r = set_weight(v, c->vf, c->was);
	if (r == EXIT_OK)
		fprintf(stderr, "vgpuctl: VF %d has its weight %d again\n", (int)c->vf,
			(int)c->was);
	else
		fprintf(stderr,
			"vgpuctl: the weight of VF %d could not be restored: run 'vgpuctl vf set "
			"%d weight=%d --gpu %s'\n",
			(int)c->vf, (int)c->vf, (int)c->was, get_text(v->gpu, "gpu"));
	return r;
}

/* Returns the VF's part of the service of the compared VFs between two samples; -1 if they had
 * none. */
static double part_between(const struct change *c, const struct verify_sample *a,
			   const struct verify_sample *b)
{
	double own = 0, all = 0, had;
	int i;

	for (i = 0; i < MAX_VFS; i++) {
		if (i != c->vf && !(c->others >> i & 1))
			continue;
		had = (double)(b->vfs[i].run - a->vfs[i].run);
		all += had;
		own += i == c->vf ? had : 0;
	}
	return all > 0 ? own / all : -1;
}

/* Returns the last sample that was taken at T or before; NULL if there is none. */
static const struct verify_sample *sample_at(const struct verify *v, int64_t t)
{
	uint64_t i;

	for (i = 0; verify_last(v, i); i++)
		if (verify_last(v, i)->now <= t)
			return verify_last(v, i);
	return NULL;
}

static bool has_passed(const struct change *c, double part)
{
	double middle = (c->part_was + c->part_is) / 2;

	return part >= 0 && (c->part_is > c->part_was ? part > middle : part < middle);
}

/* Returns VF's part of all quanta in the last plan of the records from FROM to before END; 0 if
 * there is none. *T: the time of the plan. */
static double quantum_part(const struct verify *v, int64_t vf, size_t from, size_t end, int64_t *t)
{
	double own = 0, all = 0;
	struct json_object *r;
	int64_t last = 0;
	size_t i;

	for (i = from; i < end; i++) {
		r = at(v->epochs, i);
		if (strcmp(get_text(r, "type"), "plan") != 0)
			continue;
		if (get_int(r, "vf") == 0)
			own = all = 0;
		last = get_int(r, "t_ns");
		all += get_ms(r, "a");
		own += get_int(r, "vf") == vf ? get_ms(r, "a") : 0;
	}
	*t = last;
	return ratio(own, all);
}

/* Returns the part of VF's quantum in the sum of all present quanta. */
static double quantum_part_now(const struct verify *v, int64_t vf)
{
	struct json_object *list = get(v->vfs, "vfs");
	double own = 0, all = 0;
	size_t i;

	for (i = 0; i < count(list); i++) {
		all += get_ms(at(list, i), "quantum_ns");
		own += get_int(at(list, i), "vf") == vf ? get_ms(at(list, i), "quantum_ns") : 0;
	}
	return ratio(own, all);
}

static void look_for_plan(const struct verify *v, struct change *c)
{
	int64_t t;
	double part = quantum_part(v, c->vf, c->epochs, count(v->epochs), &t);
	double will = c->quantum_was * (double)c->is / (double)c->was;
	double middle = (c->quantum_was + will / (will + 1 - c->quantum_was)) / 2;

	if (c->planned == 0 && t > c->asked && (c->is > c->was ? part > middle : part < middle))
		c->planned = t;
}

static void look_for_effect(const struct verify *v, struct change *c)
{
	const struct verify_sample *last = verify_last(v, 0), *first;

	/* On a governed GPU a sample is of an epoch: use the first epoch that began after the
	 * plan. */
	first = v->governed ? verify_last(v, 1) : sample_at(v, last->now - SPAN);
	if (c->acted || !first || first->now < (v->governed ? c->planned : c->asked) ||
	    (v->governed && c->planned == 0))
		return;
	if (has_passed(c, part_between(c, first, last)))
		c->acted = last->now;
}

/* Waits until DUE, or for one of the blocked signals. Returns whether a signal came. */
static bool wait_until(int64_t due, const sigset_t *held)
{
	int64_t left = due - (int64_t)vgpu_now();
	struct timespec t = {0, 0};

	if (left > 0)
		t = (struct timespec){left / (int64_t)VGPU_SEC, left % (int64_t)VGPU_SEC};
	return sigtimedwait(held, NULL, &t) > 0;
}

/* Watches until the change has taken effect; then restores the weight in every case. */
static int follow(struct verify *v, struct change *c)
{
	sigset_t held, usual;
	int64_t due;
	int r, back;

	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGTERM);
	sigaddset(&held, SIGHUP);
	sigprocmask(SIG_BLOCK, &held, &usual);
	c->epochs = count(v->epochs);
	due = (int64_t)vgpu_now();
	c->asked = due;
	r = set_weight(v, c->vf, c->is);
	if (r != EXIT_OK && r != EXIT_NO_DAEMON) { /* vgpud has refused the change */
		sigprocmask(SIG_SETMASK, &usual, NULL);
		return r;
	}
	while (r == EXIT_OK && !v->interrupted && !c->acted && due < c->asked + GIVE_UP) {
		due += LOOK_EACH;
		v->interrupted = wait_until(due, &held);
		r = verify_look(v);
		if (r == EXIT_OK && v->governed)
			look_for_plan(v, c);
		if (r == EXIT_OK)
			look_for_effect(v, c);
	}
	back = put_back(v, c);
	sigprocmask(SIG_SETMASK, &usual, NULL);
	return back == EXIT_OK ? r : back;
}

/*
 * Adds the findings. A change is applied to the next epoch; the plan that follows takes the GPU
 * less than one more epoch. It takes effect at each VF's next turn, and shows in the first epoch
 * that begins after that.
 */
static void conclude(struct verify *v, const struct change *c)
{
	int64_t plan_most = v->governed ? 2 * v->longest_epoch : -1, act_most = -1;
	const struct verify_vf *vf = &verify_last(v, 0)->vfs[c->vf];

	if (v->governed && vf->wait_most >= 0)
		act_most = plan_most + vf->wait_most + 2 * v->longest_epoch;
	if (v->governed && c->planned)
		verify_found(v, "change to plan", (int)c->vf,
			     c->planned - c->asked <= plan_most ? KEPT : BROKEN,
			     c->planned - c->asked, plan_most,
			     "from weight %d to the plan with other quanta", (int)c->is);
	else if (v->governed)
		verify_found(v, "change to plan", (int)c->vf, v->interrupted ? NOT_JUDGED : BROKEN,
			     -1, plan_most, "no plan with other quanta came into force");
	if (c->acted)
		verify_found(v, "change to effect", (int)c->vf,
			     act_most < 0		       ? MEASURED
			     : c->acted - c->asked <= act_most ? KEPT
							       : BROKEN,
			     c->acted - c->asked, act_most,
			     "from %.1f %% to %.1f %% of what these VFs were served",
			     100 * c->part_was, 100 * c->part_is);
	else
		verify_found(v, "change to effect", (int)c->vf,
			     v->interrupted ? NOT_JUDGED : BROKEN, -1, act_most,
			     "its part of what was served did not change from %.1f %% to %.1f %%",
			     100 * c->part_was, 100 * c->part_is);
}

/* Fills in the change. Returns NULL, or why VF cannot be measured. */
static const char *prepare(struct verify *v, struct change *c)
{
	const struct verify_sample *now = verify_last(v, 0);
	struct json_object *vf = at(get(v->vfs, "vfs"), (size_t)c->vf);
	struct json_object *weight = get(get(vf, "params"), "weight");
	double others = 0, share = now->vfs[c->vf].share;
	int i;

	if (!weight)
		return "the policy in force has no weights";
	if (!now->vfs[c->vf].works)
		return "the VF has no work all the time, so that no effect would be seen";
	for (i = 0; i < v->n_vfs; i++) {
		if (i == c->vf || !now->vfs[i].works || now->vfs[i].share <= 0)
			continue;
		c->others |= VGPU_VF_BIT(i);
		others += now->vfs[i].share;
	}
	if (!c->others || share <= 0)
		return "no other VF has work all the time, to compare it with";
	c->was = json_object_get_int64(weight);
	c->is = c->was <= 5000 ? 2 * c->was : c->was / 2;
	c->part_was = share / (share + others);
	share *= (double)c->is / (double)c->was;
	c->part_is = share / (share + others);
	c->quantum_was = quantum_part_now(v, c->vf);
	return NULL;
}

int verify_change(struct verify *v, const char *word, int64_t interval)
{
	struct json_object *args = json_object_new_object();
	struct change c = {.vf = -1};
	const char *why;
	int r = session_find_vf(v->session, word, args);

	bool elsewhere = get(args, "gpu") && strcmp(get_text(args, "gpu"), get_text(v->gpu, "gpu"));

	c.vf = get_int(args, "vf");
	json_object_put(args);
	if (r == EXIT_OK && (elsewhere || c.vf >= v->n_vfs)) {
		fprintf(stderr, "vgpuctl: --change %s: this GPU has the VFs 0 to %d\n", word,
			v->n_vfs - 1);
		return EXIT_USAGE;
	}
	if (r == EXIT_OK && !verify_last(v, 0))
		r = verify_look(v);
	if (r != EXIT_OK)
		return r;
	why = prepare(v, &c);
	if (why) {
		verify_found(v, "change to effect", (int)c.vf, NOT_JUDGED, -1, -1, "%s", why);
		return EXIT_OK;
	}
	fprintf(stderr,
		"vgpuctl: the weight of VF %d becomes %d for at most %d s; then it is %d again\n",
		(int)c.vf, (int)c.is, (int)(GIVE_UP / (int64_t)VGPU_SEC), (int)c.was);
	r = follow(v, &c);
	if (r == EXIT_OK)
		conclude(v, &c);
	/* The later measurements are with the old weight again. */
	return r == EXIT_OK && !v->interrupted
		       ? verify_watch(v, (int64_t)vgpu_now() + 2 * interval, interval)
		       : r;
}
