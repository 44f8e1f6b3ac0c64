/* SPDX-License-Identifier: MIT */
#include "reconcile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/args.h"
#include "control/change.h"
#include "claimed.h"
#include "engine/engine.h"
#include "hold.h"
#include "lease.h"
#include "libvirts.h"
#include "live.h"
#include "control/log.h"
#include "reserve.h"
#include "vfio/pci.h"
#include "vm.h"
#include "vgpu/clock.h"

/* Logs a refused change of a claim; each reason only once. */
static void complain(struct gpu *gpu, uint32_t vf, const char *why)
{
	struct lease *l = &gpu->leases[vf];

	if (strcmp(l->said, why) != 0)
		log_about(about_vf(gpu, vf, LOG_CLAIM_REFUSED), LOG_WARNING,
			  "%s/%s: the changed claim was refused: %s; the VF keeps its parameters",
			  l->domain, l->vf_name, why);
	snprintf(l->said, sizeof(l->said), "%s", why);
}

static void on_applied(struct call *call)
{
	uint32_t vf = call->vf;

	if (call->request.result >= 0) {
		call->gpu->leases[vf].said[0] = '\0';
		claimed_note(call->gpu, vf, call->job);
	}
	if (call->request.result == 0) {
		log_about(about_vf(call->gpu, vf, LOG_PLAIN), LOG_INFO,
			  "%s/%s: the changed claim is in force", call->gpu->leases[vf].domain,
			  call->gpu->leases[vf].vf_name);
		leases_save(call->control);
	} else if (call->request.result < 0) {
		complain(call->gpu, vf,
			 call->request.why[0] ? call->request.why
					      : strerror(-call->request.result));
	}
	call_drop(call);
}

/* An unchanged claim keeps the parameters that the policy has: a change of policy that an operator
 * has forced is not an error of the claim. */
static int make_claimed(struct call *call, const struct policy_values *now, struct vgpu_error *err)
{
	bool is_same = !call->gpu->leases[call->vf].claimed ||
		       claimed_is_same(call->gpu, call->vf, call->job);
	int r = (is_same ? vm_read_known_params : vm_read_params)(call->gpu, call->vf, now->policy,
								  call->job, call->params, err);

	change_set_vf(call, now);
	if (r != 0)
		return r;
	return memcmp(call->params, now->vf_params[call->vf], sizeof(call->params)) == 0;
}

/* Applies the present claim of a running VM. */
static void apply(struct control *control, struct gpu *gpu, uint32_t vf,
		  const struct claim_vf *claimed)
{
	struct call *call = call_new(control, gpu);

	gpu->leases[vf].on_hang = claimed->on_hang;
	if (!call)
		return;
	call->vf = vf;
	call->then = on_applied;
	call->free_job = free;
	call->job = malloc(sizeof(*claimed));
	if (!call->job) {
		call_drop(call);
		return;
	}
	memcpy(call->job, claimed, sizeof(*claimed));
	change_begin(call, make_claimed);
}

/* Finds the VF that a claim names, by its device or by number; NULL: no configured GPU has it. */
static struct gpu *named_vf(struct control *control, const struct claim *claim,
			    const struct claim_vf *claimed, uint32_t *vf)
{
	const struct claim_hostdev *hostdev = claim_device_of(claim, claimed);
	uint32_t g;
	int32_t at;

	for (g = 0; g < control->n_gpus; g++) {
		struct gpu *gpu = &control->gpus[g];

		at = hostdev ? vm_vf_at(gpu, hostdev->address)
		     : strcmp(gpu->config->name, claimed->gpu) == 0 ? claimed->vf
								    : -1;
		*vf = (uint32_t)at;
		if (at >= 0 && at < gpu->config->vfs)
			return gpu;
	}
	return NULL;
}

/* Finds the lease of a VM whose libvirt had another name before (its directory was recreated): the
 * VM has the device of the VF that is leased to its UUID. */
