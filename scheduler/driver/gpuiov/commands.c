/* SPDX-License-Identifier: MIT */
/* Carries out the core's actions by accesses to the PF. */
#include <errno.h>

#include "gpuiov.h"
#include "vgpu/clock.h"

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

static uint32_t dword_of(const struct vgpu_driver *d, const struct vgpu_order *o)
{
	return codes[o->command] | GPUIOV_CMD_EXECUTE | GPUIOV_FCN_VF(o->vf) << 8 |
	       (o->unless_busy && d->kills ? SOFTGPU_CMD_UNLESS_BUSY : 0);
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

/* Reports that the next order has ended with STATUS, at instant AT (0: not known). */
static int answer(struct vgpu_driver *d, uint32_t status, vgpu_nsec at)
{
	struct gpuiov_pending *p = &d->command;
	const struct vgpu_order *o = &p->orders[p->done++];
	bool asked = o->unless_busy && d->kills; /* only softgpu has that status */
	bool reset = false, has_work = asked && status == SOFTGPU_STATUS_BUSY;
	int r = status && !has_work ? was_reset(d, o->vf, &reset) : 0;

	if (r < 0)
		return r;
	if (has_work) {
		gpuiov_emit(d, VGPU_EV_DONE, o->vf, o->command, VGPU_HAS_WORK, at);
	} else if (reset) {
		d->told |= 1u << o->vf;
		d->busy &= ~(1u << o->vf);
		gpuiov_emit(d, VGPU_EV_GUEST_RESET, o->vf, 0, 0, at);
	} else {
		gpuiov_emit(d, VGPU_EV_DONE, o->vf, o->command, (int64_t)status, at);
	}
	return 0;
}

static void end(struct vgpu_driver *d)
{
	d->command.active = false;
	d->command.poll_at = VGPU_NEVER;
}

static void look_later(struct vgpu_driver *d, vgpu_nsec now)
{
	d->command.poll_at = now + next_poll(d);
	d->command.polls++;
}

/* Checks command and status as read, and reports the answer if it is there. */
int gpuiov_command_done(struct vgpu_driver *d, uint32_t cmd, uint32_t status, vgpu_nsec now)
{
	status &= 0xff;
	if (!d->command.active)
		return 0;
	if (cmd & GPUIOV_CMD_EXECUTE || status >= GPUIOV_STATUS_IDLING) {
		if (cmd == UINT32_MAX)
			return -ENODEV; /* all ones: the device is gone */
		look_later(d, now);
		return 0;
	}
	end(d);
	return answer(d, status, 0);
}

/* Writes the command and reads command and status back in one trip. The read ascends, so that the
 * command is read before the status: in the other order, a command that the GPU has not yet
 * accepted would look done. */
static int issue_one(struct vgpu_driver *d, vgpu_nsec now)
{
	uint32_t dword = dword_of(d, &d->command.orders[0]), region, words[2];
	enum vgpu_command command = d->command.orders[0].command;
	uint64_t cmd, status;
	int r;

	gpuiov_place(d, GPUIOV_CMD, &region, &cmd);
	gpuiov_place(d, GPUIOV_CMD_STATUS, &region, &status);
	if (d->command.interrupts) {
		dword |= GPUIOV_CMD_EXECUTE_INTR;
		return vfio_write(d->device, region, cmd, &dword, sizeof(dword));
	}
	/* In both layouts the status follows the command. */
	r = vfio_write_read(d->device, region, cmd, &dword, sizeof(dword), cmd, words,
			    sizeof(words));
	if (r < 0)
		return r;
	if (words[(status - cmd) / 4] % 256 >= GPUIOV_STATUS_IDLING)
		d->slow[command] = SLOW_FOR;
	return gpuiov_command_done(d, words[0], words[(status - cmd) / 4], now);
}

/* Reports the commands that have ended. Each began when the one before it ended. The last one has
 * ended by now; how long before that it did is not known. */
int gpuiov_chain_done(struct vgpu_driver *d, const struct gpuiov_progress *at, vgpu_nsec now)
{
	struct gpuiov_pending *p = &d->command;
	uint32_t done = SOFTGPU_CHAIN_DONE(at->status), i;
	bool active = at->status & SOFTGPU_CHAIN_ACTIVE;
	vgpu_nsec ended = active ? p->issued : now;
	int r = 0;

	if (at->status == UINT32_MAX)
		return -ENODEV;
	if (done > p->n) { /* it was not taken: this is the chain before it */
		end(d);
		return answer(d, GPUIOV_STATUS_ABORTED, now);
	}
	for (i = 0; i < done && active; i++)
		ended += at->took[i];
	for (i = active || done == p->n ? done : done + 1; i-- > p->done;)
		ended -= at->took[i];
	if (!active)
		end(d);
	else
		look_later(d, now);
	while (p->done < done && r == 0) {
		ended += at->took[p->done];
		r = answer(d, GPUIOV_STATUS_DONE, ended > p->issued ? ended : p->issued);
	}
	if (r == 0 && !active && done < p->n)
		r = answer(d, SOFTGPU_CHAIN_CODE(at->status), now);
	return r;
}

static int issue_chain(struct vgpu_driver *d)
{
	struct gpuiov_pending *p = &d->command;
	uint32_t words[SOFTGPU_CHAIN_LENGTH + 1] = {0}, i;
	struct gpuiov_progress at;
	int r;

	for (i = 0; i < p->n; i++)
		words[i] = dword_of(d, &p->orders[i]);
	words[SOFTGPU_CHAIN_LENGTH] = p->n | (p->interrupts ? GPUIOV_CMD_EXECUTE_INTR : 0);
	if (p->interrupts)
		return vfio_write(d->device, VFIO_REGION_BAR5, SOFTGPU_CHAIN, words, sizeof(words));
	r = vfio_write_read(d->device, VFIO_REGION_BAR5, SOFTGPU_CHAIN, words, sizeof(words),
			    SOFTGPU_CHAIN_STATUS, &at, sizeof(at));
	if (r < 0)
		return r;
	if (at.status & SOFTGPU_CHAIN_ACTIVE && SOFTGPU_CHAIN_DONE(at.status) < p->n)
		d->slow[p->orders[SOFTGPU_CHAIN_DONE(at.status)].command] = SLOW_FOR;
	return gpuiov_chain_done(d, &at, vgpu_now());
}

int gpuiov_chain_look(struct vgpu_driver *d, vgpu_nsec now)
{
	struct gpuiov_progress at;
	int r = vfio_read(d->device, VFIO_REGION_BAR5, SOFTGPU_CHAIN_STATUS, &at, sizeof(at));

	return r < 0 ? r : gpuiov_chain_done(d, &at, now);
}

/*
 * Most commands are done when they are written, and an interrupt would only wake the engine thread
 * for nothing. A slow command is polled, and the next SLOW_FOR commands of its kind use interrupts.
 */
int gpuiov_commands(struct vgpu_driver *d, const struct vgpu_order *orders, uint32_t n,
		    vgpu_nsec now)
{
	struct gpuiov_pending *p = &d->command;
	uint32_t i;

	d->taken++;
	*p = (struct gpuiov_pending){.active = true, .n = n, .issued = now, .poll_at = VGPU_NEVER};
	for (i = 0; i < n; i++) {
		uint8_t *slow = &d->slow[orders[i].command];

		p->orders[i] = orders[i];
		p->interrupts |= d->config.interrupts && *slow > 0;
		*slow -= *slow > 0;
	}
	if (p->interrupts)
		p->poll_at = now + next_poll(d);
	return n > 1 ? issue_chain(d) : issue_one(d, now);
}

int gpuiov_reset(struct vgpu_driver *d, uint32_t vf, enum vgpu_reset_level level, vgpu_nsec now)
{
	if (d->command.active &&
	    (level == VGPU_RESET_GPU || d->command.orders[d->command.done].vf == vf))
		end(d);
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

int gpuiov_expel(struct vgpu_driver *d, uint32_t vf)
{
	uint32_t vfs = 1u << vf;

	return d->expels ? vfio_write(d->device, VFIO_REGION_BAR5, SOFTGPU_EXPEL, &vfs, sizeof(vfs))
			 : 0;
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
