/* SPDX-License-Identifier: MIT */
/*
 * Sets a GPU up, or adopts it. A GPU that has the configured number of VFs is adopted with its
 * partitions: its tenants keep running. Any other GPU is set up anew, but only if no VF is in use.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/pci_regs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "gpuiov.h"
#include "vfio/recognise.h"
#include "vgpu/descriptor.h"
#include "vfio/pci.h"

#define WHY_NO_MORE "GPU-IOV's registers have 32 bits, one for the PF and one for each VF"
#define SETTLE_MS 2000 /* a chain may take 1.5 s by the core's time-outs */

static int find_capabilities(struct vgpu_driver *d, const char *wanted, struct vgpu_error *err)
{
	uint8_t config[GPUIOV_CONFIG_SIZE];
	struct gpuiov_identity identity;
	uint32_t i;
	int r = vfio_read(d->device, VFIO_REGION_CONFIG, 0, config, sizeof(config));

	if (r < 0)
		return vgpu_error_set(err, r, "cannot read the configuration space: %s",
				      strerror(-r));
	r = gpuiov_recognise(config, sizeof(config), &identity, err);
	if (r < 0)
		return r;
	d->model = identity.model;
	d->sriov = identity.sriov;
	d->cap = identity.cap;
	for (i = 0; gpuiov_layouts[i]; i++) {
		const struct gpuiov_layout *l = gpuiov_layouts[i];

		/* Only the length of the capability distinguishes the layouts. */
		if (wanted ? strcmp(l->name, wanted) == 0 : l->cap_length == identity.cap_length)
			d->layout = l;
	}
	if (!d->layout)
		return vgpu_error_set(
			err, -ENODEV,
			"GPU-IOV capability of %" PRIu32
			" bytes: not a known layout; set layout = navi, tonga or soft",
			identity.cap_length);
	if (d->layout->cap_length > GPUIOV_CONFIG_SIZE - d->cap)
		return vgpu_error_set(err, -ENODEV,
				      "layout %s does not fit into the configuration space behind "
				      "the GPU-IOV capability",
				      d->layout->name);
	d->block = d->cap;
	if (d->layout->block_pointer)
		d->block = (uint16_t)(d->cap + (config[d->cap + d->layout->block_pointer] << 4));
	if (d->block > GPUIOV_CONFIG_SIZE - 0x20)
		return vgpu_error_set(err, -ENODEV,
				      "the scheduler block is outside of the configuration space");
	return 0;
}

static int read16(struct vgpu_driver *d, uint32_t offset, uint16_t *value)
{
	return vfio_read(d->device, VFIO_REGION_CONFIG, offset, value, sizeof(*value));
}

/* Reads how the GPU stops work; an unknown level counts as "tile". */
static int read_preemption(struct vgpu_driver *d, struct vgpu_driver_caps *caps)
{
	static const char *const levels[] = {
		[SOFTGPU_PREEMPT_TILE] = "tile", [SOFTGPU_PREEMPT_BLOCK] = "block",
		[SOFTGPU_PREEMPT_HARD] = "hard", [SOFTGPU_PREEMPT_KILL] = "kill",
		[SOFTGPU_PREEMPT_SOFT] = "soft",
	};
	uint32_t level, typical, longest, leak;
	int r = gpuiov_read_own(d, SOFTGPU_PREEMPT_LEVEL, &level);

	if (r == 0)
		r = gpuiov_read_own(d, SOFTGPU_PREEMPT_TYPICAL, &typical);
	if (r == 0)
		r = gpuiov_read_own(d, SOFTGPU_PREEMPT_LONGEST, &longest);
	if (r == 0)
		r = gpuiov_read_own(d, SOFTGPU_PREEMPT_LEAK, &leak);
	if (r < 0)
		return r;
	caps->preemption = level < sizeof(levels) / sizeof(levels[0]) ? levels[level] : levels[0];
	caps->preempt_typical = typical;
	caps->preempt_longest = longest;
	caps->preempt_leak = leak;
	d->kills = level == SOFTGPU_PREEMPT_KILL;
	if (level == SOFTGPU_PREEMPT_SOFT)
		caps->note = "the GPU stops VFs softly: their work continues with a small part of "
			     "the GPU beside other VFs, which is not charged (vgpuctl gpu show)";
	return 0;
}

