/* SPDX-License-Identifier: MIT */
/*
 * Finds out what happened on the GPU. An interrupt says which half to look at. The driver also
 * looks at everything from time to time, rarely with interrupts, often without, so that a lost
 * interrupt only delays an event.
 */
#include <errno.h>
#include <linux/pci_regs.h>
#include <string.h>
#include <sys/epoll.h>

#include "gpuiov.h"
#include "vgpu/clock.h"

/* Pause between looks at everything: with interrupts for all of it, or without. */
#define LOOK_RARELY (50 * VGPU_MSEC)
/* How often it reads what VFs have spent: more often than softgpu ends a process for that. */
#define COUNT_EVERY (200 * VGPU_MSEC)
#define LOOK_OFTEN (500 * VGPU_USEC)
#define LOOK_SLOWLY VGPU_MSEC /* for resets in progress */

/* The words of the mailbox, and the core's events for them. */
static const struct {
	uint32_t word;
	enum vgpu_event_type type;
	enum vgpu_window window;
} messages[] = {
	{GPUIOV_REQ_INIT, VGPU_EV_REQUEST, VGPU_WINDOW_INIT},
	{GPUIOV_REL_INIT, VGPU_EV_RELEASE, VGPU_WINDOW_INIT},
	{GPUIOV_REQ_FINI, VGPU_EV_REQUEST, VGPU_WINDOW_FINI},
	{GPUIOV_REL_FINI, VGPU_EV_RELEASE, VGPU_WINDOW_FINI},
	{GPUIOV_REQ_RESET, VGPU_EV_REQUEST, VGPU_WINDOW_RESET},
};

int gpuiov_fd(const struct vgpu_driver *d)
{
	return d->epoll;
}

static vgpu_nsec sooner(vgpu_nsec a, vgpu_nsec b)
{
	return a < b ? a : b;
}

/* Returns for how long reading all state may be delayed, ns: not at all without interrupts, because
 * then only reading finds changes. */
static vgpu_nsec look_delay(const struct vgpu_driver *d)
{
	return d->config.interrupts && gpuiov_has(d, GPUIOV_INTR_STATUS) ? LOOK_RARELY : 0;
}

void gpuiov_expect(struct vgpu_driver *d, vgpu_nsec planned)
{
	d->planned = planned;
}

/* Returns whether it is time to look at everything. That takes several trips to the device, so it
 * waits for the answer to a command, and until it ends before the next planned one. */
static bool looks_at_all(struct vgpu_driver *d, vgpu_nsec now)
{
	if (now < d->look_at)
		return false;
	if (now >= d->look_at + look_delay(d))
		return true;
	if (d->command.active)
		return false;
	d->put_off_to = now + d->look_takes > d->planned ? d->planned : 0;
	return d->put_off_to == 0;
}

vgpu_nsec gpuiov_deadline(const struct vgpu_driver *d)
{
	vgpu_nsec t = d->look_at + look_delay(d);

	if (!d->command.active)
		t = sooner(t, d->put_off_to > d->look_at ? d->put_off_to : d->look_at);

	if (d->command.active)
		t = sooner(t, d->command.poll_at);
	if (d->plan.active)
		t = sooner(t, d->plan.look_at);
	if (d->resetting || d->gpu_resetting)
		t = sooner(t, d->slow_at);
	return t;
}

/* Reports which VFs have new work, or none left. Returns whether anything changed. A device that
 * was removed answers with all ones: ignore bits beyond the VFs. */
static bool busy_changed(struct vgpu_driver *d, uint32_t busy, vgpu_nsec now)
{
	uint32_t changed = (busy ^ d->busy) & ~d->resetting & ((1u << d->config.n_vfs) - 1), vf;

	d->busy ^= changed;
	for (vf = 0; vf < d->config.n_vfs; vf++)
		if (changed >> vf & 1)
			gpuiov_emit(d, busy >> vf & 1 ? VGPU_EV_BUSY : VGPU_EV_EMPTY, vf, 0, 0,
				    now);
	return changed != 0;
}

/* The same of the status page, which may be older than the commands in flight. */
static int look_at_page(struct vgpu_driver *d, const uint32_t *words, bool *news, vgpu_nsec now)
{
	bool taken = words[SOFTGPU_SHOWS_TAKEN] == d->taken, pending = d->command.active;
	struct gpuiov_progress at = {.status = words[SOFTGPU_SHOWS_CHAIN]};
	int r;

	if (words[SOFTGPU_SHOWS_TAKEN] == UINT32_MAX && words[SOFTGPU_SHOWS_STATUS] == UINT32_MAX)
		return -ENODEV;
	*news = busy_changed(d, words[SOFTGPU_SHOWS_BUSY], now);
	if (pending && taken && d->command.n > 1) {
		memcpy(at.took, &words[SOFTGPU_SHOWS_TOOK], sizeof(at.took));
		r = gpuiov_chain_done(d, &at, now);
	} else {
		r = gpuiov_command_done(d, taken ? 0 : GPUIOV_CMD_EXECUTE,
					words[SOFTGPU_SHOWS_STATUS], now);
	}
	*news |= pending && !d->command.active;
	return r;
}

