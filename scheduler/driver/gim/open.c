/* SPDX-License-Identifier: MIT */
/*
 * Adopts a GPU with the VFs that GIM has made, and with their slices: its tenants keep running.
 * Only VFs that have no driver are changed: they are bound to VFIO. If anything fails, they have
 * none again.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gim.h"

#define PREFIX "gim:"
#define UNUSABLE "GIM does not tell what VFs use: the policy's shares are set, and not corrected; "

int gim_probe(const char *device, struct vgpu_error *err)
{
	struct pci_info info;
	int r;

	if (strncmp(device, PREFIX, strlen(PREFIX)) != 0)
		return 0;
	r = gim_recognise(device + strlen(PREFIX), &info, err);
	return r < 0 ? r : 1;
}

static int check_config(const struct pci_info *pf, const struct vgpu_driver_config *c,
			struct vgpu_error *err)
{
	uint32_t i;
	int r = settings_check_config(pf, c, err);

	if (r < 0)
		return r;
	if (c->n_vfs != pf->vfs)
		return vgpu_error_set(err, -EINVAL,
				      "vfs = %" PRIu32 ": GIM has made %" PRIu32
				      " VFs of %s, which "
				      "vgpud cannot change: set vfs = %" PRIu32
				      ", or load gim with vf_num=%" PRIu32,
				      c->n_vfs, pf->vfs, pf->address, pf->vfs, c->n_vfs);
	if (c->n_vfs == 1)
		return vgpu_error_set(err, -EINVAL,
				      "vfs = 1: %s needs at least two VFs, because GIM sets no "
				      "slice for a single one; load gim with vf_num=2 or more",
				      pf->address);
	for (i = 0; i < c->n_vfs; i++)
		if (c->sizes[i])
			return vgpu_error_set(
				err, -EINVAL,
				"memory_mib: GIM divides the memory of %s, not vgpud; "
				"remove memory_mib",
				pf->address);
	return 0;
}

/* Returns a bitmap of the VFs without a driver. */
static vgpu_vf_set unbound_vfs(const struct pci_info *pf)
{
	char address[PCI_ADDRESS_SIZE];
	struct pci_info vf;
	vgpu_vf_set found = 0;
	uint32_t i;

	for (i = 0; i < pf->vfs; i++)
		if (pci_vf_address(pf->address, i, address) == 0 &&
		    pci_describe(address, &vf, NULL) == 0 && !vf.driver[0])
			found |= VGPU_VF_BIT(i);
	return found;
}

static void unbind_vfs(const struct pci_info *pf, vgpu_vf_set vfs)
{
	char address[PCI_ADDRESS_SIZE];
	uint32_t i;

	for (i = 0; i < pf->vfs; i++)
		if (vfs >> i & 1 && pci_vf_address(pf->address, i, address) == 0)
			pci_unbind(address);
}

static int set_up(struct vgpu_driver *d, const struct pci_info *pf, struct vgpu_error *err)
{
	uint32_t unbound = unbound_vfs(pf);
	struct vgpu_program have;
	int r = gim_read_program(pf->address, pf->vfs, &have);

	if (r < 0)
		return vgpu_error_set(err, r, "%s: cannot read its slices: %s", pf->address,
				      strerror(-r));
	r = pci_set_vfs(pf->address, pf->vfs, err);
	if (r == 0) {
		r = settings_writer_start(&d->writer, &gim_settings, pf->address, pf->vfs, &have);
		if (r < 0)
			vgpu_error_set(err, r, "%s: cannot start a thread: %s", pf->address,
				       strerror(-r));
	}
	if (r < 0)
		unbind_vfs(pf, unbound);
	return r;
}

static void describe(const struct pci_info *pf, struct vgpu_driver_caps *caps,
		     struct vgpu_driver_found *found)
{
	static const char *const notes[] = {
		[GIM_MODE_UNKNOWN] =
			UNUSABLE "whether turns of VFs without work pass unused is not known: load "
				 "gim with sch_policy=1 (they do) or 2",
		[GIM_MODE_SOLID] = UNUSABLE "turns of VFs without work pass unused (sch_policy=1)",
		[GIM_MODE_LIQUID] = UNUSABLE "VFs without work are skipped (sch_policy=2)",
	};
	enum gim_mode mode = gim_mode();

	/* Nobody tells whose guest's driver is up. */
	*found = (struct vgpu_driver_found){.adopted = true};
	*caps = (struct vgpu_driver_caps){
		.kind = VGPU_DRIVER_PROGRAMMED,
		.driver = vgpu_gim_driver.name,
		.max_vfs = pf->total_vfs < VGPU_GPU_MAX_VFS ? pf->total_vfs : VGPU_GPU_MAX_VFS,
		.reset_levels = 1u << VGPU_RESET_VF,
		.preemption = "unknown",
		.quantum = {GIM_SLICE_MIN * VGPU_USEC, GIM_SLICE_MAX * VGPU_USEC,
			    GIM_SLICE_STEP * VGPU_USEC},
		.keeps_turns = mode == GIM_MODE_SOLID,
		.always_keeps_turns = mode == GIM_MODE_SOLID,
		.no_usage = true,
		.hides_guests = true,
		.note = mode == GIM_MODE_SOFTWARE ? NULL : notes[mode],
	};
	snprintf(caps->model, sizeof(caps->model), "AMD %04x", pf->device);
	pci_model(pf, caps->model, sizeof(caps->model));
	snprintf(caps->layout, sizeof(caps->layout), "none");
	snprintf(caps->transport, sizeof(caps->transport), "debugfs");
}

/* Finds the GPU, and whether it can be as configured. */
static int find_gpu(const struct vgpu_driver_config *config, struct pci_info *pf,
		    struct vgpu_error *err)
{
	int r = gim_recognise(config->device + strlen(PREFIX), pf, err);

	return r == 0 ? check_config(pf, config, err) : r;
}

int gim_check(const struct vgpu_driver_config *config, struct vgpu_driver_caps *,
	      struct vgpu_error *err)
{
	struct pci_info pf;

	return find_gpu(config, &pf, err);
}

int gim_open(struct vgpu_driver **out, const struct vgpu_driver_config *config,
	     struct vgpu_driver_caps *caps, struct vgpu_driver_found *found, vgpu_event_sink *sink,
	     void *data, struct vgpu_error *err)
{
	struct vgpu_driver *d;
	struct pci_info pf;
	int r = find_gpu(config, &pf, err);

	if (r < 0)
		return r;
	d = settings_new(sink, data, err);
	if (!d)
		return -ENOMEM;
	r = settings_lock(&d->lock, pf.address, err);
	if (r == 0)
		r = settings_check_vfs(&pf, err);
	if (r == 0)
		r = set_up(d, &pf, err);
	if (r < 0) {
		settings_free(d);
		return r;
	}
	describe(&pf, caps, found);
	*out = d;
	return 0;
}

void gim_close(struct vgpu_driver *d, bool lost)
{
	(void)lost; /* nothing of it is kept */
	settings_writer_end(&d->writer);
	settings_free(d);
}
