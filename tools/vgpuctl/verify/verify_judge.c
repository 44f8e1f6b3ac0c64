/* SPDX-License-Identifier: MIT */
/*
 * The judges compare bounds that vgpud promises with its counters.
 *
 * Shares: by its bound, a VF's service is never more than L away from its exact share of the
 * service of all VFs. So for two VFs that always work, the difference of their services, each over
 * its share, moves by no more than 2 (L / share + L' / share') in any span.
 */

#include "answer.h"
#include "verify.h"
#include "vgpu/types.h"

/* Counters must account for at least this part of the time in which a VF always had work; the rest
 * may be world switches. */
#define ACCOUNTED 0.75
/* The clocks of the counters and of the host may differ by this part. */
#define CLOCKS_DIFFER 0.01

/* Two VFs, while both work and nothing changes. */
struct pair {
	double least, most; /* range of the difference of their services divided by their shares */
	double allowed, had;
	double worst; /* the largest (most - least) / allowed of all spans that can be judged */
	double worst_moved, worst_allowed; /* ns of the first VF */
	bool judged;
};

static bool goes_on(const struct verify_sample *a, const struct verify_sample *b, int vf)
{
	return a->vfs[vf].works && b->vfs[vf].works && a->vfs[vf].share > 0 &&
	       a->vfs[vf].share == b->vfs[vf].share && a->vfs[vf].events == b->vfs[vf].events &&
	       a->policy_since == b->policy_since;
}

static double bound_of(const struct verify_sample *s, int i, int j)
{
	return 2 * ((double)s->vfs[i].lag_most / s->vfs[i].share +
		    (double)s->vfs[j].lag_most / s->vfs[j].share);
}

static double difference(const struct verify_sample *from, const struct verify_sample *s, int i,
			 int j)
{
	return (double)(s->vfs[i].charged - from->vfs[i].charged) / s->vfs[i].share -
	       (double)(s->vfs[j].charged - from->vfs[j].charged) / s->vfs[j].share;
}

static void end_span(struct pair *p, double share)
{
	double moved = p->most - p->least;

	/* If even a VF without any service would keep the bound, the span was too short to
	 * judge. */
	if (p->allowed <= 0 || p->had < p->allowed)
		return;
	p->judged = true;
	if (moved / p->allowed < p->worst)
		return;
	p->worst = moved / p->allowed;
	p->worst_moved = moved * share;
	p->worst_allowed = p->allowed * share;
}

static struct pair compare(const struct verify *v, int i, int j)
{
	const struct verify_sample *from = &v->samples[0], *s;
	struct pair p = {.worst = -1};
	double d, now;
	uint64_t k;

	for (k = 1; k < v->n; k++) {
		s = &v->samples[k];
		if (!goes_on(s - 1, s, i) || !goes_on(s - 1, s, j)) {
			end_span(&p, (s - 1)->vfs[i].share);
			from = s;
			p.least = p.most = p.allowed = p.had = 0;
			continue;
		}
		d = difference(from, s, i, j);
		p.least = d < p.least ? d : p.least;
		p.most = d > p.most ? d : p.most;
		now = bound_of(s, i, j);
		p.allowed = now > p.allowed ? now : p.allowed;
		p.had = (double)(s->vfs[i].charged - from->vfs[i].charged) / s->vfs[i].share +
			(double)(s->vfs[j].charged - from->vfs[j].charged) / s->vfs[j].share;
	}
	end_span(&p, v->samples[v->n - 1].vfs[i].share);
	return p;
}

static void judge_share(struct verify *v, int vf)
{
	struct pair worst = {.worst = -1}, p;
	int j, with = -1;

	if (v->samples[v->n - 1].vfs[vf].share <= 0) {
		verify_found(v, "share", vf, NOT_JUDGED, -1, -1,
			     "the policy promises it no share in proportion to others'");
		return;
	}
	for (j = 0; j < v->n_vfs; j++) {
		if (j == vf || v->samples[v->n - 1].vfs[j].share <= 0)
			continue;
		p = compare(v, vf, j);
		if (p.judged && p.worst > worst.worst) {
			worst = p;
			with = j;
		}
	}
	if (with < 0)
		verify_found(v, "share", vf, NOT_JUDGED, -1, -1,
			     "it and another VF did not both work for long enough");
	else
		verify_found(v, "share", vf, worst.worst <= 1 ? KEPT : BROKEN,
			     (int64_t)worst.worst_moved, (int64_t)worst.worst_allowed,
			     "how far it got ahead of or behind its share, against VF %d", with);
}

