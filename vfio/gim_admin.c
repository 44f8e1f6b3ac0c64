/* SPDX-License-Identifier: MIT */
#include "vfio/gim_admin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "vfio/kernel.h"

#define VENDOR_AMD 0x1002u
#define DEBUGFS "/sys/kernel/debug"
#define SLICES DEBUGFS "/gim/%s/asymmetric_timeslice"
#define TEXT_SIZE 4096 /* about 40 bytes for each of at most 31 VFs */

int gim_read_slices(const char *pf, uint32_t n, uint32_t *slices)
{
	char text[TEXT_SIZE], state[16], *line, *rest = text;
	uint32_t vf, slice, found = 0;
	int r = kernel_read_text(text, sizeof(text), SLICES, pf);

	if (r < 0)
		return r;
	if (strstr(text, "not support"))
		return -EOPNOTSUPP;
	while ((line = strsep(&rest, "\n"))) {
		if (sscanf(line, "VF%" SCNu32 " %15s timeslice = %" SCNu32 " us", &vf, state,
			   &slice) != 3)
			continue;
		if (vf != found)
			return -EINVAL;
		if (found++ < n)
			slices[vf] = slice;
	}
	return found < n ? -EINVAL : 0;
}

/* GIM reads the text with sscanf() and does not terminate it: without the newline, digits in the
 * memory behind it would be read, too. */
int gim_write_slice(const char *pf, uint32_t vf, uint32_t slice)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu32 ",%" PRIu32 "\n", vf, slice);
	return kernel_write_here(text, SLICES, pf);
}

/* Reads a text such as "1,1,2": one number for each GPU, in an order that only GIM knows. */
enum gim_mode gim_mode(void)
{
	char text[256], *rest = text, *word;
	unsigned mode, first = 0, n = 0;

	if (kernel_read_text(text, sizeof(text), "/sys/module/gim/parameters/sch_policy") <= 0)
		return GIM_MODE_UNKNOWN;
	while ((word = strsep(&rest, ","))) {
		if (sscanf(word, "%u", &mode) != 1 || (n++ && mode != first))
			return GIM_MODE_UNKNOWN;
		first = mode;
	}
	return first > GIM_MODE_LIQUID ? GIM_MODE_SOFTWARE : (enum gim_mode)first;
}

bool gim_read_partitions(const char *pf, struct gim_partitions *out)
{
	char text[1024], *row;
	int r = kernel_read_text(text, sizeof(text),
				 PCI_DEVICES "/%s/accelerator_partition_profile", pf);

	/* The text has a line of titles and a line of values. */
	row = r < 0 ? NULL : strchr(text, '\n');
	if (!row || sscanf(row, "%" SCNu32 " %15s", &out->index, out->profile) != 2)
		return false;
	r = kernel_read_text(text, sizeof(text), PCI_DEVICES "/%s/memory_partition_mode", pf);
	return r >= 0 && sscanf(text, "memory_partition_mode: %15s", out->memory) == 1;
}

static int refuse_spatial(const struct pci_info *pf, struct vgpu_error *err)
{
	struct gim_partitions parts;

	if (!gim_read_partitions(pf->address, &parts))
		return vgpu_error_set(err, -EOPNOTSUPP,
				      "%s: GIM cannot set the slices of this GPU's VFs; remove its "
				      "section",
				      pf->address);
	return vgpu_error_set(err, -EOPNOTSUPP,
			      "%s: this GPU is divided in space (%s, %s): each VF has its own part "
			      "all the time, so there is nothing to slice; remove its section, and "
			      "assign its VFs to VMs directly",
			      pf->address, parts.profile, parts.memory);
}

static int check_slices(const struct pci_info *pf, struct vgpu_error *err)
{
	uint32_t slices[VGPU_GPU_MAX_VFS];
	uint32_t n = pf->vfs < VGPU_GPU_MAX_VFS ? pf->vfs : VGPU_GPU_MAX_VFS;
	int r = gim_read_slices(pf->address, n, slices);

	if (r == -EOPNOTSUPP)
		return refuse_spatial(pf, err);
	if (r == -ENOENT)
		return vgpu_error_set(err, r,
				      "%s: there is no " SLICES ": mount debugfs there, or use a "
				      "GIM that has this file",
				      pf->address, pf->address);
	if (r == -EPERM || r == -EACCES)
		return vgpu_error_set(err, r,
				      "%s: cannot read " SLICES ": %s; run this as root, and boot "
				      "without kernel lockdown",
				      pf->address, pf->address, strerror(-r));
	if (r == -EINVAL)
		return vgpu_error_set(err, r,
				      "%s: " SLICES " does not list the slices of %" PRIu32 " VFs: "
				      "vgpud does not know this version of GIM",
				      pf->address, pf->address, n);
	return r < 0 ? vgpu_error_set(err, r,
				      "%s: cannot read " SLICES ": %s; see the kernel's log",
				      pf->address, pf->address, strerror(-r))
		     : 0;
}

int gim_recognise(const char *address, struct pci_info *out, struct vgpu_error *err)
{
	int r = pci_describe(address, out, err);

	if (r == 0)
		r = pci_check_owner(out, VENDOR_AMD, "an AMD GPU", GIM_DRIVER,
				    "AMD's GIM makes VFs of the GPUs that it supports", err);
	if (r < 0)
		return r;
	if (out->vfs == 0)
		return vgpu_error_set(err, -ENODEV,
				      "%s: GIM has made no VFs: load gim with vf_num=N", address);
	if (gim_mode() == GIM_MODE_SOFTWARE)
		return vgpu_error_set(err, -EOPNOTSUPP,
				      "%s: GIM switches VFs itself, with one slice for all: load "
				      "gim with sch_policy=1 or sch_policy=2",
				      address);
	return check_slices(out, err);
}
