/* SPDX-License-Identifier: MIT */
/*
 * The command state machine: IDLE, SAVE, LOAD, INIT, RUN and SHUTDOWN, one at a time, each legal
 * only in the states in which hardware accepts it, each ending after its latency; and the resets.
 * The sequencer, a thread with a higher priority than all others, ends what takes time.
 */
#include <string.h>

#include "gpu.h"
#include "link.h"
#include "workers.h"
#include "vgpu/clock.h"

#define CONTEXT_MAGIC UINT64_C(0x5854435550475353)
/* Bytes of the save area for each VF, as the size field of CONTEXT tells. */
#define SAVE_SLOT GPUIOV_CONTEXT_UNIT
_Static_assert(sizeof(struct saved) <= SAVE_SLOT, "a context fits its slot");

/* The shortest time between two interrupts for changes of VM_BUSY. */
#define BUSY_MODERATION (50 * VGPU_USEC)

/* For each value of a command's type field: */
static const struct command_type {
	enum softgpu_timed timed;
	uint32_t status; /* while the command is in progress */
	uint32_t active; /* ACTIVE_FCN meanwhile */
	bool known;
} types[16] = {
	[GPUIOV_CMD_IDLE] = {SOFTGPU_T_IDLE, GPUIOV_STATUS_IDLING, GPUIOV_ACTIVE_IDLING, true},
	[GPUIOV_CMD_SAVE] = {SOFTGPU_T_SAVE, GPUIOV_STATUS_SAVING, GPUIOV_ACTIVE_SAVING, true},
	[GPUIOV_CMD_LOAD] = {SOFTGPU_T_LOAD, GPUIOV_STATUS_LOADING, GPUIOV_ACTIVE_LOADED, true},
	[GPUIOV_CMD_RUN] = {SOFTGPU_T_RUN, GPUIOV_STATUS_ENABLING, GPUIOV_ACTIVE_LOADED, true},
	[GPUIOV_CMD_INIT] = {SOFTGPU_T_INIT, GPUIOV_STATUS_INITING, GPUIOV_ACTIVE_LOADED, true},
	[GPUIOV_CMD_SHUTDOWN] = {SOFTGPU_T_SHUTDOWN, GPUIOV_STATUS_SAVING, GPUIOV_ACTIVE_IDLE,
				 true},
};

static uint64_t checksum(const struct saved *c)
{
	const uint8_t *p = (const uint8_t *)c;
	uint64_t h = UINT64_C(14695981039346656037); /* FNV-1a */
	size_t i;

	for (i = 0; i < offsetof(struct saved, checksum); i++)
		h = (h ^ p[i]) * UINT64_C(1099511628211);
	return h;
}

/* Returns where the context of a VF is saved. */
static uint64_t save_slot(const struct softgpu *gpu, int vf)
{
	return GPUIOV_CONTEXT_OFFSET(gpu->context_reg) + (uint64_t)vf * SAVE_SLOT;
}

/* Saves a VF's context, and returns the status of the command. The VF's process has put the image
 * into the page when it stopped, so nothing here waits for it. */
static uint32_t save(struct softgpu *gpu, int index)
{
	struct vf *vf = &gpu->vfs[index];
	struct saved s = {.magic = CONTEXT_MAGIC, .vf = (uint64_t)index, .serial = ++gpu->serial};

	memcpy(s.image, link_page(vf->link)->image, sizeof(s.image));
	s.checksum = checksum(&s);
	memory_access(gpu, save_slot(gpu, index), &s, sizeof(s), true);
	/* From now on the context exists only in the save area. */
	memset(link_page(vf->link)->image, 0, sizeof(s.image));
	link_context(vf->link, VF_CONTEXT_SAVED);
	vf->state = CONTEXT_SAVED;
	gpu->active = -1;
	gpu->active_status = GPUIOV_ACTIVE_IDLE;
	return GPUIOV_STATUS_DONE;
}

