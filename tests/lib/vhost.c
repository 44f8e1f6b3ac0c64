/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builtin.h"
#include "vhost.h"

uint64_t vhost_random(struct vhost *h)
{
	/* xorshift64*, Vigna 2016 */
	h->rng ^= h->rng >> 12;
	h->rng ^= h->rng << 25;
	h->rng ^= h->rng >> 27;
	return h->rng * UINT64_C(2685821657736338717);
}

static vgpu_nsec draw(struct vhost *h, struct vhost_range r)
{
	return r.max > r.min ? r.min + vhost_random(h) % (r.max - r.min + 1) : r.min;
}

static bool chance(struct vhost *h, unsigned ppm)
{
	return ppm && vhost_random(h) % 1000000 < ppm;
}

void vhost_fail(struct vhost *h, const char *format, ...)
{
	va_list args;

	if (h->violations++ > 0)
		return;
	va_start(args, format);
	vsnprintf(h->violation, sizeof(h->violation), format, args);
	va_end(args);
	fprintf(stderr, "seed %llu, t=%llu ns, step %llu: %s\n", (unsigned long long)h->seed,
		(unsigned long long)h->now, (unsigned long long)h->steps, h->violation);
}

void vhost_init(struct vhost *h, uint32_t n, uint64_t seed)
{
	uint32_t i;

	*h = (struct vhost){.n_vfs = n, .seed = seed, .rng = seed * 2 + 1};
	vgpu_core_defaults(&h->config, n);
	h->command_at = VGPU_NEVER;
	h->timer_at = VGPU_NEVER;
	h->running = VGPU_NO_VF;
	for (i = 0; i < 8; i++)
		vhost_random(h);
	for (i = 0; i < VHOST_MAX_VFS; i++) {
		h->reset_at[i] = VGPU_NEVER;
		h->scrub_at[i] = VGPU_NEVER;
		h->release_at[i] = VGPU_NEVER;
		h->vfs[i].next_change = VGPU_NEVER;
	}
}

void vhost_defaults(const struct vgpu_param *table, int64_t *values)
{
	unsigned i;

	memset(values, 0, VGPU_MAX_PARAMS * sizeof(*values));
	for (i = 0; table[i].name; i++)
		values[i] = table[i].def;
}

void vhost_param(const struct vgpu_param *table, int64_t *values, const char *name, int64_t value)
{
	unsigned i;

	for (i = 0; table[i].name; i++)
		if (strcmp(table[i].name, name) == 0)
			values[i] = value;
}

vgpu_nsec vhost_service(const struct vhost *h, uint32_t vf)
{
	struct vgpu_vf_view view;

	vgpu_core_vf_view(h->core, vf, &view);
	return view.ledger.run_ns;
}

static vgpu_nsec nsec_at_most(vgpu_nsec value, vgpu_nsec most)
{
	return value < most ? value : most;
}

/* Invariants 3 and 1 of the list in docs/architecture.md, at every step. */
static void check(struct vhost *h)
{
	struct vgpu_core_view core;
	struct vgpu_vf_view vf;
	vgpu_nsec sum;
	uint32_t i, on_engine = 0;

	vgpu_core_view(h->core, &core);
	sum = core.engine.switch_ns + core.engine.idle_ns;
	for (i = 0; i < h->n_vfs; i++) {
		const struct vgpu_vf_ledger *l = &vf.ledger;

		vgpu_core_vf_view(h->core, i, &vf);
		sum += l->run_ns + l->donated_ns + l->switch_ns + l->exclusive_ns + l->reset_ns;
		if (l->run_ns + l->switch_ns + l->debt_charged_ns !=
		    l->charged_ns + l->forgiven_ns + vf.pending_ns)
			vhost_fail(h, "VF %u: charges do not add up", i);
		if (l->exclusive_ns + l->reset_ns !=
		    l->debt_ns + l->debt_charged_ns + vf.written_off_ns)
			vhost_fail(h, "VF %u: debts do not add up", i);
		on_engine += vf.on_engine;
		if (vf.context != h->contexts[i] && h->contexts[i] != VGPU_CTX_BROKEN &&
		    h->command_at == VGPU_NEVER && vf.context != VGPU_CTX_BROKEN)
			vhost_fail(h, "VF %u: the core believes its context is %s, it is %s", i,
				   vgpu_context_names[vf.context],
				   vgpu_context_names[h->contexts[i]]);
	}
	if (sum != core.engine.wall_ns)
		vhost_fail(h, "time is lost: %llu of %llu ns accounted for",
			   (unsigned long long)sum, (unsigned long long)core.engine.wall_ns);
	if (on_engine > 1)
		vhost_fail(h, "two VFs on the engine");
	if (vgpu_core_deadline(h->core) < h->now - nsec_at_most(h->now, h->timer_late.max))
		vhost_fail(h, "a deadline %llu ns in the past, in phase %s",
			   (unsigned long long)(h->now - vgpu_core_deadline(h->core)),
			   vgpu_phase_names[core.phase]);
}

