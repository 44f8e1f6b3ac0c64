/* SPDX-License-Identifier: MIT */
/*
 * The methods of the control socket. The table at the end has all of them, and validation and the
 * method "methods" use it. Methods about policies, history and memory are in their own files.
 */
#include <errno.h>
#include <inttypes.h>

#include "control/args.h"
#include "capacity.h"
#include "config_methods.h"
#include "engine/engine.h"
#include "history.h"
#include "vms/hook.h"
#include "vms/lease.h"
#include "vms/memory_methods.h"
#include "vms/outgoing.h"
#include "methods.h"
#include "policy_explain.h"
#include "policy_methods.h"
#include "promised.h"
#include "tenant_methods.h"
#include "vms/reconcile.h"
#include "vms/vm.h"
#include "vms/vm_check.h"

static json *quantiles(const struct histogram *h)
{
	json *o = json_object_new_object();

	put_int(o, "n", h->n);
	put_int(o, "p50_ns", histogram_quantile(h, 500));
	put_int(o, "p99_ns", histogram_quantile(h, 990));
	put_int(o, "p999_ns", histogram_quantile(h, 999));
	put_int(o, "max_ns", h->max);
	return o;
}

static const char *const governed_states[] = {
	[VGPU_GOVERNED_ASLEEP] = "asleep",
	[VGPU_GOVERNED_PARTIAL] = "partial",
	[VGPU_GOVERNED_BUSY] = "busy",
};

/* Members only of VFs whose GPU's firmware schedules. */
static void put_governed_vf(json *o, const struct engine_snapshot *s, uint32_t i)
{
	const struct vgpu_governed_vf_view *vf = &s->governed_vfs[i];
	const struct engine_share *share = &s->shares[i];

	put_text(o, "work", s->caps.no_usage ? "unknown" : governed_states[vf->state]);
	put_int(o, "quantum_ns", vf->quantum);
	put_int(o, "timeout_ns", vf->timeout);
	put_int(o, "late_ns", vf->late);
	json_object_object_add(o, "carry_ns", json_object_new_int64(vf->ledger.carry));
	json_object_object_add(o, "lapsed_ns", json_object_new_int64(vf->ledger.lapsed));
	put_int(o, "least_ppm", vf->bound.least_ppm);
	put_int(o, "leak_ppm", vf->bound.leak_ppm);
	put_int(o, "span_ns", s->span);
	json_object_object_add(o, "promised_ppm",
			       share->known ? json_object_new_int64(share->promised_ppm) : NULL);
	json_object_object_add(o, "served_ppm",
			       share->known ? json_object_new_int64(share->served_ppm) : NULL);
	json_object_object_add(o, "error_ppm",
			       share->known ? json_object_new_int64((int64_t)share->served_ppm -
								    (int64_t)share->promised_ppm)
					    : NULL);
}