static uint32_t load(struct softgpu *gpu, int index)
{
	struct vf *vf = &gpu->vfs[index];
	struct saved s;

	memory_access(gpu, save_slot(gpu, index), &s, sizeof(s), false);
	if (s.magic != CONTEXT_MAGIC || s.vf != (uint64_t)index || s.checksum != checksum(&s))
		return GPUIOV_STATUS_ABORTED;
	memcpy(link_page(vf->link)->image, s.image, sizeof(s.image));
	link_context(vf->link, VF_CONTEXT_LOADED);
	vf->state = CONTEXT_LOADED;
	gpu->active = index;
	gpu->active_status = GPUIOV_ACTIVE_LOADED;
	return GPUIOV_STATUS_DONE;
}

static uint32_t init(struct softgpu *gpu, int index)
{
	struct vf *vf = &gpu->vfs[index];

	if (gpu->workers)
		workers_restart(gpu, index);
	memset(link_page(vf->link)->image, 0, VF_IMAGE_SIZE);
	link_context(vf->link, VF_CONTEXT_INIT);
	vf->state = CONTEXT_LOADED;
	gpu->active = index;
	gpu->active_status = GPUIOV_ACTIVE_LOADED;
	return GPUIOV_STATUS_DONE;
}

/* Returns whether the GPU accepts a command in its present state. */
static bool is_legal(const struct softgpu *gpu, uint32_t code, int index)
{
	const struct vf *vf = &gpu->vfs[index];
	bool active = gpu->active == index;

	if (vf->reset_at != VGPU_NEVER || vf->reset_waits)
		return false;
	switch (code) {
	case GPUIOV_CMD_IDLE:
		return active && gpu->active_status == GPUIOV_ACTIVE_RUNNING;
	case GPUIOV_CMD_SAVE:
		return active && gpu->active_status == GPUIOV_ACTIVE_IDLE;
	case GPUIOV_CMD_LOAD:
		return gpu->active < 0 && vf->state == CONTEXT_SAVED && memory_is_here(gpu, vf);
	case GPUIOV_CMD_INIT:
		return gpu->active < 0 && vf->state == CONTEXT_NONE && memory_is_here(gpu, vf);
	case GPUIOV_CMD_RUN:
		return active && gpu->active_status == GPUIOV_ACTIVE_LOADED;
	default: /* SHUTDOWN */
		return !active && vf->state == CONTEXT_SAVED;
	}
}

static void issue(struct softgpu *gpu, uint32_t dword);

/* A command of the chain has ended: begins the next one, if there is one and this one has not
 * failed. */
static void chain_on(struct softgpu *gpu, uint32_t status)
{
	struct chain *c = &gpu->chain;
	vgpu_nsec now = vgpu_now(), took = now - c->began;

	c->took[c->at] = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
	c->failed = status;
	c->at += status == GPUIOV_STATUS_DONE;
	if (c->cut && c->at < c->n)
		c->failed = GPUIOV_STATUS_ABORTED;
	if (c->failed == GPUIOV_STATUS_DONE && c->at < c->n) {
		c->began = now;
		issue(gpu, c->dwords[c->at]);
		return;
	}
	c->active = false;
	if (c->interrupt)
		raise_pf(gpu, GPUIOV_VECTOR_ENGINE, GPUIOV_INTR_CMD_COMPLETE);
}

static void finish(struct softgpu *gpu, uint32_t status)
{
	gpu->command.in_flight = false;
	gpu->status = status;
	firmware_wake(gpu);
	if (gpu->chain.active)
		chain_on(gpu, status);
	else if (gpu->command.interrupt)
		raise_pf(gpu, GPUIOV_VECTOR_ENGINE, GPUIOV_INTR_CMD_COMPLETE);
}

