/* SPDX-License-Identifier: MIT */
#include "incoming.h"

#include <errno.h>
#include <string.h>

#include "fit.h"
#include "lease.h"
#include "control/log.h"
#include "reserve.h"
#include "vm.h"

static int refuse(const struct claim *claim, bool restores, struct vgpu_error *err)
{
	return restores ? vgpu_error_set(
				  err, -ENOTSUP,
				  "domain %s was saved without the state of its VF, which would "
				  "be dead in the guest: start it without the saved state (virsh "
				  "start --force-boot), or take the device out (virsh "
				  "save-image-edit, managedsave-edit)",
				  claim->domain)
			: vgpu_error_set(err, -ENOTSUP,
					 "domain %s: the state of a VF cannot be moved to another "
					 "host; detach the VF first",
					 claim->domain);
}

/* libvirt refuses a second VM of the same UUID, but calls the hook before that check. Returns
 * whether the claim's VM is already here with a VF in use; ERR then names the VF. */
static bool is_here(struct control *control, const struct claim *claim, struct vgpu_error *err)
{
	uint32_t g, vf;

	for (g = 0; g < control->n_gpus; g++)
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
			const struct gpu *gpu = &control->gpus[g];

			if (!lease_is_of(&gpu->leases[vf], claim->host, claim->uuid) ||
			    !vm_uses(gpu, vf))
				continue;
			vgpu_error_set(err, -EBUSY,
				       "domain %s is here already, and uses VF %u of %s",
				       gpu->leases[vf].domain, vf, gpu->config->name);
			return true;
		}
	return false;
}

int incoming_begin(struct control *control, struct call *call, const char *xml, bool restores,
		   struct vgpu_error *err)
{
	struct reservation *job = reservation_of(call);
	uint32_t i, n = 0;
	int r;

	/* QEMU neither saves nor migrates the state of vfio-user devices, and reports no error. */
	for (i = 0; i < job->claim.n_hostdevs; i++)
		if (job->claim.hostdevs[i].address[0] == '/')
			return refuse(&job->claim, restores, err);
	job->mode = RESERVE_INCOMING;
	for (i = 0; i < job->claim.n_vfs; i++)
		n += fit_device(&job->claim, &job->claim.vfs[i]) != NULL;
	if (n == 0) { /* no VF state comes with it: "prepare" reserves */
		call_answer(call, NULL);
		return 0;
	}
	if (is_here(control, &job->claim, err))
		return -EBUSY;
	r = travel_read(&job->travel, xml, strlen(xml), err);
	if (r < 0)
		return vgpu_error_prefix(err, r, "<metadata> of the domain");
	if (job->travel.n_vfs == 0)
		log_about(about_vm(job->claim.domain, LOG_PLAIN), LOG_NOTICE,
			  "domain %s has no record of the GPU that its VF's state fits, and of "
			  "what it owes: vgpud-libvirt did not run on its source host",
			  job->claim.domain);
	reserve_give_up(control, call);
	vm_end_leases(control, &job->claim);
	reserve_begin(call);
	return 0;
}

bool incoming_is_expected(struct control *control, const struct claim *claim)
{
	char address[PCI_ADDRESS_SIZE];
	const struct lease *l;
	bool any = false;
	struct gpu *gpu;
	uint32_t i, vf;

	for (i = 0; i < claim->n_vfs; i++) {
		const struct claim_hostdev *d = claim_device_of(claim, &claim->vfs[i]);

		l = lease_find(control, claim, claim->vfs[i].name, &gpu, &vf);
		if (!l)
			return false;
		if (l->state != LEASE_INCOMING)
			continue;
		if (!d || !vm_vf_address(gpu, vf, address) || strcmp(address, d->address) != 0)
			return false;
		any = true;
	}
	return any;
}