/* What the device makes of a command: the legal order is checked here, not in the core. */
static void command(struct vhost *h, const struct vgpu_action *a)
{
	static const struct {
		enum vgpu_context before, after;
	} legal[VGPU_CMD_COUNT] = {
		[VGPU_CMD_IDLE] = {VGPU_CTX_RUNNING, VGPU_CTX_IDLED},
		[VGPU_CMD_SAVE] = {VGPU_CTX_IDLED, VGPU_CTX_SAVED},
		[VGPU_CMD_LOAD] = {VGPU_CTX_SAVED, VGPU_CTX_LOADED},
		[VGPU_CMD_INIT] = {VGPU_CTX_NONE, VGPU_CTX_LOADED},
		[VGPU_CMD_RUN] = {VGPU_CTX_LOADED, VGPU_CTX_RUNNING},
		[VGPU_CMD_SHUTDOWN] = {VGPU_CTX_SAVED, VGPU_CTX_NONE},
	};
	struct vhost_vf *vf = &h->vfs[a->vf];
	vgpu_nsec took = 0;
	uint32_t i;

	if (h->command_at != VGPU_NEVER)
		vhost_fail(h, "%s for VF %u while a command is in flight",
			   vgpu_command_names[a->code], a->vf);
	if (h->contexts[a->vf] != legal[a->code].before)
		vhost_fail(h, "%s for VF %u, whose context is %s", vgpu_command_names[a->code],
			   a->vf, vgpu_context_names[h->contexts[a->vf]]);
	for (i = 0; i < h->n_vfs; i++)
		if (i != a->vf && h->contexts[i] != VGPU_CTX_NONE &&
		    h->contexts[i] != VGPU_CTX_SAVED && h->reset_at[i] == VGPU_NEVER &&
		    h->contexts[i] != VGPU_CTX_BROKEN)
			vhost_fail(h, "%s for VF %u while VF %u is %s", vgpu_command_names[a->code],
				   a->vf, i, vgpu_context_names[h->contexts[i]]);
	switch (a->code) {
	case VGPU_CMD_IDLE:
		took = draw(h, vf->late);
		h->idle_asked = h->now;
		break;
	case VGPU_CMD_SAVE:
		took = draw(h, vf->save);
		break;
	case VGPU_CMD_LOAD:
		took = draw(h, h->load);
		break;
	case VGPU_CMD_INIT:
		took = draw(h, h->init);
		break;
	case VGPU_CMD_RUN:
		took = draw(h, h->run);
		break;
	default:
		break;
	}
	h->command =
		(struct vgpu_event){.type = VGPU_EV_DONE, .vf = a->vf, .code = a->code, .value = 0};
	if (chance(h, h->command_fails_ppm)) {
		h->command.value = 2;
		h->command_at = h->now + took;
		return;
	}
	if (a->code == VGPU_CMD_IDLE && chance(h, vf->hang_ppm)) {
		h->contexts[a->vf] = VGPU_CTX_BROKEN;
		return;
	}
	h->contexts[a->vf] = legal[a->code].after;
	h->command_at = h->now + took;
}