static json *vf_json(const struct call *call, uint32_t i)
{
	const struct engine_snapshot *s = &call->snapshot;
	const struct vgpu_vf_view *vf = &s->vfs[i];
	const struct vgpu_vf_ledger *l = &vf->ledger;
	json *o = json_object_new_object(), *ends = json_object_new_object();
	char name[sizeof(((struct claim_hostdev *)0)->address)];
	uint32_t e;

	put_int(o, "vf", i);
	vm_vf_name(call->gpu, i, name, sizeof(name));
	if (name[0])
		put_text(o, "address", name);
	if (call->gpu->leases[i].state != LEASE_NONE)
		put_text(o, "domain", call->gpu->leases[i].domain);
	put_text(o, "state", vgpu_vf_state_names[vf->state]);
	put_text(o, "context", vgpu_context_names[vf->context]);
	put_bool(o, "has_work", vf->has_work);
	put_bool(o, "on_engine", vf->on_engine);
	put_bool(o, "incoming", vf->incoming);
	put_int(o, "memory_bytes", vm_memory_of(call->gpu, i, s));
	if (s->found.partition.vfs[i].offset < s->caps.memory)
		put_int(o, "memory_offset", s->found.partition.vfs[i].offset);
	put_bool(o, "swapped", vm_is_swapped(i, s));
	put_bool(o, "pinned", s->pinned >> i & 1);
	put_promised(o, s->core.policy, vf);
	json_object_object_add(o, "params", params_json(s->core.policy->vf_params, vf->params));
	put_int(o, "run_ns", l->run_ns);
	put_int(o, "donated_ns", l->donated_ns);
	put_int(o, "switch_ns", l->switch_ns);
	put_int(o, "exclusive_ns", l->exclusive_ns);
	put_int(o, "reset_ns", l->reset_ns);
	put_int(o, "charged_ns", l->charged_ns);
	put_int(o, "pending_ns", vf->pending_ns);
	put_int(o, "forgiven_ns", l->forgiven_ns);
	put_int(o, "debt_ns", l->debt_ns);
	put_int(o, "debt_charged_ns", l->debt_charged_ns);
	put_int(o, "debt_lapsed_ns", l->debt_lapsed_ns);
	put_int(o, "brought_ns", l->brought_ns);
	put_int(o, "written_off_ns", vf->written_off_ns);
	put_int(o, "fined_ns", l->fined_ns);
	put_int(o, "overrun_ns", l->overrun_ns);
	put_int(o, "max_overrun_ns", l->max_overrun_ns);
	put_int(o, "preempt_ns", l->preempt_ns);
	put_int(o, "wait_ns", l->wait_ns);
	put_int(o, "wait_max_ns", l->wait_max_ns);
	json_object_object_add(o, "lag_ns", json_object_new_int64(vf->lag_ns));
	put_int(o, "dispatches", l->dispatches);
	put_int(o, "wakes", l->wakes);
	put_int(o, "preempted_others", l->preempted);
	for (e = 0; e < VGPU_END_COUNT; e++)
		put_int(ends, vgpu_end_names[e], l->ends[e]);
	json_object_object_add(o, "ends", ends);
	put_int(o, "hangs", l->hangs);
	put_int(o, "resets", l->resets);
	put_int(o, "guest_resets", l->guest_resets);
	put_int(o, "windows", l->windows);
	put_int(o, "window_timeouts", l->window_timeouts);
	put_int(o, "refused", l->refused);
	put_int(o, "clamped", l->clamped);
	put_int(o, "violations", l->violations);
	if (s->caps.counts) {
		put_int(o, "cpu_ns", s->spent.cpu[i]);
		put_int(o, "jobs", s->spent.jobs[i]);
	}
	if (s->caps.watches) {
		put_int(o, "driver_ns", s->spent.driver[i]);
		put_int(o, "driver_beyond_ns", s->spent.beyond[i]);
	}
	if (s->governed)
		put_governed_vf(o, s, i);
	return o;
}

static json *finish_vf_list(struct call *call)
{
	json *o = json_object_new_object(), *list = json_object_new_array();
	uint32_t i;

	for (i = 0; i < call->snapshot.n_vfs; i++)
		json_object_array_add(list, vf_json(call, i));
	put_text(o, "gpu", call->gpu->config->name);
	put_int(o, "now_ns", call->snapshot.now);
	put_int(o, "wall_ns", call->snapshot.core.engine.wall_ns);
	put_int(o, "switch_ns", call->snapshot.core.engine.switch_ns);
	put_int(o, "idle_ns", call->snapshot.core.engine.idle_ns);
	put_text(o, "policy", call->snapshot.core.policy->name);
	json_object_object_add(o, "vfs", list);
	return o;
}

static int begin_vf_show(struct control *control, struct call *call, struct vgpu_error *err)
{
	uint32_t vf;
	int r = call_find_gpu(control, call, err);

	if (r == 0)
		r = call_find_vf(call, &vf, err);
	if (r != 0)
		return r;
	return call_look_begin(control, call, err);
}

static json *finish_vf_show(struct call *call)
{
	return vf_json(call, (uint32_t)call_int(call, "vf", 0));
}

