/* SPDX-License-Identifier: MIT */
/*
 * A null GPU of the switched kind, without hardware: its guests' drivers come up by themselves, and
 * have work always or never. Commands take no time, unless an option says so. It serves to measure
 * vgpud alone, and to test the daemon without a device.
 *
 * It has no clock and no thread: it knows the time only from the arguments of its calls, and
 * deadline() returns when a command ends. So it works in virtual time, too.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "null.h"
#include "vgpu/descriptor.h"

#define GRANULE (UINT64_C(16) << 20)
#define SAVE_SLOT (UINT64_C(64) << 10)

/* What the next dispatch() reports about VFs, a bitmap each, in this order. */
enum told { TOLD_RESET, TOLD_REQUEST, TOLD_RELEASE, TOLD_BUSY, TOLD };

struct vgpu_driver {
	struct null_options options;
	uint32_t n_vfs;
	vgpu_event_sink *sink;
	void *data;
	int fd; /* never readable */

	bool active; /* a command is under way until DONE_AT */
	struct vgpu_event command;
	struct vgpu_order chain[VGPU_CHAIN]; /* the commands that were issued with it */
	uint32_t chain_n, chain_at;	     /* chain_at: the first that has not begun */
	vgpu_nsec done_at;
	vgpu_vf_set news[TOLD];
	bool gpu_reset; /* the end of a GPU reset is to be reported */
	uint32_t gpu_reset_vf;
};

static void emit(struct vgpu_driver *d, enum vgpu_event_type type, uint32_t vf, uint32_t code,
		 vgpu_nsec now)
{
	d->sink(d->data, &(struct vgpu_event){.now = now, .type = type, .vf = vf, .code = code});
}

static int null_probe(const char *device, struct vgpu_error *err)
{
	struct null_options options;
	int r;

	if (strncmp(device, NULL_PREFIX, strlen(NULL_PREFIX)) != 0)
		return 0;
	r = null_read_options(device, &options, err);
	return r < 0 ? r : 1;
}

static int plan(const struct null_options *options, const struct vgpu_driver_config *config,
		struct vgpu_partition *out, struct vgpu_error *err)
{
	struct vgpu_partition_request request = {
		.total = options->memory,
		.granule = GRANULE,
		.pf_reserve = config->pf_reserve,
		.save_area = SAVE_SLOT * config->n_vfs,
		.n_vfs = config->n_vfs,
		.placement = config->placement,
	};

	if (config->n_vfs > options->max_vfs)
		return vgpu_error_set(err, -EINVAL, "vfs = %u: this GPU has at most %u",
				      config->n_vfs, options->max_vfs);
	if (config->host > 0)
		return vgpu_error_set(
			err, -EOPNOTSUPP,
			"host_memory_mib: this GPU does not reach host memory: leave the key out");
	memcpy(request.sizes, config->sizes, sizeof(request.sizes));
	return vgpu_partition_plan(&request, out, err);
}

static void null_close(struct vgpu_driver *d, bool lost)
{
	(void)lost; /* nothing was kept */
	vgpu_close(&d->fd);
	free(d);
}

static int set_up(struct vgpu_driver *d, const struct vgpu_driver_config *config,
		  struct vgpu_partition *planned, struct vgpu_error *err)
{
	int r;

	d->fd = vgpu_eventfd();
	if (d->fd < 0)
		return vgpu_error_set(err, d->fd, "eventfd: %s", strerror(-d->fd));
	r = null_read_options(config->device, &d->options, err);
	if (r < 0)
		return r;
	return plan(&d->options, config, planned, err);
}

static void describe(const struct null_options *options, struct vgpu_driver_caps *caps)
{
	*caps = (struct vgpu_driver_caps){
		.driver = vgpu_null_driver.name,
		.max_vfs = options->max_vfs,
		.memory = options->memory,
		.granule = GRANULE,
		.reset_levels = 1u << VGPU_RESET_VF | 1u << VGPU_RESET_GPU,
		.chain = VGPU_CHAIN,
		.preemption = "hard",
	};
	snprintf(caps->model, sizeof(caps->model), "none");
	snprintf(caps->layout, sizeof(caps->layout), "none");
	snprintf(caps->transport, sizeof(caps->transport), "null");
}