/* Reads what the GPU can do. */
static int read_caps(struct vgpu_driver *d, struct vgpu_driver_caps *caps, struct vgpu_error *err)
{
	uint32_t mib, context, id = 0, features = 0;
	uint16_t total;
	int r;

	d->config.host = d->config.host / GPUIOV_FB_UNIT * GPUIOV_FB_UNIT;
	r = gpuiov_read(d, GPUIOV_FB_AVAILABLE, &mib);
	if (r == 0)
		r = gpuiov_read(d, GPUIOV_CONTEXT, &context);
	if (r == 0)
		r = read16(d, d->sriov + SRIOV_TOTAL_VFS, &total);
	if (r == 0)
		r = read16(d, PCI_COMMAND, &d->decode);
	if (r == 0)
		r = gpuiov_read_own(d, SOFTGPU_ID, &id);
	if (r == 0 && gpuiov_has(d, GPUIOV_FEATURES))
		r = gpuiov_read(d, GPUIOV_FEATURES, &features);
	if (r == 0)
		r = gpuiov_map_page(d, features);
	if (r < 0)
		return vgpu_error_set(err, r, "cannot read registers: %s", strerror(-r));
	d->decode &= PCI_COMMAND_MEMORY;
	*caps = (struct vgpu_driver_caps){
		.driver = vgpu_gpuiov_driver.name,
		.max_vfs = total < d->layout->max_vfs ? total : d->layout->max_vfs,
		.memory = (uint64_t)mib << 20,
		.host = d->config.host,
		.granule = GPUIOV_FB_UNIT,
		.context = GPUIOV_CONTEXT_SIZE(context),
		.chain = features & SOFTGPU_TAKES_CHAINS ? VGPU_CHAIN : 1,
		.reset_levels = 1u << VGPU_RESET_VF | 1u << VGPU_RESET_GPU,
	};
	snprintf(caps->model, sizeof(caps->model), "%s", d->model);
	d->schedules = features & SOFTGPU_SCHEDULES;
	d->expels = features & SOFTGPU_EXPELS;
	d->counts = caps->counts = features & SOFTGPU_COUNTS;
	snprintf(caps->layout, sizeof(caps->layout), "%s", d->layout->name);
	snprintf(caps->transport, sizeof(caps->transport), "%s", d->device->ops->name);
	if (id != SOFTGPU_ID_VALUE)
		return vgpu_error_set(
			err, -ENODEV,
			"vendor and device id are softgpu's, but the registers are not");
	r = read_preemption(d, caps);
	if (r == 0 && d->schedules)
		r = gpuiov_read_turns(d, caps);
	if (r < 0)
		return vgpu_error_set(err, r, "cannot read registers: %s", strerror(-r));
	d->memory = caps->memory;
	return 0;
}

/* Divides the memory as configured, if a GPU with these CAPS can be set up like that. */
static int plan(const struct vgpu_driver_config *config, const struct vgpu_driver_caps *caps,
		struct vgpu_partition *planned, struct vgpu_error *err)
{
	struct vgpu_partition_request request = {
		.total = caps->memory,
		.granule = GPUIOV_FB_UNIT,
		.pf_reserve = config->pf_reserve,
		.save_area = caps->context * config->n_vfs,
		.n_vfs = config->n_vfs,
		.placement = config->placement,
		.pinned = config->pinned,
		.host = config->host / GPUIOV_FB_UNIT * GPUIOV_FB_UNIT,
	};

