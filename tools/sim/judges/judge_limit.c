/* SPDX-License-Identifier: MIT */
/*
 * Limits: in no window of time may a VF get more than rate x length + burst. This holds for every
 * window if a bucket that leaks at the rate never holds more than the burst. The level rises as
 * long as the VF runs, so that only the ends of dispatches need to be checked.
 *
 * The core charges a save that took longer than usual to the VF's next dispatch. The policy learns
 * of it then, and can state it from then on; until then it is allowed in addition to the burst.
 */
#include <math.h>

#include "monitor_private.h"

static void fill(struct monitor *m, uint32_t vf)
{
	struct watched *w = &m->vfs[vf];
	double span = (double)(m->h->now - m->last);
	double more = w->service - w->last;
	/* It was charged as it ran; the rest was charged at the end. */
	double running = m->runner == vf ? fmin(more, span) : 0;

	w->limit.level = fmax(w->limit.level + running - span * (double)w->limit.ppm / 1e6, 0) +
			 more - running;
}

void judge_limit(struct monitor *m, uint32_t vf)
{
	struct watched *w = &m->vfs[vf];
	double allowed, ratio;

	if (w->limit.ppm)
		fill(m, vf);
	if (m->changed && w->before.limit_ppm)
		w->limit.carried = fmax(w->limit.carried, (double)w->before.burst + m->overrun);
	if (w->limit.level <= 0 || w->v.bound.limit_ppm == 0)
		w->limit.level = w->limit.carried = 0;
	w->limit.ppm = w->v.bound.limit_ppm;
	if (w->limit.ppm == 0 || m->changed || m->h->running == vf)
		return;
	allowed = (double)(w->v.bound.burst + w->v.pending_ns) + w->limit.carried;
	ratio = w->limit.level / fmax(allowed, 1);
	m->result.limit = fmax(m->result.limit, ratio);
	if (ratio > 1)
		vhost_fail(m->h,
			   "VF %u: %.6f ms beyond its limit, %.6f ms allowed, limit/bound %.4f", vf,
			   w->limit.level / 1e6, allowed / 1e6, ratio);
}
