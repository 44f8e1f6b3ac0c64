/* SPDX-License-Identifier: MIT */
/* The faces: what the engine thread calls. Nothing here waits. */
#include <errno.h>
#include <inttypes.h>

#include "nvidia.h"
#include "vgpu/descriptor.h"
#include "vfio/pci.h"

static int nvidia_fd(const struct vgpu_driver *d)
{
	return d->watcher.done;
}

static vgpu_nsec nvidia_deadline(const struct vgpu_driver *)
{
	return VGPU_NEVER;
}

static void tell(struct vgpu_driver *d, vgpu_nsec now, uint32_t vf, enum vgpu_reset_level level,
		 int result)
{
	d->sink(d->data, &(struct vgpu_event){.now = now,
					      .type = VGPU_EV_RESET_DONE,
					      .vf = vf,
					      .code = level,
					      .value = result});
}

/*
 * There is nothing to reset when a VM gives its VF back: the host driver makes a vGPU when a VM
 * starts and ends it with the VM. To take away the VF's type and give it again could end the vGPU
 * of the VF's next VM, so vgpud does not. It looks whether the vGPU is gone, for a second, because
 * the host driver ends it a little later than the VM.
 */
static void look_at_resets(struct vgpu_driver *d)
{
	uint32_t i;

	for (i = 0; i < VGPU_GPU_MAX_VFS; i++) {
		if (!d->resets[i])
			continue;
		if (!(d->last.up >> i & 1))
			d->resets_done |= VGPU_VF_BIT(i);
		else if (--d->resets[i] == 0)
			d->resets_failed |= VGPU_VF_BIT(i);
		if ((d->resets_done | d->resets_failed) >> i & 1)
			d->resets[i] = 0;
	}
}

static int nvidia_dispatch(struct vgpu_driver *d, vgpu_nsec now)
{
	vgpu_vf_set done = d->resets_done, failed = d->resets_failed;
	uint32_t i;

	vgpu_eventfd_drain(d->watcher.done);
	d->resets_done = d->resets_failed = 0;
	for (i = 0; i < d->watcher.n_vfs; i++)
		if ((done | failed) >> i & 1)
			tell(d, now, i, VGPU_RESET_VF, failed >> i & 1 ? -EBUSY : 0);
	if (d->gpu_reset_vf != VGPU_NO_VF)
		tell(d, now, d->gpu_reset_vf, VGPU_RESET_GPU, -EOPNOTSUPP);
	d->gpu_reset_vf = VGPU_NO_VF;
	return atomic_load(&d->watcher.lost);
}

static int nvidia_reset(struct vgpu_driver *d, uint32_t vf, enum vgpu_reset_level level, vgpu_nsec)
{
	if (level == VGPU_RESET_GPU)
		d->gpu_reset_vf = vf;
	else
		d->resets[vf] = NVIDIA_RESET_LOOKS;
	vgpu_eventfd_signal(d->watcher.done);
	return 0;
}

static bool nvidia_observe(struct vgpu_driver *d, struct vgpu_observation *out)
{
	if (!atomic_load(&d->watcher.fresh))
		return false;
	*out = d->last = d->watcher.shown;
	atomic_store(&d->watcher.fresh, false);
	look_at_resets(d);
	return true;
}

static int nvidia_declare(struct vgpu_driver *d, const struct vgpu_declaration *want,
			  struct vgpu_error *err)
{
	struct nvidia_scheduler scheduler;
	int r = nvidia_translate(&d->limits, want, &scheduler, err);

	if (r < 0)
		return r;
	if (d->last.running > 0)
		return vgpu_error_set(err, -EBUSY,
				      "NVIDIA's driver changes it only while no vGPU exists, and "
				      "%" PRIu32 " do: end these VMs, or put it into the "
				      "configuration, and vgpud applies it when it has started "
				      "again and they have ended",
				      d->last.running);
	if (atomic_load(&d->watcher.asked))
		return vgpu_error_set(err, -EBUSY, "another change is under way: try again");
	d->watcher.want = scheduler;
	atomic_store(&d->watcher.asked, true);
	vgpu_eventfd_signal(d->watcher.wake);
	return 0;
}

static const struct vgpu_device_face device_face = {
	.probe = nvidia_probe,
	.check = nvidia_check,
	.open = nvidia_open,
	.close = nvidia_close,
	.fd = nvidia_fd,
	.deadline = nvidia_deadline,
	.dispatch = nvidia_dispatch,
	.reset = nvidia_reset,
};

static const struct vgpu_declared_face declared_face = {
	.declare = nvidia_declare,
	.observe = nvidia_observe,
};

static const struct vgpu_device_form forms[] = {
	{"nvidia:", "ADDRESS", "NVIDIA vGPU", PCI_DEVICES "/"},
	{.prefix = NULL},
};

const struct vgpu_driver_ops vgpu_nvidia_driver = {
	.size = sizeof(struct vgpu_driver_ops),
	.name = "nvidia",
	.forms = forms,
	.device = &device_face,
	.declared = &declared_face,
};
