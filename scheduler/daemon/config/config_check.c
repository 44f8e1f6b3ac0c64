/* SPDX-License-Identifier: MIT */
#include "config_check.h"

#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/engine.h"
#include "trial.h"
#include "vfio/pci.h"

/* Checks that the GPU's driver accepts the configuration. */
static int check_setup(const struct config *config, const struct gpu_config *g,
		       struct vgpu_driver_caps *caps, FILE *errors)
{
	struct engine_config engine;
	struct vgpu_error err = {""};
	const struct vgpu_driver_ops *driver = vgpu_driver_for(g->device, &err);
	uint32_t vf, most = 0;

	config_to_engine(g, &engine);
	if (!driver || !driver->device->check ||
	    driver->device->check(&engine.driver, caps, &err) >= 0)
		return 0;
	/* Checks the sizes of the VFs' memory against the GPU's. */
	for (vf = 1; vf < VGPU_GPU_MAX_VFS; vf++)
		most = g->memory_mib[vf] > g->memory_mib[most] ? vf : most;
	config_print_place(config, g->memory_mib[most] ? g->vf_at[most] : g->policy_at, errors);
	fprintf(errors, "[gpu %s]: %s\n", g->name, err.text);
	return 1;
}

static int check_resets(const struct config *config, const struct gpu_config *g,
			const struct vgpu_driver_caps *caps, FILE *errors)
{
	const char *why = engine_cannot_reset(caps, g->gpu_reset);

	if (!why)
		return 0;
	config_print_place(config, g->policy_at, errors);
	fprintf(errors, "[gpu %s]: %s\n", g->name, why);
	return 1;
}

/* CAPS: NULL if the GPU's abilities are unknown. */
static int check_policy(const struct config *config, const struct gpu_config *g,
			const struct vgpu_driver_caps *caps, FILE *errors)
{
	struct policy_values values = {.policy = g->ops};
	struct vgpu_error err;
	int32_t vf;

	memcpy(values.params, g->params, sizeof(values.params));
	memcpy(values.vf_params, g->vf_params, sizeof(values.vf_params));
	if (trial(g, caps, &values, &vf, &err) == 0)
		return 0;
	config_print_place(config, vf >= 0 && g->vf_at[vf].line ? g->vf_at[vf] : g->policy_at,
			   errors);
	if (vf < 0)
		fprintf(errors, "[gpu %s]: %s\n", g->name, err.text);
	else
		fprintf(errors, "[vf %s/%d], with the VFs before it: %s\n", g->name, vf, err.text);
	return 1;
}

int config_check_gpus(const struct config *config, struct config_known *known, FILE *errors)
{
	int wrong = 0;
	uint32_t i;

	for (i = 0; i < config->n_gpus; i++) {
		const struct gpu_config *g = &config->gpus[i];
		struct vgpu_driver_caps *caps = known ? &known->gpus[i] : NULL;

		if (!g->ops || g->mistaken)
			continue;
		if (caps && caps->max_vfs == 0)
			caps = NULL;
		wrong += caps ? check_setup(config, g, caps, errors) +
					 check_resets(config, g, caps, errors)
			      : 0;
		wrong += check_policy(config, g, caps, errors);
	}
	return wrong;
}

/* Finds the file of a device on this host. False: there is none. */
static bool device_path(const char *device, char *out, size_t size)
{
	const struct vgpu_device_form *f = vgpu_device_form_of(device);

	if (!f || !f->directory)
		return false;
	device += strlen(f->prefix);
	snprintf(out, size, "%s%.*s", f->directory, (int)strcspn(device, ","), device);
	return true;
}

/* Returns whether a driver accepts the GPU with that many VFs; if not, the reason is in ERR. */
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

/* Reads the GPU if that does not change it. Negative: a start could not open it. */
static int look(const struct gpu_config *g, struct vgpu_driver_caps *caps, FILE *untold,
		struct vgpu_error *err)
{
	const struct vgpu_driver_ops *driver = vgpu_driver_for(g->device, err);
	struct engine_config engine;
	int r;

	if (!driver || !driver->device->check || !g->ops || g->mistaken)
		return 0;
	config_to_engine(g, &engine);
	r = driver->device->check(&engine.driver, caps, err);
	if (r > 0)
		fprintf(untold, "GPU %s: %s\n", g->name, err->text);
	/* Parameters that it would refuse are reported later, with their place. */
	return caps->max_vfs ? 0 : r;
}

static int check_device(const struct config *config, const struct gpu_config *g,
			struct vgpu_driver_caps *caps, FILE *errors, FILE *untold)
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
	else if (driver_takes(g, &err) && look(g, caps, untold, &err) >= 0)
		return 0;
	fprintf(errors, "%s: [gpu %s]: device = %s: %s\n", config->file, g->name, g->device,
		err.text);
	return 1;
}

int config_check_host(const struct config *config, struct config_known *known, FILE *errors,
		      FILE *untold)
{
	int wrong = 0;
	uint32_t i;

	memset(known, 0, sizeof(*known));
	/* Without the packages there may be no group: only root can use vgpuctl then. */
	if (strcmp(config->group, CONFIG_DEFAULT_GROUP) != 0 && !getgrnam(config->group)) {
		wrong++;
		fprintf(errors,
			"%s: [daemon]: group = %s: this host has no such group; make it with "
			"groupadd, or choose another\n",
			config->file, config->group);
	}
	for (i = 0; i < config->n_tenants; i++) {
		const struct tenant_config *t = &config->tenants[i];

		if (t->who == TENANT_OTHERS || t->number != CONFIG_NOBODY)
			continue;
		wrong++;
		config_print_place(config, t->at, errors);
		if (t->unanswered)
			fprintf(errors,
				"[tenant %s]: the host's name service does not answer; want a "
				"number, or try again\n",
				t->name);
		else
			fprintf(errors,
				"[tenant %s]: this host has no such %s; want a user, @GROUP or *\n",
				t->name, t->who == TENANT_GROUP ? "group" : "user");
	}
	for (i = 0; i < config->n_gpus; i++)
		wrong += check_device(config, &config->gpus[i], &known->gpus[i], errors, untold);
	return wrong;
}