	if (config->n_vfs > caps->max_vfs)
		return vgpu_error_set(err, -EINVAL,
				      "vfs = %" PRIu32 ": the GPU has at most %" PRIu32 "%s%s",
				      config->n_vfs, caps->max_vfs,
				      caps->max_vfs == GPUIOV_MOST_VFS ? ": " : "",
				      caps->max_vfs == GPUIOV_MOST_VFS ? WHY_NO_MORE : "");
	if ((caps->memory + request.host) / GPUIOV_FB_UNIT > 0x10000)
		return vgpu_error_set(err, -E2BIG,
				      "GPU memory and host_memory_mib together exceed the 1 TiB "
				      "that GPU-IOV can address");
	memcpy(request.sizes, config->sizes, sizeof(request.sizes));
	return vgpu_partition_plan(&request, planned, err);
}

static uint32_t context_offset(const struct vgpu_partition *p)
{
	return (uint32_t)(p->save_area.offset / GPUIOV_CONTEXT_UNIT) << 10;
}

/* Asks for interrupts. A GPU that schedules itself also reads its guests' messages, and begins. */
static int hear(struct vgpu_driver *d)
{
	int r;

	if (d->schedules)
		return gpuiov_begin_turns(d);
	r = gpuiov_write(d, GPUIOV_MBOX_INT, GPUIOV_MBOX_INT_VALID);
	if (r == 0 && gpuiov_has(d, GPUIOV_INTR_ENABLE))
		r = gpuiov_write(d, GPUIOV_INTR_ENABLE, GPUIOV_INTR_BUSY | GPUIOV_INTR_NEED_FLR);
	return r;
}

int gpuiov_bring_up(struct vgpu_driver *d, gpuiov_enable *enable, struct vgpu_error *err)
{
	const struct vgpu_partition *p = &d->partition;
	uint32_t i;
	int r;

	r = gpuiov_set_aperture(d);
	if (r == 0)
		r = gpuiov_write(d, GPUIOV_CONTEXT, context_offset(p));
	for (i = 0; i < d->config.n_vfs && r == 0; i++) {
		r = gpuiov_place_vf(d, i, p->vfs[i]);
		if (r == -EIO)
			return vgpu_error_set(err, r,
					      "the GPU refused the partition of VF %" PRIu32, i);
	}
	for (i = 0; i < 3; i++) {
		d->gates[i] = 0;
		if (r == 0)
			r = gpuiov_write(d, (enum gpuiov_register)(GPUIOV_GATE_REGISTERS + i), 0);
	}
	/* All memory but the PF's is free for VFs. */
	if (r == 0)
		r = gpuiov_write(d, GPUIOV_FB_CONSUMED, (uint32_t)(p->pf.size >> 20));
	if (r == 0 && enable(d->device, d->config.n_vfs, err) < 0)
		return -EIO;
	if (r == 0)
		r = hear(d);
	return r ? vgpu_error_set(err, r, "cannot write registers: %s", strerror(-r)) : 0;
}

/* Returns whether no partition overlaps another or the PF's memory. */
static bool is_sound(const struct vgpu_driver *d, const struct vgpu_partition *p, uint64_t total)
{
	struct vgpu_memory_extent storage[2 * VGPU_GPU_MAX_VFS + 3];
	struct vgpu_memory table;
	uint32_t i;

	vgpu_memory_init(&table, storage, 2 * VGPU_GPU_MAX_VFS + 3, total, GPUIOV_FB_UNIT);
	vgpu_memory_extend(&table, d->host.size);
	if (p->pf.size && vgpu_memory_reserve(&table, VGPU_GPU_MAX_VFS, 0, p->pf.size) < 0)
		return false;
	for (i = 0; i < d->config.n_vfs; i++)
		if (p->vfs[i].size &&
		    vgpu_memory_reserve(&table, i, p->vfs[i].offset, p->vfs[i].size) < 0)
			return false;
	return true;
}

