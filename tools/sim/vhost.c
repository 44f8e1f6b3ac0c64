/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builtin.h"
#include "monitor.h"
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
	if (h->quiet)
		return;
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
	h->vfs = calloc(n, sizeof(*h->vfs));
	h->rows = calloc(n, VGPU_MAX_PARAMS * sizeof(*h->rows));
	h->due_memory = calloc(1, heap_memory(n));
	heap_init(&h->due, h->due_memory, n);
	for (i = 0; i < n; i++) {
		h->vfs[i].reset_at = VGPU_NEVER;
		h->vfs[i].scrub_at = VGPU_NEVER;
		h->vfs[i].release_at = VGPU_NEVER;
		h->vfs[i].next_change = VGPU_NEVER;
	}
}

static vgpu_nsec sooner(vgpu_nsec a, vgpu_nsec b)
{
	return a < b ? a : b;
}

void vhost_touch(struct vhost *h, uint32_t i)
{
	const struct vhost_vf *vf = &h->vfs[i];
	vgpu_nsec t =
		sooner(sooner(vf->reset_at, vf->scrub_at), sooner(vf->release_at, vf->next_change));

	if (heap_has(&h->due, i) && h->due.entries[h->due.places[i]].key == t)
		return;
	heap_remove(&h->due, i);
	if (t != VGPU_NEVER)
		heap_insert(&h->due, i, t);
}