/* The command's latency is over: it takes effect. */
static void complete(struct softgpu *gpu)
{
	int vf = gpu->command.vf;
	uint32_t status = GPUIOV_STATUS_DONE;

	switch (gpu->command.code) {
	case GPUIOV_CMD_IDLE:
		gpu->active_status = GPUIOV_ACTIVE_IDLE;
		break;
	case GPUIOV_CMD_SAVE:
		status = save(gpu, vf);
		break;
	case GPUIOV_CMD_LOAD:
		status = load(gpu, vf);
		break;
	case GPUIOV_CMD_INIT:
		status = init(gpu, vf);
		break;
	case GPUIOV_CMD_RUN:
		gpu->active_status = GPUIOV_ACTIVE_RUNNING;
		engine_run(gpu, vf);
		break;
	case GPUIOV_CMD_SHUTDOWN:
		gpu->vfs[vf].state = CONTEXT_NONE;
		link_end_context(gpu->vfs[vf].link);
		command_busy(gpu, vf, false);
		break;
	}
	finish(gpu, status);
}

static void report_hang(struct softgpu *gpu)
{
	gpu->command.hung = true;
	gpu->command.done_at = VGPU_NEVER;
	gpu->hang_info = GPUIOV_FCN_VF((uint32_t)gpu->command.vf) | gpu->command.code << 8;
	gpu->active_status = GPUIOV_ACTIVE_STALLED;
	if (gpu->layout->status_hang) {
		gpu->status = gpu->layout->status_hang;
		gpu->command.in_flight = false;
	}
	raise_pf(gpu, GPUIOV_VECTOR_ENGINE, GPUIOV_INTR_NEED_FLR);
}

static void issue(struct softgpu *gpu, uint32_t dword)
{
	uint32_t code = dword & GPUIOV_CMD_TYPE, fcn = dword >> 8 & 0xff;
	int vf = (int)GPUIOV_FCN_VF_OF(fcn);
	const struct command_type *type = &types[code];
	const struct softgpu_fault *fault;
	vgpu_nsec latency;

	gpu->command = (struct command){
		.in_flight = true,
		.interrupt = dword & GPUIOV_CMD_EXECUTE_INTR,
		.code = code,
		.vf = vf,
	};
	/* EXECUTE reads as 0 from now on: the command is accepted. */
	gpu->cmd_dword = dword & ~GPUIOV_CMD_EXECUTE;
	if (!type->known) {
		finish(gpu, GPUIOV_STATUS_UNSUPPORTED);
		return;
	}
	if (!GPUIOV_FCN_IS_VF(fcn) || (uint32_t)vf >= gpu->enabled || !is_legal(gpu, code, vf)) {
		finish(gpu, GPUIOV_STATUS_ABORTED);
		return;
	}
	gpu->status = type->status;
	if (gpu->active == vf || code == GPUIOV_CMD_LOAD || code == GPUIOV_CMD_INIT)
		gpu->active_status = type->active;
	if (fault_happens(gpu, SOFTGPU_FAULT_HANG, vf, (int)type->timed)) {
		report_hang(gpu);
		return;
	}
	latency = latency_draw(gpu, type->timed);
	if (code == GPUIOV_CMD_IDLE) {
		fault = fault_happens(gpu, SOFTGPU_FAULT_LATE_IDLE, vf, -1);
		if (fault)
			latency += fault->min + softgpu_random(gpu) % (fault->max - fault->min + 1);
		gpu->command.done_at = vgpu_now() + latency;
		if (dword & SOFTGPU_CMD_UNLESS_BUSY && gpu->running == vf &&
		    link_has_work(gpu->vfs[vf].link)) {
			gpu->active_status = GPUIOV_ACTIVE_RUNNING;
			finish(gpu, SOFTGPU_STATUS_BUSY);
			return;
		}
		if (!engine_stop(gpu, false))
			return; /* command_engine_stopped() follows at the end of the tile */
		if (latency > 0)
			pthread_cond_signal(&gpu->sequencer_cond);
		else
			complete(gpu);
		return;
	}
	if (latency == 0) {
		complete(gpu);
		return;
	}
	gpu->command.done_at = vgpu_now() + latency;
	pthread_cond_signal(&gpu->sequencer_cond);
}

void command_issue(struct softgpu *gpu, uint32_t code, int vf)
{
	issue(gpu, code | GPUIOV_FCN_VF((uint32_t)vf) << 8);
}

