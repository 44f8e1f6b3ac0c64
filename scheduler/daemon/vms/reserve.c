/* SPDX-License-Identifier: MIT */
#include "reserve.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "control/change.h"
#include "clearing.h"
#include "engine/engine.h"
#include "fit.h"
#include "hold.h"
#include "lease.h"
#include "live.h"
#include "control/log.h"
#include "memory_methods.h"
#include "config/trial.h"
#include "vfio/device.h"
#include "vm.h"
#include "vm_door.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

/* Less than the ten seconds after which the hook gives up. */
#define SCRUB_TIMEOUT (8 * VGPU_SEC)
#define SCRUB_LOOKS_MS 20

/* The metrics' name of each mode; RESERVE_ASK is not counted. */
static const enum refusal_request requests[] = {
	[RESERVE_START] = REFUSAL_START,
	[RESERVE_INCOMING] = REFUSAL_INCOMING,
	[RESERVE_RUNNING] = REFUSAL_ATTACH,
};

/* Returns whether the VM comes with the state of the claimed VF. */
static bool comes(const struct reservation *job, const struct claim_vf *claimed)
{
	return job->mode == RESERVE_INCOMING && fit_device(&job->claim, claimed);
}

/* Checks that libvirt can give the VM a VF of this GPU with its present XML. Returns 0, or -errno
 * with the reason in WHY. */
static int check_device(const struct gpu *gpu, const struct reservation *job,
			const struct claim_vf *claimed, struct refusal *why)
{
	const struct claim_hostdev *hostdev = claim_device_of(&job->claim, claimed);
	const char *name = gpu->config->name;
	char address[PCI_ADDRESS_SIZE], token[VFIO_TOKEN_SIZE];
	int r = comes(job, claimed) ? fit_check_gpu(gpu, &job->travel, claimed, &why->why) : 0;

	if (r < 0) {
		why->reason = REFUSAL_STATE;
		return r;
	}
	if (!vm_vf_address(gpu, 0, address))
		return job->mode != RESERVE_RUNNING
			       ? 0
			       : refusal_set(why, REFUSAL_DEVICE, -ENOTSUP,
					     "VFs of %s are not PCI devices: they cannot be "
					     "attached to a running VM",
					     name);
	vfio_vf_token(gpu->config->device, token);
	if (!token[0])
		return 0;
	if (!hostdev)
		return refusal_set(why, REFUSAL_TOKEN, -ENOTSUP,
				   "VFs of %s are opened with a token: the domain needs a "
				   "<hostdev> of its own that gives it (docs/domain.md)",
				   name);
	if (strcasecmp(hostdev->token, token) != 0)
		return refusal_set(why, REFUSAL_TOKEN, -EACCES,
				   "VFs of %s are opened with a token: the domain's override "
				   "gives %s %s vf-token (docs/domain.md)",
				   name, hostdev->alias, hostdev->token[0] ? "a wrong" : "no");
	return 0;
}

/* Checks that the domain's devices match the claim, on any GPU. */
static int check_devices(const struct call *call, const struct claim_vf *claimed)
{
	struct reservation *job = reservation_of(call);
	struct vgpu_error err;
	bool all = job->mode == RESERVE_START || job->mode == RESERVE_ASK;
	int r = vm_check_devices(call->control, &job->claim, claimed, all, &err);

	return r < 0 ? refusal_set(&job->refusal, REFUSAL_DEVICE, r, "%s", err.text) : 0;
}

/* Returns whether a GPU has VFs for this kind of tenant. */
static bool is_for(const struct gpu_config *g, const struct claim *claim)
{
	bool gated = config_is_gated(g);

	if (claim->by != CLAIM_BY_VM && !config_takes_tenants(g))
		return false;
	if (claim->by == CLAIM_BY_VM)
		return gated == claim->by_venus;
	return claim->by == CLAIM_BY_PROGRAM || !gated || claim->by_venus;
}

static const char *for_whom(const struct gpu_config *g, const struct claim *claim)
{
	return config_is_gated(g) ? claim->by == CLAIM_BY_CONTAINER
					    ? "gives a container a VF only by its name: --device "
					      "vgpud.dev/gpu=NAME or vgpuctl container attach ID "
					      "--gpu NAME"
					    : "has VFs for programs and containers, and for VMs "
					      "whose <emulator> is vgpud-qemu (docs/gated.md)"
	       : claim->by == CLAIM_BY_VM && claim->by_venus
		       ? "has no VFs for VMs whose <emulator> is vgpud-qemu"
		       : "has VFs that are PCI functions, which only VMs can use";
}