static void put_governor(json *o, const struct vgpu_governor_view *g)
{
	static const char *const modes[] = {
		[VGPU_GOVERNOR_NONE] = "none",
		[VGPU_GOVERNOR_STATIC] = "static",
		[VGPU_GOVERNOR_GOVERNED] = "governed",
		[VGPU_GOVERNOR_STILL] = "counters stand still",
		[VGPU_GOVERNOR_FAULTY] = "faulty policy",
		[VGPU_GOVERNOR_STOPPED] = "stopped",
	};

	put_text(o, "governor", modes[g->mode]);
	put_bool(o, "keeps_turns", g->keep_turns);
	put_int(o, "epochs", g->epochs);
	put_int(o, "plans", g->plans);
	put_int(o, "plan_writes", g->writes);
	put_int(o, "plans_failed", g->failed);
	put_int(o, "settings_clamped", g->clamped);
	put_int(o, "unread_ns", g->unread);
}

/* The state of the GPU's own scheduler. */
static void put_declared(json *o, const struct vgpu_observation *seen)
{
	json *d = json_object_new_object(), *lists = json_object_new_array(), *list;
	uint32_t i;

	if (seen->policy)
		put_text(d, "policy", seen->policy);
	put_int(d, "slice_ns", seen->slice);
	put_bool(d, "waits", seen->waits);
	if (seen->trouble)
		put_text(d, "trouble", seen->trouble);
	if (seen->stale)
		put_text(d, "stale", seen->stale);
	put_int(d, "vgpus", seen->running);
	put_int(d, "unassigned", seen->unassigned);
	for (i = 0; i < seen->n_runlists; i++) {
		list = json_object_new_object();
		put_int(list, "id", seen->runlists[i].id);
		put_int(list, "weight", seen->runlists[i].weight);
		put_int(list, "turns", seen->runlists[i].turns);
		put_int(list, "run_ns", seen->runlists[i].run);
		put_int(list, "preempt_ns", seen->runlists[i].preemption);
		json_object_array_add(lists, list);
	}
	json_object_object_add(d, "runlists", lists);
	json_object_object_add(o, "declared", d);
}

static json *gpu_json(struct call *call)
{
	const struct engine_snapshot *s = &call->snapshot;
	const struct vgpu_engine_ledger *l = &s->core.engine;
	json *o = json_object_new_object();

	put_text(o, "gpu", call->gpu->config->name);
	put_text(o, "device", call->gpu->config->device);
	put_text(o, "state", s->lost ? "lost" : "running");
	if (s->lost)
		put_text(o, "why", s->lost_why);
	put_text(o, "model", s->caps.model);
	put_text(o, "driver", s->caps.driver);
	put_text(o, "layout", s->caps.layout);
	put_text(o, "transport", s->caps.transport);
	put_text(o, "preemption", s->caps.preemption);
	put_int(o, "preempt_typical_ns", s->caps.preempt_typical);
	put_int(o, "preempt_longest_ns", s->caps.preempt_longest);
	put_int(o, "preempt_leak_ppm", s->caps.preempt_leak);
	put_bool(o, "adopted", s->found.adopted);
	put_bool(o, "realtime", s->realtime);
	put_int(o, "vfs", s->n_vfs);
	put_int(o, "max_vfs", s->caps.max_vfs);
	put_int(o, "memory_bytes", s->caps.memory);
	put_int(o, "pf_memory_bytes", s->found.partition.pf.size);
	put_int(o, "free_memory_bytes", s->found.partition.free);
	put_text(o, "policy", s->core.policy->name);
	json_object_object_add(o, "params", params_json(s->core.policy->params, s->core.params));
	put_int(o, "policy_since_ns", call->gpu->heard.policy_since);
	if (s->core.next_policy)
		put_text(o, "next_policy", s->core.next_policy->name);
	if (s->core.last_fault != VGPU_FAULT_NONE) {
		put_text(o, "evicted_policy", s->core.faulty);
		put_text(o, "evicted_why", vgpu_fault_text(s->core.last_fault));
	}
	put_scheduler(o, s);
	if (s->declared)
		put_declared(o, &s->observed);
	if (s->governed)
		put_governor(o, &s->governor);
	put_text(o, "phase", vgpu_phase_names[s->core.phase]);
	json_object_object_add(o, "current",
			       s->core.current == VGPU_NO_VF
				       ? NULL
				       : json_object_new_int64(s->core.current));
	put_int(o, "now_ns", s->now);
	put_int(o, "wall_ns", l->wall_ns);
	put_int(o, "switch_ns", l->switch_ns);
	put_int(o, "idle_ns", l->idle_ns);
	put_int(o, "switches", l->switches);
	put_int(o, "switch_estimate_ns", s->core.facts.switch_ns);
	return o;
}