static void forget_context(struct vhost *h, uint32_t vf)
{
	if (h->command_at != VGPU_NEVER && h->command.vf == vf)
		h->command_at = VGPU_NEVER;
	h->contexts[vf] = VGPU_CTX_NONE;
	h->release_at[vf] = VGPU_NEVER;
	h->vfs[vf].up = false;
	h->vfs[vf].busy = false;
	h->vfs[vf].wants_init = true;
	h->vfs[vf].next_change = h->now + VGPU_MSEC;
}

static void act(struct vhost *h, const struct vgpu_action *a)
{
	int i;

	switch (a->type) {
	case VGPU_AC_COMMAND:
		command(h, a);
		break;
	case VGPU_AC_RESET:
		if (h->reset_at[a->vf] != VGPU_NEVER)
			vhost_fail(h, "VF %u: two resets at once", a->vf);
		h->reset_at[a->vf] = h->now + draw(h, h->reset);
		h->reset_level[a->vf] = a->code;
		if (h->command_at != VGPU_NEVER && h->command.vf == a->vf)
			h->command_at = VGPU_NEVER;
		h->contexts[a->vf] = VGPU_CTX_BROKEN;
		break;
	case VGPU_AC_SCRUB:
		h->scrubs[a->vf]++;
		h->scrub_at[a->vf] = h->now + draw(h, h->scrub);
		if (h->contexts[a->vf] != VGPU_CTX_NONE)
			vhost_fail(h, "VF %u: scrubbed while its context is %s", a->vf,
				   vgpu_context_names[h->contexts[a->vf]]);
		break;
	case VGPU_AC_NOTICE:
		if (a->code == VGPU_NOTICE_READY && !h->refuse_windows_end)
			h->release_at[a->vf] = h->now + draw(h, h->window);
		if (a->code == VGPU_NOTICE_READY)
			h->release_kind[a->vf] =
				h->vfs[a->vf].up ? VGPU_WINDOW_FINI : VGPU_WINDOW_INIT;
		if (a->code == VGPU_NOTICE_REFUSED) {
			h->vfs[a->vf].wants_init = true;
			h->vfs[a->vf].next_change = h->now + 5 * VGPU_SEC;
		}
		if (a->code == VGPU_NOTICE_RESET)
			h->release_at[a->vf] = VGPU_NEVER;
		break;
	case VGPU_AC_RETIRE:
		for (i = 0; i < 2; i++)
			if (h->policy_memory[i] == a->memory)
				h->policy_memory[i] = NULL;
		free(a->memory);
		break;
	case VGPU_AC_GATES:
		break;
	}
}

static void mix(struct vhost *h, uint64_t v)
{
	h->hash = (h->hash ^ v) * UINT64_C(1099511628211);
}

static void look(struct vhost *h, const struct vgpu_record *r)
{
	struct vhost_vf *vf = r->vf < h->n_vfs ? &h->vfs[r->vf] : NULL;
	vgpu_nsec bound;

	mix(h, r->t);
	mix(h, (uint64_t)r->type << 32 | r->vf);
	mix(h, r->a);
	if (r->type == VGPU_REC_RUN) {
		if (r->a > h->config.max_slice)
			vhost_fail(h, "VF %u: granted %llu ns, beyond the longest slice", r->vf,
				   (unsigned long long)r->a);
		vf->last_start = r->t;
		vf->dispatches++;
		h->running = r->vf;
		h->switches++;
		if (h->log_n < h->log_max)
			h->log[h->log_n++] = (struct vhost_dispatch){r->vf, r->t, VGPU_NEVER, r->a};
	} else if (r->type == VGPU_REC_STOP && r->a > 0) {
		/* Invariant 2: beyond the grant no more than late timer, preemption and grace. */
		bound = h->timer_late.max + h->config.grace + h->timer_late.max;
		if (r->b > bound)
			vhost_fail(h, "VF %u: overran by %llu ns", r->vf, (unsigned long long)r->b);
		h->running = VGPU_NO_VF;
		if (h->log_n > 0)
			h->log[h->log_n - 1].end = r->t;
	}
}