void command_write(struct softgpu *gpu, uint32_t dword)
{
	if (!(dword & GPUIOV_CMD_EXECUTE))
		return;
	gpu->taken++;
	if (gpu->firmware.scheduler)
		firmware_command(gpu, dword);
	else if (gpu->command.in_flight)
		gpu->dropped++;
	else
		issue(gpu, dword);
}

void command_chain(struct softgpu *gpu, uint32_t go)
{
	struct chain *c = &gpu->chain;
	uint32_t n = go & 0xf;

	if (gpu->firmware.scheduler || n == 0 || n > SOFTGPU_CHAIN_LENGTH)
		return;
	gpu->taken++;
	if (gpu->command.in_flight) {
		gpu->dropped++;
		return;
	}
	c->active = true;
	c->interrupt = go & GPUIOV_CMD_EXECUTE_INTR;
	c->n = n;
	c->at = 0;
	c->failed = 0;
	c->cut = false;
	memset(c->took, 0, sizeof(c->took));
	c->began = vgpu_now();
	issue(gpu, c->dwords[0]);
}

uint32_t command_chain_status(const struct softgpu *gpu)
{
	const struct chain *c = &gpu->chain;
	uint32_t code = c->active ? gpu->status : c->failed;

	return c->at | code << 8 | (c->active ? SOFTGPU_CHAIN_ACTIVE : 0);
}

static void reset_done(struct softgpu *gpu, int index);

static void begin_reset(struct softgpu *gpu, int index)
{
	struct vf *vf = &gpu->vfs[index];

	vf->reset_waits = false;
	vf->reset_at = vgpu_now() + latency_draw(gpu, SOFTGPU_T_FLR);
	if (vf->reset_at <= vgpu_now())
		reset_done(gpu, index);
	else
		pthread_cond_signal(&gpu->sequencer_cond);
}

/* The engine has stopped: begins resets that waited for this, and completes IDLE. */
void command_engine_stopped(struct softgpu *gpu)
{
	struct command *c = &gpu->command;
	uint32_t i;

	for (i = 0; i < gpu->enabled; i++)
		if (gpu->vfs[i].reset_waits)
			begin_reset(gpu, (int)i);
	firmware_wake(gpu);
	if (!c->in_flight || c->hung || c->code != GPUIOV_CMD_IDLE)
		return;
	if (c->done_at <= vgpu_now())
		complete(gpu);
	else
		pthread_cond_signal(&gpu->sequencer_cond);
}

/* The engine is nobody's, and the command in progress for VF INDEX has failed, if it was its own.
 */
static void leave_engine(struct softgpu *gpu, int index)
{
	if (gpu->command.vf == index && (gpu->command.in_flight || gpu->command.hung)) {
		gpu->command.hung = false;
		finish(gpu, GPUIOV_STATUS_ABORTED);
	}
	if (gpu->active == index) {
		gpu->active = -1;
		gpu->active_status = GPUIOV_ACTIVE_IDLE;
	}
}

void command_take_away(struct softgpu *gpu, int vf)
{
	if (gpu->running == vf)
		engine_stop_now(gpu);
	leave_engine(gpu, vf);
}

/* Resets all state of a VF except its memory. */
static void forget(struct softgpu *gpu, int index)
{
	struct vf *vf = &gpu->vfs[index];

	vf->state = CONTEXT_NONE;
	vf->to_pf = (struct channel){.valid = false};
	vf->reset_at = VGPU_NEVER;
	vf->reset_waits = false;
	link_forget(vf->link);
	command_busy(gpu, index, false);
	if (vf->renew)
		memory_renew(gpu, index);
	else if (gpu->workers)
		workers_restart(gpu, index);
	leave_engine(gpu, index);
	firmware_forgot(gpu, index);
	link_wake(vf->link);
}

static void reset_done(struct softgpu *gpu, int index)
{
	struct vf *vf = &gpu->vfs[index];

	vf->reset_at = VGPU_NEVER;
	if (fault_happens(gpu, SOFTGPU_FAULT_REFUSE_RESET, index, -1)) {
		firmware_reset_failed(gpu, index);
		raise_pf(gpu, GPUIOV_VECTOR_MAILBOX, 0);
		return;
	}
	forget(gpu, index);
	gpu->reset_notification |= 1u << index;
	raise_pf(gpu, GPUIOV_VECTOR_MAILBOX, 0);
}

