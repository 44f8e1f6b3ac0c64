/* SPDX-License-Identifier: MIT */
#include "config_check.h"

#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "engine.h"
#include "trial.h"
#include "vfio/pci.h"

/* What the GPU can do; NULL: nobody has opened it. */
static const struct vgpu_driver_caps *caps_of(const struct control *running,
					      const struct gpu_config *gpu)
{
	uint32_t i;

	for (i = 0; running && i < running->n_gpus; i++)
		if (strcmp(running->gpus[i].config->name, gpu->name) == 0 &&
		    strcmp(running->gpus[i].config->device, gpu->device) == 0)
			return engine_caps(running->gpus[i].engine);
	return NULL;
}

int config_check_policies(const struct config *config, const struct control *running, FILE *errors)
{
	struct policy_values values;
	struct vgpu_error err;
	int wrong = 0;
	uint32_t i;
	int32_t vf;

	for (i = 0; i < config->n_gpus; i++) {
		const struct gpu_config *g = &config->gpus[i];

		if (!g->ops || g->mistaken)
			continue;
		values.policy = g->ops;
		memcpy(values.params, g->params, sizeof(values.params));
		memcpy(values.vf_params, g->vf_params, sizeof(values.vf_params));
		if (trial(g, caps_of(running, g), &values, &vf, &err) == 0)
			continue;
		wrong++;
		config_print_place(config,
				   vf >= 0 && g->vf_at[vf].line ? g->vf_at[vf] : g->policy_at,
				   errors);
		if (vf < 0)
			fprintf(errors, "[gpu %s]: %s\n", g->name, err.text);
		else
			fprintf(errors, "[vf %s/%d], with the VFs before it: %s\n", g->name, vf,
				err.text);
	}
	return wrong;
}

/* Finds the file that stands for a device, on this host. False: none does. */
static bool device_path(const char *device, char *out, size_t size)
{
	const struct vgpu_device_form *f = vgpu_device_form_of(device);

	if (!f || !f->directory)
		return false;
	device += strlen(f->prefix);
	snprintf(out, size, "%s%.*s", f->directory, (int)strcspn(device, ","), device);
	return true;
}

/* Whether a driver takes the GPU with so many VFs; if not, the reason is in ERR. */
static bool driver_takes(const struct gpu_config *g, struct vgpu_error *err)
{
	const struct vgpu_driver_ops *driver = vgpu_driver_for(g->device, err);
	uint32_t most = driver ? driver->device->most_vfs : 0;

	if (most == 0 || g->vfs <= most)
		return driver;
	vgpu_error_set(err, -EINVAL, "vfs = %" PRId64 ": want at most %" PRIu32 ": %s", g->vfs,
		       most, driver->device->why_no_more);
	return false;
}

static int check_device(const struct config *config, const struct gpu_config *g, FILE *errors)
{
	struct vgpu_error err = {""};
	char path[300];
	struct stat s;

	if (!g->device[0])
		return 0;
	if (device_path(g->device, path, sizeof(path)) &&
	    strncmp(path, PCI_DEVICES, strlen(PCI_DEVICES)) == 0 &&
	    !pci_is_address(path + strlen(PCI_DEVICES "/")))
		vgpu_error_set(&err, -EINVAL, "not a PCI address; want one like 0000:01:00.0");
	else if (device_path(g->device, path, sizeof(path)) && stat(path, &s) < 0)
		vgpu_error_set(&err, -errno, "%s: %s (%s)", path, strerror(errno),
			       strncmp(g->device, "vfio-user:", 10) == 0
				       ? "is softgpu running?"
				       : "'vgpuctl doctor' lists the GPUs of this host");
	else if (driver_takes(g, &err))
		return 0;
	fprintf(errors, "%s: [gpu %s]: device = %s: %s\n", config->file, g->name, g->device,
		err.text);
	return 1;
}

int config_check_host(const struct config *config, FILE *errors)
{
	int wrong = 0;
	uint32_t i;

	/* Without packages there may be no group: then only root can use vgpuctl. */
	if (strcmp(config->group, CONFIG_DEFAULT_GROUP) != 0 && !getgrnam(config->group)) {
		wrong++;
		fprintf(errors,
			"%s: [daemon]: group = %s: this host has no such group; make it with "
			"groupadd, or choose another\n",
			config->file, config->group);
	}
	for (i = 0; i < config->n_gpus; i++)
		wrong += check_device(config, &config->gpus[i], errors);
	return wrong;
}