static int begin_ping(struct control *, struct call *call, struct vgpu_error *)
{
	call_answer(call, NULL);
	return 0;
}

/* Lists all GPUs from the configuration: a snapshot would need a request to each engine. */
static int begin_gpu_list(struct control *control, struct call *call, struct vgpu_error *)
{
	json *o = json_object_new_object(), *list = json_object_new_array();
	uint32_t i;

	for (i = 0; i < control->n_gpus; i++) {
		struct gpu *gpu = &control->gpus[i];
		json *g = json_object_new_object();

		put_text(g, "gpu", gpu->config->name);
		put_text(g, "device", gpu->config->device);
		put_int(g, "vfs", (uint64_t)gpu->config->vfs);
		put_text(g, "policy", engine_policy(gpu->engine)->in_force.policy->name);
		put_text(g, "state", engine_trouble(gpu->engine) ? "lost" : "running");
		if (engine_trouble(gpu->engine))
			put_text(g, "why", engine_policy(gpu->engine)->lost_why);
		json_object_array_add(list, g);
	}
	json_object_object_add(o, "gpus", list);
	call_answer(call, o);
	return 0;
}

static json *finish_stats(struct call *call)
{
	const struct engine_snapshot *s = &call->snapshot;
	const struct vgpu_engine_ledger *l = &s->core.engine;
	json *o = gpu_json(call);

	json_object_object_add(o, "boundary_lateness", quantiles(&s->lateness));
	json_object_object_add(o, "world_switch", quantiles(&s->switches));
	json_object_object_add(o, "preemption", quantiles(&s->preemption));
	json_object_object_add(o, "decision", quantiles(&s->decisions));
	put_int(o, "spun_ns", s->spun);
	put_int(o, "steps", s->steps);
	put_int(o, "records_lost", call->gpu->heard.lost);
	put_int(o, "stale_answers", l->stale_answers);
	put_int(o, "clamped_slices", l->clamped);
	put_int(o, "evictions", l->evictions);
	put_int(o, "limited_wakes", l->wake_limited);
	return o;
}

static int begin_vf_reset(struct control *control, struct call *call, struct vgpu_error *err)
{
	uint32_t vf = 0;
	int r = call_find_gpu(control, call, err);

	if (r == 0)
		r = call_find_vf(call, &vf, err);
	if (r < 0)
		return r;
	call->request.event = (struct vgpu_event){.type = VGPU_EV_RESET_VF, .vf = vf};
	return call_send(call, err);
}

/* Warnings about running VMs. */
static json *warnings_json(struct control *control)
{
	json *list = json_object_new_array(), *o;
	uint32_t what;

	for (what = 0; what < CONTROL_WARNINGS; what++) {
		if (!control->reported.warned[what])
			continue;
		json_object_object_foreach(control->reported.warned[what], host, vms)
		{
			(void)host;
			json_object_object_foreach(vms, uuid, domain)
			{
				o = json_object_new_object();
				put_text(o, "warning", control_warning_names[what]);
				put_text(o, "domain", json_object_get_string(domain));
				put_text(o, "uuid", uuid);
				json_object_array_add(list, o);
			}
		}
	}
	return list;
}