/* Resets a VF, requested by the PF or by the VF's client. */
void command_vf_reset(struct softgpu *gpu, int index)
{
	struct vf *vf = &gpu->vfs[index];

	if ((uint32_t)index >= gpu->enabled || vf->reset_at != VGPU_NEVER || vf->reset_waits)
		return;
	if (gpu->running == index && !engine_stop(gpu, true)) {
		vf->reset_waits = true;
		return;
	}
	begin_reset(gpu, index);
}

/* The PF resets a VF: it does not expect what follows the command in progress for that VF. */
void command_reset_by_pf(struct softgpu *gpu, int index)
{
	if (gpu->chain.active && gpu->command.vf == index)
		gpu->chain.cut = true;
	if (gpu->running == index)
		link_log_stuck(gpu->vfs[index].link);
	command_vf_reset(gpu, index);
	if ((uint32_t)index < gpu->enabled)
		link_check(gpu->vfs[index].link);
}

/* Resets the whole GPU: VFs are disabled and memory is cleared. */
void command_gpu_reset(struct softgpu *gpu)
{
	gpu->gpu_reset_at = vgpu_now() + latency_draw(gpu, SOFTGPU_T_GPU_RESET);
	pthread_cond_signal(&gpu->sequencer_cond);
}

static void gpu_was_reset(struct softgpu *gpu)
{
	uint32_t i;

	gpu->gpu_reset_at = VGPU_NEVER;
	if (fault_happens(gpu, SOFTGPU_FAULT_BRICK, -1, -1))
		gpu->dead = true;
	for (i = 0; i < gpu->config.n_vfs; i++) {
		forget(gpu, (int)i);
		memory_set_partition(gpu, (int)i, 0, 0);
		gpu->fb_entries[i] = 0;
		gpu->vfs[i].to_vf = (struct channel){.valid = false};
		link_message(gpu->vfs[i].link);
	}
	gpu->host_base = 0;
	gpu->host_size = 0;
	gpu->fill_offset = 0;
	gpu->fill_size = gpu->config.vram;
	gpu->fill_status = SOFTGPU_FILL_BUSY;
	gpu->fill_copies = false;
	pthread_cond_signal(&gpu->filler_cond);
	memset(gpu->gates, 0, sizeof(gpu->gates));
	link_gates(gpu);
	gpu->intr_enable = 0;
	gpu->intr_status = 0;
	gpu->hvvm_waits = 0;
	gpu->mbox_int = 0;
	gpu->context_reg = 0;
	gpu->status = 0;
	gpu->active = -1;
	gpu->active_status = GPUIOV_ACTIVE_IDLE;
	gpu->command.in_flight = false;
	gpu->chain.active = false;
	firmware_init(gpu);
	pci_build_pf(gpu);
	if (gpu->enabled) {
		gpu->enabled = 0;
		gpu->vfs_changed = true;
	}
}

void command_vfs_enabled(struct softgpu *gpu, uint32_t n)
{
	uint32_t i;

	if (n == gpu->enabled)
		return;
	for (i = n; i < gpu->enabled; i++) {
		if (gpu->running == (int)i)
			engine_stop_now(gpu);
		forget(gpu, (int)i);
	}
	gpu->enabled = n;
	gpu->vfs_changed = true;
	pthread_cond_signal(&gpu->sequencer_cond);
}

/* A VF has work, or has none any more. The PF gets an interrupt, but not for every change. */
void command_busy(struct softgpu *gpu, int index, bool busy)
{
	vgpu_nsec now;

	if (gpu->vfs[index].busy == busy)
		return;
	gpu->vfs[index].busy = busy;
	firmware_wake(gpu);
	if (gpu->busy_irq_at != VGPU_NEVER)
		return;
	now = vgpu_now();
	if (now - gpu->busy_irq_last >= BUSY_MODERATION) {
		gpu->busy_irq_last = now;
		raise_pf(gpu, GPUIOV_VECTOR_ENGINE, GPUIOV_INTR_BUSY);
	} else {
		gpu->busy_irq_at = gpu->busy_irq_last + BUSY_MODERATION;
		pthread_cond_signal(&gpu->sequencer_cond);
	}
}

