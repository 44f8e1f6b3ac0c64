/* SPDX-License-Identifier: MIT */
/* The faces, and what the writer calls. */
#include "xe.h"
#include "vfio/pci.h"

static int write_program(const char *pf, uint32_t n_vfs, const struct vgpu_program *want,
			 struct vgpu_program *have, const _Atomic bool *end)
{
	struct xe_schedule to, now;
	int r;

	xe_schedule_of(want, n_vfs, &to);
	r = xe_write_schedule(pf, &to, &now, end);
	xe_program_of(&now, have);
	return r;
}

static int stop_vf(const char *pf, uint32_t vf)
{
	return xe_stop(pf, xe_function_of(vf));
}

const struct settings_ops xe_settings = {.write = write_program, .stop = stop_vf};

static int xe_usage(struct vgpu_driver *d, vgpu_nsec *active, vgpu_nsec now)
{
	return xe_counters_read(d->own, active, now);
}

static const struct vgpu_device_face device_face = {
	.probe = xe_probe,
	.check = xe_check,
	.open = xe_open,
	.close = xe_close,
	.fd = settings_fd,
	.deadline = settings_deadline,
	.dispatch = settings_dispatch,
	.reset = settings_reset,
};

static const struct vgpu_programmed_face programmed_face = {
	.program = settings_program,
	.programmed = settings_programmed,
	.usage = xe_usage,
	.stop = settings_stop,
};

static const struct vgpu_device_form forms[] = {
	{"xe:", "ADDRESS", "Intel, driver xe", PCI_DEVICES "/"},
	{.prefix = NULL},
};

const struct vgpu_driver_ops vgpu_xe_driver = {
	.size = sizeof(struct vgpu_driver_ops),
	.name = "xe",
	.forms = forms,
	.device = &device_face,
	.programmed = &programmed_face,
};