static struct lease *moved_house(struct control *control, const struct claim *claim,
				 const struct claim_vf *claimed, struct gpu **gpu, uint32_t *vf)
{
	struct lease *l;

	*gpu = claim_device_of(claim, claimed) ? named_vf(control, claim, claimed, vf) : NULL;
	l = *gpu ? &(*gpu)->leases[*vf] : NULL;
	return l && lease_is_of(l, "", claim->uuid) && strcmp(l->vf_name, claimed->name) == 0
		       ? l
		       : NULL;
}

/* Confirms or makes the lease of one claimed VF, and applies its parameters. Returns whether it has
 * a VF. */
static bool adopt_vf(struct control *control, const struct claim *claim,
		     const struct claim_vf *claimed)
{
	struct gpu *gpu;
	uint32_t vf;
	struct lease *l = lease_find(control, claim, claimed->name, &gpu, &vf);

	if (!l)
		l = moved_house(control, claim, claimed, &gpu, &vf);
	if (l)
		snprintf(l->host, sizeof(l->host), "%s", claim->host);
	if (l && l->state == LEASE_RESERVED) {
		l->state = LEASE_RUNNING;
		l->since = vgpu_now();
	}
	if (!l) {
		gpu = named_vf(control, claim, claimed, &vf);
		/* A request under way to end all of the VF's connections would end the VM's. The
		 * next report adopts it. */
		if (!gpu || gpu->leases[vf].state != LEASE_NONE || gpu->clearing.asked >> vf & 1)
			return false;
		vm_take(gpu, vf, claim, claimed, LEASE_RUNNING);
		live_forget_vf(gpu, vf);
		log_about(about_vf(gpu, vf, LOG_VM_ADOPTED), LOG_INFO, "VF adopted for %s/%s",
			  claim->domain, claimed->name);
	}
	apply(control, gpu, vf, claimed);
	return true;
}

/* Adopts all VFs of a claim. Returns how many of them have no VF. */
static uint32_t adopt(struct control *control, const struct claim *claim)
{
	uint32_t i, without = 0;

	for (i = 0; i < claim->n_vfs; i++)
		without += !adopt_vf(control, claim, &claim->vfs[i]);
	return without;
}

void follow_adopt(struct control *control, const struct claim *claim)
{
	if (adopt(control, claim) > 0)
		log_line(LOG_WARNING,
			 "domain %s runs and claims a VF, but vgpud knows of none that it has",
			 claim->domain);
	leases_save(control);
}

/* The domains that libvirt ran at an instant, and the actions for them. */
struct picture {
	struct json_object *domains;
	vgpu_nsec as_of;
	const char *host; /* the libvirt's name */
	struct json_object
		*paused; /* those of these domains whose CPUs are stopped; NULL: not reported */
	const struct claim *claim; /* the claim being processed */
	const char *uuid;	   /* the UUID of its VM */
	struct json_object *attach, *detach, *missing;
};

static const struct claim_vf *claimed_of(const struct claim *claim, const char *name)
{
	uint32_t i;

	for (i = 0; i < claim->n_vfs; i++)
		if (strcmp(claim->vfs[i].name, name) == 0)
			return &claim->vfs[i];
	return NULL;
}

static const struct claim_hostdev *hostdev_at(const struct claim *claim, const char *address)
{
	uint32_t i;

	for (i = 0; i < claim->n_hostdevs; i++)
		if (strcmp(claim->hostdevs[i].address, address) == 0)
			return &claim->hostdevs[i];
	return NULL;
}

static void ask_for(struct json_object *list, const char *uuid, const struct lease *l,
		    const char *address)
{
	struct json_object *o = json_object_new_object();
	char alias[sizeof(l->vf_name) + sizeof(CLAIM_OUR_ALIAS)];

	snprintf(alias, sizeof(alias), CLAIM_OUR_ALIAS "%s", l->vf_name);
	json_object_object_add(o, "uuid", json_object_new_string(uuid));
	json_object_object_add(o, "alias", json_object_new_string(alias));
	json_object_object_add(o, "address", json_object_new_string(address));
	json_object_array_add(list, o);
}