int vhost_event(struct vhost *h, const struct vgpu_event *event)
{
	struct vgpu_event e = *event;
	uint32_t i;
	int r;

	e.now = h->now;
	r = vgpu_core_step(h->core, &e, &h->out);
	h->steps++;
	for (i = 0; i < h->out.n_records; i++)
		look(h, &h->out.records[i]);
	for (i = 0; i < h->out.n_actions; i++)
		act(h, &h->out.actions[i]);
	check(h);
	return r;
}

static void event_vf(struct vhost *h, enum vgpu_event_type type, uint32_t vf, uint32_t code,
		     int64_t value)
{
	vhost_event(h, &(struct vgpu_event){.type = type, .vf = vf, .code = code, .value = value});
}

void vhost_start(struct vhost *h, const struct vgpu_policy_ops *policy, const int64_t *params,
		 const int64_t (*vf_params)[VGPU_MAX_PARAMS])
{
	const struct vgpu_policy_ops *fallback = vgpu_fallback_policy;
	int64_t values[VGPU_MAX_PARAMS];
	uint32_t i;

	h->memory = calloc(1, vgpu_core_size(h->n_vfs));
	h->fallback_memory = calloc(1, fallback->memory(h->n_vfs));
	h->core = vgpu_core_init(h->memory, &h->config, fallback, h->fallback_memory, h->now);
	vhost_change_policy(h, policy, params, NULL);
	for (i = 0; i < h->n_vfs; i++) {
		vhost_defaults(policy->vf_params, values);
		if (vf_params)
			memcpy(values, vf_params[i], sizeof(values));
		vhost_event(h,
			    &(struct vgpu_event){.type = VGPU_EV_ADD, .vf = i, .params = values});
		h->vfs[i].wants_init = true;
		h->vfs[i].next_change = h->now;
	}
	event_vf(h, VGPU_EV_START, 0, 0, 0);
}

int vhost_change_policy(struct vhost *h, const struct vgpu_policy_ops *policy,
			const int64_t *params, const int64_t (*vf_params)[VGPU_MAX_PARAMS])
{
	static int64_t rows[VHOST_MAX_VFS][VGPU_MAX_PARAMS];
	int64_t values[VGPU_MAX_PARAMS];
	void *memory = calloc(1, policy->memory(h->n_vfs));
	uint32_t i;
	int r;

	vhost_defaults(policy->params, values);
	if (params)
		memcpy(values, params, sizeof(values));
	for (i = 0; i < h->n_vfs; i++) {
		vhost_defaults(policy->vf_params, rows[i]);
		if (vf_params)
			memcpy(rows[i], vf_params[i], sizeof(rows[i]));
	}
	r = vhost_event(h, &(struct vgpu_event){.type = VGPU_EV_POLICY,
						.policy = policy,
						.memory = memory,
						.params = values,
						.vf_params = rows[0]});
	if (r < 0) {
		free(memory);
		return r;
	}
	/* One in force, one in waiting at the most; its retirement may have come with this step. */
	h->policy_memory[h->policy_memory[0] ? 1 : 0] = memory;
	return 0;
}

/* A tenant lives: it starts its driver, works, thinks, and works again. */
static void tenant(struct vhost *h, uint32_t i)
{
	struct vhost_vf *vf = &h->vfs[i];

	vf->next_change = VGPU_NEVER;
	if (!vf->up) {
		if (vf->wants_init) {
			vf->wants_init = false;
			event_vf(h, VGPU_EV_REQUEST, i, VGPU_WINDOW_INIT, 0);
		}
		return;
	}
	if (vf->work == VHOST_NEVER)
		return;
	if (h->now < h->work_from) {
		vf->next_change = h->work_from;
		return;
	}
	if (!vf->busy) {
		vf->busy = true;
		vf->left = vf->work == VHOST_ALWAYS ? VGPU_NEVER : draw(h, vf->burst) + 1;
		event_vf(h, VGPU_EV_BUSY, i, 0, 0);
		return;
	}
	/* The burst that runs is over. */
	vf->busy = false;
	vf->next_change = h->now + draw(h, vf->think);
	event_vf(h, VGPU_EV_EMPTY, i, 0, 0);
}

