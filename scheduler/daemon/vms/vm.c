/* SPDX-License-Identifier: MIT */
#include "vm.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "control/args.h"
#include "control/change.h"
#include "claimed.h"
#include "clearing.h"
#include "hold.h"
#include "lease.h"
#include "live.h"
#include "seat.h"
#include "vm_door.h"
#include "control/log.h"
#include "vfio/pci.h"
#include "vgpu/clock.h"
#include "vgpu/param.h"

static int make_usual(struct call *call, const struct policy_values *now, struct vgpu_error *)
{
	config_vf_usual(call->gpu->config, call->vf, now->policy, call->params);
	change_set_vf(call, now);
	return 0;
}

void vm_set_usual(struct gpu *gpu, uint32_t vf)
{
	change_vf(gpu, vf, make_usual);
}

/* Restores the parameters that the call brought, if they are for the present policy. */
static int make_former(struct call *call, const struct policy_values *now, struct vgpu_error *err)
{
	if (now->policy != call->policy)
		return make_usual(call, now, err);
	change_set_vf(call, now);
	return 0;
}

static void on_former(struct call *call)
{
	if (call->request.result == 0)
		live_changed_vf(call->gpu, call->vf);
	change_told(call);
}

void vm_set_former(struct gpu *gpu, uint32_t vf, const struct vgpu_policy_ops *policy,
		   const int64_t params[VGPU_MAX_PARAMS])
{
	struct call *call = call_new(gpu->control, gpu);

	if (!call)
		return;
	call->vf = vf;
	call->policy = policy;
	memcpy(call->params, params, sizeof(call->params));
	call->then = on_former;
	change_begin(call, make_former);
}

void vm_end_lease(struct gpu *gpu, uint32_t vf)
{
	if (gpu->leases[vf].state == LEASE_INCOMING)
		hold_drop(gpu, vf);
	gpu->leases[vf].state = LEASE_NONE;
	gpu->leases[vf].since = vgpu_now();
	vm_door_unlink(gpu, vf);
	/* Before the reset, so that no process has the VF when the reset ends. Also without a
	 * process, which an earlier vgpud may have known. */
	if (gpu->leases[vf].by == CLAIM_BY_VM && config_is_gated(gpu->config))
		seat_take_away(gpu, vf);
	vm_set_usual(gpu, vf);
	/* Even if the end of the VF's process has done so already: the next tenant must not find
	 * its data. */
	clearing_begin(gpu, vf);
}

bool vm_end_leases(struct control *control, const struct claim *claim)
{
	struct gpu *gpu;
	bool any = false;
	uint32_t vf;

	while (lease_find(control, claim, NULL, &gpu, &vf)) {
		log_about(about_vf(gpu, vf, LOG_VM_RELEASED), LOG_INFO,
			  "domain %s has released its VF", gpu->leases[vf].domain);
		vm_end_lease(gpu, vf);
		any = true;
	}
	return any;
}

void vm_take(struct gpu *gpu, uint32_t vf, const struct claim *claim,
	     const struct claim_vf *claimed, enum lease_state state)
{
	struct lease *l = &gpu->leases[vf];

	gpu->clearing.vfs &= ~VGPU_VF_BIT(vf);
	vm_door_unlink(gpu, vf);
	lease_clear(l);
	l->state = state;
	l->since = vgpu_now();
	l->on_hang = claimed->on_hang;
	l->attached = claim_device_of(claim, claimed) != NULL;
	snprintf(l->host, sizeof(l->host), "%s", claim->host);
	snprintf(l->uuid, sizeof(l->uuid), "%s", claim->uuid);
	snprintf(l->domain, sizeof(l->domain), "%s", claim->domain);
	snprintf(l->vf_name, sizeof(l->vf_name), "%s", claimed->name);
	l->run_base = VGPU_NEVER;
	l->by = claim->by;
	l->owner = claim->owner;
	snprintf(l->id, sizeof(l->id), "%s", claim->id);
	l->expires = l->since + (vgpu_nsec)gpu->control->config->lease_s * VGPU_SEC;
	l->resumes_by = l->since + (vgpu_nsec)gpu->control->config->incoming_s * VGPU_SEC;
	l->memory = vm_memory(gpu, claimed);
	claimed_note(gpu, vf, claimed);
	vm_door_link(gpu, vf);
}

bool gpu_pf_address(const struct gpu *gpu, char out[PCI_ADDRESS_SIZE])
{
	const char *place = strchr(gpu->config->device, ':') + 1;

	snprintf(out, PCI_ADDRESS_SIZE, "%.*s", (int)strcspn(place, ","), place);
	return pci_is_address(out);
}