void verify_shares(struct verify *v)
{
	const struct verify_sample *a, *b;
	double had = 0, shares = 0, is, promise;
	bool all[MAX_VFS] = {false};
	uint64_t k;
	int i;

	if (v->n < 2)
		return;
	a = &v->samples[0];
	b = &v->samples[v->n - 1];
	for (i = 0; i < v->n_vfs; i++) {
		all[i] = b->vfs[i].share > 0;
		for (k = 1; k < v->n && all[i]; k++)
			all[i] = goes_on(&v->samples[k - 1], &v->samples[k], i);
		had += all[i] ? (double)(b->vfs[i].run - a->vfs[i].run) : 0;
		shares += all[i] ? b->vfs[i].share : 0;
	}
	for (i = 0; i < v->n_vfs; i++) {
		if (!all[i] || had <= 0)
			continue;
		is = (double)(b->vfs[i].run - a->vfs[i].run) / had;
		promise = b->vfs[i].share / shares;
		verify_found(v, "received", i, MEASURED, b->vfs[i].run - a->vfs[i].run, -1,
			     "%.2f %% of what VFs that always worked had; promised %.2f %%",
			     100 * is, 100 * promise);
	}
}

/* Returns the longest span, ns, in which the VF's counter did not change although the VF had
 * work. */
static int64_t stood_still(const struct verify *v, int vf)
{
	int64_t since = v->samples[0].now, longest = 0;
	uint64_t k;

	for (k = 1; k < v->n; k++) {
		const struct verify_sample *s = &v->samples[k];

		if (!s->vfs[vf].works || s->vfs[vf].run != (s - 1)->vfs[vf].run ||
		    s->disturbances != (s - 1)->disturbances)
			since = s->now;
		else if (s->now - since > longest)
			longest = s->now - since;
	}
	return longest;
}

/* vgpud's records do not show the turns of a governed GPU, so only time without any service can be
 * judged. */
static void judge_governed_wait(struct verify *v, int vf)
{
	const struct verify_vf *last = &v->samples[v->n - 1].vfs[vf];
	int64_t still = stood_still(v, vf);

	if (!(v->busy >> vf & 1))
		verify_found(v, "wait", vf, NOT_JUDGED, -1, last->wait_most,
			     "firmware shows no turns; --busy tells that a VF always works");
	else if (last->wait_most < 0)
		verify_found(v, "wait", vf, MEASURED, still, -1,
			     "not served for so long; no bound is promised");
	else
		verify_found(v, "wait", vf, still <= last->wait_most ? KEPT : BROKEN, still,
			     last->wait_most, "not served for at least so long, though it works");
}

static void judge_wait(struct verify *v, int vf)
{
	const struct verify_wait *w = &v->waits[vf];

	if (v->governed) {
		judge_governed_wait(v, vf);
		return;
	}
	if (w->n == 0)
		verify_found(v, "wait", vf, NOT_JUDGED, -1, -1, "it had no turn after a wait");
	else if (w->bound < 0)
		verify_found(v, "wait", vf, MEASURED, w->longest, -1,
			     "the longest of %llu; no bound is promised", (unsigned long long)w->n);
	else
		verify_found(v, "wait", vf, w->longest <= w->bound ? KEPT : BROKEN, w->longest,
			     w->bound,
			     "the longest of %llu, less %.2f ms by which turns and switches in it "
			     "were late",
			     (unsigned long long)w->n, (double)w->late / 1e6);
}

