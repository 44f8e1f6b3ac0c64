/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "builtin.h"
#include "monitor.h"
#include "vhost_private.h"

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

	vgpu_core_vf_brief(h->core, vf, &view);
	return view.ledger.run_ns;
}

static vgpu_nsec later(vgpu_nsec a, vgpu_nsec b)
{
	return a > b ? a : b;
}

/* Checks invariants 3 and 1 of the list in docs/architecture.md. */
static void check(struct vhost *h)
{
	static const bool waits[VGPU_PHASE_COUNT] = {[VGPU_PHASE_LOAD] = true,
						     [VGPU_PHASE_START] = true,
						     [VGPU_PHASE_SAVE] = true,
						     [VGPU_PHASE_DROP] = true};
	struct vgpu_core_view core;
	struct vgpu_vf_view vf;
	vgpu_nsec sum;
	uint32_t i, on_engine = 0;

	vgpu_core_view(h->core, &core);
	sum = core.engine.switch_ns + core.engine.idle_ns;
	for (i = 0; i < h->n_vfs; i++) {
		const struct vgpu_vf_ledger *l = &vf.ledger;

		vgpu_core_vf_brief(h->core, i, &vf);
		sum += l->run_ns + l->donated_ns + l->switch_ns + l->exclusive_ns + l->reset_ns;
		if (l->run_ns + l->switch_ns + l->fined_ns + l->debt_charged_ns !=
		    l->charged_ns + l->forgiven_ns + vf.pending_ns)
			vhost_fail(h, "VF %u: charges do not add up", i);
		if (l->exclusive_ns + l->reset_ns + l->brought_ns !=
		    l->debt_ns + l->debt_charged_ns + l->debt_lapsed_ns + vf.written_off_ns)
			vhost_fail(h, "VF %u: debts do not add up", i);
		on_engine += vf.on_engine;
		if (vf.incoming != h->vfs[i].incoming)
			vhost_fail(h, "VF %u: the core says that its VM %s", i,
				   vf.incoming ? "has not resumed" : "has resumed");
		if (vf.context != h->vfs[i].context && h->vfs[i].context != VGPU_CTX_BROKEN &&
		    h->command_at == VGPU_NEVER && vf.context != VGPU_CTX_BROKEN)
			vhost_fail(h, "VF %u: the core says that its context is %s, but it is %s",
				   i, vgpu_context_names[vf.context],
				   vgpu_context_names[h->vfs[i].context]);
	}
	if (sum != core.engine.wall_ns)
		vhost_fail(h, "the ledger is wrong: %llu of %llu ns are accounted for",
			   (unsigned long long)sum, (unsigned long long)core.engine.wall_ns);
	if (on_engine > 1)
		vhost_fail(h, "two VFs on the engine");
	if (waits[core.phase] && h->command_at == VGPU_NEVER)
		vhost_fail(h,
			   "the core waits for an answer in phase %s, and no command is in flight",
			   vgpu_phase_names[core.phase]);
	if (h->timer_at != VGPU_NEVER && vgpu_core_deadline(h->core) == h->timer_for &&
	    h->now > later(h->timer_for, h->armed) + h->timer_late.max)
		vhost_fail(h, "a deadline %llu ns in the past, in phase %s",
			   (unsigned long long)(h->now - h->timer_for),
			   vgpu_phase_names[core.phase]);
}

/* Learns from a record that a VF runs. */
static void look_run(struct vhost *h, const struct vgpu_record *r)
{
	struct vhost_vf *vf = &h->vfs[r->vf];

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
}

static void look_stop(struct vhost *h, const struct vgpu_record *r)
{
	/* Invariant 2: a VF overruns its grant by at most late timers and the grace. */
	vgpu_nsec bound = h->timer_late.max + h->config.grace + h->timer_late.max;

	if (r->a == 0)
		return;
	if (r->b > bound)
		vhost_fail(h, "VF %u: overran by %llu ns", r->vf, (unsigned long long)r->b);
	h->running = VGPU_NO_VF;
	if (h->log_n > 0 && h->log[h->log_n - 1].end == VGPU_NEVER)
		h->log[h->log_n - 1].end = r->t;
}