static void released(struct vhost *h, uint32_t i)
{
	struct vhost_vf *vf = &h->vfs[i];
	enum vgpu_window kind = h->release_kind[i];

	h->release_at[i] = VGPU_NEVER;
	vf->up = kind == VGPU_WINDOW_INIT;
	vf->busy = false;
	vf->wants_init = !vf->up;
	vf->next_change = h->now + (vf->up ? 0 : 10 * VGPU_MSEC);
	event_vf(h, VGPU_EV_RELEASE, i, kind, 0);
}

/* How far the running VF's burst has come. */
static void work_done(struct vhost *h, vgpu_nsec to)
{
	struct vhost_vf *vf;

	if (h->running == VGPU_NO_VF)
		return;
	vf = &h->vfs[h->running];
	if (vf->left == VGPU_NEVER || !vf->busy)
		return;
	vf->left -= to - h->now < vf->left ? to - h->now : vf->left;
}

static vgpu_nsec earliest(const struct vhost *h)
{
	vgpu_nsec t = h->command_at, running_out;
	uint32_t i;

	for (i = 0; i < h->n_vfs; i++) {
		t = h->reset_at[i] < t ? h->reset_at[i] : t;
		t = h->scrub_at[i] < t ? h->scrub_at[i] : t;
		t = h->release_at[i] < t ? h->release_at[i] : t;
		t = h->vfs[i].next_change < t ? h->vfs[i].next_change : t;
	}
	if (h->running != VGPU_NO_VF && h->vfs[h->running].busy &&
	    h->vfs[h->running].left != VGPU_NEVER) {
		running_out = h->now + h->vfs[h->running].left;
		t = running_out < t ? running_out : t;
	}
	return h->timer_at < t ? h->timer_at : t;
}

/* Mischief in mid-slice. */
static void faults(struct vhost *h)
{
	uint32_t i = h->running;

	if (i == VGPU_NO_VF || !h->vfs[i].up || h->vfs[i].last_start != h->now)
		return;
	if (chance(h, h->vfs[i].reset_ppm)) {
		forget_context(h, i);
		h->contexts[i] = VGPU_CTX_BROKEN; /* until the PF has reset it, too */
		event_vf(h, VGPU_EV_GUEST_RESET, i, 0, 0);
	} else if (chance(h, h->vfs[i].window_ppm)) {
		event_vf(h, VGPU_EV_REQUEST, i, VGPU_WINDOW_FINI, 0);
	}
}

static void fire(struct vhost *h)
{
	int64_t status;
	uint32_t i, j;

	if (h->command_at <= h->now) {
		h->command_at = VGPU_NEVER;
		vhost_event(h, &h->command);
		faults(h);
		return;
	}
	for (i = 0; i < h->n_vfs; i++) {
		if (h->reset_at[i] <= h->now) {
			h->reset_at[i] = VGPU_NEVER;
			status = chance(h, h->reset_fails_ppm) ? -5 : 0;
			for (j = 0; j < h->n_vfs; j++)
				if (status == 0 &&
				    (j == i || h->reset_level[i] == VGPU_RESET_GPU)) {
					forget_context(h, j);
					h->reset_at[j] = VGPU_NEVER;
				}
			event_vf(h, VGPU_EV_RESET_DONE, i, h->reset_level[i], status);
			return;
		}
		if (h->scrub_at[i] <= h->now) {
			h->scrub_at[i] = --h->scrubs[i] ? h->now : VGPU_NEVER;
			event_vf(h, VGPU_EV_SCRUBBED, i, 0, 0);
			return;
		}
		if (h->release_at[i] <= h->now) {
			released(h, i);
			return;
		}
	}
	for (i = 0; i < h->n_vfs; i++) {
		if (h->vfs[i].next_change <= h->now ||
		    (h->running == i && h->vfs[i].busy && h->vfs[i].left == 0)) {
			tenant(h, i);
			return;
		}
	}
	h->timer_at = VGPU_NEVER;
	event_vf(h, VGPU_EV_TIMER, 0, 0, 0);
}

