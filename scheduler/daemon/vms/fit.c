/* SPDX-License-Identifier: MIT */
#include "fit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "lease.h"
#include "vm.h"

const struct claim_hostdev *fit_device(const struct claim *claim, const struct claim_vf *claimed)
{
	const struct claim_hostdev *d = claim_device_of(claim, claimed);

	return d && pci_is_address(d->address) ? d : NULL;
}

int fit_check_gpu(const struct gpu *gpu, const struct travel *travel,
		  const struct claim_vf *claimed, struct vgpu_error *why)
{
	const struct travel_vf *from = travel_of(travel, claimed->name);
	char pf[PCI_ADDRESS_SIZE], kind[PCI_KIND_SIZE];
	const char *name = gpu->config->name;

	if (!gpu_pf_address(gpu, pf))
		return vgpu_error_set(why, -ENOTSUP,
				      "VFs of %s are not PCI devices, and their state cannot be "
				      "moved",
				      name);
	if (!from)
		return 0; /* the kernel checks it again when QEMU loads the state */
	if (pci_migration_kind(pf, kind) < 0)
		return vgpu_error_set(why, -EIO, "%s: sysfs does not say which GPU %s is", name,
				      pf);
	if (strcmp(kind, from->gpu) != 0)
		return vgpu_error_set(
			why, -ENOTSUP,
			"the state is of a GPU %s (vendor:device:revision), and %s is "
			"%s",
			from->gpu, name, kind);
	return 0;
}

int fit_check_vf(const struct gpu *gpu, uint32_t vf, const struct engine_snapshot *snapshot,
		 const struct travel *travel, const struct claim_vf *claimed,
		 struct vgpu_error *why)
{
	const struct travel_vf *from = travel_of(travel, claimed->name);
	uint64_t memory = vm_memory_of(gpu, vf, snapshot);
	const char *name = gpu->config->name;
	struct pci_info info = {.driver = ""};
	char address[PCI_ADDRESS_SIZE];

	if (vm_vf_address(gpu, vf, address))
		pci_describe(address, &info, NULL);
	if (!pci_can_migrate(info.driver))
		return vgpu_error_set(why, -ENOTSUP,
				      "VFs of %s have driver %s, which does not move their state",
				      name, info.driver[0] ? info.driver : "none");
	if (!from)
		return 0;
	if (strcmp(info.driver, from->driver) != 0)
		return vgpu_error_set(why, -ENOTSUP,
				      "the state was saved by driver %s, and VFs of %s have %s",
				      from->driver, name, info.driver);
	if (memory != from->memory && memory && from->memory)
		return vgpu_error_set(why, -ENOTSUP,
				      "the VF had %" PRIu64 " MiB of memory, and VF %u of %s has "
				      "%" PRIu64,
				      from->memory >> 20, vf, name, memory >> 20);
	if (!(memory && from->memory) && from->vfs != gpu->config->vfs)
		return vgpu_error_set(why, -ENOTSUP,
				      "the VF was one of %" PRId64
				      " among which the kernel divides "
				      "a GPU, and %s has %" PRId64,
				      from->vfs, name, gpu->config->vfs);
	return 0;
}

struct json_object *fit_answer(struct control *control, const struct claim *claim)
{
	struct json_object *answer = json_object_new_object(), *list = json_object_new_array(), *o;
	char address[PCI_ADDRESS_SIZE];
	struct gpu *gpu;
	uint32_t i, vf;

	for (i = 0; i < claim->n_vfs; i++) {
		const struct claim_vf *claimed = &claim->vfs[i];
		const struct claim_hostdev *from = fit_device(claim, claimed);

		if (!from || !lease_find(control, claim, claimed->name, &gpu, &vf) ||
		    !vm_vf_address(gpu, vf, address) || strcmp(address, from->address) == 0)
			continue;
		o = json_object_new_object();
		json_object_object_add(o, "from", json_object_new_string(from->address));
		json_object_object_add(o, "to", json_object_new_string(address));
		json_object_array_add(list, o);
	}
	json_object_object_add(answer, "devices", list);
	return answer;
}