/* Checks that counters never decrease, add up, and account for all the time and no more. */
static void judge_counters(struct verify *v)
{
	const struct verify_sample *a = &v->samples[0], *b = &v->samples[v->n - 1], *s;
	int64_t time = b->now - a->now, had = b->switching - a->switching, astray = 0, back = 0;
	int64_t spare = 2 * v->longest_epoch + time / (int64_t)(1 / CLOCKS_DIFFER);
	bool working = true, any = false;
	uint64_t k;
	int i;

	for (k = 0; k < v->n; k++) {
		s = &v->samples[k];
		astray = s->astray > 0 ? s->astray : s->astray < 0 ? -s->astray : astray;
		any = false;
		for (i = 0; i < v->n_vfs; i++) {
			any = any || s->vfs[i].works;
			if (s->vfs[i].astray)
				astray = s->vfs[i].astray;
			if (k > 0 && s->vfs[i].run < (s - 1)->vfs[i].run)
				back = (s - 1)->vfs[i].run - s->vfs[i].run;
		}
		working = working && (any || k == 0);
	}
	for (i = 0; i < v->n_vfs; i++)
		had += b->vfs[i].run - a->vfs[i].run;
	verify_found(v, "counters add up", -1, astray ? BROKEN : KEPT, astray, 0,
		     "the GPU's time is in exactly one counter");
	verify_found(v, "counters go forward", -1, back ? BROKEN : KEPT, back, 0,
		     "no VF's counter went back");
	verify_found(v, "counters count too much", -1, had <= time + spare ? KEPT : BROKEN, had,
		     time + spare, "VFs and switches had so much of the time");
	if (working && v->busy)
		verify_found(v, "counters count all", -1,
			     (double)had >= ACCOUNTED * (double)(time - spare) ? KEPT : BROKEN, had,
			     (int64_t)(ACCOUNTED * (double)(time - spare)),
			     "so much is counted of the time in which a VF always worked; at "
			     "least so much must be");
}

/* Checks that a VF with work is counted within its promised wait and, where vgpud reads the
 * counters rarely, two readings. */
static void judge_still(struct verify *v, int vf)
{
	const struct verify_vf *last = &v->samples[v->n - 1].vfs[vf];
	int64_t most = (last->wait_most > 0 ? last->wait_most : 0) + 2 * v->longest_epoch +
		       (int64_t)VGPU_SEC;
	int64_t still = stood_still(v, vf);

	if (v->busy >> vf & 1)
		verify_found(v, "counter moves", vf, still <= most ? KEPT : BROKEN, still, most,
			     still <= most ? "the longest time in which it stood still"
					   : "it stood still though the VF works: the GPU does not "
					     "count, or the VF gets no turn");
}

static void note_firmware(struct verify *v)
{
	const struct verify_sample *a = &v->samples[0], *b = &v->samples[v->n - 1];
	double seconds = (double)(b->now - a->now) / 1e9;
	int i;

	for (i = 0; i < v->n_vfs; i++)
		if (b->vfs[i].late > 0 && b->vfs[i].works)
			verify_found(v, "stops late", i, MEASURED, b->vfs[i].late, -1,
				     "in each turn, by the governor's estimate");
	verify_found(v, "plans", -1, MEASURED, -1, -1,
		     "%.2f settings written in a second; %d plans refused, %d settings changed by "
		     "the GPU",
		     seconds > 0 ? (double)(b->writes - a->writes) / seconds : 0,
		     (int)(b->refused - a->refused), (int)(b->clamped - a->clamped));
}

void verify_judge(struct verify *v)
{
	int i;

	if (v->n < 2) {
		verify_found(v, "counters", -1, NOT_JUDGED, -1, -1,
			     "vgpud has read the counters less than twice: measure longer");
		return;
	}
	for (i = 0; i < v->n_vfs; i++)
		judge_share(v, i);
	for (i = 0; i < v->n_vfs; i++)
		judge_wait(v, i);
	judge_counters(v);
	for (i = 0; i < v->n_vfs; i++)
		judge_still(v, i);
	if (v->governed)
		note_firmware(v);
}