/* Returns whether a GPU fits a claimed VF, before its VFs are checked. If not, WHY gives the
 * reason, unless the claim names another GPU. */
static bool may_serve(const struct gpu *gpu, const struct reservation *job,
		      const struct claim_vf *claimed, struct refusal *why)
{
	const struct vgpu_policy_ops *policy = change_policy_of(gpu)->policy;
	const char *name = gpu->config->name;
	int64_t values[VGPU_MAX_PARAMS];
	struct vgpu_error err;

	if (job->on[job->at] != BOOKED_ANY && job->on[job->at] != (int32_t)job->gpu)
		return false;
	/* An incoming VM's XML has the VF address of its former host; it gets another one. */
	if (comes(job, claimed) ? !vm_may_be_of(gpu, claimed)
				: !vm_may_be_on(gpu, &job->claim, claimed))
		return false;
	if (job->not_on >> job->gpu & 1)
		return false;
	if (!is_for(gpu->config, &job->claim)) {
		if (claimed->gpu[0])
			refusal_set(why, REFUSAL_NO_VF, -EOPNOTSUPP, "%s %s", name,
				    for_whom(gpu->config, &job->claim));
		return false;
	}
	if (engine_trouble(gpu->engine))
		refusal_set(why, REFUSAL_GPU_LOST, -ENODEV, "%s is lost: %s", name,
			    engine_trouble(gpu->engine));
	else if (vm_read_claimed(gpu, 0, policy, claimed, values, &err) < 0)
		refusal_set(why, REFUSAL_POLICY, -EINVAL, "%s", err.text);
	else
		return check_device(gpu, job, claimed, why) == 0;
	return false;
}

/* Returns whether a VF is free; if not, WHY gives the reason. */
static bool is_free(const struct call *call, uint32_t vf, struct refusal *why)
{
	const struct lease *l = &call->gpu->leases[vf];
	enum vgpu_vf_state state = call->snapshot.vfs[vf].state;
	const char *name = call->gpu->config->name;

	bool open = lease_is_open(l, &reservation_of(call)->claim);

	if (open && state == VGPU_VF_AVAIL)
		return true;
	if (open)
		refusal_set(why, REFUSAL_NO_VF, -EBUSY, "VF %u of %s is %s", vf, name,
			    vgpu_vf_state_names[state]);
	else
		refusal_set(why, REFUSAL_NO_VF, -EBUSY, "VF %u of %s belongs to %s", vf, name,
			    l->domain);
	return false;
}

/* Returns whether a VF will be free once its memory is clear, or has its usual size: the snapshot
 * shows a state that pending changes would take from the VM. */
static bool is_being_scrubbed(const struct call *call, uint32_t vf)
{
	return lease_is_open(&call->gpu->leases[vf], &reservation_of(call)->claim) &&
	       (call->snapshot.vfs[vf].state == VGPU_VF_SCRUBBING ||
		clearing_waits(call->gpu, vf) ||
		(reservation_of(call)->mode != RESERVE_ASK && call->gpu->sizing.asked >> vf & 1));
}

/* Returns whether a VF of size A fits better than one of size B: large enough before too small,
 * then the smaller. */
static bool better(uint64_t a, uint64_t b, uint64_t least)
{
	return (a >= least) != (b >= least) ? a >= least : a < b;
}

/* Returns whether a process unknown to vgpud uses a VF. GPUs with guests that speak to vgpud report
 * this themselves. */
static bool is_used_otherwise(const struct call *call, uint32_t vf, struct refusal *why)
{
	char address[PCI_ADDRESS_SIZE], user[64];

	if (!call->snapshot.caps.hides_guests || !vm_vf_address(call->gpu, vf, address) ||
	    !pci_user(address, user, sizeof(user)))
		return false;
	refusal_set(why, REFUSAL_NO_VF, -EBUSY,
		    "VF %u of %s (%s) is used by %s, which has no lease", vf,
		    call->gpu->config->name, address, user);
	return true;
}

/* Returns whether VFIO cannot give the VF to a VM alone. */
static bool shares_its_group(const struct call *call, uint32_t vf, struct refusal *why)
{
	char address[PCI_ADDRESS_SIZE];
	struct vgpu_error err;
	struct pci_info info;

	if (!vm_vf_address(call->gpu, vf, address) || pci_describe(address, &info, NULL) < 0 ||
	    pci_check_group(&info, &err) == 0)
		return false;
	refusal_set(why, REFUSAL_NO_VF, -EPERM, "VF %u of %s: %s", vf, call->gpu->config->name,
		    err.text);
	return true;
}

