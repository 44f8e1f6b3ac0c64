/* SPDX-License-Identifier: MIT */
/* The input of all judges: a sample of the core and its VFs whenever something has changed. */
#include <math.h>
#include <stdlib.h>

#include "monitor_private.h"

struct monitor *monitor_new(struct vhost *h, enum monitor_judges judges)
{
	struct monitor *m = calloc(1, sizeof(*m) + h->n_vfs * sizeof(m->vfs[0]));
	uint32_t i;

	m->h = h;
	m->judges = judges;
	m->covered = VGPU_NO_VF;
	m->fluid = calloc(h->n_vfs, sizeof(*m->fluid));
	for (i = 0; i < h->n_vfs; i++) {
		const struct vhost_vf *vf = &h->vfs[i];

		/* A command that fails, or a reset of the whole GPU, takes a VF away for a while.
		 */
		m->vfs[i].pair.judged = vf->work == VHOST_ALWAYS && !vf->hang_ppm &&
					!vf->reset_ppm && !vf->window_ppm &&
					!h->command_fails_ppm && !h->config.gpu_reset;
	}
	monitor_restarted(m);
	return m;
}

void monitor_covers(struct monitor *m, uint32_t vf)
{
	m->covered = vf;
}

void monitor_free(struct monitor *m)
{
	if (m)
		free(m->fluid);
	free(m);
}

void monitor_restarted(struct monitor *m)
{
	uint32_t i;

	for (i = 0; i < m->h->n_vfs; i++) {
		struct watched *w = &m->vfs[i];

		*w = (struct watched){.pair.judged = w->pair.judged};
		w->wait.carried = VGPU_NEVER;
		w->window.asked = VGPU_NEVER;
		w->budget.level_at = m->h->now;
		w->budget.idle_since = m->h->now;
		m->fluid[i] = (struct fluid_vf){.in = false};
	}
	m->last = m->h->now;
	m->began = m->h->now;
	m->granted_until = 0;
	m->runner = VGPU_NO_VF;
	m->early = 0;
	m->pairs_compared = false;
	m->open_window = VGPU_NO_VF;
	m->has_turn = VGPU_NO_VF;
	m->restarted = true;
}

/* Returns whether nothing happened that a judge considers: only a command of a world switch ended.
 */
static bool is_nothing(const struct monitor *m, const struct vgpu_event *event)
{
	uint32_t i;

	if (event->type != VGPU_EV_DONE && event->type != VGPU_EV_TIMER)
		return false;
	for (i = 0; i < m->h->out.n_records; i++)
		if (m->h->out.records[i].type != VGPU_REC_COMMAND)
			return false;
	return true;
}

/* Returns whether R ends a window: a release or a reset of its VF, or that another VF runs. */
static bool ends_window(const struct monitor *m, const struct vgpu_record *r)
{
	return r->type == VGPU_REC_WINDOW_END || r->type == VGPU_REC_RUN ||
	       (r->type == VGPU_REC_RESET && (r->vf == m->open_window || r->vf == VGPU_NO_VF));
}

/* Reads the step's records. One of them says when a change of policy takes effect. */
static void read_records(struct monitor *m, const struct vgpu_event *event)
{
	uint32_t i;

	m->changed = (event->type == VGPU_EV_SET_VF || event->type == VGPU_EV_SET_POLICY) &&
		     !m->h->out.why;
	m->accounted = m->hung = m->replaced = false;
	m->states_changed = false;
	m->window_of = VGPU_NO_VF;
	m->overrun = 0;
	for (i = 0; i < m->h->out.n_records; i++) {
		const struct vgpu_record *r = &m->h->out.records[i];

		if (r->type == VGPU_REC_POLICY || r->type == VGPU_REC_EVICTED)
			m->changed = m->replaced = true;
		if (r->type == VGPU_REC_RUN) {
			m->granted_until = r->t + r->a;
			m->has_turn = r->vf;
		}
		if (r->type == VGPU_REC_HANG)
			m->hangs += r->a;
		m->states_changed |= r->type == VGPU_REC_STATE;
		if (r->type == VGPU_REC_WINDOW) {
			m->window_of = r->vf;
			m->open_window = r->vf;
		}
		if (ends_window(m, r))
			m->open_window = VGPU_NO_VF;
		if (r->type == VGPU_REC_STOP) {
			/* No grant stands behind the time of a VF that was found running. */
			if (m->granted_until == 0 && r->a > 0 && r->code != VGPU_END_HANG)
				m->making_room += r->t - m->began;
			m->granted_until = 0;
			m->has_turn = VGPU_NO_VF;
			m->accounted = true;
			m->overrun = (double)r->b;
			m->hung = r->code == VGPU_END_HANG;
		}
	}
}

