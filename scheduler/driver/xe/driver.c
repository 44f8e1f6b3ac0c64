/* SPDX-License-Identifier: MIT */
/* The faces: what the engine thread calls. Nothing here waits. */
#include <errno.h>

#include "vgpu/descriptor.h"
#include "xe.h"

static int xe_fd(const struct vgpu_driver *d)
{
	return d->writer.done;
}

static vgpu_nsec xe_deadline(const struct vgpu_driver *d)
{
	(void)d;
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
static int xe_dispatch(struct vgpu_driver *d, vgpu_nsec now)
{
	struct xe_writer *w = &d->writer;
	uint32_t failed, done, i;

	vgpu_eventfd_drain(w->done);
	failed = atomic_exchange(&w->stops_failed, 0);
	done = atomic_exchange(&w->resets_done, 0);
	for (i = 0; i < d->n_vfs; i++) {
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
static int xe_reset(struct vgpu_driver *d, uint32_t vf, enum vgpu_reset_level level, vgpu_nsec now)
{
	(void)now;
	if (level == VGPU_RESET_GPU)
		d->gpu_reset_vf = vf;
	else
		atomic_fetch_or(&d->writer.resets, 1u << vf);
	xe_writer_wake(&d->writer);
	return 0;
}

static int xe_program(struct vgpu_driver *d, const struct vgpu_program *program, vgpu_nsec now)
{
	(void)now;
	if (atomic_load(&d->writer.asked))
		return -EBUSY;
	xe_schedule_of(program, d->n_vfs, &d->writer.want);
	atomic_store(&d->writer.asked, true);
	xe_writer_wake(&d->writer);
	return 0;
}

static int xe_programmed(struct vgpu_driver *d, struct vgpu_program *applied)
{
	if (atomic_load(&d->writer.asked))
		return 1;
	xe_program_of(&d->writer.have, applied);
	if (atomic_load(&d->writer.lost))
		return -ENODEV;
	return d->writer.result < 0 ? -EIO : 0;
}

static int xe_usage(struct vgpu_driver *d, vgpu_nsec *active, vgpu_nsec now)
{
	return xe_counters_read(d->counters, active, now);
}

static int xe_stop_vf(struct vgpu_driver *d, uint32_t vf, vgpu_nsec now)
{
	(void)now;
	atomic_fetch_or(&d->writer.stops, 1u << vf);
	xe_writer_wake(&d->writer);
	return 0;
}

static const struct vgpu_device_face device_face = {
	.probe = xe_probe,
	.open = xe_open,
	.close = xe_close,
	.fd = xe_fd,
	.deadline = xe_deadline,
	.dispatch = xe_dispatch,
	.reset = xe_reset,
};

static const struct vgpu_programmed_face programmed_face = {
	.program = xe_program,
	.programmed = xe_programmed,
	.usage = xe_usage,
	.stop = xe_stop_vf,
};

const struct vgpu_driver_ops vgpu_xe_driver = {
	.size = sizeof(struct vgpu_driver_ops),
	.name = "xe",
	.device = &device_face,
	.programmed = &programmed_face,
};
