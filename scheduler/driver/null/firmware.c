/* SPDX-License-Identifier: MIT */
/*
 * A null GPU of the programmed kind: it tests and measures the governor without hardware, in real
 * or virtual time. Its guests' drivers are always up, and have work always or never. Like Intel's
 * driver, it clamps settings beyond its limits without an error, and reads back the clamped values.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "null.h"
#include "turns.h"
#include "vgpu/descriptor.h"

static const struct vgpu_setting quanta = {VGPU_MSEC, 100 * VGPU_SEC, VGPU_MSEC};
static const struct vgpu_setting timeouts = {VGPU_USEC, 100 * VGPU_SEC, VGPU_USEC};

struct vgpu_driver {
	struct null_firmware_options options;
	vgpu_event_sink *sink;
	void *data;
	int fd; /* never readable */
	uint32_t n_vfs;
	vgpu_nsec since; /* time of the first call that has a time; VGPU_NEVER: none so far */
	struct turns turns;
	struct vgpu_program program; /* in force, or being programmed */
	vgpu_nsec program_at;	     /* when PROGRAM takes effect; VGPU_NEVER: it is in force */
	vgpu_vf_set resets;	     /* to be reported */
	bool gpu_reset;
	uint32_t gpu_reset_vf;
};

static int firmware_probe(const char *device, struct vgpu_error *err)
{
	struct null_firmware_options options;
	int r;

	if (strncmp(device, NULL_FIRMWARE_PREFIX, strlen(NULL_FIRMWARE_PREFIX)) != 0)
		return 0;
	r = null_read_firmware_options(device, &options, err);
	return r < 0 ? r : 1;
}

static void firmware_close(struct vgpu_driver *d, bool lost)
{
	(void)lost; /* it keeps nothing over a restart */
	vgpu_close(&d->fd);
	free(d);
}

/* Returns the nearest value that the GPU supports. */
static vgpu_nsec clamp(const struct vgpu_setting *s, vgpu_nsec value)
{
	if (value < s->min)
		return s->min;
	if (value > s->max)
		return s->max;
	return value - value % s->step;
}

/* Begins the engine's first turn, at NOW. */
static void begin_turns(struct vgpu_driver *d, vgpu_nsec now)
{
	uint32_t i;

	turns_init(&d->turns, d->n_vfs, now);
	turns_program(&d->turns, &d->program, now);
	for (i = 0; i < d->n_vfs; i++) {
		d->turns.vfs[i].late = i == d->options.late_vf ? d->options.late : 0;
		turns_busy(&d->turns, i, d->options.busy >> i & 1, now);
	}
}

/* Sets the GPU's start of time at the first call that has a time. */
static void at(struct vgpu_driver *d, vgpu_nsec now)
{
	if (d->since != VGPU_NEVER)
		return;
	d->since = now;
	begin_turns(d, now);
}

static int firmware_open(struct vgpu_driver **out, const struct vgpu_driver_config *config,
			 struct vgpu_driver_caps *caps, struct vgpu_driver_found *found,
			 vgpu_event_sink *sink, void *data, struct vgpu_error *err)
{
	struct null_firmware_options options;
	struct vgpu_driver *d;
	uint32_t i;
	int r = null_read_firmware_options(config->device, &options, err), fd;

	if (r < 0)
		return r;
	if (config->n_vfs > options.max_vfs)
		return vgpu_error_set(err, -EINVAL, "vfs = %u: this GPU has at most %u",
				      config->n_vfs, options.max_vfs);
	fd = vgpu_eventfd();
	if (fd < 0)
		return vgpu_error_set(err, fd, "eventfd: %s", strerror(-fd));
	d = calloc(1, sizeof(*d));
	if (!d) {
		vgpu_close(&fd);
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	}
	*d = (struct vgpu_driver){.options = options,
				  .sink = sink,
				  .data = data,
				  .fd = fd,
				  .n_vfs = config->n_vfs,
				  .since = VGPU_NEVER,
				  .program_at = VGPU_NEVER};
	*found = (struct vgpu_driver_found){.adopted = true};
	for (i = 0; i < config->n_vfs; i++) {
		found->driver_up[i] = true;
		d->program.vfs[i].quantum = quanta.min;
		d->program.vfs[i].timeout = quanta.min;
	}
	*caps = (struct vgpu_driver_caps){
		.kind = VGPU_DRIVER_PROGRAMMED,
		.driver = vgpu_null_firmware_driver.name,
		.max_vfs = options.max_vfs,
		.reset_levels = 1u << VGPU_RESET_VF | 1u << VGPU_RESET_GPU,
		.preemption = "hard",
		.quantum = quanta,
		.timeout = timeouts,
		.keeps_turns = true,
	};
	snprintf(caps->model, sizeof(caps->model), "none");
	snprintf(caps->layout, sizeof(caps->layout), "none");
	snprintf(caps->transport, sizeof(caps->transport), "null");
	*out = d;
	return 0;
}