static void look_window_end(struct vhost *h, const struct vgpu_record *r)
{
	if (r->a > h->config.window_max + h->timer_late.max)
		vhost_fail(h, "VF %u: its window took %llu ns", r->vf, (unsigned long long)r->a);
}

static void look_hang(struct vhost *h, const struct vgpu_record *r)
{
	if (r->code == VGPU_PHASE_IDLE && r->a > h->config.grace + h->timer_late.max)
		vhost_fail(h, "VF %u: found to hang after %llu ns", r->vf,
			   (unsigned long long)r->a);
}

static uint64_t mix(uint64_t hash, uint64_t v)
{
	return (hash ^ v) * UINT64_C(1099511628211);
}

/* Adds the step's records to the hash, and learns from them. */
static void look(struct vhost *h)
{
	const struct vgpu_record *r = h->out.records, *end = r + h->out.n_records;
	uint64_t hash = h->hash;

	for (; r < end; r++) {
		hash = mix(hash, r->t);
		hash = mix(hash, (uint64_t)r->type << 32 | r->vf);
		hash = mix(hash, r->a);
		switch (r->type) {
		case VGPU_REC_RUN:
			look_run(h, r);
			break;
		case VGPU_REC_STOP:
			look_stop(h, r);
			break;
		case VGPU_REC_WINDOW_END:
			look_window_end(h, r);
			break;
		case VGPU_REC_HANG:
			look_hang(h, r);
			break;
		default:
			break;
		}
	}
	h->hash = hash;
}

const struct vgpu_policy_ops *vhost_policy(const struct vhost *h)
{
	struct vgpu_core_view view;

	vgpu_core_view(h->core, &view);
	return view.next_policy ? view.next_policy : view.policy;
}

int vhost_step(struct vhost *h, const struct vgpu_event *event)
{
	int r = vgpu_core_step(h->core, event, &h->out);
	uint32_t i;

	h->steps++;
	if (event->type == VGPU_EV_INCOMING && r == 0)
		h->vfs[event->vf].incoming = event->code != 0;
	if (h->gpu_memory)
		memory_core_stepped(h);
	look(h);
	for (i = 0; i < h->out.n_actions; i++)
		device_act(h, &h->out.actions[i]);
	if (!h->unchecked)
		check(h);
	if (h->monitor)
		monitor_step(h->monitor, event);
	return r;
}

int vhost_event(struct vhost *h, const struct vgpu_event *event)
{
	struct vgpu_event e = *event;

	e.now = h->now;
	if (e.params && !e.policy)
		e.policy = vhost_policy(h);
	return vhost_step(h, &e);
}

void vhost_comes(struct vhost *h, uint32_t vf)
{
	vhost_event(h, &(struct vgpu_event){.type = VGPU_EV_INCOMING, .vf = vf, .code = 1});
}

void vhost_resumes(struct vhost *h, uint32_t vf, int64_t owed)
{
	struct vgpu_vf_view before, after;
	vgpu_nsec most = owed > 0 && h->vfs[vf].incoming ? (vgpu_nsec)owed : 0;

	vgpu_core_vf_brief(h->core, vf, &before);
	vhost_event(h, &(struct vgpu_event){.type = VGPU_EV_INCOMING, .vf = vf, .value = owed});
	vgpu_core_vf_brief(h->core, vf, &after);
	if (after.ledger.brought_ns - before.ledger.brought_ns > most)
		vhost_fail(h, "VF %u: it owed %lld ns, and now owes more", vf, (long long)owed);
}