static void sample(struct monitor *m)
{
	vgpu_nsec apart = 0;
	uint64_t n = 0, share;
	uint32_t i;

	vgpu_core_view(m->h->core, &m->core);
	m->shares_changed = false;
	for (i = 0; i < m->h->n_vfs; i++) {
		struct watched *w = &m->vfs[i];

		w->before = w->v.bound;
		w->last = w->service;
		share = w->v.share_numerator;
		vgpu_core_vf_view(m->h->core, i, &w->v);
		m->shares_changed |= w->v.share_numerator != share;
		w->service = (double)(w->v.ledger.charged_ns + w->v.pending_ns);
		if (m->restarted)
			w->last = w->service;
		w->ready = w->v.state == VGPU_VF_ACTIVE && m->h->vfs[i].busy && !w->v.held &&
			   !w->v.away && !w->v.incoming;
		apart += w->v.ledger.exclusive_ns + w->v.ledger.reset_ns;
		n += w->v.ledger.windows + w->v.ledger.resets;
	}
	m->interrupted = apart != m->windows_and_resets || n != m->n_windows_and_resets;
	m->windows_and_resets = apart;
	m->n_windows_and_resets = n;
}

static void judge_others(struct monitor *m)
{
	uint32_t i;

	judge_lag(m);
	judge_pairs(m);
	judge_windows(m);
	for (i = 0; i < m->h->n_vfs; i++) {
		judge_wait(m, i);
		judge_limit(m, i);
	}
}

void monitor_step(struct monitor *m, const struct vgpu_event *event)
{
	uint32_t i;

	if (is_nothing(m, event))
		return;
	read_records(m, event);
	sample(m);
	for (i = 0; m->judges & MONITOR_BUDGETS && i < m->h->n_vfs; i++)
		judge_budget(m, i);
	if (m->judges & MONITOR_OTHERS)
		judge_others(m);
	if (m->core.phase != m->phase)
		m->phase_since = m->h->now;
	m->phase = m->core.phase;
	m->last = m->h->now;
	m->runner = m->h->running;
	m->restarted = false;
}

void monitor_arrival(struct monitor *m, uint32_t vf, vgpu_nsec length)
{
	lag_arrival(m, vf, length);
	budget_arrival(m, vf);
}

void monitor_finish(struct monitor *m, struct monitor_result *out)
{
	uint32_t i;

	vgpu_core_view(m->h->core, &m->core);
	for (i = 0; i < m->h->n_vfs && m->h->violations == 0; i++) {
		wait_finish(m, i);
		budget_finish(m, i);
	}
	*out = m->result;
}

void monitor_result_add(struct monitor_result *to, const struct monitor_result *from)
{
	to->lag = fmax(to->lag, from->lag);
	to->pairs = fmax(to->pairs, from->pairs);
	to->wait = fmax(to->wait, from->wait);
	to->limit = fmax(to->limit, from->limit);
	to->strategy = fmax(to->strategy, from->strategy);
	to->deadlines += from->deadlines;
	to->missed += from->missed;
	if (from->worst_miss > to->worst_miss)
		to->worst_miss = from->worst_miss;
}
