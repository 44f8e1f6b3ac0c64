/* SPDX-License-Identifier: MIT */
/*
 * Sets a GPU up as it was before the host restarted: the policy first, because it can be set only
 * while no vGPU exists, then the types of VFs that have none. A policy that cannot be set for VMs
 * that run is set when they have ended. If anything fails, the GPU is as it was found.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../settings/settings_open.h"
#include "nvidia.h"
#include "vgpu/descriptor.h"

#define PREFIX "nvidia:"

struct setup {
	struct pci_info pf;
	const struct vgpu_driver_config *config;
	struct nvidia_limits limits;
	struct nvidia_scheduler found, wanted;
	bool policy_changed;
	vgpu_vf_set typed; /* VFs that got their type here */
};

int nvidia_probe(const char *device, struct vgpu_error *err)
{
	struct pci_info info;
	int r;

	if (strncmp(device, PREFIX, strlen(PREFIX)) != 0)
		return 0;
	r = nvidia_recognise(device + strlen(PREFIX), &info, err);
	return r < 0 ? r : 1;
}

static int check_config(const struct setup *s, struct vgpu_error *err)
{
	const struct vgpu_driver_config *c = s->config;
	uint32_t i;
	int r = settings_check_config(&s->pf, c, err);

	if (r < 0)
		return r;
	if (c->n_vfs > s->pf.vfs)
		return vgpu_error_set(err, -EINVAL,
				      "vfs = %" PRIu32 ": %s has %" PRIu32
				      " VFs, of NVIDIA's sriov-manage; configure no more",
				      c->n_vfs, s->pf.address, s->pf.vfs);
	for (i = 0; i < c->n_vfs; i++)
		if (c->sizes[i])
			return vgpu_error_set(err, -EINVAL,
					      "memory_mib: the memory of a VF of %s is that of its "
					      "type: set vgpu_type instead",
					      s->pf.address);
	return 0;
}

/* A VF with another type does not belong to vgpud. */
static int check_types(const struct setup *s, struct vgpu_error *err)
{
	uint32_t want = s->config->vgpu_type, type = 0, i;
	const char *pf = s->pf.address;
	char could[256];
	int r;

	for (i = 0; i < s->config->n_vfs && want; i++) {
		r = nvidia_read_type(pf, i, &type);
		if (r < 0)
			return vgpu_error_set(err, r,
					      "%s: cannot read the vGPU type of VF %" PRIu32 ": %s",
					      pf, i, strerror(-r));
		if (type && type != want)
			return vgpu_error_set(
				err, -EBUSY,
				"vgpu_type = %" PRIu32 ": VF %" PRIu32 " of %s has type %" PRIu32
				", which vgpud leaves as it is, because another program set it: "
				"when no VM uses the VF, write 0 to its nvidia/current_vgpu_type",
				want, i, pf, type);
		if (!type && i == 0 && !nvidia_can_have(pf, i, want, could, sizeof(could)))
			return vgpu_error_set(err, -EINVAL,
					      "vgpu_type = %" PRIu32 ": VF %" PRIu32
					      " of %s can have: %s",
					      want, i, pf, could);
	}
	return 0;
}

static int set_types(struct setup *s, struct vgpu_error *err)
{
	uint32_t type = 0, i;
	int r = 0;

	for (i = 0; i < s->config->n_vfs && s->config->vgpu_type; i++) {
		r = nvidia_read_type(s->pf.address, i, &type);
		if (r == 0 && type == 0) {
			s->typed |= VGPU_VF_BIT(i);
			r = nvidia_write_type(s->pf.address, i, s->config->vgpu_type);
		}
		if (r < 0)
			return vgpu_error_set(
				err, r,
				"%s: cannot give VF %" PRIu32 " vGPU type %" PRIu32
				": %s; the GPU may have no room for so many: configure "
				"fewer vfs, or a smaller type",
				s->pf.address, i, s->config->vgpu_type, strerror(-r));
	}
	return 0;
}

static int set_policy(struct setup *s, struct nvidia_library *l, struct vgpu_error *err)
{
	uint32_t running = 0;
	int r = nvidia_get_running(l, NULL, &running);

	if (r == NVML_OK)
		r = nvidia_get_scheduler(l, &s->found);
	if (r != NVML_OK)
		return vgpu_error_set(err, nvidia_errno(r), "%s: cannot read its scheduler: %s",
				      s->pf.address, nvidia_cause(r));
	if (running > 0 || nvidia_is_as_wanted(&s->found, &s->wanted))
		return 0;
	s->policy_changed = true;
	r = nvidia_put(l, &s->wanted);
	return r == NVML_OK
		       ? 0
		       : vgpu_error_set(err, nvidia_errno(r), "%s: cannot set its scheduler: %s",
					s->pf.address, nvidia_cause(r));
}

