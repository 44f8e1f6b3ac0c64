/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>

#include "entitled.h"

struct tenant {
	double left;  /* of its job, in ns of service; 0: it has no work */
	double wakes; /* when it has work again */
	double tick;  /* its next tick */
};

static double draw(struct rng *r, struct vhost_range range)
{
	return (double)random_between(r, range.min, range.max);
}

/* Makes the tenant pause from NOW on. Ticks that have passed bring no work. */
static void pause_tenant(const struct scenario_vf *vf, struct rng *r, double now, struct tenant *t)
{
	t->left = 0;
	t->wakes = now + draw(r, vf->think) + 1;
	if (vf->work != VHOST_PERIODIC)
		return;
	while (t->tick <= now)
		t->tick += draw(r, vf->period) + 1;
	t->wakes = t->tick;
}

static void begin(const struct scenario_vf *vf, struct rng *r, double now, struct tenant *t)
{
	*t = (struct tenant){.wakes = INFINITY};
	if (vf->work == VHOST_ALWAYS)
		t->left = INFINITY;
	else if (vf->work == VHOST_BURSTS)
		t->wakes = now;
	else if (vf->work == VHOST_PERIODIC)
		t->wakes = t->tick = now + draw(r, (struct vhost_range){1, vf->period.max});
}

/* Gives work to tenants that have waited for it. Returns the weights of all that have work. */
static double wake(const struct scenario *s, struct rng *r, const double *weights, double now,
		   struct tenant *tenants)
{
	double sum = 0;
	uint32_t i;

	for (i = 0; i < s->n_vfs; i++) {
		if (tenants[i].left <= 0 && tenants[i].wakes <= now)
			tenants[i].left = draw(r, s->vfs[i].burst) + 1;
		if (tenants[i].left > 0)
			sum += weights[i];
	}
	return sum;
}

/* Returns the next instant at which a tenant's job is done or a tenant wakes, at most END. */
static double next_event(const struct scenario *s, const double *rates, double now, double end,
			 const struct tenant *tenants)
{
	double next = end;
	uint32_t i;

	for (i = 0; i < s->n_vfs; i++)
		next = fmin(next, tenants[i].left > 0 ? now + tenants[i].left / rates[i]
						      : tenants[i].wakes);
	return next;
}

bool entitled(const struct scenario *s, const double *weights, double speed, double *had)
{
	struct tenant *tenants = calloc(s->n_vfs, sizeof(*tenants));
	double *rates = calloc(s->n_vfs, sizeof(*rates));
	double now = (double)s->work_from, end = (double)s->until, next, sum;
	struct rng r = {.state = s->seed};
	bool known = true;
	uint32_t i;

	for (i = 0; i < s->n_vfs; i++) {
		known = known &&
			(s->vfs[i].work == VHOST_ALWAYS || s->vfs[i].work == VHOST_BURSTS ||
			 s->vfs[i].work == VHOST_PERIODIC || s->vfs[i].work == VHOST_NEVER);
		begin(&s->vfs[i], &r, now, &tenants[i]);
		had[i] = 0;
	}
	for (; known && now < end; now = next) {
		sum = wake(s, &r, weights, now, tenants);
		for (i = 0; i < s->n_vfs; i++)
			rates[i] = speed * weights[i] / sum;
		next = next_event(s, rates, now, end, tenants);
		for (i = 0; i < s->n_vfs; i++) {
			if (tenants[i].left <= 0)
				continue;
			had[i] += (next - now) * rates[i];
			tenants[i].left -= (next - now) * rates[i];
			if (tenants[i].left < 1)
				pause_tenant(&s->vfs[i], &r, next, &tenants[i]);
		}
	}
	free(tenants);
	free(rates);
	return known;
}
