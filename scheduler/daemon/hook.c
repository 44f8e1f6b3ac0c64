/* SPDX-License-Identifier: MIT */
#include "hook.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lease.h"
#include "reconcile.h"
#include "log.h"
#include "reserve.h"
#include "vm.h"

static const char *text_arg(const struct call *call, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(call->args, name, &value) ? json_object_get_string(value)
								   : "";
}

static bool has_all(struct control *control, const struct claim *claim)
{
	struct gpu *gpu;
	uint32_t i, vf;

	for (i = 0; i < claim->n_vfs; i++)
		if (!lease_find(control, claim->uuid, claim->vfs[i].name, &gpu, &vf))
			return false;
	return true;
}

/* Whether the domain has a vfio-user device: QEMU saves a VM without the state of such devices. */
static bool is_saved_without_state(const struct claim *claim)
{
	uint32_t i;

	for (i = 0; i < claim->n_hostdevs; i++)
		if (claim->hostdevs[i].address[0] == '/')
			return true;
	return false;
}

/* What each of libvirt's operations does with the VM's leases. Those that are not listed (attach
 * and those of newer libvirts) do nothing. */
enum doing { PREPARE, KEEP, ADOPT, END, MIGRATE, RESTORE };
static const struct {
	const char *name;
	enum doing doing;
} operations[] = {
	{"prepare", PREPARE}, {"start", KEEP},	    {"started", ADOPT},	  {"stopped", END},
	{"release", END},     {"reconnect", ADOPT}, {"migrate", MIGRATE}, {"restore", RESTORE},
};

int hook_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	const char *operation = text_arg(call, "operation"), *xml = text_arg(call, "xml");
	const char *reason = text_arg(call, "reason");
	struct reservation *job = reserve_new(call);
	struct call *other;
	size_t i, n = sizeof(operations) / sizeof(operations[0]);
	int r;

	if (!job)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	r = vm_parse_claim(control, &job->claim, xml, err);
	if (r < 0)
		return vgpu_error_prefix(err, r, "<metadata> of the domain");
	for (i = 0; i < n && strcmp(operations[i].name, operation) != 0; i++)
		;
	if (i == n || job->claim.n_vfs == 0) {
		call_answer(call, NULL);
		return 0;
	}
	if (!job->claim.uuid[0])
		return vgpu_error_set(err, -EINVAL, "the domain has no UUID");
	switch (operations[i].doing) {
	case KEEP: /* a vgpud restarted since "prepare" may have lost them */
		if (has_all(control, &job->claim))
			break;
		__attribute__((fallthrough));
	case PREPARE: /* end leases of an earlier start whose end was not reported */
		vm_end_leases(control, job->claim.uuid);
		reserve_begin(call);
		return 0;
	case ADOPT:
		follow_adopt(control, &job->claim);
		break;
	case END:
		for (other = control->calls; other; other = other->next)
			if (other->reservation &&
			    strcmp(other->reservation->claim.uuid, job->claim.uuid) == 0)
				other->reservation->over = true;
		if (strlen(reason) > 1) /* "-": libvirt before 10.5, or not the last operation */
			log_about(about_vm(job->claim.domain, LOG_PLAIN), LOG_INFO,
				  "domain %s has ended: %s", job->claim.domain, reason);
		if (vm_end_leases(control, job->claim.uuid))
			leases_save(control);
		break;
	case RESTORE:
		if (!is_saved_without_state(&job->claim))
			break;
		return vgpu_error_set(
			err, -ENOTSUP,
			"domain %s was saved without the state of its VF, which would "
			"be dead in the guest: start it without the saved state (virsh "
			"start --force-boot), or take the device out (virsh "
			"save-image-edit, managedsave-edit)",
			job->claim.domain);
	case MIGRATE:
		return vgpu_error_set(err, -ENOTSUP,
				      "domain %s: the state of a VF cannot be moved to another "
				      "host; detach the VF first",
				      job->claim.domain);
	}
	call_answer(call, NULL);
	return 0;
}