void vhost_keep_latencies(struct vhost *h, uint32_t vf, size_t max)
{
	h->vfs[vf].latencies = calloc(max, sizeof(vgpu_nsec));
	h->vfs[vf].max_latencies = max;
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
		if (vf.context != h->vfs[i].context && h->vfs[i].context != VGPU_CTX_BROKEN &&
		    h->command_at == VGPU_NEVER && vf.context != VGPU_CTX_BROKEN)
			vhost_fail(h, "VF %u: the core believes its context is %s, it is %s", i,
				   vgpu_context_names[vf.context],
				   vgpu_context_names[h->vfs[i].context]);
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
	if (h->vfs[a->vf].context != legal[a->code].before)
		vhost_fail(h, "%s for VF %u, whose context is %s", vgpu_command_names[a->code],
			   a->vf, vgpu_context_names[h->vfs[a->vf].context]);
	for (i = 0; i < h->n_vfs && !h->unchecked; i++)
		if (i != a->vf && h->vfs[i].context != VGPU_CTX_NONE &&
		    h->vfs[i].context != VGPU_CTX_SAVED && h->vfs[i].reset_at == VGPU_NEVER &&
		    h->vfs[i].context != VGPU_CTX_BROKEN)
			vhost_fail(h, "%s for VF %u while VF %u is %s", vgpu_command_names[a->code],
				   a->vf, i, vgpu_context_names[h->vfs[i].context]);
	switch (a->code) {
	case VGPU_CMD_IDLE:
		took = draw(h, chance(h, vf->rare_ppm) ? vf->rare : vf->late);
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
		if (vf->dirty)
			vhost_fail(h, "VF %u: initialised on memory that was not cleared", a->vf);
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
	if (a->code == VGPU_CMD_IDLE && (vf->hangs_next || chance(h, vf->hang_ppm))) {
		vf->hangs_next = false;
		h->vfs[a->vf].context = VGPU_CTX_BROKEN;
		return;
	}
	h->vfs[a->vf].context = legal[a->code].after;
	h->command_at = h->now + took;
}

static void forget_context(struct vhost *h, uint32_t vf)
{
	if (h->command_at != VGPU_NEVER && h->command.vf == vf)
		h->command_at = VGPU_NEVER;
	h->vfs[vf].context = VGPU_CTX_NONE;
	h->vfs[vf].dirty = true;
	h->vfs[vf].release_at = VGPU_NEVER;
	h->vfs[vf].up = false;
	h->vfs[vf].busy = false;
	h->vfs[vf].wants_init = !h->vfs[vf].stays_down;
	h->vfs[vf].next_change = h->now + VGPU_MSEC;
	vhost_touch(h, vf);
}

static void act(struct vhost *h, const struct vgpu_action *a)
{
	int i;

	switch (a->type) {
	case VGPU_AC_COMMAND:
		command(h, a);
		break;
	case VGPU_AC_RESET:
		if (h->vfs[a->vf].reset_at != VGPU_NEVER)
			vhost_fail(h, "VF %u: two resets at once", a->vf);
		h->vfs[a->vf].reset_at = h->now + draw(h, h->reset);
		h->vfs[a->vf].reset_level = a->code;
		if (h->command_at != VGPU_NEVER && h->command.vf == a->vf)
			h->command_at = VGPU_NEVER;
		h->vfs[a->vf].context = VGPU_CTX_BROKEN;
		break;
	case VGPU_AC_SCRUB:
		h->vfs[a->vf].scrubs++;
		h->vfs[a->vf].scrub_at = h->now + draw(h, h->scrub);
		if (h->vfs[a->vf].context != VGPU_CTX_NONE)
			vhost_fail(h, "VF %u: scrubbed while its context is %s", a->vf,
				   vgpu_context_names[h->vfs[a->vf].context]);
		break;
	case VGPU_AC_NOTICE:
		if (a->code == VGPU_NOTICE_READY && !h->refuse_windows_end)
			h->vfs[a->vf].release_at =
				h->now + (h->vfs[a->vf].own_window ? h->vfs[a->vf].own_window
								   : draw(h, h->window));
		if (a->code == VGPU_NOTICE_READY)
			h->vfs[a->vf].release_kind =
				h->vfs[a->vf].up ? VGPU_WINDOW_FINI : VGPU_WINDOW_INIT;
		if (a->code == VGPU_NOTICE_REFUSED) {
			h->vfs[a->vf].wants_init = true;
			h->vfs[a->vf].next_change = h->now + 5 * VGPU_SEC;
		}
		if (a->code == VGPU_NOTICE_RESET)
			h->vfs[a->vf].release_at = VGPU_NEVER;
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
	if (a->vf < h->n_vfs)
		vhost_touch(h, a->vf);
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
		if (vf->work == VHOST_SLEEPER && vf->busy) {
			vf->next_change = h->now + r->a / 20 * 19;
			vhost_touch(h, r->vf);
		}
		if (h->log_n < h->log_max)
			h->log[h->log_n++] = (struct vhost_dispatch){r->vf, r->t, VGPU_NEVER, r->a};
	} else if (r->type == VGPU_REC_STOP && r->a > 0) {
		/* Invariant 2: beyond the grant no more than late timer, preemption and grace. */
		bound = h->timer_late.max + h->config.grace + h->timer_late.max;
		if (r->b > bound)
			vhost_fail(h, "VF %u: overran by %llu ns", r->vf, (unsigned long long)r->b);
		h->running = VGPU_NO_VF;
		if (h->log_n > 0 && h->log[h->log_n - 1].end == VGPU_NEVER)
			h->log[h->log_n - 1].end = r->t;
	} else if (r->type == VGPU_REC_WINDOW_END) {
		bound = h->config.window_max + h->timer_late.max;
		if (r->a > bound)
			vhost_fail(h, "VF %u: its window took %llu ns", r->vf,
				   (unsigned long long)r->a);
	} else if (r->type == VGPU_REC_HANG && r->code == VGPU_PHASE_IDLE) {
		bound = h->config.grace + h->timer_late.max;
		if (r->a > bound)
			vhost_fail(h, "VF %u: found to hang after %llu ns", r->vf,
				   (unsigned long long)r->a);
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
	if (!h->unchecked)
		check(h);
	if (h->monitor)
		monitor_step(h->monitor, &e);
	return r;
}

static void event_vf(struct vhost *h, enum vgpu_event_type type, uint32_t vf, uint32_t code,
		     int64_t value)
{
	vhost_event(h, &(struct vgpu_event){.type = type, .vf = vf, .code = code, .value = value});
}

/* The job that it works on, or NULL. */
static struct vhost_job *job(const struct vhost_vf *vf)
{
	return vf->jobs_head != vf->jobs_tail ? &vf->jobs[vf->jobs_head & (vf->jobs_size - 1)]
					      : NULL;
}

/* What the VF that runs has still to do before it is done with a job; NULL: no end to that. */
static vgpu_nsec *left(const struct vhost *h)
{
	const struct vhost_vf *vf;

	if (h->running == VGPU_NO_VF)
		return NULL;
	vf = &h->vfs[h->running];
	return vf->busy && job(vf) ? &job(vf)->left : NULL;
}

/* How far the running VF's job has come. */
static void work_done(struct vhost *h, vgpu_nsec to)
{
	vgpu_nsec *ns = left(h);

	if (ns)
		*ns -= sooner(*ns, to - h->now);
}

/* A core and its policy, with VFs as the device has them. */
static void begin(struct vhost *h, const struct vgpu_policy_ops *policy, const int64_t *params,
		  const int64_t (*vf_params)[VGPU_MAX_PARAMS])
{
	const struct vgpu_policy_ops *fallback = vgpu_fallback_policy;
	int64_t values[VGPU_MAX_PARAMS];
	bool unchecked = h->unchecked;
	uint32_t i;

	h->unchecked = true; /* it does not know all VFs yet */
	h->memory = calloc(1, vgpu_core_size(h->n_vfs));
	h->fallback_memory = calloc(1, fallback->memory(h->n_vfs));
	h->core = vgpu_core_init(h->memory, &h->config, fallback, h->fallback_memory, h->now);
	vhost_change_policy(h, policy, params, NULL);
	for (i = 0; i < h->n_vfs; i++) {
		const struct vhost_vf *vf = &h->vfs[i];

		vgpu_param_defaults(policy->vf_params, values);
		if (vf_params)
			memcpy(values, vf_params[i], sizeof(values));
		vhost_event(h, &(struct vgpu_event){.type = VGPU_EV_ADD,
						    .vf = i,
						    .code = vf->context,
						    .value = vf->up,
						    .params = values});
		if (vf->busy)
			vhost_event(h, &(struct vgpu_event){.type = VGPU_EV_BUSY, .vf = i});
	}
	h->unchecked = unchecked;
	vhost_event(h, &(struct vgpu_event){.type = VGPU_EV_START});
}

static void end(struct vhost *h)
{
	free(h->policy_memory[0]);
	free(h->policy_memory[1]);
	free(h->fallback_memory);
	free(h->memory);
	h->policy_memory[0] = NULL;
	h->policy_memory[1] = NULL;
}

void vhost_start(struct vhost *h, const struct vgpu_policy_ops *policy, const int64_t *params,
		 const int64_t (*vf_params)[VGPU_MAX_PARAMS])
{
	uint32_t i;

	for (i = 0; i < h->n_vfs; i++) {
		h->vfs[i].dirty = true;
		h->vfs[i].wants_init = !h->vfs[i].stays_down;
		h->vfs[i].next_change = h->now;
		vhost_touch(h, i);
	}
	begin(h, policy, params, vf_params);
}

void vhost_restart(struct vhost *h, const struct vgpu_policy_ops *policy, const int64_t *params,
		   const int64_t (*vf_params)[VGPU_MAX_PARAMS])
{
	uint32_t i;

	end(h);
	/* Drivers wait for what is in flight before they look at the GPU; nobody is told. */
	if (h->command_at != VGPU_NEVER && h->command_at > h->now) {
		work_done(h, h->command_at);
		h->now = h->command_at;
	}
	h->command_at = VGPU_NEVER;
	h->timer_at = VGPU_NEVER;
	for (i = 0; i < h->n_vfs; i++) {
		struct vhost_vf *vf = &h->vfs[i];

		if (vf->reset_at != VGPU_NEVER)
			forget_context(h, i);
		vf->reset_at = VGPU_NEVER;
		vf->scrub_at = VGPU_NEVER;
		vf->scrubs = 0;
		if (!vf->up) { /* it asks again */
			vf->wants_init = !vf->stays_down;
			vf->next_change = h->now + VGPU_MSEC;
		}
		vhost_touch(h, i);
	}
	if (h->monitor)
		monitor_restarted(h->monitor);
	begin(h, policy, params, vf_params);
}

int vhost_change_policy(struct vhost *h, const struct vgpu_policy_ops *policy,
			const int64_t *params, const int64_t (*vf_params)[VGPU_MAX_PARAMS])
{
	int64_t values[VGPU_MAX_PARAMS], *row;
	void *memory = calloc(1, policy->memory(h->n_vfs));
	uint32_t i;
	int r;

	vgpu_param_defaults(policy->params, values);
	if (params)
		memcpy(values, params, sizeof(values));
	for (i = 0; i < h->n_vfs; i++) {
		row = h->rows + (size_t)i * VGPU_MAX_PARAMS;
		vgpu_param_defaults(policy->vf_params, row);
		if (vf_params)
			memcpy(row, vf_params[i], sizeof(vf_params[i]));
	}
	r = vhost_event(h, &(struct vgpu_event){.type = VGPU_EV_POLICY,
						.policy = policy,
						.memory = memory,
						.params = values,
						.vf_params = h->rows});
	if (r < 0) {
		free(memory);
		return r;
	}
	/* One in force, one in waiting at the most; its retirement may have come with this step. */
	h->policy_memory[h->policy_memory[0] ? 1 : 0] = memory;
	return 0;
}

static void add_job(struct vhost_vf *vf, vgpu_nsec now, vgpu_nsec length)
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
	vf->jobs[vf->jobs_tail++ & (vf->jobs_size - 1)] = (struct vhost_job){now, length};
}

static void set_busy(struct vhost *h, uint32_t i, bool busy)
{
	if (h->vfs[i].busy == busy)
		return;
	h->vfs[i].busy = busy;
	event_vf(h, busy ? VGPU_EV_BUSY : VGPU_EV_EMPTY, i, 0, 0);
}

/* One item of its script; true if the next is due, too. */
static bool item(struct vhost *h, uint32_t i, const struct vhost_item *it)
{
	struct vhost_vf *vf = &h->vfs[i];

	switch (it->kind) {
	case VHOST_ARRIVE:
		vf->stays_down = false;
		vf->wants_init = !vf->up;
		return true;
	case VHOST_WORK:
		add_job(vf, it->t > h->now ? it->t : h->now, it->value ? it->value : 1);
		return true;
	case VHOST_THINK:
		vf->next_change = job(vf) ? VGPU_NEVER : h->now + it->value;
		return false;
	case VHOST_DEPART:
		vf->stays_down = true;
		event_vf(h, VGPU_EV_REQUEST, i, VGPU_WINDOW_FINI, 0);
		return true;
	case VHOST_PARAM:
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

/* Does what its script says is due; a think waits for the work before it to be done. */
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
		if (it->kind != VHOST_ARRIVE && !vf->up) /* goes on when it is up */
			break;
		if (it->kind == VHOST_THINK && job(vf))
			break; /* goes on when it is out of work */
		vf->item++;
		if (!item(h, i, it))
			break;
	}
	if (vf->up && job(vf))
		set_busy(h, i, true);
}

/* A tenant lives: it starts its driver, works, thinks, and works again. */
static void tenant(struct vhost *h, uint32_t i)
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
		if (!job(vf))
			add_job(vf, h->now, draw(h, vf->burst) + 1);
		set_busy(h, i, true);
		return;
	case VHOST_SCRIPT:
		script(h, i);
		return;
	}
}