/* Lists the leases, GPU by GPU. */
static int begin_vm_list(struct control *control, struct call *call, struct vgpu_error *)
{
	json *o = json_object_new_object(), *list = json_object_new_array(), *vm;
	char address[PCI_ADDRESS_SIZE];
	const struct lease *l;
	const char *lost;
	uint32_t g, vf;

	for (g = 0; g < control->n_gpus; g++) {
		lost = engine_trouble(control->gpus[g].engine);
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
			l = &control->gpus[g].leases[vf];
			if (l->state == LEASE_NONE || l->by != CLAIM_BY_VM)
				continue;
			vm = json_object_new_object();
			put_text(vm, "domain", l->domain);
			put_text(vm, "uuid", l->uuid);
			put_text(vm, "vf_name", l->vf_name);
			put_text(vm, "gpu", control->gpus[g].config->name);
			put_int(vm, "vf", vf);
			put_text(vm, "state", lease_state_names[l->state]);
			if (lost)
				put_text(vm, "gpu_lost", lost);
			if (vm_vf_address(&control->gpus[g], vf, address))
				put_bool(vm, "attached", l->attached);
			put_text(vm, "on_hang", claim_on_hang_names[l->on_hang]);
			if (l->said[0])
				put_text(vm, "refused", l->said);
			if (l->not_in_force[0]) {
				put_text(vm, "not_in_force", l->not_in_force);
				put_text(vm, "policy",
					 engine_policy(control->gpus[g].engine)
						 ->in_force.policy->name);
			}
			json_object_array_add(list, vm);
		}
	}
	json_object_object_add(o, "vms", list);
	list = json_object_new_array();
	for (g = 0; g < control->reported.n_unreadable; g++) {
		vm = json_object_new_object();
		put_text(vm, "domain", control->reported.unreadable[g].domain);
		put_text(vm, "uuid", control->reported.unreadable[g].uuid);
		put_text(vm, "why", control->reported.unreadable[g].why);
		json_object_array_add(list, vm);
	}
	json_object_object_add(o, "unreadable", list);
	json_object_object_add(o, "warnings", warnings_json(control));
	call_answer(call, o);
	return 0;
}

static int begin_methods(struct control *, struct call *call, struct vgpu_error *)
{
	static const char *const types[] = {"string", "integer", "object", "boolean"};
	static const char *const accesses[] = {"read", "change", "tenant", "any"};
	json *o = json_object_new_object(), *list = json_object_new_array(), *m, *args, *a;
	unsigned i, j;

	for (i = 0; methods[i].name; i++) {
		m = json_object_new_object();
		args = json_object_new_array();
		put_text(m, "method", methods[i].name);
		put_text(m, "help", methods[i].help);
		put_text(m, "access", accesses[methods[i].access]);
		for (j = 0; methods[i].args[j].name; j++) {
			const struct arg *arg = &methods[i].args[j];

			a = json_object_new_object();
			put_text(a, "name", arg->name);
			put_text(a, "type", types[arg->type]);
			put_text(a, "help", arg->help);
			put_bool(a, "required", arg->required);
			json_object_array_add(args, a);
		}
		json_object_object_add(m, "args", args);
		json_object_array_add(list, m);
	}
	put_text(o, "version", VGPU_VERSION);
	json_object_object_add(o, "methods", list);
	call_answer(call, o);
	return 0;
}

const struct method *method_find(const char *name)
{
	unsigned i;

	for (i = 0; methods[i].name; i++)
		if (strcmp(methods[i].name, name) == 0)
			return &methods[i];
	return NULL;
}

static const struct arg *find_arg(const struct method *method, const char *name)
{
	unsigned i;

	for (i = 0; method->args[i].name; i++)
		if (strcmp(method->args[i].name, name) == 0)
			return &method->args[i];
	return NULL;
}

int method_check(const struct method *method, struct json_object *args, struct vgpu_error *err)
{
	static const enum json_type types[] = {json_type_string, json_type_int, json_type_object,
					       json_type_boolean};
	const struct arg *arg;
	json *value;
	int64_t n;
	unsigned i;

	if (args && !json_object_is_type(args, json_type_object))
		return vgpu_error_set(err, -EINVAL, "args: want an object");
	if (args) {
		json_object_object_foreach(args, key, given)
		{
			arg = find_arg(method, key);
			if (!arg)
				return vgpu_error_set(err, -EINVAL,
						      "%.40s: %s has no such argument", key,
						      method->name);
			if (!json_object_is_type(given, types[arg->type]))
				return vgpu_error_set(err, -EINVAL, "%s: want %s", key,
						      json_type_to_name(types[arg->type]));
			if (arg->type == ARG_STRING && json_object_get_string_len(given) < arg->min)
				return vgpu_error_set(err, -EINVAL, "%s is empty", key);
			n = json_object_get_int64(given);
			if (arg->type == ARG_INT && (n < arg->min || n > arg->max))
				return vgpu_error_set(err, -EINVAL,
						      "%s = %" PRId64 ": want %" PRId64
						      " to %" PRId64,
						      key, n, arg->min, arg->max);
		}
	}
	for (i = 0; method->args[i].name; i++)
		if (method->args[i].required &&
		    !json_object_object_get_ex(args, method->args[i].name, &value))
			return vgpu_error_set(err, -EINVAL, "%s is missing", method->args[i].name);
	return 0;
}