bool vm_vf_address(const struct gpu *gpu, uint32_t vf, char out[PCI_ADDRESS_SIZE])
{
	char pf[PCI_ADDRESS_SIZE];

	/* A gated GPU may be named by its address, and its VFs are not PCI functions. */
	return !config_is_gated(gpu->config) && gpu_pf_address(gpu, pf) &&
	       pci_vf_address(pf, vf, out) == 0;
}

void vm_vf_name(const struct gpu *gpu, uint32_t vf, char *out, size_t size)
{
	const char *pf = strchr(gpu->config->device, ':') + 1, *end = strrchr(pf, '/');
	char address[PCI_ADDRESS_SIZE] = "";

	vm_vf_address(gpu, vf, address);
	snprintf(out, size, "%s", address);
	if (strncmp(gpu->config->device, "vfio-user:", 10) == 0) /* docs/softgpu.md */
		snprintf(out, size, "%.*svf%u.sock", end ? (int)(end + 1 - pf) : 0, pf, vf);
}

int32_t vm_vf_at(const struct gpu *gpu, const char *name)
{
	char vf[sizeof(((struct claim_hostdev *)0)->address)];
	int32_t i;

	for (i = 0; i < gpu->config->vfs; i++) {
		vm_vf_name(gpu, (uint32_t)i, vf, sizeof(vf));
		if (strcmp(vf, name) == 0)
			return i;
	}
	return -1;
}

bool vm_uses(const struct gpu *gpu, uint32_t vf)
{
	char address[PCI_ADDRESS_SIZE], user[64];

	return gpu->heard.in_use >> vf & 1 ||
	       (vm_vf_address(gpu, vf, address) && pci_user(address, user, sizeof(user)));
}

/* Returns whether a claimed VF has this device. */
static bool is_taken(const struct claim *claim, const struct claim_hostdev *device)
{
	uint32_t i;

	for (i = 0; i < claim->n_vfs; i++)
		if (claim_device_of(claim, &claim->vfs[i]) == device)
			return true;
	return false;
}

/* Returns whether a claimed VF without a device may have this one, which is VF number VF of GPU. */
static bool suits(const struct gpu *gpu, int32_t vf, const struct claim *claim,
		  const struct claim_vf *claimed)
{
	return !claimed->alias[0] && !claim_device_of(claim, claimed) &&
	       vm_may_be_on(gpu, claim, claimed) && (claimed->vf < 0 || claimed->vf == vf);
}

/* Gives a device to the first claimed VF that it suits; VFs that name a GPU or a pool come
 * first. */
static void give_device(const struct gpu *gpu, int32_t vf, struct claim *claim, uint32_t device)
{
	uint32_t i;

	for (i = 0; i < 2 * claim->n_vfs; i++) {
		struct claim_vf *claimed = &claim->vfs[i % claim->n_vfs];

		if (i < claim->n_vfs && !claimed->gpu[0] && !claimed->pool[0])
			continue;
		if (!suits(gpu, vf, claim, claimed))
			continue;
		claimed->hostdev = (int32_t)device;
		return;
	}
}

void vm_find_devices(const struct control *control, struct claim *out)
{
	uint32_t i, g;
	int32_t vf;

	for (i = 0; i < out->n_hostdevs; i++) {
		if (is_taken(out, &out->hostdevs[i]))
			continue;
		for (g = 0; g < control->n_gpus; g++) {
			vf = vm_vf_at(&control->gpus[g], out->hostdevs[i].address);
			if (vf >= 0)
				give_device(&control->gpus[g], vf, out, i);
		}
	}
}

int vm_check_devices(const struct control *control, const struct claim *claim,
		     const struct claim_vf *claimed, bool all, struct vgpu_error *err)
{
	int r = claim_check_device(claim, claimed, err);
	uint32_t i, g;
	int32_t vf;

	for (i = 0; i < claim->n_hostdevs && all && r == 0; i++)
		for (g = 0; g < control->n_gpus && r == 0; g++) {
			vf = is_taken(claim, &claim->hostdevs[i])
				     ? -1
				     : vm_vf_at(&control->gpus[g], claim->hostdevs[i].address);
			if (vf >= 0)
				r = vgpu_error_set(
					err, -EINVAL,
					"the domain has a device at %s, which is VF %d of %s, and "
					"none of its claims takes it: claim one VF for each, or "
					"remove the device",
					claim->hostdevs[i].address, vf,
					control->gpus[g].config->name);
		}
	return r;
}

int vm_parse_claim(const struct control *control, struct claim *out, const char *xml,
		   struct vgpu_error *err)
{
	int r = claim_parse(out, xml, strlen(xml), err);

