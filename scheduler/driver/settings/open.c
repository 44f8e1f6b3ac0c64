/* SPDX-License-Identifier: MIT */
/* What opening such a GPU begins with. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "settings.h"
#include "vfio/kernel.h"
#include "vgpu/descriptor.h"

struct vgpu_driver *settings_new(vgpu_event_sink *sink, void *data, struct vgpu_error *err)
{
	struct vgpu_driver *d = calloc(1, sizeof(*d));

	if (!d) {
		vgpu_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	d->sink = sink;
	d->data = data;
	d->gpu_reset_vf = VGPU_NO_VF;
	d->lock = -1;
	return d;
}

void settings_free(struct vgpu_driver *d)
{
	vgpu_close(&d->lock);
	free(d);
}

int settings_check_config(const struct pci_info *pf, const struct vgpu_driver_config *config,
			  struct vgpu_error *err)
{
	uint32_t most = pf->total_vfs < VGPU_GPU_MAX_VFS ? pf->total_vfs : VGPU_GPU_MAX_VFS, i;

	if (config->n_vfs > most)
		return vgpu_error_set(err, -EINVAL, "vfs = %" PRIu32 ": %s has at most %" PRIu32,
				      config->n_vfs, pf->address, most);
	if (config->layout)
		return vgpu_error_set(err, -EINVAL,
				      "layout = %s: %s is not a GPU-IOV GPU; remove layout",
				      config->layout, pf->address);
	if (config->host)
		return vgpu_error_set(
			err, -EINVAL,
			"host_memory_mib: VFs of %s cannot be swapped to host memory; "
			"remove it",
			pf->address);
	for (i = 0; i < config->n_vfs; i++)
		if (config->sizes[i] == VGPU_SIZE_NONE)
			return vgpu_error_set(err, -EINVAL,
					      "partition = demand: the memory of a VF of %s cannot "
					      "change while VMs run; use partition = equal",
					      pf->address);
	return 0;
}

int settings_check_vfs(const struct pci_info *pf, struct vgpu_error *err)
{
	char address[PCI_ADDRESS_SIZE];
	struct pci_info vf;
	uint32_t i;

	for (i = 0; i < pf->vfs; i++)
		if (pci_vf_address(pf->address, i, address) == 0 &&
		    pci_describe(address, &vf, NULL) == 0 && vf.driver[0] &&
		    !strstr(vf.driver, "vfio"))
			return vgpu_error_set(err, -EBUSY,
					      "%s: VF %" PRIu32 " (%s) has driver %s, so that "
					      "programs of this host may use it; unbind it first",
					      pf->address, i, address, vf.driver);
	return 0;
}

int settings_lock(int *fd, const char *pf, struct vgpu_error *err)
{
	char path[96];

	snprintf(path, sizeof(path), PCI_DEVICES "/%s/config", pf);
	*fd = vfio_kernel->open(path, O_RDONLY);
	if (*fd < 0)
		return vgpu_error_set(err, *fd, "%s: cannot open %s: %s", pf, path, strerror(-*fd));
	if (flock(*fd, LOCK_EX | LOCK_NB) < 0)
		return vgpu_error_set(err, -EBUSY, "%s: another program holds this device", pf);
	return 0;
}