void vhost_run(struct vhost *h, vgpu_nsec until)
{
	vgpu_nsec deadline, next;

	while (h->violations == 0) {
		deadline = vgpu_core_deadline(h->core);
		/* A timer fires late, but only once for each deadline. */
		if (deadline == VGPU_NEVER)
			h->timer_at = VGPU_NEVER;
		else if (h->timer_at == VGPU_NEVER || h->timer_at < deadline)
			h->timer_at =
				(deadline > h->now ? deadline : h->now) + draw(h, h->timer_late);
		else if (h->timer_at > deadline + h->timer_late.max)
			h->timer_at = (deadline > h->now ? deadline : h->now);
		next = earliest(h);
		if (next > until)
			break;
		if (next < h->now)
			next = h->now;
		work_done(h, next);
		h->now = next;
		fire(h);
	}
	if (h->now < until && h->violations == 0) {
		work_done(h, until);
		h->now = until;
	}
}

void vhost_finish(struct vhost *h)
{
	free(h->policy_memory[0]);
	free(h->policy_memory[1]);
	free(h->fallback_memory);
	free(h->memory);
}

/* The checking wrapper. */

static struct {
	struct vgpu_policy_ops ops;
	const struct vgpu_policy_ops *inner;
	struct vhost *host;
	uint32_t open; /* picked, not accounted */
	vgpu_nsec last;
	bool awake[VHOST_MAX_VFS];
	uint32_t n_awake;
} checked;

static void in_order(vgpu_nsec now)
{
	if (now < checked.last)
		vhost_fail(checked.host, "time went back for the policy");
	checked.last = now;
}

static bool checked_wake(void *state, uint32_t vf, vgpu_nsec now)
{
	in_order(now);
	if (checked.awake[vf])
		vhost_fail(checked.host, "VF %u woken twice", vf);
	if (vf == checked.open)
		vhost_fail(checked.host, "VF %u woken while dispatched", vf);
	checked.awake[vf] = true;
	checked.n_awake++;
	return checked.inner->wake(state, vf, now);
}

static void checked_sleep(void *state, uint32_t vf, vgpu_nsec now)
{
	in_order(now);
	if (!checked.awake[vf] || vf == checked.open)
		vhost_fail(checked.host, "VF %u put to sleep at the wrong time", vf);
	checked.awake[vf] = false;
	checked.n_awake--;
	checked.inner->sleep(state, vf, now);
}

static void checked_pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	in_order(now);
	if (checked.open != VGPU_NO_VF)
		vhost_fail(checked.host, "picked before VF %u was accounted", checked.open);
	checked.inner->pick(state, out, now);
	checked.open = out->vf;
	if (out->vf == VGPU_NO_VF && checked.n_awake &&
	    checked.inner->promises & VGPU_PROMISE_WORK_CONSERVING)
		vhost_fail(checked.host, "parked although %u VFs have work", checked.n_awake);
	if (out->vf != VGPU_NO_VF && !checked.awake[out->vf] &&
	    checked.inner->promises & VGPU_PROMISE_PROPORTIONAL)
		vhost_fail(checked.host, "picked VF %u, which has no work", out->vf);
}

static void checked_account(void *state, const struct vgpu_usage *usage)
{
	in_order(usage->end);
	if (checked.open != usage->vf)
		vhost_fail(checked.host, "VF %u accounted, VF %u was picked", usage->vf,
			   checked.open);
	checked.open = VGPU_NO_VF;
	checked.inner->account(state, usage);
}

const struct vgpu_policy_ops *vhost_checked(const struct vgpu_policy_ops *policy,
					    struct vhost *host)
{
	memset(&checked, 0, sizeof(checked));
	checked.ops = *policy;
	checked.inner = policy;
	checked.host = host;
	checked.open = VGPU_NO_VF;
	checked.ops.wake = checked_wake;
	checked.ops.sleep = checked_sleep;
	checked.ops.pick = checked_pick;
	checked.ops.account = checked_account;
	return &checked.ops;
}