/* The job at hand is done: it may have another, or think. */
static void job_done(struct vhost *h, uint32_t i)
{
	struct vhost_vf *vf = &h->vfs[i];

	if (vf->n_latencies < vf->max_latencies)
		vf->latencies[vf->n_latencies++] = h->now - job(vf)->arrived;
	vf->jobs_head++;
	if (job(vf))
		return;
	if (vf->work == VHOST_BURSTS)
		vf->next_change = h->now + draw(h, vf->think);
	else if (vf->item < vf->n_items)
		vf->next_change = h->now;
	set_busy(h, i, false);
	vhost_touch(h, i);
}

static void released(struct vhost *h, uint32_t i)
{
	struct vhost_vf *vf = &h->vfs[i];
	enum vgpu_window kind = vf->release_kind;

	vf->release_at = VGPU_NEVER;
	vf->up = kind == VGPU_WINDOW_INIT;
	vf->busy = false;
	if (!vf->up) /* what was in its queue is gone */
		vf->jobs_head = vf->jobs_tail;
	vf->wants_init = !vf->up && !vf->stays_down;
	vf->next_change = h->now + (vf->up ? 0 : 10 * VGPU_MSEC);
	event_vf(h, VGPU_EV_RELEASE, i, kind, 0);
}

static vgpu_nsec earliest(const struct vhost *h)
{
	vgpu_nsec t = sooner(h->command_at, h->timer_at), *ns = left(h);

	if (h->due.n)
		t = sooner(t, h->due.entries[0].key);
	if (h->monitor)
		t = sooner(t, monitor_next(h->monitor));
	return ns ? sooner(t, h->now + *ns) : t;
}