static int null_check(const struct vgpu_driver_config *config, struct vgpu_driver_caps *caps,
		      struct vgpu_error *err)
{
	struct null_options options;
	struct vgpu_partition planned;
	int r = null_read_options(config->device, &options, err);

	if (r < 0)
		return r;
	describe(&options, caps);
	return plan(&options, config, &planned, err);
}

/* Every open adopts the GPU: each VF has its driver up and its context saved. */
static int null_open(struct vgpu_driver **out, const struct vgpu_driver_config *config,
		     struct vgpu_driver_caps *caps, struct vgpu_driver_found *found,
		     vgpu_event_sink *sink, void *data, struct vgpu_error *err)
{
	struct vgpu_driver *d = calloc(1, sizeof(*d));
	uint32_t i;
	int r;

	if (!d)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	*d = (struct vgpu_driver){.n_vfs = config->n_vfs, .sink = sink, .data = data};
	*found = (struct vgpu_driver_found){.adopted = true};
	r = set_up(d, config, &found->planned, err);
	if (r < 0) {
		null_close(d, false);
		return r;
	}
	found->partition = found->planned;
	for (i = 0; i < d->n_vfs; i++) {
		found->contexts[i] = VGPU_CTX_SAVED;
		found->driver_up[i] = true;
	}
	d->options.busy &= vgpu_first_vfs(d->n_vfs);
	d->news[TOLD_BUSY] = d->options.busy;
	describe(&d->options, caps);
	*out = d;
	return 0;
}

static int null_fd(const struct vgpu_driver *d)
{
	return d->fd;
}

static vgpu_nsec null_deadline(const struct vgpu_driver *d)
{
	uint32_t i;

	if (d->gpu_reset)
		return 0;
	for (i = 0; i < TOLD; i++)
		if (d->news[i])
			return 0;
	return d->active ? d->done_at : VGPU_NEVER;
}

/* Begins the next command of the chain at NOW. */
static void begin_command(struct vgpu_driver *d, vgpu_nsec now)
{
	const struct vgpu_order *o = &d->chain[d->chain_at++];
	bool hangs = o->command == VGPU_CMD_IDLE && d->options.hangs >> o->vf & 1;

	d->active = true;
	d->command = (struct vgpu_event){.type = VGPU_EV_DONE, .vf = o->vf, .code = o->command};
	d->done_at = hangs ? VGPU_NEVER : now + d->options.command;
}

/* The command in progress is done: the next one has begun at the same instant. */
static void end_command(struct vgpu_driver *d, vgpu_nsec now)
{
	struct vgpu_event done = d->command;

	done.now = d->done_at < now ? d->done_at : now;
	d->active = false;
	if (d->chain_at < d->chain_n)
		begin_command(d, done.now);
	d->sink(d->data, &done);
}

static int null_dispatch(struct vgpu_driver *d, vgpu_nsec now)
{
	static const struct {
		enum vgpu_event_type type;
		uint32_t code;
	} events[] = {
		[TOLD_RESET] = {VGPU_EV_RESET_DONE, VGPU_RESET_VF},
		[TOLD_REQUEST] = {VGPU_EV_REQUEST, VGPU_WINDOW_INIT},
		[TOLD_RELEASE] = {VGPU_EV_RELEASE, VGPU_WINDOW_INIT},
		[TOLD_BUSY] = {VGPU_EV_BUSY, 0},
	};
	vgpu_vf_set news;
	uint32_t i, vf;

	while (d->active && now >= d->done_at)
		end_command(d, now);
	if (d->gpu_reset)
		emit(d, VGPU_EV_RESET_DONE, d->gpu_reset_vf, VGPU_RESET_GPU, now);
	d->gpu_reset = false;
	for (i = 0; i < TOLD; i++) {
		news = d->news[i];
		d->news[i] = 0;
		for (vf = 0; vf < d->n_vfs; vf++)
			if (news >> vf & 1)
				emit(d, events[i].type, vf, events[i].code, now);
	}
	return 0;
}