/* Returns whether a VF can take over the state that comes with the VM; if not, WHY gives the
 * reason. */
static bool takes_state(const struct call *call, uint32_t vf, const struct claim_vf *claimed,
			struct refusal *why)
{
	const struct travel *travel = &reservation_of(call)->travel;

	if (fit_check_vf(call->gpu, vf, &call->snapshot, travel, claimed, &why->why) == 0)
		return true;
	why->reason = REFUSAL_STATE;
	return false;
}

/* Returns whether the VF is held for the restart of another container, and expires before a start
 * gives up. */
static bool is_held(const struct call *call, uint32_t vf)
{
	const struct lease *l = &call->gpu->leases[vf];

	return l->state == LEASE_HELD && !lease_is_open(l, &reservation_of(call)->claim) &&
	       l->expires <= vgpu_now() + SCRUB_TIMEOUT;
}

/* Chooses a free VF: the smallest that is large enough, else one that must grow and was not tried
 * yet. Returns -1 with the reason in WHY if there is none. */
static int32_t choose(struct call *call, struct refusal *why)
{
	struct reservation *job = reservation_of(call);
	const struct claim_vf *claimed = &job->claim.vfs[job->at];
	const struct claim_hostdev *hostdev = claim_device_of(&job->claim, claimed);
	const struct engine_snapshot *is = &call->snapshot;
	const char *name = call->gpu->config->name;
	bool moved = comes(job, claimed);
	int32_t at = hostdev ? vm_vf_at(call->gpu, hostdev->address) : -1, best = -1;
	int32_t want = hostdev && !moved ? at : claimed->vf;
	uint64_t least = vm_memory(call->gpu, claimed);
	struct refusal large = {.why = {""}};
	bool clears = false;
	uint32_t i;

	if (want >= (int32_t)call->snapshot.n_vfs) {
		refusal_set(why, REFUSAL_NO_GPU, -ENOENT, "%s has VFs 0 to %u, no VF %d", name,
			    call->snapshot.n_vfs - 1, want);
		return -1;
	}
	for (i = 0; i < call->snapshot.n_vfs; i++) {
		if ((want >= 0 && i != (uint32_t)want) ||
		    (job->picked[job->gpu] | job->tried) >> i & 1)
			continue;
		if (is_being_scrubbed(call, i)) {
			job->scrubbing = clears = true;
			refusal_set(want >= 0 ? why : NULL, REFUSAL_BUSY, -EBUSY,
				    "VF %u of %s is being cleared%s", i, name,
				    job->mode == RESERVE_ASK ? "; a start waits for it for a while"
							     : "");
			continue;
		}
		if (is_held(call, i))
			job->scrubbing = clears = true;
		if (!is_free(call, i, want >= 0 ? why : NULL) ||
		    (moved && !takes_state(call, i, claimed, why)))
			continue;
		if (moved && best >= 0 && best == at) /* at its former address */
			continue;
		if (job->most_memory && vm_memory_of(call->gpu, i, is) > job->most_memory) {
			refusal_set(&large, REFUSAL_MEMORY, -ENOSPC,
				    "VF %u of %s has %" PRIu64 " MiB, and %s", i, name,
				    vm_memory_of(call->gpu, i, is) >> 20, job->most_why);
			continue;
		}
		if (best < 0 || (moved && at == (int32_t)i) ||
		    better(vm_memory_of(call->gpu, i, is),
			   vm_memory_of(call->gpu, (uint32_t)best, is), least ? least : 1))
			best = (int32_t)i;
	}
	if (best >= 0 && (is_used_otherwise(call, (uint32_t)best, why) ||
			  shares_its_group(call, (uint32_t)best, why))) {
		job->tried |= VGPU_VF_BIT(best);
		return choose(call, why);
	}
	/* The kernel's driver partitions the memory of some GPUs. */
	if (best >= 0 && least == 0 && is->caps.memory > 0 &&
	    is->found.partition.vfs[best].size == 0) {
		refusal_set(why, REFUSAL_CLAIM, -EINVAL,
			    "VFs of %s have no memory until a VM claims some: claim <memory>, "
			    "or a <profile> with memory_mib",
			    name);
		return -1;
	}
	if (best < 0 && large.why.text[0])
		*why = large;
	else if (best < 0 && want < 0 && !job->tried && !(moved && why->why.text[0]))
		refusal_set(why, REFUSAL_NO_VF, -EBUSY,
			    clears ? "all %u VFs of %s are in use, held or being cleared (vgpuctl "
				     "vf list)"
			    : job->claim.by == CLAIM_BY_VM
				    ? "all %u VFs of %s are in use (vgpuctl vm list)"
				    : "all %u VFs of %s are in use (vgpuctl tenant list)",
			    call->snapshot.n_vfs, name);
	return best;
}