/* Mischief in mid-slice. */
static void faults(struct vhost *h)
{
	uint32_t i = h->running;

	if (i == VGPU_NO_VF || !h->vfs[i].up || h->vfs[i].last_start != h->now)
		return;
	if (chance(h, h->vfs[i].reset_ppm)) {
		forget_context(h, i);
		h->vfs[i].context = VGPU_CTX_BROKEN; /* until the PF has reset it, too */
		event_vf(h, VGPU_EV_GUEST_RESET, i, 0, 0);
	} else if (chance(h, h->vfs[i].window_ppm)) {
		event_vf(h, VGPU_EV_REQUEST, i, VGPU_WINDOW_FINI, 0);
	}
}

static void reset_is_done(struct vhost *h, uint32_t i)
{
	int64_t status = chance(h, h->reset_fails_ppm) ? -5 : 0;
	uint32_t j;

	h->vfs[i].reset_at = VGPU_NEVER;
	for (j = 0; j < h->n_vfs && status == 0; j++) {
		if (j != i && h->vfs[i].reset_level != VGPU_RESET_GPU)
			continue;
		h->vfs[j].reset_at = VGPU_NEVER;
		forget_context(h, j);
	}
	event_vf(h, VGPU_EV_RESET_DONE, i, h->vfs[i].reset_level, status);
}