	if (r == 0)
		vm_find_devices(control, out);
	return r;
}

bool vm_may_be_of(const struct gpu *gpu, const struct claim_vf *claimed)
{
	return (!claimed->gpu[0] || strcmp(claimed->gpu, gpu->config->name) == 0) &&
	       (!claimed->pool[0] || strcmp(claimed->pool, gpu->config->pool) == 0);
}

bool vm_may_be_on(const struct gpu *gpu, const struct claim *claim, const struct claim_vf *claimed)
{
	const struct claim_hostdev *hostdev = claim_device_of(claim, claimed);

	return vm_may_be_of(gpu, claimed) && (!hostdev || vm_vf_at(gpu, hostdev->address) >= 0);
}

static int apply_in_ms(const struct vgpu_policy_ops *policy, const struct claim_param *p,
		       int64_t *values, struct vgpu_error *err)
{
	const struct vgpu_param *t = policy->vf_params;
	int r = vgpu_param_set(t, p->name, p->value, values, err);
	int64_t us;

	while (t->name && strcmp(t->name, p->name) != 0)
		t++;
	if (r == 0 || !t->name || vgpu_parse_int(p->value, &us) < 0)
		return r;
	return vgpu_error_set(err, r, "%.*s = %" PRId64 " ms: want %g to %g ms",
			      (int)strlen(p->name) - (int)strlen("_us"), p->name, us / 1000,
			      (double)t->min / 1000, (double)t->max / 1000);
}

/* A refusal has the parameter as it was written. */
static int apply_param(const struct vgpu_policy_ops *policy, const struct claim_param *p,
		       int64_t *values, struct vgpu_error *err)
{
	char text[sizeof(p->name) + sizeof(p->value) + 8];
	size_t n;

	if (p->written_in == CLAIM_MS)
		return apply_in_ms(policy, p, values, err);
	if (p->written_in == CLAIM_UNIT_OWN)
		return vgpu_param_set(policy->vf_params, p->name, p->value, values, err);
	vgpu_param_as_claimed(p->name, p->value, text, sizeof(text));
	n = strcspn(text, " ");
	text[n] = '\0';
	return vgpu_param_set(policy->vf_params, text, text + n + 1, values, err);
}

/* Returns 0 or, unless those that the policy refuses are LEFT_OUT, -EINVAL. */
static int apply_params(const struct vgpu_policy_ops *policy, const struct claim_param *params,
			uint32_t n, bool left_out, int64_t *values, struct vgpu_error *err)
{
	uint32_t i;
	int r = 0;

	for (i = 0; i < n && (r == 0 || left_out); i++)
		r = apply_param(policy, &params[i], values, err);
	return left_out ? 0 : r;
}

static int read_params(const struct gpu *gpu, uint32_t vf, const struct vgpu_policy_ops *policy,
		       const struct claim_vf *claimed, bool left_out, int64_t *values,
		       struct vgpu_error *err)
{
	const struct profile *p = config_profile(gpu->control->config, claimed->profile);
	int r = 0;

	if (claimed->profile[0] && !p)
		return vgpu_error_set(err, -EINVAL, "no [profile %s] is configured",
				      claimed->profile);
	config_vf_usual(gpu->config, vf, policy, values);
	if (p)
		r = apply_params(policy, p->params, p->n_params, left_out, values, err);
	if (r != 0)
		return r;
	return apply_params(policy, claimed->params, claimed->n_params, left_out, values, err);
}

int vm_read_params(const struct gpu *gpu, uint32_t vf, const struct vgpu_policy_ops *policy,
		   const struct claim_vf *claimed, int64_t *values, struct vgpu_error *err)
{
	return read_params(gpu, vf, policy, claimed, false, values, err);
}

int vm_read_known_params(const struct gpu *gpu, uint32_t vf, const struct vgpu_policy_ops *policy,
			 const struct claim_vf *claimed, int64_t *values, struct vgpu_error *err)
{
	return read_params(gpu, vf, policy, claimed, true, values, err);
}

int vm_read_claimed(const struct gpu *gpu, uint32_t vf, const struct vgpu_policy_ops *policy,
		    const struct claim_vf *claimed, int64_t *values, struct vgpu_error *err)
{
	int r;

	if (claimed->policy[0] && strcmp(claimed->policy, policy->name) != 0)
		return vgpu_error_set(
			err, -EINVAL,
			"%s has policy %s, but the claim wants %s (vgpuctl policy set)",
			gpu->config->name, policy->name, claimed->policy);
	r = vm_read_params(gpu, vf, policy, claimed, values, err);
	return r == 0 ? 0
		      : vgpu_error_prefix(err, r, "%s: policy %s", gpu->config->name, policy->name);
}