/*
 * The states of a reservation. Each state's function returns the next state, which follows at once,
 * or (WAITS) when the engine has answered, or a while later.
 */
enum state {
	NEXT_VF,  /* take the claim's next VF, and begin with the first GPU */
	NEXT_GPU, /* request the VFs of the next GPU that may serve it */
	CHOOSE,	  /* choose a VF */
	MEMORY,	  /* the resize has ended or was refused */
	POLICY,	  /* try the policy */
	ADMITTED, /* the policy has answered: yes or no */
	REFUSED,  /* no GPU has a VF that fits */
	GIVEN_UP, /* the client has disconnected */
	RESERVED, /* all VFs of the claim are reserved */
	WAITS,
	ENDED, /* the call may be gone */
};

static void go_on(struct call *call);

/* Continues in the state NEXT once the engine has answered the request that the caller queues
 * now. */
static void await_answer(struct call *call, enum state next)
{
	reservation_of(call)->next = next;
	call->then = go_on;
}

/* How close a GPU came before it refused: in the order of a start's checks. */
static int nearness(enum refusal_reason reason)
{
	static const enum refusal_reason asked[] = {
		REFUSAL_NO_GPU, REFUSAL_GPU_LOST, REFUSAL_POLICY, REFUSAL_STATE,
		REFUSAL_DEVICE, REFUSAL_TOKEN,	  REFUSAL_CLAIM,  REFUSAL_NO_VF,
		REFUSAL_MEMORY, REFUSAL_TIME,	  REFUSAL_BUSY,
	};
	int at = 0;

	_Static_assert(sizeof(asked) / sizeof(asked[0]) == REFUSAL_REASONS,
		       "each reason has its place");
	while (asked[at] != reason)
		at++;
	return at;
}

/* Stores why the GPU was refused. */
static void note_refusal(struct reservation *job)
{
	size_t n = strlen(job->reasons);

	if (!job->refusal.why.text[0])
		return;
	if (!job->nearest.why.text[0] ||
	    nearness(job->refusal.reason) > nearness(job->nearest.reason))
		job->nearest = job->refusal;
	snprintf(job->reasons + n, sizeof(job->reasons) - n, "%s%s", n ? "; " : "",
		 job->refusal.why.text);
	job->n_refused++;
	job->refusal.why.text[0] = '\0';
}

static void next_gpu(struct reservation *job)
{
	note_refusal(job);
	job->gpu++;
	job->tried = 0;
}

/* Begins with the first GPU. */
static void first_gpu(struct reservation *job)
{
	job->gpu = 0;
	job->tried = 0;
	job->refusal.why.text[0] = job->nearest.why.text[0] = job->reasons[0] = '\0';
	job->n_refused = 0;
}

/* Adds to the answer of RESERVE_ASK for one claimed VF. */
static void add_answer(struct reservation *job, const char *state, const char *text)
{
	struct json_object *o = json_object_new_object();
	const char *name = job->claim.vfs[job->at].name;

	json_object_object_add(o, "vf_name", json_object_new_string(name));
	json_object_object_add(o, "state", json_object_new_string(state));
	json_object_object_add(o, "text", json_object_new_string(text));
	json_object_array_add(json_object_object_get(job->answer, "vfs"), o);
}

/* Gives back all VFs reserved so far. */
static void undo(struct control *control, const struct reservation *job)
{
	struct gpu *gpu;
	uint32_t i, vf;

	for (i = 0; i < job->claim.n_vfs; i++) {
		if (!(job->reserved >> i & 1) ||
		    !lease_find(control, &job->claim, job->claim.vfs[i].name, &gpu, &vf))
			continue;
		if (gpu->leases[vf].state == LEASE_INCOMING)
			hold_drop(gpu, vf);
		gpu->leases[vf].state = LEASE_NONE;
		vm_door_unlink(gpu, vf);
		if (job->former_policy[i])
			vm_set_former(gpu, vf, job->former_policy[i], job->former[i]);
		else
			vm_set_usual(gpu, vf);
		memory_give_usual(gpu, vf);
	}
	leases_save(control);
}