static int read_limits(struct setup *s, struct nvidia_library *l, struct vgpu_error *err)
{
	struct vgpu_error why = {""};
	int r = nvidia_get_limits(l, &s->limits);

	if (r != NVML_OK)
		return vgpu_error_set(err, nvidia_errno(r),
				      "%s: cannot read what its scheduler can do: %s",
				      s->pf.address, nvidia_cause(r));
	r = nvidia_translate(&s->limits, &s->config->declaration, &s->wanted, &why);
	return r < 0 ? vgpu_error_set(err, r, "%s: policy = %s: %s", s->pf.address,
				      s->config->declaration.policy, why.text)
		     : 0;
}

/*
 * Takes back the types that this call has given, but none that another owner has set, or uses, by
 * now.
 */
static void put_back(const struct setup *s, struct nvidia_library *l)
{
	char address[PCI_ADDRESS_SIZE], user[64];
	uint32_t type, i;

	for (i = 0; i < s->config->n_vfs; i++)
		if (s->typed >> i & 1 && nvidia_read_type(s->pf.address, i, &type) == 0 &&
		    type == s->config->vgpu_type &&
		    pci_vf_address(s->pf.address, i, address) == 0 &&
		    !pci_user(address, user, sizeof(user)))
			nvidia_write_type(s->pf.address, i, 0);
	if (s->policy_changed)
		nvidia_set_scheduler(l, &s->found);
}

static void describe(const struct setup *s, struct vgpu_driver_caps *caps,
		     struct vgpu_driver_found *found)
{
	*found = (struct vgpu_driver_found){.adopted = s->typed == 0};
	*caps = (struct vgpu_driver_caps){
		.kind = VGPU_DRIVER_DECLARED,
		.driver = vgpu_nvidia_driver.name,
		.max_vfs = s->pf.vfs < VGPU_GPU_MAX_VFS ? s->pf.vfs : VGPU_GPU_MAX_VFS,
		.reset_levels = 1u << VGPU_RESET_VF,
		.preemption = "unknown",
		.no_usage = true,
		.hides_guests = true, /* for the time until they are observed */
		.note = "NVIDIA's driver schedules this GPU: vgpud chooses its policy while no "
			"vGPU exists, and observes",
	};
	snprintf(caps->model, sizeof(caps->model), "NVIDIA %04x", s->pf.device);
	pci_model(&s->pf, caps->model, sizeof(caps->model));
	snprintf(caps->layout, sizeof(caps->layout), "none");
	snprintf(caps->transport, sizeof(caps->transport), "NVML");
}

static int set_up(struct vgpu_driver *d, struct setup *s, struct vgpu_error *err)
{
	struct nvidia_library *l = &d->watcher.library;
	int r = read_limits(s, l, err);

	if (r == 0)
		r = check_types(s, err);
	if (r == 0)
		r = set_policy(s, l, err);
	if (r == 0)
		r = set_types(s, err);
	if (r == 0) {
		d->limits = s->limits;
		r = nvidia_watcher_start(&d->watcher, s->pf.address, s->config->n_vfs, &s->wanted);
		if (r < 0)
			vgpu_error_set(err, r, "%s: cannot start a thread: %s", s->pf.address,
				       strerror(-r));
	}
	if (r < 0)
		put_back(s, l);
	return r;
}

/* Finds the GPU, and whether it can be as configured. */
static int find_gpu(struct setup *s, struct vgpu_error *err)
{
	int r = nvidia_recognise(s->config->device + strlen(PREFIX), &s->pf, err);

	return r == 0 ? check_config(s, err) : r;
}

int nvidia_check(const struct vgpu_driver_config *config, struct vgpu_driver_caps *,
		 struct vgpu_error *err)
{
	struct setup s = {.config = config};

	return find_gpu(&s, err);
}

int nvidia_open(struct vgpu_driver **out, const struct vgpu_driver_config *config,
		struct vgpu_driver_caps *caps, struct vgpu_driver_found *found,
		vgpu_event_sink *sink, void *data, struct vgpu_error *err)
{
	struct setup s = {.config = config};
	struct vgpu_driver *d;
	int r = find_gpu(&s, err);

	if (r < 0)
		return r;
	d = calloc(1, sizeof(*d));
	if (!d)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	d->sink = sink;
	d->data = data;
	d->gpu_reset_vf = VGPU_NO_VF;
	d->lock = -1;
	r = settings_lock(&d->lock, s.pf.address, err);
	if (r == 0)
		r = nvidia_library_open(&d->watcher.library, s.pf.address, err);
	if (r == 0) {
		r = set_up(d, &s, err);
		if (r < 0)
			nvidia_library_close(&d->watcher.library);
	}
	if (r < 0) {
		vgpu_close(&d->lock);
		free(d);
		return r;
	}
	describe(&s, caps, found);
	*out = d;
	return 0;
}

void nvidia_close(struct vgpu_driver *d, bool lost)
{
	(void)lost; /* nothing of it is kept */
	nvidia_watcher_end(&d->watcher);
	nvidia_library_close(&d->watcher.library);
	vgpu_close(&d->lock);
	free(d);
}
