/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "vgpu/driver.h"

const struct vgpu_driver_ops *const vgpu_drivers[] = {
	&vgpu_gpuiov_driver, &vgpu_xe_driver,	&vgpu_gim_driver,	    &vgpu_nvidia_driver,
	&vgpu_gated_driver,  &vgpu_null_driver, &vgpu_null_firmware_driver, NULL,
};

/* The form after F of driver *D, of all drivers; NULL: there is none. */
static const struct vgpu_device_form *next(const struct vgpu_driver_ops *const **d,
					   const struct vgpu_device_form *f)
{
	static const struct vgpu_device_form none = {.prefix = NULL};

	f = f ? f + 1 : **d && (**d)->forms ? (**d)->forms : &none;
	while (**d && !f->prefix) {
		++*d;
		f = **d && (**d)->forms ? (**d)->forms : &none;
	}
	return **d ? f : NULL;
}

void vgpu_device_forms(char *out, size_t size, bool whose)
{
	const struct vgpu_driver_ops *const *d = vgpu_drivers;
	const struct vgpu_device_form *f = next(&d, NULL), *after;
	size_t n = 0;

	for (; f && n < size; f = after) {
		after = next(&d, f);
		n += (size_t)snprintf(out + n, size - n, "%s%s%s%s%s%s", f->prefix, f->argument,
				      whose && f->whose ? " (" : "",
				      whose && f->whose ? f->whose : "",
				      whose && f->whose ? ")" : "", after ? ", " : "");
	}
}

const struct vgpu_device_form *vgpu_device_form_of(const char *device)
{
	const struct vgpu_driver_ops *const *d = vgpu_drivers;
	const struct vgpu_device_form *f;

	for (f = next(&d, NULL); f; f = next(&d, f))
		if (strncmp(device, f->prefix, strlen(f->prefix)) == 0)
			return f;
	return NULL;
}

const struct vgpu_driver_ops *vgpu_driver_for(const char *device, struct vgpu_error *err)
{
	const struct vgpu_driver_ops *const *d;
	char forms[VGPU_FORMS_SIZE];
	bool refused = false;
	int r;

	/* Another driver may accept a device that this one refuses. */
	for (d = vgpu_drivers; *d; d++) {
		r = (*d)->device->probe(device, err);
		if (r > 0)
			return *d;
		refused |= r < 0;
	}
	if (!refused) {
		vgpu_device_forms(forms, sizeof(forms), false);
		vgpu_error_set(err, -EINVAL, "%s: not a device; want one of %s", device, forms);
	}
	return NULL;
}
