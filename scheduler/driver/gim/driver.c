/* SPDX-License-Identifier: MIT */
/* The faces, and what the writer calls. */
#include <errno.h>
#include <string.h>

#include "gim.h"
#include "vfio/pci.h"

static uint32_t slice_of(vgpu_nsec quantum)
{
	vgpu_nsec us = quantum / VGPU_USEC / GIM_SLICE_STEP * GIM_SLICE_STEP;

	return us < GIM_SLICE_MIN   ? GIM_SLICE_MIN
	       : us > GIM_SLICE_MAX ? GIM_SLICE_MAX
				    : (uint32_t)us;
}

static void program_of(const uint32_t *slices, uint32_t n_vfs, struct vgpu_program *out)
{
	uint32_t i;

	*out = (struct vgpu_program){.keep_turns = gim_mode() == GIM_MODE_SOLID};
	for (i = 0; i < n_vfs; i++)
		out->vfs[i].quantum = slices[i] * VGPU_USEC;
}

int gim_read_program(const char *pf, uint32_t n_vfs, struct vgpu_program *out)
{
	uint32_t slices[VGPU_GPU_MAX_VFS] = {0};
	int r = gim_read_slices(pf, n_vfs, slices);

	program_of(slices, n_vfs, out);
	return r;
}

/*
 * GIM stops the GPU's scheduler for each write, so only what differs is written. A write succeeds
 * whether the GPU has taken it or not: what is read back counts.
 */
static int write_program(const char *pf, uint32_t n_vfs, const struct vgpu_program *want,
			 struct vgpu_program *have, const _Atomic bool *end)
{
	uint32_t slices[VGPU_GPU_MAX_VFS] = {0}, i;
	int first = gim_read_slices(pf, n_vfs, slices), r;

	(void)end; /* no write waits for long */
	for (i = 0; i < n_vfs && first == 0; i++) {
		if (slices[i] == slice_of(want->vfs[i].quantum))
			continue;
		r = gim_write_slice(pf, i, slice_of(want->vfs[i].quantum));
		first = first ? first : r;
	}
	r = gim_read_slices(pf, n_vfs, slices);
	program_of(slices, n_vfs, have);
	for (i = 0; i < n_vfs && r == 0; i++)
		if (slices[i] != slice_of(want->vfs[i].quantum))
			r = -EIO;
	return first ? first : r;
}

/* Nothing else is read of a GPU whose plan stands. */
static int look(const char *pf, uint32_t n_vfs)
{
	uint32_t slices[VGPU_GPU_MAX_VFS];

	return gim_read_slices(pf, n_vfs, slices);
}

const struct settings_ops gim_settings = {.write = write_program, .stop = NULL, .look = look};

/* There is nothing to count. Once an epoch is often enough to see that GIM has gone. */
static int gim_usage(struct vgpu_driver *d, vgpu_nsec *active, vgpu_nsec)
{
	settings_writer_wake(&d->writer);
	memset(active, 0, d->writer.n_vfs * sizeof(*active));
	return 0;
}

static const struct vgpu_device_face device_face = {
	.probe = gim_probe,
	.check = gim_check,
	.open = gim_open,
	.close = gim_close,
	.fd = settings_fd,
	.deadline = settings_deadline,
	.dispatch = settings_dispatch,
	.reset = settings_reset,
};

static const struct vgpu_programmed_face programmed_face = {
	.program = settings_program,
	.programmed = settings_programmed,
	.usage = gim_usage,
	.stop = settings_stop,
};

static const struct vgpu_device_form forms[] = {
	{"gim:", "ADDRESS", "AMD, driver gim", PCI_DEVICES "/"},
	{.prefix = NULL},
};

const struct vgpu_driver_ops vgpu_gim_driver = {
	.size = sizeof(struct vgpu_driver_ops),
	.name = "gim",
	.forms = forms,
	.device = &device_face,
	.programmed = &programmed_face,
};
