/* SPDX-License-Identifier: MIT */
/* Finds the driver of the host that a PF is bound to. */
#include <errno.h>
#include <string.h>

#include "vfio/pci.h"

int pci_check_owner(const struct pci_info *pf, uint16_t vendor, const char *name,
		    const char *driver, const char *cure, struct vgpu_error *err)
{
	const char *has = pf->driver[0] ? pf->driver : "none";

	if (pf->vendor != vendor)
		return vgpu_error_set(err, -ENODEV,
				      "%s (%04x:%04x, driver %s) is not %s, and stays as it is; "
				      "vgpuctl doctor lists the GPUs of this host",
				      pf->address, pf->vendor, pf->device, has, name);
	if (pf->pf[0])
		return vgpu_error_set(err, -EINVAL, "%s is a VF; give its PF, %s", pf->address,
				      pf->pf);
	if (strcmp(pf->driver, driver) != 0)
		return vgpu_error_set(err, -ENODEV,
				      "%s: has driver %s, not %s, and stays as it is; %s",
				      pf->address, has, driver, cure);
	return 0;
}