/* Reads command, status and busy bits, in one read where they are adjacent, or from the status
 * page. *NEWS: whether anything was found that explains an interrupt. */
static int look_at_engine(struct vgpu_driver *d, bool *news, vgpu_nsec now)
{
	bool pending = d->command.active;
	uint32_t words[4] = {0}, shown[SOFTGPU_STATUS_WORDS], region, busy_region, busy = 0;
	uint64_t cmd, status, busy_at;
	bool together;
	int r;

	if (gpuiov_read_page(d, shown))
		return look_at_page(d, shown, news, now);
	gpuiov_place(d, GPUIOV_CMD, &region, &cmd);
	gpuiov_place(d, GPUIOV_CMD_STATUS, &region, &status);
	gpuiov_place(d, GPUIOV_VM_BUSY, &busy_region, &busy_at);
	together = busy_region == region && busy_at == cmd + 8;
	r = vfio_read(d->device, region, cmd, words, together ? 12 : 8);
	if (r < 0)
		return r;
	if (words[0] == UINT32_MAX && words[1] == UINT32_MAX)
		return -ENODEV;
	busy = words[2];
	if (!together)
		r = gpuiov_read(d, GPUIOV_VM_BUSY, &busy);
	if (r < 0)
		return r;
	*news = busy_changed(d, busy, now);
	if (d->command.n > 1)
		r = d->command.active ? gpuiov_chain_look(d, now) : 0;
	else
		r = gpuiov_command_done(d, words[0], words[(status - cmd) / 4], now);
	*news |= pending && !d->command.active;
	return r;
}

/* Reports a hang that the GPU itself has detected. */
static int look_for_hangs(struct vgpu_driver *d, vgpu_nsec now)
{
	uint32_t bits, fcn;
	int r;

	if (!gpuiov_has(d, GPUIOV_INTR_STATUS))
		return 0;
	r = gpuiov_read(d, GPUIOV_INTR_STATUS, &bits);
	if (r < 0 || bits == 0)
		return r;
	r = gpuiov_write(d, GPUIOV_INTR_STATUS, bits);
	if (r < 0 || !(bits & GPUIOV_INTR_NEED_FLR))
		return r;
	r = gpuiov_read_own(d, SOFTGPU_HANG_INFO, &fcn);
	if (r == 0 && GPUIOV_FCN_IS_VF(fcn) && GPUIOV_FCN_VF_OF(fcn) < d->config.n_vfs)
		gpuiov_emit(d, VGPU_EV_HANG, GPUIOV_FCN_VF_OF(fcn), (fcn >> 8 & 0xff) != 0, 0, now);
	return r;
}

static int read_message(struct vgpu_driver *d, uint32_t vf, vgpu_nsec now)
{
	uint32_t word = 0, control = 0, i;
	int r = gpuiov_write(d, GPUIOV_MBOX_INDEX, vf);

	if (r == 0)
		r = gpuiov_read(d, GPUIOV_MBOX_RCV, &word);
	if (r == 0)
		r = gpuiov_read(d, GPUIOV_MBOX_CONTROL, &control);
	/* Keep the state of the word that we have sent. */
	if (r == 0)
		r = gpuiov_write(d, GPUIOV_MBOX_CONTROL,
				 (control & GPUIOV_MBOX_TRN_VALID) | GPUIOV_MBOX_RCV_ACK);
	for (i = 0; r == 0 && i < sizeof(messages) / sizeof(messages[0]); i++)
		if (messages[i].word == word)
			gpuiov_emit(d, messages[i].type, vf, messages[i].window, 0, now);
	return r;
}

/* Reports resets that have ended, vgpud's and guests', and the guests' messages. */
static int look_at_guests(struct vgpu_driver *d, vgpu_nsec now)
{
	uint32_t notified = 0, going_on = 0, pending = 0, vf, bit;
	int r;

	if (d->gpu_resetting)
		return 0;
	r = gpuiov_read_resets(d, &going_on, &notified);
	/* A chain's commands that ended before a reset are answered before it. */
	d->told = 0;
	if (r == 0 && notified && d->command.active && d->command.n > 1)
		r = gpuiov_chain_look(d, now);
	notified &= ~d->told;
	if (r == 0 && notified)
		r = gpuiov_write(d, GPUIOV_RESET_NOTIFICATION, notified);
	if (r < 0)
		return r;
	if (notified == UINT32_MAX)
		return -ENODEV;
	for (vf = 0; vf < d->config.n_vfs && r == 0; vf++) {
		bit = 1u << vf;
		if (d->schedules && notified & bit)
			r = gpuiov_look_at_late(d, vf, now);
		if (d->resetting & bit && (notified & bit || !(going_on & bit))) {
			d->resetting &= ~bit;
			gpuiov_emit(d, VGPU_EV_RESET_DONE, vf, VGPU_RESET_VF,
				    notified & bit ? 0 : -EIO, now);
		} else if (notified & bit) {
			d->busy &= ~bit;
			gpuiov_emit(d, VGPU_EV_GUEST_RESET, vf, 0, 0, now);
		}
	}
	if (r == 0 && d->schedules)
		r = gpuiov_look_at_drivers(d, now);
	if (r < 0 || d->schedules)
		return r;
	r = gpuiov_read(d, GPUIOV_IH_PENDING, &pending);
	for (vf = 0; vf < d->config.n_vfs && r == 0; vf++)
		if (pending >> vf & 1)
			r = read_message(d, vf, now);
	return r;
}