/* Drops the pending reports and the command of VFs that are reset. */
static void forget(struct vgpu_driver *d, vgpu_vf_set vfs)
{
	uint32_t i;

	for (i = 0; i < TOLD; i++)
		d->news[i] &= ~vfs;
	if (d->active && vfs >> d->command.vf & 1)
		d->active = false;
}

static int null_reset(struct vgpu_driver *d, uint32_t vf, enum vgpu_reset_level level, vgpu_nsec)
{
	if (level == VGPU_RESET_GPU) {
		forget(d, UINT64_MAX);
		d->gpu_reset = true;
		d->gpu_reset_vf = vf;
	} else {
		forget(d, VGPU_VF_BIT(vf));
		d->news[TOLD_RESET] |= VGPU_VF_BIT(vf);
	}
	return 0;
}

static int null_commands(struct vgpu_driver *d, const struct vgpu_order *orders, uint32_t n,
			 vgpu_nsec now)
{
	memcpy(d->chain, orders, n * sizeof(*orders));
	d->chain_n = n;
	d->chain_at = 0;
	begin_command(d, now);
	while (d->active && d->done_at <= now)
		end_command(d, now);
	return 0;
}

static int null_gates(struct vgpu_driver *, uint32_t, uint32_t)
{
	return 0;
}

/* Acts as the guest's driver: after a reset it comes up again, if it has work. */
static int null_notice(struct vgpu_driver *d, uint32_t vf, enum vgpu_notice notice)
{
	vgpu_vf_set bit = d->options.busy & VGPU_VF_BIT(vf);

	if (notice == VGPU_NOTICE_RESET_DONE)
		d->news[TOLD_REQUEST] |= bit;
	if (notice == VGPU_NOTICE_READY) {
		d->news[TOLD_RELEASE] |= bit;
		d->news[TOLD_BUSY] |= bit;
	}
	return 0;
}

static int null_place(struct vgpu_driver *, uint32_t, struct vgpu_extent)
{
	return 0;
}

static int null_clear(struct vgpu_driver *, struct vgpu_extent)
{
	return 0;
}

static int null_copy(struct vgpu_driver *, struct vgpu_extent, uint64_t)
{
	return 0;
}

static int null_busy(struct vgpu_driver *, bool *failed)
{
	*failed = false;
	return 0;
}

/* Memory that was never written is zero. */
static int null_read(struct vgpu_driver *, uint64_t, void *data, uint32_t size)
{
	memset(data, 0, size);
	return 0;
}

static const struct vgpu_device_face device_face = {
	.probe = null_probe,
	.check = null_check,
	.open = null_open,
	.close = null_close,
	.fd = null_fd,
	.deadline = null_deadline,
	.dispatch = null_dispatch,
	.reset = null_reset,
};

static const struct vgpu_switched_face switched_face = {
	.commands = null_commands,
	.gates = null_gates,
	.notice = null_notice,
};

static const struct vgpu_memory_face memory_face = {
	.place = null_place,
	.clear = null_clear,
	.copy = null_copy,
	.busy = null_busy,
	.read = null_read,
};

static const struct vgpu_device_form forms[] = {
	{"null:", "OPTIONS", "no GPU, to measure vgpud alone", NULL},
	{.prefix = NULL},
};

const struct vgpu_driver_ops vgpu_null_driver = {
	.size = sizeof(struct vgpu_driver_ops),
	.name = "null",
	.forms = forms,
	.device = &device_face,
	.switched = &switched_face,
	.memory = &memory_face,
};
