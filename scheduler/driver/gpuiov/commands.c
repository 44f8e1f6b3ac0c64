/* SPDX-License-Identifier: MIT */
/* Carries out the core's actions by accesses to the PF. */
#include <errno.h>

#include "gpuiov.h"

static const uint8_t codes[VGPU_CMD_COUNT] = {
	[VGPU_CMD_IDLE] = GPUIOV_CMD_IDLE, [VGPU_CMD_SAVE] = GPUIOV_CMD_SAVE,
	[VGPU_CMD_LOAD] = GPUIOV_CMD_LOAD, [VGPU_CMD_INIT] = GPUIOV_CMD_INIT,
	[VGPU_CMD_RUN] = GPUIOV_CMD_RUN,   [VGPU_CMD_SHUTDOWN] = GPUIOV_CMD_SHUTDOWN,
};

/* Returns the pause before the next look at a command: AMD's steps (libgv amdgv_device.c), or, with
 * an interrupt, 2 ms in case it is lost. */
static vgpu_nsec next_poll(const struct vgpu_driver *d)
{
	static const uint8_t steps_us[] = {2, 4, 8, 16, 32, 50};
	uint32_t n = d->command.polls;

	if (d->command.interrupts)
		return 2 * VGPU_MSEC;
	return steps_us[n < 6 ? n : 5] * VGPU_USEC;
}

/* After a slow command, so many commands of its kind use interrupts. */
#define SLOW_FOR 255

/*
 * Most commands are done when they are written, and an interrupt would only wake the engine thread
 * for nothing. A slow command is polled, and the next SLOW_FOR commands of its kind use interrupts.
 *
 * Writes the command and reads command and status back in one trip. The read ascends, so that the
 * command is read before the status: in the other order, a command that the GPU has not yet
 * accepted would look done.
 */
int gpuiov_command(struct vgpu_driver *d, uint32_t vf, enum vgpu_command command, vgpu_nsec now)
{
	uint32_t dword = codes[command] | GPUIOV_CMD_EXECUTE | GPUIOV_FCN_VF(vf) << 8;
	bool interrupts = d->config.interrupts && d->slow[command] > 0;
	uint32_t region, answer[2];
	uint64_t cmd, status;
	int r;

	gpuiov_place(d, GPUIOV_CMD, &region, &cmd);
	gpuiov_place(d, GPUIOV_CMD_STATUS, &region, &status);
	d->command = (struct gpuiov_pending){.active = true,
					     .vf = vf,
					     .command = command,
					     .poll_at = VGPU_NEVER,
					     .interrupts = interrupts};
	if (interrupts) {
		d->slow[command]--;
		dword |= GPUIOV_CMD_EXECUTE_INTR;
		d->command.poll_at = now + next_poll(d);
		return vfio_write(d->device, region, cmd, &dword, sizeof(dword));
	}
	/* In both layouts the status follows the command. */
	r = vfio_write_read(d->device, region, cmd, &dword, sizeof(dword), cmd, answer,
			    sizeof(answer));
	if (r < 0)
		return r;
	if (answer[(status - cmd) / 4] % 256 >= GPUIOV_STATUS_IDLING)
		d->slow[command] = SLOW_FOR;
	return gpuiov_command_done(d, answer[0], answer[(status - cmd) / 4], now);
}

/*
 * A command also fails when the guest resets its function during it, which is not a fault of the
 * VF: it is then reported as a reset. The notification of that reset may still be to come.
 */
static int was_reset(struct vgpu_driver *d, uint32_t vf, bool *yes)
{
	uint32_t bit = 1u << vf, notified = 0, going_on = 0;
	int r = gpuiov_read_resets(d, &going_on, &notified);

	if (r == 0 && notified & bit)
		r = gpuiov_write(d, GPUIOV_RESET_NOTIFICATION, bit);
	*yes = (notified | going_on) & bit;
	return r;
}