static enum state refuse(struct call *call)
{
	struct reservation *job = reservation_of(call);
	const struct claim_vf *claimed = &job->claim.vfs[job->at];
	const struct claim_hostdev *hostdev = claim_device_of(&job->claim, claimed);
	/* A VM cannot start without a VF whose state it brings. */
	bool must = job->claim.required || job->mode == RESERVE_INCOMING;
	struct control *control = call->control;
	struct refusal_counts *counts = &control->refusals;
	const struct vgpu_error *why = &job->nearest.why;
	const struct gpu_config *booked;
	struct vgpu_error err;
	char others[100] = "";

	note_refusal(job);
	if (comes(job, claimed))
		hostdev = NULL;
	if (!why->text[0] && job->claim.by == CLAIM_BY_CONTAINER && !claimed->gpu[0])
		refusal_set(&job->nearest, REFUSAL_NO_GPU, -ENOENT,
			    "no GPU gives containers VFs without being named: --gpu NAME");
	else if (!why->text[0])
		refusal_set(&job->nearest, REFUSAL_NO_GPU, -ENOENT,
			    "there is no GPU %s%s%s (vgpuctl gpu list)",
			    hostdev ? "with a VF at " : "",
			    hostdev	       ? hostdev->address
			    : claimed->pool[0] ? "in pool "
					       : claimed->gpu,
			    claimed->pool);
	booked = job->on[job->at] == BOOKED_ANY ? NULL : control->gpus[job->on[job->at]].config;
	if (job->n_refused > 1)
		snprintf(others, sizeof(others),
			 " (other GPUs refuse it, too: vgpuctl vm explain)");
	vgpu_error_set(&err, -EBUSY, "%s/%s: %s%s%s%s%s", job->claim.domain, claimed->name,
		       booked ? "placement has booked " : "", booked ? booked->name : "",
		       booked ? ", but " : "", why->text, others);
	if (job->mode == RESERVE_ASK) {
		add_answer(job, "refused", job->n_refused > 1 ? job->reasons : why->text);
		job->at++;
		return NEXT_VF;
	}
	/* vgpud-libvirt asks every minute for a running VM: logs and counts the same refusal
	 * once. */
	if (job->mode != RESERVE_RUNNING || strcmp(control->refused, err.text) != 0) {
		counts->refused[requests[job->mode]][job->nearest.reason]++;
		if (!job->quiet)
			log_about(about_vm(job->claim.domain, LOG_VM_REFUSED), LOG_NOTICE, "%s%s",
				  err.text,
				  must && job->mode != RESERVE_RUNNING
					  ? ""
					  : "; the VM runs without it");
	}
	if (job->mode == RESERVE_RUNNING)
		snprintf(control->refused, sizeof(control->refused), "%s", err.text);
	undo(control, job);
	if (job->refused)
		job->refused(call, err.text);
	if (must || job->mode == RESERVE_RUNNING)
		call_fail(call, -EBUSY, err.text);
	else
		call_answer(call, NULL);
	return ENDED;
}

/* Writes the cost of swapping for the chosen VF. Returns false if it is not swapped. */
static bool cost_of(const struct call *call, char *text, size_t length)
{
	const struct reservation *job = reservation_of(call);
	uint64_t has = call->snapshot.found.partition.vfs[job->vf].size;
	uint64_t least = vm_memory(call->gpu, &job->claim.vfs[job->at]);

	return memory_cost(&call->snapshot, job->vf, least > has ? least : has, text, length);
}

/* The policy does not admit the claim on this GPU, for a reason in WHY: tries the next one. */
static enum state not_admitted(struct call *call, int r, const char *why)
{
	struct reservation *job = reservation_of(call);

	refusal_set(&job->refusal, r == -EINVAL ? REFUSAL_TIME : REFUSAL_BUSY, -EBUSY,
		    "%s: policy %s: %s", call->gpu->config->name,
		    change_policy_of(call->gpu)->policy->name, why);
	next_gpu(job);
	return NEXT_GPU;
}

/* Frees the VF again. A held one still has its container's parameters. */
static void give_up(struct call *call)
{
	struct reservation *job = reservation_of(call);

	call->gpu->leases[job->vf].state = LEASE_NONE;
	vm_door_unlink(call->gpu, job->vf);
	if (job->was_held)
		vm_set_usual(call->gpu, job->vf);
	memory_give_usual(call->gpu, job->vf);
}

static enum state hear_policy(struct call *call)
{
	struct reservation *job = reservation_of(call);
	char cost[400];