/* Compares a VM's lease with the devices in its XML, and requests attaching or detaching. Returns
 * true if the lease has ended. */
static bool compare(struct gpu *gpu, uint32_t vf, void *data)
{
	const struct picture *p = data;
	struct lease *l = &gpu->leases[vf];
	const struct claim_hostdev *device;
	const struct claim_vf *claimed;
	char address[PCI_ADDRESS_SIZE];

	if (l->state != LEASE_RUNNING || l->since > p->as_of || !lease_is_of(l, p->host, p->uuid) ||
	    !vm_vf_address(gpu, vf, address))
		return false;
	device = hostdev_at(p->claim, address);
	claimed = claimed_of(p->claim, l->vf_name);
	l->attached = device != NULL;
	if (device && !claimed &&
	    strncmp(device->alias, CLAIM_OUR_ALIAS, strlen(CLAIM_OUR_ALIAS)) == 0)
		ask_for(p->detach, p->uuid, l, address);
	else if (!device && claimed && !claimed->alias[0])
		ask_for(p->attach, p->uuid, l, address);
	return !device && (!claimed || claimed->alias[0]);
}

/* Returns whether a lease of the VM has ended since the list was made: the list then says nothing
 * about the VM. */
static bool has_ended_since(const struct control *control, const struct picture *p)
{
	const struct lease *l;
	uint32_t g, vf;

	for (g = 0; g < control->n_gpus; g++)
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
			l = &control->gpus[g].leases[vf];
			if (l->state == LEASE_NONE && l->since > p->as_of &&
			    strcmp(l->uuid, p->uuid) == 0 && strcmp(l->host, p->host) == 0)
				return true;
		}
	return false;
}

/* Returns whether the VM of a lease did not run, and its lease is older than libvirt's list. */
static bool has_gone(struct gpu *gpu, uint32_t vf, void *data)
{
	const struct lease *l = &gpu->leases[vf];
	const struct picture *p = data;

	/* Another libvirt's list does not cover it, nor a lease without a libvirt, from an older
	 * vgpud. */
	return l->state == LEASE_RUNNING && l->since <= p->as_of && strcmp(l->host, p->host) == 0 &&
	       !json_object_object_get_ex(p->domains, l->uuid, NULL);
}

/* After three missed reports. */
#define SILENCE (180 * VGPU_SEC)

/* Returns whether a lease is of a libvirt that no longer reports, and no process has its VF. Only
 * for a PCI function can vgpud detect such a process. */
static bool is_orphan(struct gpu *gpu, uint32_t vf, void *data)
{
	const struct lease *l = &gpu->leases[vf];
	const struct picture *p = data;
	char address[PCI_ADDRESS_SIZE];

	return l->state == LEASE_RUNNING && strcmp(l->host, p->host) != 0 &&
	       libvirts_silent(gpu->control, l->host) >= SILENCE &&
	       vm_vf_address(gpu, vf, address) && !vm_uses(gpu, vf);
}

/* A VM that has come from another host and whose CPUs run has resumed. */
static void resume(struct control *control, const struct picture *p)
{
	uint32_t g, vf;

	if (!p->paused || json_object_object_get_ex(p->paused, p->uuid, NULL))
		return;
	for (g = 0; g < control->n_gpus; g++)
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
			struct gpu *gpu = &control->gpus[g];
			const struct lease *l = &gpu->leases[vf];

			if (l->state == LEASE_INCOMING && l->since <= p->as_of &&
			    lease_is_of(l, p->host, p->uuid))
				hold_resume(gpu, vf);
		}
}

/* Returns whether vgpud admitted a VM that runs now: one that requires what it claims has a lease
 * then. */
