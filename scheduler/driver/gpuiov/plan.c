/* SPDX-License-Identifier: MIT */
/*
 * GPUs that schedule themselves: programs their plan, and reads what VFs were served. A plan is
 * written to registers that only prepare it, and one command puts it into force: so a vgpud that
 * ends in between leaves the plan before it as it is.
 */
#include <errno.h>

#include "gpuiov.h"

/* How often the GPU is asked whether a plan is in force, and how long it may take. */
#define LOOK_AFTER (2 * VGPU_MSEC)
#define ANSWER_WITHIN (500 * VGPU_MSEC)

static int write_own(struct vgpu_driver *d, uint32_t offset, const void *data, uint32_t size)
{
	return vfio_write(d->device, VFIO_REGION_BAR5, offset, data, size);
}

static int read_own(struct vgpu_driver *d, uint32_t offset, void *data, uint32_t size)
{
	return vfio_read(d->device, VFIO_REGION_BAR5, offset, data, size);
}

int gpuiov_read_turns(struct vgpu_driver *d, struct vgpu_driver_caps *caps)
{
	struct vgpu_setting *const to[] = {&caps->quantum, &caps->timeout};
	uint32_t us[6], i;
	int r = read_own(d, SOFTGPU_TURN_LIMITS, us, sizeof(us));

	caps->kind = VGPU_DRIVER_PROGRAMMED;
	caps->keeps_turns = true;
	for (i = 0; i < 2 && r == 0; i++)
		*to[i] = (struct vgpu_setting){us[3 * i] * VGPU_USEC, us[3 * i + 1] * VGPU_USEC,
					       us[3 * i + 2] * VGPU_USEC};
	return r;
}

static int read_late(struct vgpu_driver *d, uint32_t vf, uint32_t *late)
{
	uint32_t counts[4] = {0};
	int r = read_own(d, SOFTGPU_TURN_COUNTS_OF(vf), counts, sizeof(counts));

	*late = counts[1] + counts[3];
	return r;
}

int gpuiov_begin_turns(struct vgpu_driver *d)
{
	uint32_t state, status = 0, i;
	int r = gpuiov_read_own(d, SOFTGPU_TURN_STATE, &state);

	for (i = 0; i < d->config.n_vfs && r == 0; i++)
		r = read_late(d, i, &d->late[i]);

	if (r < 0 || state & 1)
		return r;
	r = gpuiov_write(d, GPUIOV_CMD, GPUIOV_CMD_ENABLE_AUTO | GPUIOV_CMD_EXECUTE);
	if (r == 0)
		r = gpuiov_read(d, GPUIOV_CMD_STATUS, &status);
	return r == 0 && status != GPUIOV_STATUS_DONE ? -EIO : r;
}

int gpuiov_look_at_drivers(struct vgpu_driver *d, vgpu_nsec now)
{
	uint32_t up = 0, vf;
	int r = gpuiov_read_own(d, SOFTGPU_TURN_UP, &up);

	if (r < 0)
		return r;
	for (vf = 0; vf < d->config.n_vfs; vf++)
		if ((up ^ d->up) >> vf & 1)
			gpuiov_emit(d, VGPU_EV_RELEASE, vf,
				    up >> vf & 1 ? VGPU_WINDOW_INIT : VGPU_WINDOW_FINI, 0, now);
	d->up = up;
	return 0;
}

int gpuiov_look_at_late(struct vgpu_driver *d, uint32_t vf, vgpu_nsec now)
{
	uint32_t late;
	int r = read_late(d, vf, &late);

	if (r == 0 && late != d->late[vf])
		gpuiov_emit(d, VGPU_EV_HANG, vf, 0, (int64_t)d->plan.applied.vfs[vf].timeout, now);
	d->late[vf] = r == 0 ? late : d->late[vf];
	return r;
}

static uint32_t in_us(vgpu_nsec ns)
{
	return ns / VGPU_USEC < UINT32_MAX ? (uint32_t)(ns / VGPU_USEC) : UINT32_MAX;
}

/* Reads the plan in force. */
int gpuiov_read_plan(struct vgpu_driver *d)
{
	uint32_t us[2 * VGPU_GPU_MAX_VFS], flags, i;
	int r = read_own(d, SOFTGPU_TURN_PLAN, us, 8 * d->config.n_vfs);

	if (r == 0)
		r = gpuiov_read_own(d, SOFTGPU_TURN_FLAGS, &flags);
	if (r < 0)
		return r;
	d->plan.applied.keep_turns = flags & SOFTGPU_TURN_KEEP;
	for (i = 0; i < d->config.n_vfs; i++) {
		d->plan.applied.vfs[i].quantum = us[2 * i] * VGPU_USEC;
		d->plan.applied.vfs[i].timeout = us[2 * i + 1] * VGPU_USEC;
	}
	return 0;
}

int gpuiov_look_at_plan(struct vgpu_driver *d, vgpu_nsec now)
{
	uint32_t status;
	int r;

	if (!d->plan.active || now < d->plan.look_at)
		return 0;
	d->plan.look_at = now + LOOK_AFTER;
	r = gpuiov_read(d, GPUIOV_CMD_STATUS, &status);
	if (r < 0)
		return r;
	if (status >= GPUIOV_STATUS_IDLING && now - d->plan.began < ANSWER_WITHIN)
		return 0;
	d->plan.active = false;
	d->plan.error = status == GPUIOV_STATUS_DONE ? 0 : -EIO;
	return gpuiov_read_plan(d);
}

int gpuiov_program(struct vgpu_driver *d, const struct vgpu_program *program, vgpu_nsec now)
{
	uint32_t us[2 * VGPU_GPU_MAX_VFS], flags = program->keep_turns ? SOFTGPU_TURN_KEEP : 0, i;
	int r;

	if (d->plan.active)
		return -EBUSY;
	for (i = 0; i < d->config.n_vfs; i++) {
		us[2 * i] = in_us(program->vfs[i].quantum);
		us[2 * i + 1] = in_us(program->vfs[i].timeout);
	}
	r = write_own(d, SOFTGPU_TURN_PLAN, us, 8 * d->config.n_vfs);
	if (r == 0)
		r = write_own(d, SOFTGPU_TURN_FLAGS, &flags, sizeof(flags));
	if (r == 0)
		r = gpuiov_write(d, GPUIOV_CMD, GPUIOV_CMD_CONFIG_AUTO | GPUIOV_CMD_EXECUTE);
	if (r < 0)
		return r;
	d->plan.active = true;
	d->plan.began = d->plan.look_at = now;
	return 0;
}

int gpuiov_programmed(struct vgpu_driver *d, struct vgpu_program *applied)
{
	*applied = d->plan.applied;
	return d->plan.active ? 1 : d->plan.error;
}

int gpuiov_usage(struct vgpu_driver *d, vgpu_nsec *active, vgpu_nsec)
{
	return read_own(d, SOFTGPU_TURN_ACTIVE, active, 8 * d->config.n_vfs);
}

int gpuiov_stop(struct vgpu_driver *d, uint32_t vf, vgpu_nsec now)
{
	return gpuiov_reset(d, vf, VGPU_RESET_VF, now);
}
