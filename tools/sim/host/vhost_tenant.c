/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "monitor.h"
#include "vhost_private.h"

vgpu_nsec vhost_pending(const struct vhost *h, uint32_t vf)
{
	const struct vhost_job *at = vhost_job(&h->vfs[vf]);

	return at && !at->prep ? h->now - at->arrived : 0;
}

static void add_job(struct vhost_vf *vf, vgpu_nsec now, vgpu_nsec length, bool prep)
{
	uint32_t n = vf->jobs_tail - vf->jobs_head, i;
	struct vhost_job *jobs;

	if (n == vf->jobs_size) {
		jobs = calloc(n ? 2 * n : 4, sizeof(*jobs));
		for (i = 0; i < n; i++)
			jobs[i] = vf->jobs[(vf->jobs_head + i) & (vf->jobs_size - 1)];
		free(vf->jobs);
		vf->jobs = jobs;
		vf->jobs_size = n ? 2 * n : 4;
		vf->jobs_head = 0;
		vf->jobs_tail = n;
	}
	vf->jobs[vf->jobs_tail++ & (vf->jobs_size - 1)] = (struct vhost_job){now, length, prep};
	vf->queued += length;
}

static void set_busy(struct vhost *h, uint32_t i, bool busy)
{
	if (h->vfs[i].busy == busy)
		return;
	h->vfs[i].busy = busy;
	event_vf(h, busy ? VGPU_EV_BUSY : VGPU_EV_EMPTY, i, 0, 0);
}

/* Does one item of the VF's script. Returns whether the next one may be due, too. */
static bool item(struct vhost *h, uint32_t i, const struct vhost_item *it)
{
	struct vhost_vf *vf = &h->vfs[i];

	switch (it->kind) {
	case VHOST_ARRIVE:
		vf->stays_down = false;
		vf->wants_init = !vf->up;
		return true;
	case VHOST_WORK:
	case VHOST_PREP:
		if (h->monitor && vf->busy)
			monitor_arrival(h->monitor, i, it->value ? it->value : 1);
		add_job(vf, it->t > h->now ? it->t : h->now, it->value ? it->value : 1,
			it->kind == VHOST_PREP);
		return true;
	case VHOST_THINK:
		vf->next_change = vhost_job(vf) ? VGPU_NEVER : h->now + it->value;
		return false;
	case VHOST_DEPART:
		vf->stays_down = true;
		event_vf(h, VGPU_EV_REQUEST, i, VGPU_WINDOW_FINI, 0);
		return true;
	case VHOST_PARAM:
		if (vhost_policy(h)->vf_params == it->table)
			vhost_event(h, &(struct vgpu_event){.type = VGPU_EV_SET_VF,
							    .vf = i,
							    .params = it->params});
		return true;
	case VHOST_EXCL:
		vf->own_window = it->value;
		event_vf(h, VGPU_EV_REQUEST, i, VGPU_WINDOW_FINI, 0);
		return true;
	case VHOST_HANG:
		vf->hangs_next = true;
		return true;
	case VHOST_MEM:
		return true;
	}
	return true;
}

/* Does all items of the script that are due. A think waits until the work before it is done. */
static void script(struct vhost *h, uint32_t i)
{
	struct vhost_vf *vf = &h->vfs[i];
	const struct vhost_item *it;

	while (vf->item < vf->n_items) {
		it = &vf->items[vf->item];
		if (it->t > h->now) {
			vf->next_change = it->t;
			break;
		}
		if (it->kind != VHOST_ARRIVE &&
		    !vf->up) /* the script goes on when the driver is up */
			break;
		if (it->kind == VHOST_THINK && vhost_job(vf))
			break; /* the script goes on when the VF is out of work */
		vf->item++;
		if (!item(h, i, it))
			break;
	}
	if (vf->up && vhost_job(vf))
		set_busy(h, i, true);
}

/* Handles all ticks that are due, and plans the next one. */
static void ticks(struct vhost *h, uint32_t i)
{
	struct vhost_vf *vf = &h->vfs[i];

	if (vf->tick == 0)
		vf->tick = h->now + draw(h, (struct vhost_range){1, vf->period.max});
	for (; vf->tick <= h->now; vf->tick += draw(h, vf->period)) {
		if (vhost_job(vf))
			vf->missed++;
		else
			add_job(vf, vf->tick, draw(h, vf->burst) + 1, false);
	}
	vf->next_change = vf->tick;
	if (vhost_job(vf))
		set_busy(h, i, true);
}

void tenant_lives(struct vhost *h, uint32_t i)
{
	struct vhost_vf *vf = &h->vfs[i];

	vf->next_change = VGPU_NEVER;
	if (vf->work == VHOST_SCRIPT && !vf->up)
		script(h, i);
	if (!vf->up) {
		if (vf->wants_init) {
			vf->wants_init = false;
			event_vf(h, VGPU_EV_REQUEST, i, VGPU_WINDOW_INIT, 0);
		}
		return;
	}
	if (h->now < h->work_from) {
		vf->next_change = h->work_from;
		return;
	}
	switch (vf->work) {
	case VHOST_NEVER:
		return;
	case VHOST_ALWAYS:
		set_busy(h, i, true);
		return;
	case VHOST_SLEEPER:
		if (vf->busy)
			vf->next_change = h->now + 50 * VGPU_USEC;
		set_busy(h, i, !vf->busy);
		return;
	case VHOST_BURSTS:
		if (!vhost_job(vf))
			add_job(vf, h->now, draw(h, vf->burst) + 1, false);
		set_busy(h, i, true);
		return;
	case VHOST_SCRIPT:
		script(h, i);
		return;
	case VHOST_PERIODIC:
		ticks(h, i);
		return;
	case VHOST_WINDOWS:
		/* Until its window is really closed, a request has no effect. */
		vf->next_change = h->now + 100 * VGPU_MSEC;
		event_vf(h, VGPU_EV_REQUEST, i, VGPU_WINDOW_FINI, 0);
		return;
	}
}

void tenant_job_done(struct vhost *h, uint32_t i)
{
	struct vhost_vf *vf = &h->vfs[i];

	if (!vhost_job(vf)->prep && vf->n_latencies < vf->max_latencies)
		vf->latencies[vf->n_latencies++] = h->now - vhost_job(vf)->arrived;
	vf->jobs_head++;
	if (vhost_job(vf))
		return;
	if (vf->work == VHOST_BURSTS)
		vf->next_change = h->now + draw(h, vf->think);
	else if (vf->item < vf->n_items)
		vf->next_change = h->now;
	set_busy(h, i, false);
	vhost_touch(h, i);
}

void tenant_released(struct vhost *h, uint32_t i)
{
	struct vhost_vf *vf = &h->vfs[i];
	enum vgpu_window kind = vf->release_kind;

	vf->release_at = VGPU_NEVER;
	vf->up = kind == VGPU_WINDOW_INIT;
	vf->busy = false;
	if (vf->context == VGPU_CTX_RUNNING)
		memory_writes(h, i);
	if (!vf->up) /* the work in its queue is lost */
		vf->queued = vf->jobs_head = vf->jobs_tail = 0;
	vf->tick = 0;
	vf->wants_init = !vf->up && !vf->stays_down;
	vf->next_change = h->now + (vf->up ? 0 : 10 * VGPU_MSEC);
	event_vf(h, VGPU_EV_RELEASE, i, kind, 0);
}