/* Restores the registers after a reset of the GPU. The kernel is not involved: its VFs are
 * unchanged. */
static int look_at_gpu_reset(struct vgpu_driver *d, vgpu_nsec now)
{
	uint32_t control;
	int r = gpuiov_read(d, GPUIOV_RESET_CONTROL, &control);
	if (r < 0 || control & GPUIOV_RESET_PF)
		return r;
	d->gpu_resetting = false;
	d->resetting = 0;
	d->busy = 0;
	r = gpuiov_bring_up(d, vfio_enable_vfs, NULL);
	gpuiov_emit(d, VGPU_EV_RESET_DONE, d->gpu_reset_vf, VGPU_RESET_GPU, r, now);
	return 0;
}

/* Checks whether the device is gone, wanted back by the kernel, or was reset, but not by vgpud. */
static int look_at_device(struct vgpu_driver *d)
{
	uint16_t control = 0, command = 0;
	int r = vfio_check(d->device);

	if (r == 0)
		r = vfio_read(d->device, VFIO_REGION_CONFIG, d->sriov + SRIOV_CTRL, &control,
			      sizeof(control));
	if (r == 0)
		r = vfio_read(d->device, VFIO_REGION_CONFIG, PCI_COMMAND, &command,
			      sizeof(command));
	if (r < 0)
		return r;
	if (control == UINT16_MAX)
		return -ENODEV;
	return control & SRIOV_CTRL_VF_ENABLE && (command & PCI_COMMAND_MEMORY) == d->decode
		       ? 0
		       : -ECONNRESET;
}

/* Returns which descriptors have news, as bits by vector. */
static uint32_t news_of(struct vgpu_driver *d)
{
	struct epoll_event events[GPUIOV_PF_VECTORS + 1];
	int n = epoll_wait(d->epoll, events, GPUIOV_PF_VECTORS + 1, 0), i;
	uint32_t news = 0;

	for (i = 0; i < n; i++)
		news |= 1u << events[i].data.u32;
	return news;
}

static int read_spent(struct vgpu_driver *d, vgpu_nsec now)
{
	uint64_t counts[2 * VGPU_GPU_MAX_VFS];
	uint32_t i;
	int r;

	if (!d->counts || now < d->spent_at)
		return 0;
	d->spent_at = now + COUNT_EVERY;
	r = vfio_read(d->device, VFIO_REGION_BAR5, SOFTGPU_SPENT, counts, 16 * d->config.n_vfs);
	for (i = 0; i < d->config.n_vfs && r == 0; i++) {
		d->spent.cpu[i] = counts[2 * i];
		d->spent.jobs[i] = counts[2 * i + 1];
	}
	d->has_counted = r == 0;
	return r;
}

bool gpuiov_spent(struct vgpu_driver *d, struct vgpu_spent *out)
{
	bool is_news = d->has_counted;

	if (is_news)
		*out = d->spent;
	d->has_counted = false;
	return is_news;
}

int gpuiov_dispatch(struct vgpu_driver *d, vgpu_nsec now)
{
	uint32_t raised = news_of(d);
	bool all = looks_at_all(d, now), slow = now >= d->slow_at, news = false;
	bool engine = raised & 1u << GPUIOV_VECTOR_ENGINE;
	bool guests = raised & 1u << GPUIOV_VECTOR_MAILBOX;
	vgpu_nsec began = all ? vgpu_now() : 0;
	int r = 0;

	if (all)
		d->look_at = now + (look_delay(d) ? LOOK_RARELY : LOOK_OFTEN);
	if (slow)
		d->slow_at = now + LOOK_SLOWLY;
	if (raised & 1u << GPUIOV_DEVICE)
		r = vfio_check(d->device);
	if (r < 0)
		return r;
	if (d->gpu_resetting)
		return slow ? look_at_gpu_reset(d, now) : 0;
	if (all && now >= d->check_at) {
		d->check_at = now + LOOK_RARELY;
		r = look_at_device(d);
		if (r == 0)
			r = gpuiov_look_for_violations(d, now);
		if (r == 0)
			r = read_spent(d, now);
	}
	if (r < 0)
		return r;
	r = gpuiov_look_at_plan(d, now);
	if (r == 0 && !d->schedules && (engine || all || d->command.active))
		r = look_at_engine(d, &news, now);
	if (r == 0 && !d->schedules && ((engine && !news) || all))
		r = look_for_hangs(d, now);
	if (r == 0 && (guests || all || (slow && d->resetting)))
		r = look_at_guests(d, now);
	if (all) { /* the longest of late: what delayed one look passes */
		d->look_takes -= d->look_takes / 8;
		began = vgpu_now() - began;
		d->look_takes = began > d->look_takes ? began : d->look_takes;
	}
	return r;
}