	if (call->request.result == 0 && !job->over) {
		if (!job->quiet)
			log_about(about_vf(call->gpu, job->vf, LOG_VM_RESERVED), LOG_INFO,
				  "VF reserved for %s/%s", job->claim.domain,
				  job->claim.vfs[job->at].name);
		if (cost_of(call, cost, sizeof(cost)))
			log_about(about_vf(call->gpu, job->vf, LOG_PLAIN), LOG_NOTICE, "%s/%s: %s",
				  job->claim.domain, job->claim.vfs[job->at].name, cost);
		job->reserved |= VGPU_VF_BIT(job->at);
		call->gpu->leases[job->vf].run_base = call->snapshot.vfs[job->vf].ledger.run_ns;
		if (call->gpu->leases[job->vf].state == LEASE_INCOMING)
			hold_begin(call->gpu, job->vf);
		job->at++;
		return NEXT_VF;
	}
	if (job->over) /* hook_begin has given back its VFs */
		return GIVEN_UP;
	give_up(call);
	return not_admitted(call, call->request.result,
			    call->request.why[0] ? call->request.why
						 : strerror(-call->request.result));
}

/* Tests whether the policy would admit the claim on the VF, together with the others' present
 * values and earlier picks: tried with the same core or governor, and the measured world switch. */
static int dry_run(struct call *call, struct vgpu_error *err)
{
	struct reservation *job = reservation_of(call);
	const struct policy_values *now = change_policy_of(call->gpu);
	struct policy_values *values;
	int64_t before[VGPU_MAX_PARAMS];
	int r;

	if (!job->dry)
		job->dry = calloc(CONFIG_MAX_GPUS, sizeof(*job->dry));
	if (!job->dry)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	values = &job->dry[job->gpu];
	if (values->policy != now->policy)
		*values = *now;
	memcpy(before, values->vf_params[job->vf], sizeof(before));
	r = vm_read_params(call->gpu, job->vf, now->policy, &job->claim.vfs[job->at],
			   values->vf_params[job->vf], err);
	if (r == 0)
		r = trial_admission(call->gpu->config, &call->snapshot.caps, values,
				    call->snapshot.core.facts.switch_high_ns, err);
	if (r < 0)
		memcpy(values->vf_params[job->vf], before, sizeof(before));
	return r;
}

/* Answers RESERVE_ASK: the VM would get this VF if the policy admits the claim. */
static enum state pick(struct call *call)
{
	struct reservation *job = reservation_of(call);
	char text[600], cost[400] = "";
	bool swapped = cost_of(call, cost, sizeof(cost));
	struct vgpu_error err;
	int r = dry_run(call, &err);

	if (r < 0)
		return not_admitted(call, r, err.text);
	snprintf(text, sizeof(text), "VF %u of %s is free, and policy %s admits the claim%s%s",
		 job->vf, call->gpu->config->name, change_policy_of(call->gpu)->policy->name,
		 swapped ? "; " : "", cost);
	job->picked[job->gpu] |= VGPU_VF_BIT(job->vf);
	add_answer(job, "free", text);
	job->at++;
	return NEXT_VF;
}

static int make_params(struct call *call, const struct policy_values *now, struct vgpu_error *err)
{
	struct reservation *job = reservation_of(call);
	int r = vm_read_params(call->gpu, job->vf, now->policy, &job->claim.vfs[job->at],
			       call->params, err);

	job->former_policy[job->at] = call->gpu->live.vfs >> job->vf & 1 ? now->policy : NULL;
	memcpy(job->former[job->at], now->vf_params[job->vf], sizeof(job->former[0]));
	change_set_vf(call, now);
	return r;
}

static enum state ask_policy(struct call *call)
{
	if (reservation_of(call)->mode == RESERVE_ASK)
		return pick(call);
	call->vf = reservation_of(call)->vf;
	await_answer(call, ADMITTED);
	change_begin(call, make_params);
	return WAITS;
}

static enum state hear_memory(struct call *call)
{
	struct reservation *job = reservation_of(call);
	struct gpu *gpu = call->gpu;
	bool busy;