#define GPU_ARG                                                                                    \
	{                                                                                          \
		"gpu", ARG_STRING, 0, 0, false, "the GPU; may be omitted if there is only one"     \
	}
/* The libvirt of the VMs that a call is about: during a migration, two libvirts have a VM with the
 * same UUID. */
#define HOST_ARG                                                                                   \
	{                                                                                          \
		"host", ARG_STRING, 1, 0, true, "which libvirt, as vgpud-hook names it"            \
	}
#define VF_ARG                                                                                     \
	{                                                                                          \
		"vf", ARG_INT, 0, INT32_MAX, true, "number of the VF"                              \
	}
#define PARAMS_ARG(r, t)                                                                           \
	{                                                                                          \
		"params", ARG_OBJECT, 0, 0, r, t                                                   \
	}

#define SAVE_ARGS                                                                                  \
	{"save", ARG_BOOL, 0, 0, false, "keep the change over a restart of vgpud"},                \
	{                                                                                          \
		"reason", ARG_STRING, 0, 0, false, "with save: why, for the configuration"         \
	}
#define MIB_ARG                                                                                    \
	{                                                                                          \
		"mib", ARG_INT, 0, 1 << 24, true, "size of the partition, MiB; 0: no memory"       \
	}

const struct method methods[] = {
	{"methods", ACCESS_READ, "list the methods", {{0}}, begin_methods, NULL},
	{"ping", ACCESS_ANY, "answer at once, with nothing", {{0}}, begin_ping, NULL},
	{"gpu.list", ACCESS_READ, "list the GPUs", {{0}}, begin_gpu_list, NULL},
	{"gpu.show", ACCESS_READ, "show a GPU", {GPU_ARG}, call_look_begin, gpu_json},
	{"gpu.capacity",
	 ACCESS_CHANGE,
	 "show a GPU's capacity for VMs",
	 {GPU_ARG},
	 call_look_begin,
	 capacity_json},
	{"vf.list",
	 ACCESS_READ,
	 "list the VFs of a GPU",
	 {GPU_ARG},
	 call_look_begin,
	 finish_vf_list},
	{"vf.show", ACCESS_READ, "show a VF", {GPU_ARG, VF_ARG}, begin_vf_show, finish_vf_show},
	{"vf.set",
	 ACCESS_CHANGE,
	 "change the policy's parameters of a VF",
	 {GPU_ARG, VF_ARG, PARAMS_ARG(true, "name and value of each parameter to change"),
	  SAVE_ARGS},
	 begin_vf_set,
	 finish_vf_set},
	{"vf.reset",
	 ACCESS_CHANGE,
	 "reset a VF: its guest loses its work; ends a quarantine",
	 {GPU_ARG, VF_ARG},
	 begin_vf_reset,
	 NULL},
	{"memory.show",
	 ACCESS_READ,
	 "show which VF has which part of a GPU's memory",
	 {GPU_ARG},
	 call_look_begin,
	 memory_json},
	{"memory.plan",
	 ACCESS_READ,
	 "show what a resize of a VF would move and clear",
	 {GPU_ARG, VF_ARG, MIB_ARG},
	 memory_plan_begin,
	 memory_plan_json},
	{"memory.set",
	 ACCESS_CHANGE,
	 "resize a VF, now and as its usual size",
	 {GPU_ARG,
	  VF_ARG,
	  MIB_ARG,
	  {"force", ARG_BOOL, 0, 0, false,
	   "reset the VF if a guest uses it; the guest loses its work"}},
	 memory_set_begin,
	 memory_plan_json},
	{"memory.compact",
	 ACCESS_CHANGE,
	 "move partitions until the free memory is one block",
	 {GPU_ARG},
	 memory_compact_begin,
	 NULL},
	{"vm.list", ACCESS_READ, "list the VMs that have a VF", {{0}}, begin_vm_list, NULL},
	{"vm.sync",
	 ACCESS_CHANGE,
	 "adjust leases to the VMs that libvirt runs; the answer says what to attach and detach",
	 {{"as_of_ns", ARG_INT, 0, INT64_MAX, true,
	   "when libvirt listed its domains, CLOCK_MONOTONIC, nanoseconds"},
	  {"domains", ARG_OBJECT, 0, 0, true,
	   "the XML of each running domain, by UUID; \"\": it has neither claim nor PCI device; "
	   "null: it is too long"},
	  HOST_ARG,
	  {"paused", ARG_OBJECT, 0, 0, false,
	   "the domains whose CPUs do not run, by UUID; without it, none is known to run"}},
	 vm_sync_begin,
	 NULL},
	{"vm.extend",
	 ACCESS_CHANGE,
	 "reserve the VFs that a running VM claims and does not have",
	 {{"xml", ARG_STRING, 0, 0, true, "the domain's XML"}, HOST_ARG},
	 vm_extend_begin,
	 NULL},
	{"vm.travel",
	 ACCESS_READ,
	 "describe the VFs of a running VM for a migration; {}: they cannot be migrated",
	 {{"xml", ARG_STRING, 0, 0, true, "the domain's XML"}, HOST_ARG},
	 vm_travel_begin,
	 NULL},
	{"vm.hung",
	 ACCESS_CHANGE,
	 "list, once each, the VMs to pause or stop because their VF hung",
	 {HOST_ARG},
	 vm_hung_begin,
	 NULL},
	{"vm.explain",
	 ACCESS_READ,
	 "show what a VM claims and has, or why it gets none",
	 {{"xml", ARG_STRING, 0, 0, true, "the domain's XML"}},
	 vm_explain_begin,
	 NULL},
	{"vm.check",
	 ACCESS_CHANGE,
	 "check whether the policies take a changed claim of a VM; changes nothing",
	 {{"xml", ARG_STRING, 0, 0, true, "the domain's XML"},
	  {"claim", ARG_STRING, 0, 0, true, "the changed <vgpu> element"},
	  {"next_start", ARG_BOOL, 0, 0, false,
	   "the claim is for the VM's next start, not for the VM as it runs"}},
	 vm_check_begin,
	 NULL},
	{"hook",
	 ACCESS_CHANGE,
	 "handle a call of libvirt's hook; an error refuses the operation",
	 {{"operation", ARG_STRING, 0, 0, true, "prepare, start, started, stopped, release, ..."},
	  HOST_ARG,
	  {"reason", ARG_STRING, 0, 0, false, "reason of a release"},
	  {"xml", ARG_STRING, 0, 0, true, "the domain's XML"}},
	 hook_begin,
	 NULL},
	{"tenant.start",
	 ACCESS_TENANT,
	 "give the calling process, or a container's first one, a VF for as long as it lives",
	 {{"gpu", ARG_STRING, 1, 0, false, "the GPU; without it, any that has VFs for it"},
	  {"name", ARG_STRING, 1, 0, false, "what to call it"},
	  {"memory_bytes", ARG_INT, 0, INT64_MAX, false, "device memory that it needs at least"},
	  {"profile", ARG_STRING, 1, 0, false, "a [profile NAME] of the configuration"},
	  {"container", ARG_OBJECT, 0, 0, false,
	   "the container: id, pid of its first process, annotations, names, attach, later"},
	  PARAMS_ARG(false, "name and value of each parameter that it claims of the policy")},
	 tenant_start_begin,
	 NULL},
	{"tenant.stop",
	 ACCESS_TENANT,
	 "end a lease, or look at once for containers that have ended",
	 {{"lease", ARG_STRING, 1, 0, false, "the lease to end"},
	  {"container", ARG_STRING, 1, 0, false, "id of the container that may have ended"}},
	 tenant_stop_begin,
	 NULL},
	{"tenant.set",
	 ACCESS_TENANT,
	 "change what a lease claims of the policy",
	 {{"lease", ARG_STRING, 1, 0, true, "the lease"},
	  PARAMS_ARG(true, "name and value of each parameter to change")},
	 tenant_set_begin,
	 NULL},
	{"tenant.name",
	 ACCESS_TENANT,
	 "say what its engine calls a container",
	 {{"lease", ARG_STRING, 1, 0, true, "the container's lease"},
	  {"names", ARG_OBJECT, 0, 0, true, "name, image, pod, namespace"}},
	 tenant_name_begin,
	 NULL},
	{"tenant.note",
	 ACCESS_TENANT,
	 "keep why a container did not start, for tenant.explain",
	 {{"container", ARG_OBJECT, 0, 0, true, "the container: id, names"},
	  {"why", ARG_STRING, 1, 0, true, "one sentence"}},
	 tenant_note_begin,
	 NULL},
	{"tenant.list",
	 ACCESS_TENANT,
	 "list the caller's programs and containers that have a VF; for root all, and VMs",
	 {{0}},
	 tenant_list_begin,
	 NULL},
	{"tenant.explain",
	 ACCESS_TENANT,
	 "show why the latest start of a container or program was refused",
	 {{"id", ARG_STRING, 1, 0, true, "its id, or the beginning of it, its name, or last"}},
	 tenant_explain_begin,
	 NULL},
	{"policy.list",
	 ACCESS_READ,
	 "list the policies and their parameters",
	 {{0}},
	 begin_policy_list,
	 NULL},
	{"policy.show",
	 ACCESS_READ,
	 "show the policy of a GPU",
	 {GPU_ARG},
	 call_look_begin,
	 finish_policy_show},
	{"policy.explain",
	 ACCESS_READ,
	 "show what a policy promises, or would promise, to each VF of a GPU",
	 {GPU_ARG,
	  {"policy", ARG_STRING, 0, 0, false, "the policy; without it, the one in force"},
	  PARAMS_ARG(false, "name and value of parameters that it would have")},
	 policy_explain_begin,
	 policy_explain_finish},
	{"policy.set",
	 ACCESS_CHANGE,
	 "change the policy of a GPU or its parameters",
	 {GPU_ARG,
	  {"policy", ARG_STRING, 0, 0, false,
	   "name of the policy; without it, only parameters change"},
	  PARAMS_ARG(false, "name and value of each parameter to change"),
	  {"force", ARG_BOOL, 0, 0, false, "even if VMs lose what they claim"},
	  SAVE_ARGS},
	 begin_policy_set,
	 finish_policy_set},
	{"config.diff",
	 ACCESS_CHANGE,
	 "list differences between vgpud and its configuration",
	 {{0}},
	 config_diff_begin,
	 NULL},
	{"config.reload",
	 ACCESS_CHANGE,
	 "check the configuration and put into force what needs no restart, all of it or nothing",
	 {{"force", ARG_BOOL, 0, 0, false, "even if VMs lose what they claim"}},
	 config_reload_begin,
	 NULL},
	{"timeline",
	 ACCESS_READ,
	 "list all records of the last milliseconds",
	 {GPU_ARG,
	  {"ms", ARG_INT, 1, 60000, false,
	   "how far back, milliseconds (100; where firmware schedules, 10000)"}},
	 call_look_begin,
	 finish_timeline},
	{"stats",
	 ACCESS_READ,
	 "show latencies and counters of a GPU",
	 {GPU_ARG},
	 call_look_begin,
	 finish_stats},
	{"events",
	 ACCESS_READ,
	 "list hangs, resets, exclusive windows and changes of state",
	 {GPU_ARG,
	  {"limit", ARG_INT, 1, EVENTS, false, "number of records, the newest (50)"},
	  {"since_ns", ARG_INT, 0, INT64_MAX, false,
	   "the earliest record, CLOCK_MONOTONIC, nanoseconds (0)"}},
	 call_look_begin,
	 finish_events},
	{"record",
	 ACCESS_READ,
	 "return the latest events for vgpu-sim replay",
	 {GPU_ARG},
	 call_look_begin,
	 finish_record},
	{0},
};