/* Returns when do_due() must be called next; VGPU_NEVER: nothing is due. */
static vgpu_nsec next_instant(const struct softgpu *gpu, vgpu_nsec now)
{
	vgpu_nsec t = gpu->busy_irq_at < gpu->gpu_reset_at ? gpu->busy_irq_at : gpu->gpu_reset_at,
		  due;
	uint32_t i;

	if (gpu->command.in_flight && !gpu->command.hung &&
	    (gpu->command.code != GPUIOV_CMD_IDLE || gpu->running < 0) && gpu->command.done_at < t)
		t = gpu->command.done_at;
	for (i = 0; i < gpu->enabled; i++) {
		if (gpu->vfs[i].reset_at < t)
			t = gpu->vfs[i].reset_at;
		if (link_deadline(gpu->vfs[i].link) < t)
			t = link_deadline(gpu->vfs[i].link);
	}
	if (gpu->enabled && gpu->ask_at < t)
		t = gpu->ask_at;
	if (gpu->enabled && gpu->spent_at < t)
		t = gpu->spent_at;
	t = gpu->die_at < t ? gpu->die_at : t;
	if (gpu->loans_until > now && now + LINKS_LEND_LOOK < t)
		t = now + LINKS_LEND_LOOK;
	due = firmware_deadline(gpu);
	return due < t ? due : t;
}

/* Does everything that is due at NOW. */
static void do_due(struct softgpu *gpu, vgpu_nsec now)
{
	uint32_t i;

	if (gpu->die_at <= now) {
		gpu->dead = true;
		gpu->die_at = VGPU_NEVER;
		link_gates(gpu);
		engine_stop(gpu, true);
	}
	if (gpu->busy_irq_at <= now) {
		gpu->busy_irq_at = VGPU_NEVER;
		gpu->busy_irq_last = now;
		raise_pf(gpu, GPUIOV_VECTOR_ENGINE, GPUIOV_INTR_BUSY);
	}
	if (gpu->gpu_reset_at <= now) {
		engine_stop_now(gpu);
		gpu_was_reset(gpu);
	}
	if (gpu->command.in_flight && !gpu->command.hung && gpu->command.done_at <= now &&
	    (gpu->command.code != GPUIOV_CMD_IDLE || gpu->running < 0))
		complete(gpu);
	if (gpu->ask_at <= now) {
		links_ask(gpu);
		gpu->ask_at = now + LINKS_ASK;
	}
	if (gpu->spent_at <= now) {
		links_look_at_spent(gpu);
		gpu->spent_at = now + SPENT_LOOK;
	}
	for (i = 0; i < gpu->enabled; i++) {
		if (link_deadline(gpu->vfs[i].link) <= now)
			link_overdue(gpu->vfs[i].link);
		if (gpu->vfs[i].reset_at <= now)
			reset_done(gpu, (int)i);
	}
	firmware_run(gpu, vgpu_now());
}

void *command_sequencer(void *arg)
{
	struct softgpu *gpu = arg;
	struct timespec until;
	vgpu_nsec next, now;

	softgpu_lock(gpu);
	while (!gpu->quit) {
		do_due(gpu, vgpu_now());
		/* Delivers interrupts before sleeping. */
		softgpu_unlock(gpu);
		softgpu_lock(gpu);
		now = vgpu_now();
		next = next_instant(gpu, now);
		if (gpu->quit || next <= now)
			continue;
		if (next == VGPU_NEVER) {
			pthread_cond_wait(&gpu->sequencer_cond, &gpu->lock);
			continue;
		}
		until = (struct timespec){(time_t)(next / VGPU_SEC), (long)(next % VGPU_SEC)};
		pthread_cond_timedwait(&gpu->sequencer_cond, &gpu->lock, &until);
	}
	softgpu_unlock(gpu);
	return NULL;
}
