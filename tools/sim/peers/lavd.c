/* SPDX-License-Identifier: MIT */
/*
 * lavd: the rule of scx_lavd (sched_ext), designed for games. A VF is more critical the more often
 * it sleeps and wakes, the shorter it runs in between, and the larger its weight is, all by their
 * logarithms; it counts for more when it has just woken. Its virtual deadline is a logical clock
 * plus 5 to 10 ms (less, the less it has run since it woke), up to an eighth more for what it had
 * beyond the mean, over its criticality squared. The earliest deadline runs, for 10 ms over the
 * number of VFs with work, between 0.5 and 5 ms; and the clock moves towards it. A VF that wakes
 * preempts one that is less critical and due later. Left out: the rules for several cores, kernel
 * tasks and locks, and the inheritance of criticality from the waking task.
 */
#include "peer.h"

#define ONE 1024
#define LATENCY (10 * (int64_t)VGPU_MSEC)
#define SHORTEST (500 * (int64_t)VGPU_USEC)
#define LONGEST (5 * (int64_t)VGPU_MSEC)
#define WOKEN 128 /* times its weight */

static int64_t logarithm(int64_t x)
{
	int64_t n = 0;

	for (; x > 1; x /= 2)
		n++;
	return n;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t criticality(const struct peer_vf *vf, bool woken)
{
	int64_t rate = vf->interval ? (int64_t)VGPU_SEC / vf->interval + 1 : 1;
	int64_t brief = ((int64_t)VGPU_SEC - least(vf->runtime, VGPU_SEC - SHORTEST)) / SHORTEST;
	int64_t sum = logarithm(rate * rate) +
		      logarithm(brief * (vf->weight * (woken ? 1 + WOKEN : 1) + 1));

	return sum * sum;
}

/* Returns what the VF has had by weight, relative to the mean of the VFs with work. */
static int64_t greed(const struct peer *p, const struct peer_vf *vf)
{
	int64_t sum = 0, n = 0;
	uint32_t i;

	for (i = 0; i < p->facts->max_vfs; i++) {
		sum += p->vfs[i].awake ? p->vfs[i].b : 0;
		n += p->vfs[i].awake;
	}
	return sum > 0 ? vf->b / (sum / n / ONE + 1) : ONE;
}

static void queue(const struct peer *p, struct peer_vf *vf, bool woken)
{
	int64_t over = greed(p, vf) - ONE;
	int64_t runtime = LONGEST + least(vf->since_wake, LONGEST);

	vf->critical = criticality(vf, woken);
	vf->a = (int64_t)p->count +
		runtime / ONE * (ONE + (over > 0 ? over / 8 : 0)) / vf->critical;
}

static bool wake(void *state, uint32_t index, vgpu_nsec now)
{
	struct peer *p = state;
	struct peer_vf *vf = &p->vfs[index];
	int64_t gap = (int64_t)(now - vf->woke), most = 0;
	uint32_t i;

	peer_wake(state, index, now);
	vf->interval += vf->woke ? (gap - vf->interval) / 8 : 0;
	vf->runtime += (vf->since_wake - vf->runtime) / 8;
	vf->since_wake = 0;
	vf->woke = now;
	for (i = 0; i < p->facts->max_vfs; i++)
		most = p->vfs[i].b > most ? p->vfs[i].b : most;
	if (vf->b == 0) /* a new one has had what the others have had */
		vf->b = most;
	queue(p, vf, true);
	return p->running != VGPU_NO_VF && vf->a < p->vfs[p->running].a &&
	       vf->critical > p->vfs[p->running].critical;
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec)
{
	struct peer *p = state;
	int64_t n = 0, ahead;
	uint32_t i;

	out->vf = peer_least(p);
	if (out->vf == VGPU_NO_VF)
		return;
	for (i = 0; i < p->facts->max_vfs; i++)
		n += p->vfs[i].awake;
	ahead = p->vfs[out->vf].a - (int64_t)p->count;
	if (ahead > 0)
		p->count += (uint64_t)least(ahead / n, LONGEST);
	out->slice = (vgpu_nsec)least(LATENCY / n > SHORTEST ? LATENCY / n : SHORTEST, LONGEST);
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct peer *p = state;
	struct peer_vf *vf = &p->vfs[usage->vf];

	vf->b += (int64_t)usage->used * 100 / vf->weight;
	vf->since_wake += (int64_t)usage->used;
	queue(p, vf, false);
}

PEER(peer_lavd, "lavd", "sched_ext: deadlines by how critical a VF's latency is", pick, account,
     wake)