uint64_t vm_memory_of(const struct gpu *gpu, uint32_t vf, const struct engine_snapshot *snapshot)
{
	/* Where the kernel partitions the memory, sizes are the configured ones. */
	return snapshot->caps.memory ? snapshot->found.partition.vfs[vf].size
				     : (uint64_t)gpu->config->memory_mib[vf] << 20;
}

bool vm_is_swapped(uint32_t vf, const struct engine_snapshot *snapshot)
{
	return snapshot->caps.memory &&
	       snapshot->found.partition.vfs[vf].offset >= snapshot->caps.memory;
}

uint64_t vm_memory(const struct gpu *gpu, const struct claim_vf *claimed)
{
	const struct profile *p = config_profile(gpu->control->config, claimed->profile);

	return claimed->memory ? claimed->memory : p ? (uint64_t)p->memory_mib << 20 : 0;
}

void vm_end_those(struct control *control, bool (*over)(struct gpu *gpu, uint32_t vf, void *data),
		  void *data, const char *why)
{
	bool any = false;
	uint32_t g, vf;

	for (g = 0; g < control->n_gpus; g++)
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
			struct gpu *gpu = &control->gpus[g];

			if (gpu->leases[vf].state == LEASE_NONE || !over(gpu, vf, data))
				continue;
			log_about(about_vf(gpu, vf, LOG_VM_RELEASED), LOG_NOTICE,
				  "domain %s %s; its VF is free again", gpu->leases[vf].domain,
				  why);
			vm_end_lease(gpu, vf);
			any = true;
		}
	if (any)
		leases_save(control);
}

void vm_hung(struct gpu *gpu, uint32_t vf)
{
	struct lease *l = &gpu->leases[vf];

	if (l->state == LEASE_NONE || l->on_hang == CLAIM_GO_ON || l->hung)
		return;
	l->hung = true;
	leases_save(gpu->control);
}

/* Answers the UUIDs of VMs by the action for them, each once. */
int vm_hung_begin(struct control *control, struct call *call, struct vgpu_error *)
{
	struct json_object *answer = json_object_new_object(), *lists[CLAIM_ON_HANG] = {NULL};
	const char *host = call_host(call);
	bool any = false;
	uint32_t g, vf;

	for (g = CLAIM_PAUSE; g < CLAIM_ON_HANG; g++) {
		lists[g] = json_object_new_array();
		json_object_object_add(answer, claim_on_hang_names[g], lists[g]);
	}
	for (g = 0; g < control->n_gpus; g++)
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
			struct lease *l = &control->gpus[g].leases[vf];

			if (!l->hung || !lease_is_of(l, host, l->uuid))
				continue;
			json_object_array_add(lists[l->on_hang], json_object_new_string(l->uuid));
			l->hung = false;
			any = true;
		}
	if (any)
		leases_save(control);
	call_answer(call, answer);
	return 0;
}

/* Returns whether the VM of an INCOMING lease has not come. If it has come but was not seen to
 * resume, gives it its turns. */
static bool has_not_come(struct gpu *gpu, uint32_t vf, vgpu_nsec now)
{
	struct lease *l = &gpu->leases[vf];

	if (now < l->expires && now < l->resumes_by)
		return false;
	if (!vm_uses(gpu, vf))
		return now >= l->expires;
	if (now >= l->expires) /* QEMU has it, and waits for its state: check again later */
		l->expires = now + (vgpu_nsec)gpu->control->config->lease_s * VGPU_SEC;
	if (now < l->resumes_by)
		return false;
	log_about(
		about_vf(gpu, vf, LOG_VM_NOT_RESUMED), LOG_WARNING,
		"domain %s was not seen to resume within incoming_s; its VF gets turns from now on "
		"(does vgpud-libvirt run?)",
		l->domain);
	hold_resume(gpu, vf);
	leases_save(gpu->control);
	return false;
}

static bool has_expired(struct gpu *gpu, uint32_t vf, void *data)
{
	const vgpu_nsec *t = data;
	struct lease *l = &gpu->leases[vf];

	if (l->state == LEASE_INCOMING)
		return has_not_come(gpu, vf, *t);
	if (l->state != LEASE_RESERVED || *t < l->expires)
		return false;
	if (!vm_uses(gpu, vf))
		return true;
	/* The VM has started, but no hook reported it. */
	l->state = LEASE_RUNNING;
	l->since = *t;
	leases_save(gpu->control);
	return false;
}

void vm_expire(struct control *control)
{
	vgpu_nsec t = vgpu_now();

	vm_end_those(control, has_expired, &t, "did not start within lease_s");
}
