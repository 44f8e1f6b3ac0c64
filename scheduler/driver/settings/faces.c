/* SPDX-License-Identifier: MIT */
/* What the engine thread calls. Nothing here waits. */
#include <errno.h>

#include "settings.h"
#include "vgpu/descriptor.h"

int settings_fd(const struct vgpu_driver *d)
{
	return d->writer.done;
}

vgpu_nsec settings_deadline(const struct vgpu_driver *)
{
	return VGPU_NEVER;
}

static void tell(struct vgpu_driver *d, vgpu_nsec now, enum vgpu_event_type type, uint32_t vf,
		 enum vgpu_reset_level level, int result)
{
	d->sink(d->data,
		&(struct vgpu_event){
			.now = now, .type = type, .vf = vf, .code = level, .value = result});
}

/* A VF that cannot be stopped needs a reset. */
int settings_dispatch(struct vgpu_driver *d, vgpu_nsec now)
{
	struct settings_writer *w = &d->writer;
	vgpu_vf_set failed, done;
	uint32_t i;

	vgpu_eventfd_drain(w->done);
	failed = atomic_exchange(&w->stops_failed, 0);
	done = atomic_exchange(&w->resets_done, 0);
	for (i = 0; i < w->n_vfs; i++) {
		if (failed >> i & 1)
			tell(d, now, VGPU_EV_HANG, i, 0, 0);
		if (done >> i & 1)
			tell(d, now, VGPU_EV_RESET_DONE, i, VGPU_RESET_VF,
			     atomic_load(&w->reset_results[i]));
	}
	if (d->gpu_reset_vf != VGPU_NO_VF)
		tell(d, now, VGPU_EV_RESET_DONE, d->gpu_reset_vf, VGPU_RESET_GPU, -EOPNOTSUPP);
	d->gpu_reset_vf = VGPU_NO_VF;
	return atomic_load(&w->lost);
}

/* The kernel has no reset of the whole GPU that VFs survive. */
int settings_reset(struct vgpu_driver *d, uint32_t vf, enum vgpu_reset_level level, vgpu_nsec)
{
	if (level == VGPU_RESET_GPU)
		d->gpu_reset_vf = vf;
	else
		atomic_fetch_or(&d->writer.resets, VGPU_VF_BIT(vf));
	settings_writer_wake(&d->writer);
	return 0;
}

int settings_program(struct vgpu_driver *d, const struct vgpu_program *program, vgpu_nsec)
{
	if (atomic_load(&d->writer.asked))
		return -EBUSY;
	d->writer.want = *program;
	atomic_store(&d->writer.asked, true);
	settings_writer_wake(&d->writer);
	return 0;
}

int settings_programmed(struct vgpu_driver *d, struct vgpu_program *applied)
{
	if (atomic_load(&d->writer.asked))
		return 1;
	*applied = d->writer.have;
	if (atomic_load(&d->writer.lost))
		return -ENODEV;
	return d->writer.result < 0 ? -EIO : 0;
}

int settings_stop(struct vgpu_driver *d, uint32_t vf, vgpu_nsec)
{
	atomic_fetch_or(&d->writer.stops, VGPU_VF_BIT(vf));
	settings_writer_wake(&d->writer);
	return 0;
}