	if (call->request.result == 0 && !job->over)
		return POLICY;
	if (!job->over && job->mode != RESERVE_ASK)
		give_up(call);
	else
		memory_give_usual(gpu, job->vf);
	/* Another change is in progress, or memory is still being cleared: tries again later. */
	busy = call->request.result == -EBUSY || call->request.result == -EAGAIN;
	job->scrubbing |= busy;
	if (call->request.result == -ENOSPC) {
		refusal_set(&job->refusal, REFUSAL_MEMORY, -ENOSPC,
			    "%" PRIu64 " MiB are claimed; %s can free at most %" PRIu64
			    " MiB in one block (vgpuctl memory show)",
			    call->request.memory.size >> 20, gpu->config->name,
			    call->request.plan.largest >> 20);
		job->tried |= VGPU_VF_BIT(job->vf);
	} else {
		refusal_set(&job->refusal, busy ? REFUSAL_BUSY : REFUSAL_MEMORY, -ENOSPC, "%s: %s",
			    gpu->config->name, call->request.why);
		next_gpu(job);
	}
	return NEXT_GPU;
}

/* Resizes the VF's partition to the claim, or, for RESERVE_ASK, asks whether that is possible. */
static enum state ask_memory(struct call *call)
{
	struct reservation *job = reservation_of(call);

	call->request.ask = ENGINE_MEMORY;
	call->request.memory = (struct vgpu_memory_change){
		.what = job->mode == RESERVE_ASK ? VGPU_MEMORY_PLAN : VGPU_MEMORY_SET,
		.vf = job->vf,
		.size = vm_memory(call->gpu, &job->claim.vfs[job->at]),
	};
	await_answer(call, MEMORY);
	call_queue(call);
	return WAITS;
}

static enum state choose_vf(struct call *call)
{
	struct reservation *job = reservation_of(call);
	const struct claim_vf *claimed = &job->claim.vfs[job->at];
	const struct travel_vf *from;
	uint64_t has;
	int32_t vf = -1;

	if (job->over) /* after the VM's end, take nothing */
		return GIVEN_UP;
	if (call->request.result == 0)
		vf = choose(call, &job->refusal);
	if (vf < 0) {
		next_gpu(job);
		return NEXT_GPU;
	}
	job->vf = (uint32_t)vf;
	job->was_held = call->gpu->leases[job->vf].state == LEASE_HELD;
	/* From here on no other reservation gets this VF. */
	if (job->mode != RESERVE_ASK)
		vm_take(call->gpu, job->vf, &job->claim, claimed,
			job->mode == RESERVE_RUNNING || job->claim.by != CLAIM_BY_VM ? LEASE_RUNNING
			: comes(job, claimed) ? LEASE_INCOMING
					      : LEASE_RESERVED);
	from = travel_of(&job->travel, claimed->name);
	if (job->mode == RESERVE_INCOMING && from)
		call->gpu->leases[job->vf].owed = from->owed;
	has = vm_memory_of(call->gpu, job->vf, &call->snapshot);
	/* A gate without a configured size gets the program's claimed one. */
	return has < vm_memory(call->gpu, claimed) &&
			       (has > 0 || !config_is_gated(call->gpu->config))
		       ? ask_memory(call)
		       : POLICY;
}

static bool has_a_vf(struct control *control, const struct reservation *job)
{
	struct gpu *gpu;
	uint32_t vf;

	return lease_find(control, &job->claim, job->claim.vfs[job->at].name, &gpu, &vf);
}

/* The VFs belong to the VM: an operator's earlier live changes of them end. */
static void forget_live(struct control *control, const struct reservation *job)
{
	struct gpu *gpu;
	uint32_t i, vf;

	for (i = 0; i < job->claim.n_vfs; i++)
		if (job->reserved >> i & 1 &&
		    lease_find(control, &job->claim, job->claim.vfs[i].name, &gpu, &vf))
			live_forget_vf(gpu, vf);
}

/* A disconnected hook has refused the start: its VM will not run. */
static bool is_given_up(const struct call *call)
{
	return reservation_of(call)->over || !call->client;
}

static enum state give_back(struct call *call)
{
	undo(call->control, reservation_of(call));
	call_fail(call, -ECANCELED, "given up: the VM has ended, or the client has disconnected");
	return ENDED;
}

static enum state finish(struct call *call)
{
	struct reservation *job = reservation_of(call);
	struct control *control = call->control;

	if (job->reserved)
		control->refusals.granted[requests[job->mode]]++;
	forget_live(control, job);
	if (job->done) {
		job->done(call);
		return ENDED;
	}
	leases_save(control);
	call_answer(call, job->mode == RESERVE_INCOMING ? fit_answer(control, &job->claim)
							: json_object_get(job->answer));
	return ENDED;
}

static enum state begin_vf(struct call *call)
{
	struct reservation *job = reservation_of(call);

