/* SPDX-License-Identifier: MIT */
#include "hook.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "control/args.h"
#include "incoming.h"
#include "lease.h"
#include "control/log.h"
#include "reconcile.h"
#include "reserve.h"
#include "vm.h"

static bool has_all(struct control *control, const struct claim *claim)
{
	struct gpu *gpu;
	uint32_t i, vf;

	for (i = 0; i < claim->n_vfs; i++)
		if (!lease_find(control, claim, claim->vfs[i].name, &gpu, &vf))
			return false;
	return true;
}

/* The action of each of libvirt's operations on the VM's leases. Other operations (attach, and
 * those of newer libvirts) have none. */
enum doing { NOTHING, PREPARE, KEEP, ADOPT, END, MIGRATE, RESTORE };
static const struct {
	const char *name;
	enum doing doing;
} operations[] = {
	{"prepare", PREPARE}, {"start", KEEP},	    {"started", ADOPT},	  {"stopped", END},
	{"release", END},     {"reconnect", ADOPT}, {"migrate", MIGRATE}, {"restore", RESTORE},
};

/* Counts a refusal before the reservation. Ending a VM is never a refusal. */
static int refuse(struct control *control, enum doing doing, enum refusal_reason reason, int r)
{
	if (doing == PREPARE || doing == KEEP)
		control->refusals.refused[REFUSAL_START][reason]++;
	else if (doing == MIGRATE || doing == RESTORE)
		control->refusals.refused[REFUSAL_INCOMING][reason]++;
	return r;
}

int hook_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	const char *operation = call_text(call, "operation"), *xml = call_text(call, "xml");
	const char *reason = call_text(call, "reason");
	struct reservation *job = reserve_new(call);
	size_t i, n = sizeof(operations) / sizeof(operations[0]);
	enum doing doing;
	int r;

	if (!job)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	for (i = 0; i < n && strcmp(operations[i].name, operation) != 0; i++)
		;
	doing = i < n ? operations[i].doing : NOTHING;
	r = vm_parse_claim(control, &job->claim, xml, err);
	if (r < 0)
		return refuse(control, doing, REFUSAL_CLAIM,
			      vgpu_error_prefix(err, r, "<metadata> of the domain"));
	if (doing == NOTHING || job->claim.n_vfs == 0) {
		call_answer(call, NULL);
		return 0;
	}
	if (!job->claim.uuid[0])
		return refuse(control, doing, REFUSAL_CLAIM,
			      vgpu_error_set(err, -EINVAL, "the domain has no UUID"));
	snprintf(job->claim.host, sizeof(job->claim.host), "%s", call_host(call));
	switch (doing) {
	case NOTHING:
		break;
	case KEEP: /* a vgpud restarted since "prepare" may have lost the leases */
		if (has_all(control, &job->claim))
			break;
		__attribute__((fallthrough));
	case PREPARE: /* ends leases of an earlier start whose end was not reported */
		if (incoming_is_expected(control, &job->claim))
			break;
		reserve_give_up(control, call);
		vm_end_leases(control, &job->claim);
		reserve_begin(call);
		return 0;
	case ADOPT:
		follow_adopt(control, &job->claim);
		break;
	case END:
		reserve_give_up(control, call);
		if (reason &&
		    strlen(reason) > 1) /* "-": libvirt before 10.5, or not the last operation */
			log_about(about_vm(job->claim.domain, LOG_PLAIN), LOG_INFO,
				  "domain %s has ended: %s", job->claim.domain, reason);
		if (vm_end_leases(control, &job->claim))
			leases_save(control);
		break;
	case MIGRATE:
	case RESTORE:
		r = incoming_begin(control, call, xml, doing == RESTORE, err);
		return r < 0 ? refuse(control, doing, REFUSAL_STATE, r) : 0;
	}
	call_answer(call, NULL);
	return 0;
}