static bool is_admitted(struct control *control, const struct claim *claim)
{
	struct gpu *gpu;
	uint32_t vf;

	return claim->n_vfs == 0 || !claim->required || lease_find(control, claim, NULL, &gpu, &vf);
}

/* Returns whether the VM's next start would be refused because of its devices. */
static bool has_wrong_device(const struct control *control, const struct claim *claim)
{
	struct vgpu_error why;
	uint32_t i;

	for (i = 0; i < claim->n_vfs; i++)
		if (vm_check_devices(control, claim, &claim->vfs[i], true, &why) < 0)
			return true;
	return false;
}

/* Returns whether QEMU would save or migrate the VM without the state of its VF, and without an
 * error. */
static bool may_lose_state(const struct claim *claim)
{
	uint32_t i;

	for (i = 0; i < claim->n_hostdevs && claim->n_vfs > 0 && !claim->stays; i++)
		if (claim->hostdevs[i].address[0] == '/')
			return true;
	return false;
}

static const struct {
	enum log_message message;
	const char *text;
} warnings[CONTROL_WARNINGS] = {
	[CONTROL_UNADMITTED] = {LOG_VM_UNADMITTED,
				"runs, and vgpud did not admit its claim: unless the claim is "
				"newer than the start, see whether libvirt calls the hook "
				"(vgpuctl doctor)"},
	[CONTROL_WRONG_DEVICE] = {LOG_PLAIN,
				  "has a device for a VF that libvirt or the claim does not leave "
				  "to vgpud ('vgpuctl vm explain' says what is wrong): it will not "
				  "start again like this"},
	[CONTROL_MAY_LOSE_STATE] = {LOG_VM_MAY_LOSE_STATE,
				    "could be saved or migrated, and its VF would be dead after "
				    "that, since QEMU moves no state of vfio-user devices: add "
				    "the block device that prevents it (vgpud's domain.md)"},
};

/* Warns of a libvirt's VMs, once for each. Takes over LIST, which has their UUIDs and names. */
static void warn_of(struct control *control, enum control_warning what, const char *host,
		    struct json_object *list)
{
	struct json_object *before = NULL;

	if (!control->reported.warned[what])
		control->reported.warned[what] = json_object_new_object();
	json_object_object_get_ex(control->reported.warned[what], host, &before);
	json_object_object_foreach(list, uuid, name)
	{
		const char *domain = json_object_get_string(name);

		if (!json_object_object_get_ex(before, uuid, NULL))
			log_about(about_vm(domain, warnings[what].message), LOG_WARNING,
				  "domain %s %s", domain, warnings[what].text);
	}
	json_object_object_add(control->reported.warned[what], host, list);
}

/* Removes a libvirt's VMs from the list of unreadable claims; the others stay. */
static uint32_t take_unreadable(struct control *control, const char *host, struct unreadable *out)
{
	uint32_t i, kept = 0, n = 0;

	for (i = 0; i < control->reported.n_unreadable; i++) {
		struct unreadable *u = &control->reported.unreadable[i];

		if (strcmp(u->host, host) == 0)
			out[n++] = *u;
		else
			control->reported.unreadable[kept++] = *u;
	}
	control->reported.n_unreadable = kept;
	return n;
}

/* Records that a VM's claim is unreadable, and logs it unless it is KNOWN from the previous
 * list. */
static void note_unreadable(struct control *control, const struct picture *p, const char *why,
			    const struct unreadable *known, uint32_t n_known)
{
	struct unreadable u = {.uuid = ""};
	bool is_known = false;
	uint32_t i;

	snprintf(u.host, sizeof(u.host), "%s", p->host);
	snprintf(u.uuid, sizeof(u.uuid), "%s", p->uuid);
	snprintf(u.domain, sizeof(u.domain), "%s",
		 p->claim->domain[0] ? p->claim->domain : p->uuid);
	snprintf(u.why, sizeof(u.why), "%s", why);
	for (i = 0; i < n_known; i++)
		is_known |= strcmp(known[i].uuid, u.uuid) == 0 && strcmp(known[i].why, u.why) == 0;
	if (control->reported.n_unreadable < UNREADABLE)
		control->reported.unreadable[control->reported.n_unreadable++] = u;
	if (!is_known)
		log_about(about_vm(u.domain, LOG_CLAIM_UNREADABLE), LOG_WARNING,
			  "domain %s (%s): its claim cannot be read: %s; its VFs keep their "
			  "parameters",
			  u.domain, u.uuid, u.why);
}