/* Checks command and status as read, and reports the answer if it is there. */
int gpuiov_command_done(struct vgpu_driver *d, uint32_t cmd, uint32_t status, vgpu_nsec now)
{
	struct gpuiov_pending *p = &d->command;
	bool reset = false;
	int r = 0;

	status &= 0xff;
	if (!p->active)
		return 0;
	if (cmd & GPUIOV_CMD_EXECUTE || status >= GPUIOV_STATUS_IDLING) {
		if (cmd == UINT32_MAX)
			return -ENODEV; /* all ones: the device is gone */
		p->poll_at = now + next_poll(d);
		p->polls++;
		return 0;
	}
	p->active = false;
	p->poll_at = VGPU_NEVER;
	if (status != 0)
		r = was_reset(d, p->vf, &reset);
	if (r < 0)
		return r;
	if (reset) {
		d->busy &= ~(1u << p->vf);
		gpuiov_emit(d, VGPU_EV_GUEST_RESET, p->vf, 0, 0, now);
	} else {
		gpuiov_emit(d, VGPU_EV_DONE, p->vf, p->command, (int64_t)status, now);
	}
	return 0;
}

int gpuiov_reset(struct vgpu_driver *d, uint32_t vf, enum vgpu_reset_level level, vgpu_nsec now)
{
	if (d->command.active && (d->command.vf == vf || level == VGPU_RESET_GPU)) {
		d->command.active = false;
		d->command.poll_at = VGPU_NEVER;
	}
	if (level == VGPU_RESET_GPU) {
		d->gpu_resetting = true;
		d->gpu_reset_vf = vf;
		d->slow_at = now + VGPU_MSEC;
		return gpuiov_write(d, GPUIOV_RESET_CONTROL, GPUIOV_RESET_PF);
	}
	d->resetting |= 1u << vf;
	d->busy &= ~(1u << vf);
	d->slow_at = now + VGPU_MSEC;
	return gpuiov_write(d, GPUIOV_VF_RESET_REQ, 1u << vf);
}

int gpuiov_gates(struct vgpu_driver *d, uint32_t vf, enum vgpu_access access)
{
	/* The least access that opens each gate: registers, doorbell, memory. */
	static const enum vgpu_access least[] = {VGPU_ACCESS_ALL, VGPU_ACCESS_WORK,
						 VGPU_ACCESS_WORK};
	int r = 0;
	uint32_t i;

	for (i = 0; i < 3 && r == 0; i++) {
		uint32_t open =
			access >= least[i] ? d->gates[i] | 1u << vf : d->gates[i] & ~(1u << vf);

		if (open == d->gates[i])
			continue;
		d->gates[i] = open;
		r = gpuiov_write(d, (enum gpuiov_register)(GPUIOV_GATE_REGISTERS + i), open);
	}
	return r;
}

/* A new word replaces one that the guest has not read. The end of a reset is written without
 * marking it valid, because the guest polls for it (libgv amdgv_reset.c). */
int gpuiov_notice(struct vgpu_driver *d, uint32_t vf, enum vgpu_notice notice)
{
	static const uint32_t words[] = {
		[VGPU_NOTICE_READY] = GPUIOV_READY,
		[VGPU_NOTICE_RESET] = GPUIOV_FLR,
		[VGPU_NOTICE_RESET_DONE] = GPUIOV_FLR_DONE,
		[VGPU_NOTICE_REFUSED] = GPUIOV_FAIL,
	};
	int r = gpuiov_write(d, GPUIOV_MBOX_INDEX, vf);

	if (r == 0)
		r = gpuiov_write(d, GPUIOV_MBOX_CONTROL, 0);
	if (r == 0)
		r = gpuiov_write(d, GPUIOV_MBOX_TRN, words[notice]);
	if (r == 0 && notice != VGPU_NOTICE_RESET_DONE)
		r = gpuiov_write(d, GPUIOV_MBOX_CONTROL, GPUIOV_MBOX_TRN_VALID);
	return r;
}