/* Finds out whether the configured number of VFs is enabled and contexts are saved where planned:
 * then an earlier vgpud has set the GPU up, and its partitions are kept, because they may have been
 * resized. */
static int is_ours(struct vgpu_driver *d, const struct vgpu_partition *planned, uint64_t total,
		   bool *enabled, bool *ours)
{
	uint32_t context;
	uint16_t ctrl, n;
	int r = read16(d, d->sriov + SRIOV_CTRL, &ctrl);

	if (r == 0)
		r = read16(d, d->sriov + SRIOV_NUM_VFS, &n);
	if (r == 0)
		r = gpuiov_read(d, GPUIOV_CONTEXT, &context);
	d->partition = *planned;
	if (r == 0)
		r = gpuiov_read_table(d, &d->partition);
	if (r < 0)
		return r;
	*enabled = ctrl & SRIOV_CTRL_VF_ENABLE;
	*ours = *enabled && n == d->config.n_vfs &&
		(context & ~0x3ffu) == context_offset(planned) && is_sound(d, &d->partition, total);
	return 0;
}

/* Waits until a command of an earlier vgpud has ended. *STUCK: it has not. */
static int settle(struct vgpu_driver *d, bool *stuck)
{
	struct timespec pause = {0, 1000000};
	uint32_t cmd, status;
	int i, r;

	for (i = 0; i < SETTLE_MS; i++) {
		r = gpuiov_read(d, GPUIOV_CMD, &cmd);
		if (r == 0)
			r = gpuiov_read(d, GPUIOV_CMD_STATUS, &status);
		if (r < 0)
			return r;
		*stuck = cmd & GPUIOV_CMD_EXECUTE || status >= GPUIOV_STATUS_GFX_HANG;
		if (!*stuck)
			return 0;
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* Sets *CUT to whether an earlier vgpud ended between telling the guest that its VF is being reset
 * and telling it that the reset is over: the guest still waits. */
static int reset_was_cut(struct vgpu_driver *d, uint32_t vf, bool *cut)
{
	uint32_t word = 0;
	int r = gpuiov_write(d, GPUIOV_MBOX_INDEX, vf);

	if (r == 0)
		r = gpuiov_read(d, GPUIOV_MBOX_TRN, &word);
	*cut = word == GPUIOV_FLR;
	return r;
}

static int adopt(struct vgpu_driver *d, struct vgpu_driver_found *found)
{
	static const enum vgpu_context contexts[16] = {
		[GPUIOV_ACTIVE_IDLE] = VGPU_CTX_IDLED,
		[GPUIOV_ACTIVE_RUNNING] = VGPU_CTX_RUNNING,
		[GPUIOV_ACTIVE_IDLING] = VGPU_CTX_BROKEN,
		[GPUIOV_ACTIVE_SAVING] = VGPU_CTX_BROKEN,
		[GPUIOV_ACTIVE_LOADED] = VGPU_CTX_LOADED,
		[GPUIOV_ACTIVE_STALLED] = VGPU_CTX_BROKEN,
	};
	uint32_t with_context, active, i;
	bool stuck, cut;
	int r = settle(d, &stuck);

	if (r == 0)
		r = gpuiov_read(d, GPUIOV_VM_INIT, &with_context);
	if (r == 0)
		r = gpuiov_read(d, GPUIOV_ACTIVE_FCN, &active);
	for (i = 0; i < 3 && r == 0; i++)
		r = gpuiov_read(d, (enum gpuiov_register)(GPUIOV_GATE_REGISTERS + i), &d->gates[i]);
	if (r == 0)
		r = hear(d);
	if (r < 0)
		return r;
	for (i = 0; i < d->config.n_vfs; i++) {
		if (with_context >> i & 1)
			found->contexts[i] = VGPU_CTX_SAVED;
		/* The doorbell gate is open while a driver is up, the register gate only in a
		 * window. */
		found->driver_up[i] = (d->gates[1] >> i & 1) && !(d->gates[0] >> i & 1);
	}
	if (GPUIOV_FCN_IS_VF(active) && GPUIOV_FCN_VF_OF(active) < d->config.n_vfs) {
		enum vgpu_context *context = &found->contexts[GPUIOV_FCN_VF_OF(active)];

		*context = stuck ? VGPU_CTX_BROKEN : contexts[active >> 8 & 15];
		/* This VF has the engine, and must be reset before another VF gets it. */
		if (*context == VGPU_CTX_BROKEN) {
			*context = VGPU_CTX_RUNNING;
			found->driver_up[GPUIOV_FCN_VF_OF(active)] = false;
		}
	}
	for (i = 0; i < d->config.n_vfs && r == 0; i++) {
		r = reset_was_cut(d, i, &cut);
		if (!cut)
			continue;
		/* Reset it again, even if the device has finished the reset. */
		found->driver_up[i] = false;
		if (found->contexts[i] == VGPU_CTX_NONE)
			found->contexts[i] = VGPU_CTX_BROKEN;
	}
	for (i = 0; i < d->config.n_vfs && !d->host.kept; i++) {
		/* Memory that was swapped out is lost: the guest must initialise again. */
		if (d->partition.vfs[i].offset < d->memory || found->contexts[i] == VGPU_CTX_NONE)
			continue;
		found->contexts[i] = VGPU_CTX_BROKEN;
		found->driver_up[i] = false;
	}
	found->adopted = r == 0;
	return r;
}

/* The same of a GPU that schedules itself: it knows its guests, and goes on as it is. */
static int adopt_turns(struct vgpu_driver *d, struct vgpu_driver_found *found)
{
	uint32_t i;
	int r = hear(d);

	if (r == 0)
		r = gpuiov_read_own(d, SOFTGPU_TURN_UP, &d->up);
	for (i = 0; i < d->config.n_vfs; i++)
		found->driver_up[i] = d->up >> i & 1;
	found->adopted = r == 0;
	return r;
}

static bool somebody_is_out(struct vgpu_driver *d)
{
	struct vgpu_partition is;
	uint32_t i;

	if (gpuiov_read_table(d, &is) < 0)
		return true;
	for (i = 0; i < d->config.n_vfs; i++)
		if (is.vfs[i].size && is.vfs[i].offset >= d->memory)
			return true;
	return false;
}

static int open_host_memory(struct vgpu_driver *d, struct vgpu_driver_found *found,
			    struct vgpu_error *err)
{
	struct vfio_host_memory_config config = {.size = d->config.host,
						 .huge_pages = d->config.huge_pages,
						 .node = d->config.host_node};
	int r;

	if (config.size == 0)
		return 0;
	r = vfio_host_memory_open(&d->host, d->device, d->config.device, &config, err);
	if (r == -EBUSY && !somebody_is_out(d)) {
		vfio_host_memory_forget(d->config.device);
		r = vfio_host_memory_open(&d->host, d->device, d->config.device, &config, err);
	}
	if (r < 0)
		return r;
	found->host_is_new = !d->host.kept;
	r = gpuiov_set_aperture(d);
	if (r == -EOPNOTSUPP)
		return vgpu_error_set(err, r,
				      "host_memory_mib: this GPU does not reach host memory: leave "
				      "the key out (softgpu reaches it with --engine cpu)");
	return r < 0 ? vgpu_error_set(err, -ENODEV, "cannot write registers") : 0;
}

static int set_up(struct vgpu_driver *d, uint64_t total, struct vgpu_driver_found *found,
		  struct vgpu_error *err)
{
	bool enabled, ours;
	uint32_t in_use = 0;
	int r = is_ours(d, &found->planned, total, &enabled, &ours);

	if (r == 0 && enabled)
		r = gpuiov_read(d, GPUIOV_VM_INIT, &in_use);
	if (r == 0 && ours)
		r = d->schedules ? adopt_turns(d, found) : adopt(d, found);
	if (r < 0)
		return vgpu_error_set(err, r, "cannot read registers: %s", strerror(-r));
	if (!ours && in_use)
		return vgpu_error_set(
			err, -EBUSY,
			"the GPU's VFs or memory differ from the configuration, and VF %d is in "
			"use; end its tenants, or change the configuration back",
			__builtin_ctz(in_use));
	if (ours) /* keep the VFs, but bind each to its driver */
		return vfio_set_vfs(d->device, d->config.n_vfs, err);
	d->partition = found->planned;
	r = vfio_set_vfs(d->device, 0, err);
	if (r != 0)
		return r;
	return gpuiov_bring_up(d, vfio_set_vfs, err);
}

static int set_up_events(struct vgpu_driver *d, struct vgpu_error *err)
{
	/* An edge is a new interrupt, so the counters need not be read. */
	struct epoll_event want = {.events = EPOLLIN | EPOLLET};
	int r = 0;
	uint32_t i;

	d->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (d->epoll < 0)
		r = -errno;
	for (i = 0; i < GPUIOV_PF_VECTORS && r == 0; i++) {
		d->vectors[i] = vgpu_eventfd();
		want.data.u32 = i;
		if (d->vectors[i] < 0 ||
		    epoll_ctl(d->epoll, EPOLL_CTL_ADD, d->vectors[i], &want) < 0)
			r = -errno;
	}
	want = (struct epoll_event){.events = EPOLLIN, .data.u32 = GPUIOV_DEVICE};
	if (r == 0 && vfio_fd(d->device) >= 0 &&
	    epoll_ctl(d->epoll, EPOLL_CTL_ADD, vfio_fd(d->device), &want) < 0)
		r = -errno;
	if (r == 0 && d->config.interrupts)
		r = vfio_irqs(d->device, d->vectors, GPUIOV_PF_VECTORS);
	if (r == -ENOTSUP) { /* a transport without interrupts: poll */
		d->config.interrupts = false;
		r = 0;
	}
	return r ? vgpu_error_set(err, r, "cannot set up interrupts: %s", strerror(-r)) : 0;
}

static void driver_close(struct vgpu_driver *d, bool lost)
{
	unsigned i;

	if (d->device && lost) {
		vfio_device_forget(d->device);
		vfio_host_memory_forget(d->config.device);
	}
	vfio_device_close(d->device);
	vfio_host_memory_close(&d->host);
	for (i = 0; i < GPUIOV_PF_VECTORS; i++)
		vgpu_close(&d->vectors[i]);
	vgpu_close(&d->epoll);
	free(d);
}

static struct vgpu_driver *new_driver(const struct vgpu_driver_config *config,
				      vgpu_event_sink *sink, void *data)
{
	struct vgpu_driver *d = calloc(1, sizeof(*d));

	if (d)
		*d = (struct vgpu_driver){
			.config = *config,
			.sink = sink,
			.data = data,
			.epoll = -1,
			.vectors = {-1, -1},
			.command = {.poll_at = VGPU_NEVER},
			.planned = VGPU_NEVER,
		};
	return d;
}

/* Opens the device, and reads what the GPU can do. */
static int look(struct vgpu_driver *d, struct vgpu_driver_caps *caps, struct vgpu_error *err)
{
	int r = vfio_device_open(&d->device, d->config.device, err);

	if (r == 0)
		r = find_capabilities(d, d->config.layout, err);
	return r == 0 ? read_caps(d, caps, err) : r;
}

/* A vfio-user device can be read while no process has it. Others are taken from their drivers when
 * they are opened. */
static int driver_check(const struct vgpu_driver_config *config, struct vgpu_driver_caps *caps,
			struct vgpu_error *err)
{
	struct vgpu_partition planned;
	struct vgpu_driver *d;
	int r;

	if (caps->max_vfs)
		return plan(config, caps, &planned, err);
	if (strncmp(config->device, "vfio-user:", 10) != 0) {
		vgpu_error_set(err, 1,
			       "its registers cannot be checked while its host driver has it; "
			       "vgpud checks them when it starts (systemctl restart vgpud)");
		return 1;
	}
	d = new_driver(config, NULL, NULL);
	if (!d)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	r = look(d, caps, err);
	driver_close(d, false);
	return r == -EBUSY || r == -EACCES ? 1 : r < 0 ? r : plan(config, caps, &planned, err);
}

static int driver_open(struct vgpu_driver **out, const struct vgpu_driver_config *config,
		       struct vgpu_driver_caps *caps, struct vgpu_driver_found *found,
		       vgpu_event_sink *sink, void *data, struct vgpu_error *err)
{
	struct vgpu_driver *d = new_driver(config, sink, data);
	int r;

	if (!d)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	*found = (struct vgpu_driver_found){.adopted = false};
	r = look(d, caps, err);
	if (r == 0)
		r = plan(&d->config, caps, &found->planned, err);
	if (r == 0)
		r = open_host_memory(d, found, err);
	if (r == 0)
		r = set_up(d, caps->memory, found, err);
	if (r == 0 && d->schedules && gpuiov_read_plan(d) < 0)
		r = vgpu_error_set(err, -ENODEV, "cannot read registers");
	if (r == 0)
		r = set_up_events(d, err);
	if (r < 0) {
		driver_close(d, false);
		return r;
	}
	found->partition = d->partition;
	*out = d;
	return 0;
}

/* A vfio-user device is recognised when it is opened, because that unbinds no driver. */
static int driver_probe(const char *device, struct vgpu_error *err)
{
	struct gpuiov_identity identity;
	int r;

	if (strncmp(device, "vfio-user:", 10) == 0)
		return 1;
	if (strncmp(device, "sysfs:", 6) != 0 && strncmp(device, "vfio:", 5) != 0)
		return 0;
	r = vfio_recognise_pf(strchr(device, ':') + 1, &identity, err);
	return r < 0 ? r : 1;
}

static const struct vgpu_device_face device_face = {
	.most_vfs = GPUIOV_MOST_VFS,
	.why_no_more = WHY_NO_MORE,
	.probe = driver_probe,
	.check = driver_check,
	.open = driver_open,
	.close = driver_close,
	.fd = gpuiov_fd,
	.deadline = gpuiov_deadline,
	.expect = gpuiov_expect,
	.dispatch = gpuiov_dispatch,
	.spent = gpuiov_spent,
	.reset = gpuiov_reset,
	.expel = gpuiov_expel,
};

static const struct vgpu_switched_face switched_face = {
	.commands = gpuiov_commands,
	.gates = gpuiov_gates,
	.notice = gpuiov_notice,
};

static const struct vgpu_programmed_face programmed_face = {
	.program = gpuiov_program,
	.programmed = gpuiov_programmed,
	.usage = gpuiov_usage,
	.stop = gpuiov_stop,
};

static const struct vgpu_memory_face memory_face = {
	.place = gpuiov_place_vf,
	.clear = gpuiov_clear,
	.copy = gpuiov_copy,
	.busy = gpuiov_memory_busy,
	.read = gpuiov_memory_read,
};

static const struct vgpu_device_form forms[] = {
	{"sysfs:", "ADDRESS", NULL, PCI_DEVICES "/"},
	{"vfio:", "ADDRESS", NULL, PCI_DEVICES "/"},
	{"vfio-user:", "PATH", "softgpu", ""},
	{.prefix = NULL},
};

const struct vgpu_driver_ops vgpu_gpuiov_driver = {
	.size = sizeof(struct vgpu_driver_ops),
	.name = "gpuiov",
	.forms = forms,
	.device = &device_face,
	.switched = &switched_face,
	.programmed = &programmed_face,
	.memory = &memory_face,
};