	if (is_given_up(call))
		return GIVEN_UP;
	while (job->at < job->claim.n_vfs && has_a_vf(call->control, job))
		job->at++;
	if (job->at == job->claim.n_vfs)
		return RESERVED;
	first_gpu(job);
	return check_devices(call, &job->claim.vfs[job->at]) < 0 ? REFUSED : NEXT_GPU;
}

static void look_again(evutil_socket_t, short, void *data)
{
	go_on(data);
}

static enum state ask_gpu(struct call *call)
{
	struct control *control = call->control;
	struct reservation *job = reservation_of(call);
	const struct timeval later = {0, SCRUB_LOOKS_MS * 1000};

	if (is_given_up(call))
		return GIVEN_UP;
	if (has_a_vf(control, job)) /* meanwhile */
		return NEXT_VF;
	for (; job->gpu < control->n_gpus; next_gpu(job)) {
		call->gpu = &control->gpus[job->gpu];
		if (!may_serve(call->gpu, job, &job->claim.vfs[job->at], &job->refusal))
			continue;
		call->request = (struct engine_request){.ask = ENGINE_SNAPSHOT,
							.snapshot = &call->snapshot};
		await_answer(call, CHOOSE);
		call_queue(call);
		return WAITS;
	}
	if (job->mode == RESERVE_ASK || !job->scrubbing || vgpu_now() > job->until ||
	    event_base_once(control->base, -1, EV_TIMEOUT, look_again, call, &later) < 0)
		return REFUSED;
	job->scrubbing = false;
	job->next = NEXT_VF;
	return WAITS;
}

static enum state (*const steps[])(struct call *call) = {
	[NEXT_VF] = begin_vf,	[NEXT_GPU] = ask_gpu,	[CHOOSE] = choose_vf,
	[MEMORY] = hear_memory, [POLICY] = ask_policy,	[ADMITTED] = hear_policy,
	[REFUSED] = refuse,	[GIVEN_UP] = give_back, [RESERVED] = finish,
};

static void go_on(struct call *call)
{
	enum state state = (enum state)reservation_of(call)->next;

	while (state < WAITS)
		state = steps[state](call);
}

static void on_booking(void *data, const int32_t on[CLAIM_MAX_VFS])
{
	struct call *call = data;
	struct reservation *job = reservation_of(call);

	memcpy(job->on, on, sizeof(job->on));
	booking_end(job->booking);
	job->booking = NULL;
	go_on(call);
}

/* Asks for the booked GPU for a VM that starts or is incoming. Not for RESERVE_ASK: any reader may
 * call it, and would cause requests to OpenStack. */
static bool asks(const struct control *control, const struct reservation *job)
{
	return job->claim.by == CLAIM_BY_VM &&
	       (job->mode == RESERVE_START || job->mode == RESERVE_INCOMING) &&
	       booking_matters(control);
}

void reserve_begin(struct call *call)
{
	struct reservation *job = reservation_of(call);
	uint32_t i;

	job->next = NEXT_VF;
	job->until = vgpu_now() + SCRUB_TIMEOUT;
	for (i = 0; i < CLAIM_MAX_VFS; i++)
		job->on[i] = BOOKED_ANY;
	if (asks(call->control, job))
		job->booking = booking_begin(call->control, &job->claim,
					     job->mode == RESERVE_INCOMING, on_booking, call);
	if (!job->booking)
		go_on(call);
}

static bool is_same_vm(const struct claim *a, const struct claim *b)
{
	return strcmp(a->uuid, b->uuid) == 0 && strcmp(a->host, b->host) == 0;
}

void reserve_give_up(struct control *control, const struct call *call)
{
	struct reservation *job;
	struct call *other;

	for (other = control->calls; other; other = other->next) {
		job = reservation_of(other);
		if (other == call || !job || job->mode == RESERVE_ASK ||
		    !is_same_vm(&job->claim, &reservation_of(call)->claim))
			continue;
		job->over = true;
		job->reserved = 0; /* the VM's next lease is another reservation's */
	}
}

static void free_reservation(void *data)
{
	struct reservation *job = data;

	if (job) {
		booking_end(job->booking);
		vgpu_close(&job->pidfd);
		json_object_put(job->answer);
		free(job->dry);
	}
	free(job);
}

struct reservation *reserve_new(struct call *call)
{
	struct reservation *job = calloc(1, sizeof(*job));

	if (job)
		job->pidfd = -1;
	call->job = job;
	call->free_job = free_reservation;
	call->apart = true;
	return job;
}

struct reservation *reservation_of(const struct call *call)
{
	return call->free_job == free_reservation ? call->job : NULL;
}