static int firmware_fd(const struct vgpu_driver *d)
{
	return d->fd;
}

static vgpu_nsec firmware_deadline(const struct vgpu_driver *d)
{
	return d->gpu_reset || d->resets ? 0 : d->program_at;
}

static void tell_reset(struct vgpu_driver *d, uint32_t vf, enum vgpu_reset_level level,
		       vgpu_nsec now)
{
	d->sink(d->data, &(struct vgpu_event){
				 .now = now, .type = VGPU_EV_RESET_DONE, .vf = vf, .code = level});
}

/* The drivers of guests that were reset come up again at once. */
static int firmware_dispatch(struct vgpu_driver *d, vgpu_nsec now)
{
	vgpu_vf_set resets = d->resets;
	uint32_t i;

	at(d, now);
	if (now >= d->program_at) {
		turns_program(&d->turns, &d->program, now);
		d->program_at = VGPU_NEVER;
	}
	d->resets = 0;
	if (d->gpu_reset)
		tell_reset(d, d->gpu_reset_vf, VGPU_RESET_GPU, now);
	d->gpu_reset = false;
	for (i = 0; i < d->n_vfs; i++) {
		if (!(resets >> i & 1))
			continue;
		tell_reset(d, i, VGPU_RESET_VF, now);
		turns_busy(&d->turns, i, d->options.busy >> i & 1, now);
	}
	return 0;
}

static int firmware_stop(struct vgpu_driver *d, uint32_t vf, vgpu_nsec now)
{
	at(d, now);
	turns_busy(&d->turns, vf, false, now);
	return 0;
}

static int firmware_reset(struct vgpu_driver *d, uint32_t vf, enum vgpu_reset_level level,
			  vgpu_nsec now)
{
	at(d, now);
	if (level == VGPU_RESET_GPU) {
		begin_turns(d, now);
		d->gpu_reset = true;
		d->gpu_reset_vf = vf;
		return 0;
	}
	d->resets |= VGPU_VF_BIT(vf);
	return firmware_stop(d, vf, now);
}

static int firmware_program(struct vgpu_driver *d, const struct vgpu_program *program,
			    vgpu_nsec now)
{
	uint32_t i;

	if (d->program_at != VGPU_NEVER)
		return -EBUSY;
	d->program.keep_turns = program->keep_turns;
	for (i = 0; i < d->n_vfs; i++) {
		d->program.vfs[i].quantum = clamp(&quanta, program->vfs[i].quantum);
		d->program.vfs[i].timeout = clamp(&timeouts, program->vfs[i].timeout);
	}
	d->program_at = now + d->options.program;
	return 0;
}

static int firmware_programmed(struct vgpu_driver *d, struct vgpu_program *applied)
{
	*applied = d->program;
	return d->program_at != VGPU_NEVER;
}

static int firmware_usage(struct vgpu_driver *d, vgpu_nsec *active, vgpu_nsec now)
{
	uint32_t i;

	at(d, now);
	if (now - d->since < d->options.freeze)
		turns_advance(&d->turns, now);
	for (i = 0; i < d->n_vfs; i++)
		active[i] = d->options.served + d->turns.vfs[i].active;
	return 0;
}

static const struct vgpu_device_face device_face = {
	.probe = firmware_probe,
	.open = firmware_open,
	.close = firmware_close,
	.fd = firmware_fd,
	.deadline = firmware_deadline,
	.dispatch = firmware_dispatch,
	.reset = firmware_reset,
};

static const struct vgpu_programmed_face programmed_face = {
	.program = firmware_program,
	.programmed = firmware_programmed,
	.usage = firmware_usage,
	.stop = firmware_stop,
};

const struct vgpu_driver_ops vgpu_null_firmware_driver = {
	.size = sizeof(struct vgpu_driver_ops),
	.name = "null-firmware",
	.device = &device_face,
	.programmed = &programmed_face,
};
