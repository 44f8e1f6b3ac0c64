/* SPDX-License-Identifier: MIT */
#include "outgoing.h"

#include <errno.h>
#include <string.h>

#include "control/args.h"
#include "fit.h"
#include "lease.h"
#include "reserve.h"
#include "vm.h"

/* Debts are rounded to steps: small changes are not worth a change of the domain. */
#define OWED_STEP (10 * VGPU_MSEC)

static void next(struct call *call);

/* The VF's service beyond its share, plus unpaid costs of windows and resets. Service that is owed
 * to the VF stays behind: the tenants of another GPU do not owe it. */
static vgpu_nsec owed_by(const struct engine_snapshot *s, uint32_t i)
{
	const struct vgpu_vf_view *vf = &s->vfs[i];
	int64_t carry = s->governed ? s->governed_vfs[i].ledger.carry : 0;
	vgpu_nsec owed = vf->ledger.debt_ns + (vf->lag_ns < 0 ? (vgpu_nsec)-vf->lag_ns : 0);

	/* A governed VF's lag includes its carry, but only while the VF has work. */
	if (carry > 0 && (vgpu_nsec)carry > owed)
		owed = (vgpu_nsec)carry;
	owed = (owed + OWED_STEP / 2) / OWED_STEP * OWED_STEP;
	return owed < TRAVEL_MAX_OWED ? owed : TRAVEL_MAX_OWED;
}

/* Describes a VF. Returns false if its state cannot be moved. */
static bool describe(const struct call *call, const struct claim_vf *claimed, struct travel_vf *out)
{
	char pf[PCI_ADDRESS_SIZE], address[PCI_ADDRESS_SIZE];
	struct pci_info info;

	*out = (struct travel_vf){.memory = vm_memory_of(call->gpu, call->vf, &call->snapshot),
				  .vfs = call->gpu->config->vfs,
				  .owed = owed_by(&call->snapshot, call->vf)};
	if (!gpu_pf_address(call->gpu, pf) || !vm_vf_address(call->gpu, call->vf, address) ||
	    pci_describe(address, &info, NULL) < 0 || !pci_can_migrate(info.driver) ||
	    pci_migration_kind(pf, out->gpu) < 0)
		return false;
	memcpy(out->name, claimed->name, sizeof(out->name));
	snprintf(out->driver, sizeof(out->driver), "%s", info.driver);
	return true;
}

static void on_snapshot(struct call *call)
{
	struct reservation *job = reservation_of(call);

	if (call->request.result == 0 && !call->snapshot.lost &&
	    describe(call, &job->claim.vfs[job->at], &job->travel.vfs[job->travel.n_vfs]))
		job->travel.n_vfs++;
	job->at++;
	next(call);
}

/* Continues with the VM's next VF; answers after the last one. */
static void next(struct call *call)
{
	struct reservation *job = reservation_of(call);
	struct json_object *answer;
	char text[TRAVEL_TEXT_MAX];
	const struct lease *l;

	for (; job->at < job->claim.n_vfs; job->at++) {
		const struct claim_vf *claimed = &job->claim.vfs[job->at];

		l = lease_find(call->control, &job->claim, claimed->name, &call->gpu, &call->vf);
		if (!l || l->state != LEASE_RUNNING || !fit_device(&job->claim, claimed))
			continue;
		call->request = (struct engine_request){.ask = ENGINE_SNAPSHOT,
							.snapshot = &call->snapshot};
		call->then = on_snapshot;
		call_queue(call);
		return;
	}
	answer = json_object_new_object();
	if (job->travel.n_vfs > 0) {
		travel_write(&job->travel, text);
		json_object_object_add(answer, "travel", json_object_new_string(text));
	}
	call_answer(call, answer);
}

int vm_travel_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	struct reservation *job = reserve_new(call);
	const char *xml = call_text(call, "xml");
	int r;

	if (!job)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	r = vm_parse_claim(control, &job->claim, xml, err);
	if (r < 0)
		return r;
	snprintf(job->claim.host, sizeof(job->claim.host), "%s", call_host(call));
	next(call);
	return 0;
}
