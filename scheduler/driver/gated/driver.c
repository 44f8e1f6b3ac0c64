/* SPDX-License-Identifier: MIT */
/* The driver's faces: `device`, `switched` and `seats`. */
#include <errno.h>
#include <string.h>

#include "gated.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

/* How often IDLE and resets are looked at, in case a worker does not ring. */
#define LOOK (500 * VGPU_USEC)
/* Delay before the window of a refused VF is requested again. */
#define ASK_AGAIN (2 * VGPU_SEC)
/* How often the engine is told of new values from fdinfo. */
#define SPENT_EVERY (200 * VGPU_MSEC)

static void emit(struct vgpu_driver *d, enum vgpu_event_type type, uint32_t vf, uint32_t code,
		 vgpu_nsec now)
{
	d->sink(d->data, &(struct vgpu_event){.now = now, .type = type, .vf = vf, .code = code});
}

static int gated_probe(const char *device, struct vgpu_error *err)
{
	const char *name = device + strlen(GATED_PREFIX);

	if (strncmp(device, GATED_PREFIX, strlen(GATED_PREFIX)) != 0)
		return 0;
	if (!*name || strlen(name) >= GATE_DEVICE)
		return vgpu_error_set(err, -EINVAL,
				      "%s: want the UUID, the PCI address or the beginning of the "
				      "name of a Vulkan device, at most %u bytes (vulkaninfo "
				      "--summary)",
				      device, GATE_DEVICE - 1);
	return 1;
}

static int gated_fd(const struct vgpu_driver *d)
{
	return d->epoll;
}

static bool wants_up(const struct vgpu_driver *d, uint32_t vf)
{
	return d->up[vf] == GATED_DOWN && !(d->resetting >> vf & 1) &&
	       atomic_load(&d->seats[vf].page->owner) != 0;
}

static vgpu_nsec gated_deadline(const struct vgpu_driver *d)
{
	vgpu_nsec next = d->stopping != VGPU_NO_VF || d->resetting ? d->look_at : VGPU_NEVER;
	uint32_t i;

	if (d->gpu_reset)
		return 0;
	for (i = 0; i < d->n_vfs; i++) {
		if (d->up[i] == GATED_READY)
			return 0;
		if (wants_up(d, i) && d->ask_at[i] < next)
			next = d->ask_at[i];
	}
	for (i = 0; i < GATED_WORKERS; i++)
		if (atomic_load(&d->workers[i].place) == GATED_LIVE &&
		    d->workers[i].rearm_at < next)
			next = d->workers[i].rearm_at;
	return next;
}

/* Completes IDLE if nothing of the VF is in flight. */
static void look_at_stop(struct vgpu_driver *d, vgpu_nsec now)
{
	uint32_t vf = d->stopping;

	if (vf == VGPU_NO_VF)
		return;
	d->look_at = now + LOOK;
	if (gated_in_flight(d, vf) > 0)
		return;
	gated_seal(d, vf);
	d->stopping = VGPU_NO_VF;
	emit(d, VGPU_EV_DONE, vf, VGPU_CMD_IDLE, now);
}

/* Completes resets of VFs whose workers have all ended. */
static void look_at_resets(struct vgpu_driver *d, vgpu_nsec now)
{
	uint32_t vf;

	for (vf = 0; vf < d->n_vfs; vf++) {
		if (!(d->resetting >> vf & 1) || gated_has_workers(d, vf))
			continue;
		d->resetting &= ~VGPU_VF_BIT(vf);
		atomic_store(&d->seats[vf].account->memory, 0);
		if (!d->gpu_reset)
			emit(d, VGPU_EV_RESET_DONE, vf, VGPU_RESET_VF, now);
	}
	if (d->gpu_reset && !d->resetting) {
		d->gpu_reset = false;
		emit(d, VGPU_EV_RESET_DONE, d->gpu_reset_vf, VGPU_RESET_GPU, now);
	}
	if (d->resetting)
		d->look_at = now + LOOK;
}

/* Requests a window for each VF that has got an owner, and ends it at once when it is granted. From
 * then on the VF's driver counts as up. */
static void look_at_owners(struct vgpu_driver *d, vgpu_nsec now)
{
	uint32_t vf;

	for (vf = 0; vf < d->n_vfs; vf++) {
		if (wants_up(d, vf) && now >= d->ask_at[vf]) {
			d->up[vf] = GATED_ASKED;
			d->ask_at[vf] = now + ASK_AGAIN;
			emit(d, VGPU_EV_REQUEST, vf, VGPU_WINDOW_INIT, now);
		} else if (d->up[vf] == GATED_READY) {
			d->up[vf] = GATED_UP;
			atomic_store(&d->seats[vf].page->up, 1);
			gated_watch_new(d);
			emit(d, VGPU_EV_RELEASE, vf, VGPU_WINDOW_INIT, now);
		}
	}
}

static void look_at_work(struct vgpu_driver *d, vgpu_nsec now)
{
	uint32_t vf;

	for (vf = 0; vf < d->n_vfs; vf++) {
		bool busy = d->up[vf] == GATED_UP && gated_has_work(d, vf);

		if (busy == (d->busy >> vf & 1))
			continue;
		d->busy ^= VGPU_VF_BIT(vf);
		emit(d, busy ? VGPU_EV_BUSY : VGPU_EV_EMPTY, vf, 0, now);
	}
}

/* Reports fdinfo.c's violations. With `watch = end` the core then also resets the VF, which ends
 * its processes. */