/* Configures a VF with PARAMS. Keeps the reason if the policy refuses it. */
static void add(struct vhost *h, uint32_t i, const int64_t *params)
{
	struct vhost_vf *vf = &h->vfs[i];
	int r = vhost_event(h, &(struct vgpu_event){.type = VGPU_EV_ADD,
						    .vf = i,
						    .code = vf->context,
						    .value = vf->up,
						    .params = params});

	free(vf->refused);
	vf->refused = r < 0 ? strdup(h->out.why ? h->out.why : "no reason given") : NULL;
	if (vf->incoming) { /* vgpud knows it from the leases */
		vf->incoming = false;
		vhost_comes(h, i);
	}
}

/* Builds a core with its policy, and VFs in the state in which the device has them. */
static void build_core(struct vhost *h, const struct vgpu_policy_ops *policy, const int64_t *params,
		       const int64_t (*vf_params)[VGPU_MAX_PARAMS])
{
	const struct vgpu_policy_ops *fallback = vgpu_fallback_policy;
	int64_t values[VGPU_MAX_PARAMS];
	bool unchecked = h->unchecked;
	uint32_t i;

	h->unchecked = true; /* the core does not know all VFs yet */
	h->core_memory = calloc(1, vgpu_core_size(h->n_vfs));
	h->fallback_memory = calloc(1, fallback->memory(h->n_vfs));
	h->core = vgpu_core_init(h->core_memory, &h->config, fallback, h->fallback_memory, h->now);
	vhost_change_policy(h, policy, params, NULL);
	memory_begin(h);
	for (i = 0; i < h->n_vfs; i++) {
		const struct vhost_vf *vf = &h->vfs[i];

		vgpu_param_defaults(policy->vf_params, values);
		if (vf_params)
			memcpy(values, vf_params[i], sizeof(values));
		add(h, i, values);
		memory_added(h, i);
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
	free(h->core_memory);
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
	build_core(h, policy, params, vf_params);
}

void vhost_restart(struct vhost *h, const struct vgpu_policy_ops *policy, const int64_t *params,
		   const int64_t (*vf_params)[VGPU_MAX_PARAMS])
{
	uint32_t i;

	end(h);
	/* A driver waits for the commands in flight before it reads the GPU's state; no core gets
	 * the answers. */
	while (h->command_at != VGPU_NEVER) {
		if (h->command_at > h->now) {
			tenant_works(h, tenant_left(h), h->command_at);
			h->now = h->command_at;
		}
		device_done(h);
	}
	h->timer_at = VGPU_NEVER;
	for (i = 0; i < h->n_vfs; i++) {
		struct vhost_vf *vf = &h->vfs[i];

		if (vf->reset_at != VGPU_NEVER)
			device_forget(h, i);
		vf->reset_at = VGPU_NEVER;
		vf->scrub_at = VGPU_NEVER;
		vf->scrubs = 0;
		if (!vf->up) { /* its guest asks again */
			vf->wants_init = !vf->stays_down;
			vf->next_change = h->now + VGPU_MSEC;
		}
		vhost_touch(h, i);
	}
	if (h->monitor)
		monitor_restarted(h->monitor);
	build_core(h, policy, params, vf_params);
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
	/* At most one policy is in force and one waits; the old one may have been retired in this
	 * step. */
	h->policy_memory[h->policy_memory[0] ? 1 : 0] = memory;
	return 0;
}

/* Returns the next instant at which anything happens. LEFT: tenant_left() */
static vgpu_nsec earliest(const struct vhost *h, const vgpu_nsec *left)
{
	vgpu_nsec t = sooner(h->command_at, h->timer_at);

	if (h->gpu_memory)
		t = sooner(t, memory_next(h));
	if (h->due.n)
		t = sooner(t, h->due.entries[0].key);
	return left ? sooner(t, h->now + *left) : t;
}

/* Does what is due for a VF without an event of the core. */
static void due(struct vhost *h, uint32_t i)
{
	struct vhost_vf *vf = &h->vfs[i];

	if (vf->reset_at <= h->now) {
		device_reset_is_done(h, i);
	} else if (vf->scrub_at <= h->now) {
		vf->scrub_at = --vf->scrubs ? h->now : VGPU_NEVER;
		vf->dirty = vf->scrubs > 0;
		event_vf(h, VGPU_EV_SCRUBBED, i, 0, 0);
	} else if (vf->release_at <= h->now) {
		tenant_released(h, i);
	} else {
		tenant_lives(h, i);
	}
	vhost_touch(h, i);
}

/* Completes the command in flight. */
static void answer(struct vhost *h)
{
	struct vgpu_event done = device_done(h);

	vhost_step(h, &done);
	if (h->running != VGPU_NO_VF && h->vfs[h->running].last_start == h->now)
		device_faults(h, h->running);
}

/* Does what happens first at this instant. LEFT: tenant_left() */
static void fire(struct vhost *h, const vgpu_nsec *left)
{
	if (h->command_at <= h->now) {
		answer(h);
	} else if (h->gpu_memory && memory_next(h) <= h->now) {
		memory_due(h);
	} else if (h->due.n && h->due.entries[0].key <= h->now) {
		due(h, heap_first(&h->due));
	} else if (left && *left == 0) {
		tenant_job_done(h, h->running);
	} else {
		h->timer_at = VGPU_NEVER;
		event_vf(h, VGPU_EV_TIMER, 0, 0, 0);
	}
}

/*
 * Arms the timer. A timer fires late, by an amount that is drawn once for each armed deadline. If
 * the deadline moves to an earlier instant, the armed timer may still fire first; if it moves to a
 * later one, the timer is armed anew.
 */
static void arm(struct vhost *h)
{
	vgpu_nsec deadline = vgpu_core_deadline(h->core), at;

	if (deadline == VGPU_NEVER) {
		h->timer_at = VGPU_NEVER;
		return;
	}
	if (h->timer_at != VGPU_NEVER && deadline == h->timer_for)
		return;
	/* The thread that has just handled an event sees that the deadline has already passed. */
	at = deadline < h->now ? h->now : deadline + draw(h, h->timer_late);
	h->armed = h->now;
	if (h->timer_at != VGPU_NEVER && deadline < h->timer_for)
		at = sooner(at, h->timer_at);
	h->timer_at = at;
	h->timer_for = deadline;
}

static inline bool goes_on(const struct vhost *h)
{
	return (h->violations == 0 || h->goes_on) &&
	       (h->most_steps == 0 || h->steps < h->most_steps);
}

bool vhost_goes_on(const struct vhost *h)
{
	return goes_on(h);
}

/* Moves to the next instant at which anything happens, and does what happens first. Returns false,
 * and does nothing, if that instant is after UNTIL. */
static bool move_on(struct vhost *h, vgpu_nsec until)
{
	vgpu_nsec *left = tenant_left(h), next = earliest(h, left);

	if (next > until)
		return false;
	if (next < h->now)
		next = h->now;
	tenant_works(h, left, next);
	h->now = next;
	fire(h, left);
	return true;
}

void vhost_run(struct vhost *h, vgpu_nsec until)
{
	while (goes_on(h)) {
		arm(h);
		if (h->command_at <= h->now) /* it comes first, and no time passes */
			answer(h);
		else if (!move_on(h, until))
			break;
		if (h->gpu_memory)
			memory_follow(h);
	}
	if (h->now < until && goes_on(h)) {
		tenant_works(h, tenant_left(h), until);
		h->now = until;
	}
}

void vhost_finish(struct vhost *h)
{
	uint32_t i;

	for (i = 0; i < h->n_vfs; i++) {
		free(h->vfs[i].jobs);
		free(h->vfs[i].latencies);
		free(h->vfs[i].refused);
	}
	free(h->vfs);
	free(h->rows);
	free(h->due_memory);
	memory_end(h);
	end(h);
}