/* Drops the warnings of libvirts that no longer report: no other report would remove them. */
static void forget_silent(struct control *control)
{
	uint32_t i, kept = 0;

	for (i = 0; i < CONTROL_WARNINGS; i++) {
		json_object_object_foreach(control->reported.warned[i], host, unused)
		{
			(void)unused;
			if (libvirts_silent(control, host) >= SILENCE)
				json_object_object_del(control->reported.warned[i], host);
		}
	}
	for (i = 0; i < control->reported.n_unreadable; i++)
		if (libvirts_silent(control, control->reported.unreadable[i].host) < SILENCE)
			control->reported.unreadable[kept++] = control->reported.unreadable[i];
	control->reported.n_unreadable = kept;
}

int vm_sync_begin(struct control *control, struct call *call, struct vgpu_error *)
{
	static struct claim claim; /* used by the control thread only */
	struct json_object *as_of, *answer, *warn[CONTROL_WARNINGS];
	static struct unreadable known[UNREADABLE];
	struct picture p = {.claim = &claim};
	struct vgpu_error why;
	uint32_t n_known;
	uint32_t i;

	for (i = 0; i < CONTROL_WARNINGS; i++)
		warn[i] = json_object_new_object();
	json_object_object_get_ex(call->args, "domains", &p.domains);
	json_object_object_get_ex(call->args, "as_of_ns", &as_of);
	json_object_object_get_ex(call->args, "paused", &p.paused);
	p.host = call_host(call);
	libvirts_note(control, p.host);
	p.as_of = (vgpu_nsec)json_object_get_int64(as_of);
	p.attach = json_object_new_array();
	p.detach = json_object_new_array();
	p.missing = json_object_new_array();
	n_known = take_unreadable(control, p.host, known);
	json_object_object_foreach(p.domains, uuid, xml)
	{
		const char *text = json_object_get_string(xml);

		p.uuid = uuid;
		if (has_ended_since(control, &p))
			continue;
		claim = (struct claim){.required = false}; /* for "": neither claim nor device */
		if (!xml) {
			note_unreadable(control, &p,
					"vgpud-libvirt left its XML out, because the XML of all "
					"VMs exceeds 4 MiB: shorten the <metadata> of VMs",
					known, n_known);
			continue;
		}
		if (text && text[0] && vm_parse_claim(control, &claim, text, &why) < 0) {
			note_unreadable(control, &p, why.text, known, n_known);
			continue;
		}
		snprintf(claim.host, sizeof(claim.host), "%s", p.host);
		if (!is_admitted(control, &claim))
			json_object_object_add(warn[CONTROL_UNADMITTED], uuid,
					       json_object_new_string(claim.domain));
		if (has_wrong_device(control, &claim))
			json_object_object_add(warn[CONTROL_WRONG_DEVICE], uuid,
					       json_object_new_string(claim.domain));
		if (may_lose_state(&claim))
			json_object_object_add(warn[CONTROL_MAY_LOSE_STATE], uuid,
					       json_object_new_string(claim.domain));
		if (adopt(control, &claim) > 0)
			json_object_array_add(p.missing, json_object_new_string(uuid));
		resume(control, &p);
		vm_end_those(control, compare, &p, "no longer has the VF's device");
	}
	for (i = 0; i < CONTROL_WARNINGS; i++)
		warn_of(control, i, p.host, warn[i]);
	forget_silent(control);
	vm_end_those(control, has_gone, &p, "no longer runs");
	vm_end_those(control, is_orphan, &p, "belongs to a libvirt that no longer reports");
	leases_save(control);
	answer = json_object_new_object();
	json_object_object_add(answer, "attach", p.attach);
	json_object_object_add(answer, "detach", p.detach);
	json_object_object_add(answer, "missing", p.missing);
	call_answer(call, answer);
	return 0;
}