static void look_at_violations(struct vgpu_driver *d, vgpu_nsec now)
{
	uint32_t vf, of;

	for (vf = 0; vf < d->n_vfs; vf++) {
		of = atomic_exchange(&d->turns[vf].violation_of, 0);
		if (of == 0 || of != atomic_load(&d->seats[vf].page->generation) + 1)
			continue;
		emit(d, VGPU_EV_VIOLATION, vf, atomic_load(&d->turns[vf].violation), now);
		if (d->ends_beyond)
			emit(d, VGPU_EV_HANG, vf, 0, now);
	}
}

static int gated_dispatch(struct vgpu_driver *d, vgpu_nsec now)
{
	gated_look(d, now);
	gated_rearm(d, now);
	look_at_stop(d, now);
	look_at_resets(d, now);
	look_at_owners(d, now);
	look_at_work(d, now);
	look_at_violations(d, now);
	return 0;
}

static void begin_reset(struct vgpu_driver *d, uint32_t vf, vgpu_nsec now)
{
	struct gate_seat *page = d->seats[vf].page;

	if (d->stopping == vf)
		d->stopping = VGPU_NO_VF;
	gated_gate(d, vf, false);
	gated_seal(d, vf);
	atomic_fetch_add(&page->generation, 1);
	atomic_store(&page->up, 0);
	d->up[vf] = GATED_DOWN;
	d->ask_at[vf] = 0;
	d->busy &= ~VGPU_VF_BIT(vf);
	d->resetting |= VGPU_VF_BIT(vf);
	d->look_at = now;
	gated_kill(d, vf);
}

static int gated_reset(struct vgpu_driver *d, uint32_t vf, enum vgpu_reset_level level,
		       vgpu_nsec now)
{
	uint32_t i;

	if (level == VGPU_RESET_GPU) {
		d->gpu_reset = true;
		d->gpu_reset_vf = vf;
		for (i = 0; i < d->n_vfs; i++)
			begin_reset(d, i, now);
	} else {
		begin_reset(d, vf, now);
	}
	return 0;
}

/* RUN and IDLE open and shut the gate. The other commands have nothing to do, because the GPU keeps
 * the contexts of all processes. */
static int gated_commands(struct vgpu_driver *d, const struct vgpu_order *orders, uint32_t n,
			  vgpu_nsec now)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		const struct vgpu_order *o = &orders[i];

		if (o->command == VGPU_CMD_RUN)
			gated_gate(d, o->vf, true);
		if (o->command == VGPU_CMD_IDLE) {
			gated_gate(d, o->vf, false);
			d->stopping = o->vf;
			look_at_stop(d, now);
		} else {
			emit(d, VGPU_EV_DONE, o->vf, o->command, now);
		}
	}
	return 0;
}

/* Does nothing: the gate alone decides whether a VF reaches the GPU. */
static int gated_gates(struct vgpu_driver *d, uint32_t vf, enum vgpu_access access)
{
	(void)d;
	(void)vf;
	(void)access;
	return 0;
}

static int gated_notice(struct vgpu_driver *d, uint32_t vf, enum vgpu_notice notice)
{
	if (notice == VGPU_NOTICE_READY)
		d->up[vf] = GATED_READY;
	else if (notice == VGPU_NOTICE_REFUSED && d->up[vf] == GATED_ASKED)
		d->up[vf] = GATED_DOWN;
	return 0;
}

static int gated_give(struct vgpu_driver *d, uint32_t vf, uint32_t process, uint64_t started,
		      uint64_t memory)
{
	struct gate_seat *page = d->seats[vf].page;

	atomic_store(&page->memory, memory ? memory : d->sizes[vf]);

	atomic_store(&page->owner, 0);
	atomic_store(&page->started, started);
	atomic_store(&page->owner, process);
	atomic_store(&page->lost, process ? 0 : atomic_load(&page->generation) + 1);
	d->ask_at[vf] = 0;
	vgpu_eventfd_signal(d->news); /* so that dispatch() is called */
	return process == 0 && gated_has_workers(d, vf) ? -EBUSY : 0;
}

static bool gated_spent(struct vgpu_driver *d, struct vgpu_spent *out)
{
	vgpu_nsec now = vgpu_now();
	uint32_t i;

	if (!d->accounts || now < d->spent_at)
		return false;
	d->spent_at = now + SPENT_EVERY;
	for (i = 0; i < d->n_vfs; i++) {
		out->driver[i] = atomic_load(&d->turns[i].driver);
		out->beyond[i] = atomic_load(&d->turns[i].beyond);
	}
	return true;
}

static const struct vgpu_device_face device_face = {
	.probe = gated_probe,
	.check = gated_check,
	.open = gated_open,
	.close = gated_close,
	.fd = gated_fd,
	.deadline = gated_deadline,
	.dispatch = gated_dispatch,
	.spent = gated_spent,
	.reset = gated_reset,
};

static const struct vgpu_switched_face switched_face = {
	.commands = gated_commands,
	.gates = gated_gates,
	.notice = gated_notice,
};

static const struct vgpu_seats_face seats_face = {
	.give = gated_give,
};

static const struct vgpu_device_form forms[] = {
	{"vulkan:", "DEVICE",
	 "any GPU with a Vulkan driver, by UUID, PCI address or the beginning of its name, for "
	 "programs on this host",
	 NULL},
	{.prefix = NULL},
};

const struct vgpu_driver_ops vgpu_gated_driver = {
	.size = sizeof(struct vgpu_driver_ops),
	.name = "gated",
	.forms = forms,
	.device = &device_face,
	.switched = &switched_face,
	.seats = &seats_face,
};