/* Something that happens by itself to VF is due. */
static void due(struct vhost *h, uint32_t i)
{
	struct vhost_vf *vf = &h->vfs[i];

	if (vf->reset_at <= h->now) {
		reset_is_done(h, i);
	} else if (vf->scrub_at <= h->now) {
		vf->scrub_at = --vf->scrubs ? h->now : VGPU_NEVER;
		vf->dirty = vf->scrubs > 0;
		event_vf(h, VGPU_EV_SCRUBBED, i, 0, 0);
	} else if (vf->release_at <= h->now) {
		released(h, i);
	} else {
		tenant(h, i);
	}
	vhost_touch(h, i);
}

static void fire(struct vhost *h)
{
	vgpu_nsec *ns = left(h);

	if (h->command_at <= h->now) {
		h->command_at = VGPU_NEVER;
		vhost_event(h, &h->command);
		faults(h);
	} else if (h->due.n && h->due.entries[0].key <= h->now) {
		due(h, heap_first(&h->due));
	} else if (ns && *ns == 0) {
		job_done(h, h->running);
	} else {
		h->timer_at = VGPU_NEVER;
		event_vf(h, VGPU_EV_TIMER, 0, 0, 0);
	}
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
	uint32_t i;

	for (i = 0; i < h->n_vfs; i++) {
		free(h->vfs[i].jobs);
		free(h->vfs[i].latencies);
	}
	free(h->vfs);
	free(h->rows);
	free(h->due_memory);
	end(h);
}