/* Begins a reservation for the claim in the call's XML. */
static int begin_with_claim(struct call *call, enum reserve_mode mode, struct vgpu_error *err)
{
	struct reservation *job = reserve_new(call);
	const char *xml = json_object_get_string(json_object_object_get(call->args, "xml"));
	int r;

	if (!job)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	job->mode = mode;
	r = vm_parse_claim(call->control, &job->claim, xml, err);
	if (r < 0)
		return vgpu_error_prefix(err, r, "domain %s: its claim cannot be read",
					 job->claim.domain);
	if (r == 0 && !job->claim.uuid[0])
		r = vgpu_error_set(err, -EINVAL, "the domain has no UUID");
	snprintf(job->claim.host, sizeof(job->claim.host), "%s", call_host(call));
	return r;
}

int vm_extend_begin(struct control *, struct call *call, struct vgpu_error *err)
{
	int r = begin_with_claim(call, RESERVE_RUNNING, err);

	if (r == 0)
		reserve_begin(call);
	return r;
}

/* Explains a VF that the VM has. */
static struct json_object *explain(const struct gpu *gpu, uint32_t vf, const struct claim *claim)
{
	const struct lease *l = &gpu->leases[vf];
	struct json_object *o = json_object_new_object();
	char address[PCI_ADDRESS_SIZE] = "", name[128], text[400], which[200];
	bool pci = vm_vf_address(gpu, vf, address);

	vm_vf_name(gpu, vf, name, sizeof(name));
	snprintf(which, sizeof(which), "VF %u of %s%s%s", vf, gpu->config->name,
		 name[0] ? ", at " : "", name);
	if (engine_trouble(gpu->engine))
		snprintf(text, sizeof(text), "%s; the GPU is lost: %s", which,
			 engine_trouble(gpu->engine));
	else if (l->said[0])
		snprintf(text, sizeof(text), "%s; the changed claim was refused: %s", which,
			 l->said);
	else if (l->state == LEASE_INCOMING)
		snprintf(text, sizeof(text), "%s; gets turns once the VM has resumed", which);
	else if (!claimed_of(claim, l->vf_name))
		snprintf(text, sizeof(text), "%s; no longer claimed: released when the VM ends",
			 which);
	else if (l->state == LEASE_RUNNING && pci && !hostdev_at(claim, address))
		snprintf(text, sizeof(text),
			 "%s; not attached: vgpud-libvirt attaches it, and logs why it cannot",
			 which);
	else
		snprintf(text, sizeof(text), "%s", which);
	json_object_object_add(o, "vf_name", json_object_new_string(l->vf_name));
	json_object_object_add(o, "state", json_object_new_string(lease_state_names[l->state]));
	json_object_object_add(o, "text", json_object_new_string(text));
	return o;
}

int vm_explain_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	int r = begin_with_claim(call, RESERVE_ASK, err);
	struct reservation *job = reservation_of(call);
	struct json_object *vfs;
	uint32_t g, vf;

	if (r < 0)
		return r;
	job->answer = json_object_new_object();
	vfs = json_object_new_array();
	json_object_object_add(job->answer, "domain", json_object_new_string(job->claim.domain));
	json_object_object_add(job->answer, "vfs", vfs);
	for (g = 0; g < control->n_gpus; g++)
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
			const struct gpu *gpu = &control->gpus[g];

			if (lease_is_of(&gpu->leases[vf], "", job->claim.uuid))
				json_object_array_add(vfs, explain(gpu, vf, &job->claim));
		}
	reserve_begin(call);
	return 0;
}
