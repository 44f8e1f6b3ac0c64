/* SPDX-License-Identifier: MIT */
/*
 * Each look at the state decides what comes next, and nothing is remembered of how it came about:
 * so it does not matter which message, interrupt or answer was lost, or what the PF has done
 * meanwhile.
 *
 * A window and a reset are part of the VF's own turn, and count as its time on the engine. A VF
 * gets its next window only when so much time has passed that the windows of all VFs together take
 * at most a quarter of it.
 */
#include <string.h>

#include "firmware.h"
#include "gpu.h"
#include "link.h"
#include "vgpu/clock.h"

/* A command that does not end resets its VF; so does a window. */
#define COMMAND_MOST (500 * VGPU_MSEC)
#define WINDOW_MOST (500 * VGPU_MSEC)
/* Between two windows of a VF: at least this long, and a multiple of the last one's length. */
#define WINDOW_PAUSE (10 * VGPU_MSEC)
#define WINDOWS_PART 4u
#define RESETS_IN (60 * VGPU_SEC)
#define RETRY_AFTER VGPU_SEC
#define STEPS 64u /* in one run, for each VF; bounds what a device without latencies can do */

static bool in_reset(const struct vf *vf)
{
	return vf->reset_waits || vf->reset_at != VGPU_NEVER;
}

static bool wants_window(const struct firmware_vf *f, vgpu_nsec now)
{
	return f->request && now >= f->window_at;
}

/* Returns the VFs that want a turn. */
static uint32_t wanting(const struct softgpu *gpu, vgpu_nsec now)
{
	uint32_t bits = 0, i;

	for (i = 0; i < gpu->enabled && gpu->firmware.on; i++) {
		const struct firmware_vf *f = &gpu->firmware.vfs[i];
		const struct vf *vf = &gpu->vfs[i];
		bool wants = wants_window(f, now) || (f->up && vf->busy);

		if (wants && !f->broken && !in_reset(vf) && memory_is_here(gpu, vf))
			bits |= 1u << i;
	}
	return bits;
}

static void send(struct softgpu *gpu, int index, uint32_t word, bool valid)
{
	struct vf *vf = &gpu->vfs[index];

	vf->to_vf = (struct channel){.words = {word}, .valid = false};
	link_message(vf->link);
	if (!valid)
		return;
	vf->to_vf.valid = true;
	link_message(vf->link);
}

/* Opens and closes the gates of a VF: SET_UP for registers, WORK for doorbell and memory. */
static void let(struct softgpu *gpu, int vf, bool set_up, bool work)
{
	uint32_t bit = 1u << vf, i;

	for (i = 0; i < VF_GATES; i++) {
		bool open = i == VF_GATE_REGISTERS ? set_up : work;

		gpu->gates[i] = open ? gpu->gates[i] | bit : gpu->gates[i] & ~bit;
	}
	link_gates(gpu);
}

static void set_up(struct softgpu *gpu, int vf, bool up)
{
	if (gpu->firmware.vfs[vf].up == up)
		return;
	gpu->firmware.vfs[vf].up = up;
	raise_pf(gpu, GPUIOV_VECTOR_MAILBOX, 0);
}

void firmware_reset(struct softgpu *gpu, int vf)
{
	struct firmware *fw = &gpu->firmware;

	if (fw->turns.current == vf && fw->phase != FIRMWARE_EMPTY)
		fw->phase = FIRMWARE_RESET;
	let(gpu, vf, false, false);
	set_up(gpu, vf, false);
	fw->vfs[vf].request = 0;
	fw->vfs[vf].told = true;
	send(gpu, vf, GPUIOV_FLR, true);
	command_vf_reset(gpu, vf);
}

void firmware_wake(struct softgpu *gpu)
{
	if (!gpu->firmware.scheduler)
		return;
	gpu->firmware.wake = true;
	pthread_cond_signal(&gpu->sequencer_cond);
}

void firmware_forgot(struct softgpu *gpu, int vf)
{
	struct firmware *fw = &gpu->firmware;
	struct firmware_vf *f = &fw->vfs[vf];
	/* A guest whose driver was up has to begin anew, also after a reset by the host of which it
	 * got no message. */
	bool tell = f->told || f->up;

	if (!fw->scheduler)
		return;
	if (fw->turns.current == vf && fw->phase != FIRMWARE_EMPTY)
		fw->phase = FIRMWARE_GONE;
	let(gpu, vf, false, false);
	set_up(gpu, vf, false);
	f->request = 0;
	f->broken = false;
	if (tell)
		send(gpu, vf, GPUIOV_FLR_DONE, false);
	f->told = false;
	firmware_wake(gpu);
}

/* The engine is taken from the VF anyway, so that other VFs can run. */
void firmware_reset_failed(struct softgpu *gpu, int vf)
{
	struct firmware *fw = &gpu->firmware;

	if (!fw->scheduler)
		return;
	command_take_away(gpu, vf);
	if (fw->turns.current == vf && fw->phase != FIRMWARE_EMPTY)
		fw->phase = FIRMWARE_GONE;
	fw->vfs[vf].broken = true;
	fw->vfs[vf].retry_at = vgpu_now() + RETRY_AFTER;
	firmware_wake(gpu);
}

/* Returns whether a guest may request another reset now; each costs only its own time. */
static bool may_reset(struct firmware_vf *f, vgpu_nsec now)
{
	uint32_t i;

	for (i = 0; i < FIRMWARE_RESETS; i++)
		if (f->reset_at[i] == 0 || now - f->reset_at[i] >= RESETS_IN) {
			f->reset_at[i] = now;
			return true;
		}
	return false;
}

static void take_message(struct softgpu *gpu, int index, vgpu_nsec now)
{
	struct firmware *fw = &gpu->firmware;
	struct firmware_vf *f = &fw->vfs[index];
	struct vf *vf = &gpu->vfs[index];
	uint32_t word = vf->to_pf.words[0];
	bool in_window = fw->turns.current == index && fw->phase == FIRMWARE_ON && fw->window;

	vf->to_pf.acked = true;
	link_acknowledge(vf->link);
	switch (word) {
	case GPUIOV_REQ_INIT:
	case GPUIOV_REQ_FINI:
		f->request = word;
		break;
	case GPUIOV_REL_INIT:
	case GPUIOV_REL_FINI:
		/* What is given back is what was granted. */
		fw->released |= in_window && word == fw->window + 1;
		break;
	case GPUIOV_REQ_RESET:
		if (may_reset(f, now))
			firmware_reset(gpu, index);
		else
			send(gpu, index, GPUIOV_FAIL, true);
		break;
	}
}

static void take_messages(struct softgpu *gpu, vgpu_nsec now)
{
	uint32_t i;

	for (i = 0; i < gpu->enabled; i++) {
		const struct vf *vf = &gpu->vfs[i];
		struct firmware_vf *f = &gpu->firmware.vfs[i];

		if (f->broken && now >= f->retry_at && !in_reset(vf))
			firmware_reset(gpu, (int)i);
		if (vf->to_pf.valid && !vf->to_pf.acked && !in_reset(vf) && !f->broken)
			take_message(gpu, (int)i, now);
	}
}

static void issue(struct softgpu *gpu, uint32_t code, vgpu_nsec most, vgpu_nsec now)
{
	gpu->firmware.issued = true;
	gpu->firmware.give_up = now + most;
	command_issue(gpu, code, gpu->firmware.turns.current);
}

/* Begins a turn, perhaps that of a VF that does not want it. Returns whether to look again at once.
 */
static bool begin_turn(struct softgpu *gpu, vgpu_nsec now)
{
	struct firmware *fw = &gpu->firmware;
	uint32_t wants = wanting(gpu, now);
	int vf;

	if (gpu->active >= 0 || !fw->on)
		return false;
	vf = turns_begin(&fw->turns, wants, now);
	if (vf == TURNS_NOBODY)
		return false;
	fw->phase = wants >> vf & 1 ? FIRMWARE_ENTER : FIRMWARE_EMPTY;
	fw->window = wants_window(&fw->vfs[vf], now) ? fw->vfs[vf].request : 0;
	fw->released = false;
	fw->began = fw->entered = now;
	return true;
}

static bool end(struct softgpu *gpu, vgpu_nsec now)
{
	struct firmware *fw = &gpu->firmware;
	struct firmware_vf *f = &fw->vfs[fw->turns.current];
	vgpu_nsec pause = (now - fw->began) * (WINDOWS_PART * gpu->config.n_vfs - 1);

	if (fw->window && fw->phase != FIRMWARE_EMPTY)
		f->window_at = now + (pause > WINDOW_PAUSE ? pause : WINDOW_PAUSE);
	fw->window = 0;
	fw->issued = false; /* a reset may have come before the answer */
	fw->phase = FIRMWARE_AWAY;
	fw->turns.current = TURNS_NOBODY;
	return true;
}

static bool pass(struct softgpu *gpu, vgpu_nsec now)
{
	struct firmware *fw = &gpu->firmware;
	const struct firmware_vf *f = &fw->vfs[fw->turns.current];
	uint32_t wants = wanting(gpu, now);

	if (now >= fw->turns.ends || !wants)
		return end(gpu, now);
	if (!(wants >> fw->turns.current & 1))
		return false;
	fw->window = wants_window(f, now) ? f->request : 0;
	fw->entered = now;
	fw->phase = FIRMWARE_ENTER;
	return true;
}

static bool enter(struct softgpu *gpu, vgpu_nsec now)
{
	struct firmware *fw = &gpu->firmware;
	int index = fw->turns.current;
	struct firmware_vf *f = &fw->vfs[index];
	struct vf *vf = &gpu->vfs[index];

	if (gpu->active == index && gpu->active_status == GPUIOV_ACTIVE_RUNNING) {
		fw->phase = FIRMWARE_ON;
		/* The world switch counts for no VF. */
		fw->turns.ends += now - fw->entered;
		if (!fw->window)
			return true;
		f->windows++;
		fw->give_up = now + WINDOW_MOST;
		let(gpu, index, true, true);
		send(gpu, index, GPUIOV_READY, true);
	} else if (gpu->active == index) {
		issue(gpu, GPUIOV_CMD_RUN, COMMAND_MOST, now);
	} else if (vf->state == CONTEXT_SAVED && fw->window == GPUIOV_REQ_INIT) {
		issue(gpu, GPUIOV_CMD_SHUTDOWN, COMMAND_MOST, now);
	} else {
		issue(gpu, vf->state == CONTEXT_SAVED ? GPUIOV_CMD_LOAD : GPUIOV_CMD_INIT,
		      COMMAND_MOST, now);
	}
	return true;
}

static bool stop(struct softgpu *gpu, vgpu_nsec now)
{
	struct firmware *fw = &gpu->firmware;

	fw->phase = FIRMWARE_STOP;
	issue(gpu, GPUIOV_CMD_IDLE, fw->turns.plan.vfs[fw->turns.current].timeout, now);
	return true;
}

static bool go_on(struct softgpu *gpu, vgpu_nsec now)
{
	struct firmware *fw = &gpu->firmware;
	int vf = fw->turns.current;
	uint32_t wants = wanting(gpu, now);

	if (fw->window && fw->released)
		return stop(gpu, now);
	if (fw->window && now >= fw->give_up) {
		fw->vfs[vf].windows_late++;
		firmware_reset(gpu, vf);
		return true;
	}
	if (fw->window)
		return false;
	if (!fw->on || wants_window(&fw->vfs[vf], now))
		return stop(gpu, now);
	if (!turns_is_over(&fw->turns, wants, now))
		return false;
	if (turns_others(&fw->turns, wants))
		return stop(gpu, now);
	/* Nobody else wants the engine: no world switch. */
	if (wants >> vf & 1)
		turns_begin(&fw->turns, wants, now);
	return false;
}

static bool leave(struct softgpu *gpu, vgpu_nsec now)
{
	struct firmware *fw = &gpu->firmware;
	int index = fw->turns.current;
	struct firmware_vf *f = &fw->vfs[index];

	if (gpu->active == index) {
		issue(gpu, GPUIOV_CMD_SAVE, COMMAND_MOST, now);
		return true;
	}
	if (fw->window == GPUIOV_REQ_FINI && gpu->vfs[index].state == CONTEXT_SAVED) {
		issue(gpu, GPUIOV_CMD_SHUTDOWN, COMMAND_MOST, now);
		return true;
	}
	if (fw->window) {
		bool up = fw->window == GPUIOV_REQ_INIT;

		let(gpu, index, false, up);
		set_up(gpu, index, up);
		f->request = f->request == fw->window ? 0 : f->request;
	}
	return end(gpu, now);
}

static bool left_engine(struct softgpu *gpu, vgpu_nsec)
{
	gpu->firmware.phase = FIRMWARE_LEAVE;
	return true;
}

static bool wait(struct softgpu *, vgpu_nsec)
{
	return false;
}

/* What comes next in each phase, while no command is in progress. Returns whether to look again. */
static bool (*const steps[])(struct softgpu *gpu, vgpu_nsec now) = {
	[FIRMWARE_AWAY] = begin_turn, [FIRMWARE_EMPTY] = pass,	     [FIRMWARE_ENTER] = enter,
	[FIRMWARE_ON] = go_on,	      [FIRMWARE_STOP] = left_engine, [FIRMWARE_LEAVE] = leave,
	[FIRMWARE_RESET] = wait,      [FIRMWARE_GONE] = end,
};

/* A command of the scheduler's is in progress, or has ended. Returns true when it has succeeded. */
static bool is_answered(struct softgpu *gpu, vgpu_nsec now)
{
	struct firmware *fw = &gpu->firmware;
	int vf = fw->turns.current;

	if (!fw->issued || fw->phase == FIRMWARE_RESET || fw->phase == FIRMWARE_GONE)
		return true;
	if (gpu->command.in_flight && now < fw->give_up)
		return false;
	fw->issued = false;
	if (!gpu->command.in_flight && gpu->status == GPUIOV_STATUS_DONE)
		return true;
	if (!in_reset(&gpu->vfs[vf])) {
		fw->vfs[vf].late += fw->phase == FIRMWARE_STOP;
		firmware_reset(gpu, vf);
	} else {
		fw->phase = FIRMWARE_RESET; /* a reset by the guest, which ends by itself */
	}
	return true;
}

/* Returns the VF whose counter runs. */
static int counted(const struct softgpu *gpu)
{
	const struct firmware *fw = &gpu->firmware;
	int vf = fw->turns.current;

	switch (fw->phase) {
	case FIRMWARE_ON:
		return fw->window || gpu->vfs[vf].busy ? vf : TURNS_NOBODY;
	case FIRMWARE_STOP:
	case FIRMWARE_RESET:
		return vf;
	default:
		return TURNS_NOBODY;
	}
}

static void configure(struct softgpu *gpu, uint32_t status)
{
	struct firmware *fw = &gpu->firmware;

	fw->config_at = VGPU_NEVER;
	if (status == GPUIOV_STATUS_DONE)
		turns_program(&fw->turns, &fw->taken);
	fw->answer = status;
	if (fw->interrupt)
		raise_pf(gpu, GPUIOV_VECTOR_ENGINE, GPUIOV_INTR_CMD_COMPLETE);
}

void firmware_run(struct softgpu *gpu, vgpu_nsec now)
{
	struct firmware *fw = &gpu->firmware;
	uint32_t i;

	if (!fw->scheduler)
		return;
	fw->wake = false;
	if (fw->config_at <= now)
		configure(gpu, GPUIOV_STATUS_DONE);
	take_messages(gpu, now);
	for (i = 0; i < STEPS * gpu->config.n_vfs; i++) {
		turns_count(&fw->turns, counted(gpu), now);
		if (!is_answered(gpu, now) || !steps[fw->phase](gpu, now))
			break;
		now = vgpu_now();
	}
	turns_count(&fw->turns, counted(gpu), now);
}

static vgpu_nsec sooner(vgpu_nsec a, vgpu_nsec b)
{
	return a < b ? a : b;
}

vgpu_nsec firmware_deadline(const struct softgpu *gpu)
{
	const struct firmware *fw = &gpu->firmware;
	vgpu_nsec t = fw->config_at, now;
	uint32_t i;

	if (!fw->scheduler)
		return VGPU_NEVER;
	if (fw->wake)
		return 0;
	now = vgpu_now();
	/* A window may have come due since firmware_run() looked. */
	if (fw->phase == FIRMWARE_AWAY && gpu->active < 0 && wanting(gpu, now))
		return 0;
	for (i = 0; i < gpu->enabled; i++) {
		const struct firmware_vf *f = &fw->vfs[i];

		if (f->request && f->window_at > now)
			t = sooner(t, f->window_at);
		if (f->broken && !in_reset(&gpu->vfs[i]))
			t = sooner(t, f->retry_at);
	}
	if (fw->issued && fw->phase != FIRMWARE_RESET)
		return sooner(t, fw->give_up);
	if (fw->phase == FIRMWARE_ON && fw->window)
		return sooner(t, fw->give_up);
	/* If no other VF wants the engine, the VF continues after the end of its turn. */
	if (fw->phase == FIRMWARE_EMPTY || (fw->phase == FIRMWARE_ON && fw->turns.ends > now))
		return sooner(t, fw->turns.ends);
	return t;
}

void firmware_init(struct softgpu *gpu)
{
	struct firmware *fw = &gpu->firmware;
	vgpu_nsec frozen_at = fw->frozen_at;

	*fw = (struct firmware){.scheduler = gpu->config.schedules,
				.frozen_at = frozen_at,
				.config_at = VGPU_NEVER};
	turns_init(&fw->turns, gpu->config.n_vfs, vgpu_now());
	fw->prepared = fw->turns.plan;
}

void firmware_command(struct softgpu *gpu, uint32_t dword)
{
	struct firmware *fw = &gpu->firmware;
	uint32_t code = dword & GPUIOV_CMD_TYPE;

	gpu->cmd_dword = dword & ~GPUIOV_CMD_EXECUTE;
	fw->interrupt = dword & GPUIOV_CMD_EXECUTE_INTR;
	fw->config_at = VGPU_NEVER;
	fw->answer = GPUIOV_STATUS_DONE;
	switch (code) {
	case GPUIOV_CMD_ENABLE_AUTO:
	case GPUIOV_CMD_DISABLE_AUTO:
		fw->on = code == GPUIOV_CMD_ENABLE_AUTO;
		break;
	case GPUIOV_CMD_CONFIG_AUTO:
		fw->taken = fw->prepared;
		fw->answer = GPUIOV_STATUS_ENABLING;
		if (fault_happens(gpu, SOFTGPU_FAULT_HANG, -1, SOFTGPU_T_CONFIG))
			return; /* until the next command */
		if (fault_happens(gpu, SOFTGPU_FAULT_REFUSE_PLAN, -1, -1))
			configure(gpu, GPUIOV_STATUS_ABORTED);
		else
			fw->config_at = vgpu_now() + latency_draw(gpu, SOFTGPU_T_CONFIG);
		if (fw->config_at <= vgpu_now())
			configure(gpu, GPUIOV_STATUS_DONE);
		break;
	default:
		fw->answer = GPUIOV_STATUS_UNSUPPORTED;
	}
	if (fw->interrupt && code != GPUIOV_CMD_CONFIG_AUTO)
		raise_pf(gpu, GPUIOV_VECTOR_ENGINE, GPUIOV_INTR_CMD_COMPLETE);
	firmware_wake(gpu);
}

/* Takes all counters at one instant. */
static void take_counters(struct softgpu *gpu)
{
	struct firmware *fw = &gpu->firmware;
	vgpu_nsec now = vgpu_now();
	uint32_t i;

	for (i = 0; i < gpu->config.n_vfs && now < fw->frozen_at; i++)
		fw->shown[i] = turns_active(&fw->turns, i, now);
}

static uint32_t of_vf(const struct softgpu *gpu, uint32_t vf, uint32_t n)
{
	const struct firmware_vf *f = &gpu->firmware.vfs[vf];

	switch (n) {
	case 0:
		return (uint32_t)gpu->firmware.turns.turns[vf];
	case 1:
		return f->late;
	case 2:
		return f->windows;
	default:
		return f->windows_late;
	}
}

static uint32_t in_us(vgpu_nsec ns)
{
	return (uint32_t)(ns / VGPU_USEC);
}

/* Returns which dword of a block with WORDS of them for each VF an offset is, or WORDS x VFs. */
static uint32_t word_of(const struct softgpu *gpu, uint32_t offset, uint32_t base, uint32_t words)
{
	uint32_t n = words * gpu->config.n_vfs;

	return offset < base || (offset - base) / 4 >= n ? n : (offset - base) / 4;
}

uint32_t firmware_read(struct softgpu *gpu, uint32_t offset)
{
	struct firmware *fw = &gpu->firmware;
	const vgpu_nsec limits[] = {turns_quanta.min,	turns_quanta.max,   turns_quanta.step,
				    turns_timeouts.min, turns_timeouts.max, turns_timeouts.step};
	uint32_t n = gpu->config.n_vfs, up = 0, i, at;

	if (!fw->scheduler)
		return 0;
	at = word_of(gpu, offset, SOFTGPU_TURN_PLAN, 2);
	if (at < 2 * n)
		return in_us(at % 2 ? fw->turns.plan.vfs[at / 2].timeout
				    : fw->turns.plan.vfs[at / 2].quantum);
	at = word_of(gpu, offset, SOFTGPU_TURN_ACTIVE, 2);
	if (at == 0)
		take_counters(gpu);
	if (at < 2 * n)
		return (uint32_t)(fw->shown[at / 2] >> (at % 2 ? 32 : 0));
	at = word_of(gpu, offset, SOFTGPU_TURN_COUNTS, 4);
	if (at < 4 * n)
		return of_vf(gpu, at / 4, at % 4);
	if (offset >= SOFTGPU_TURN_LIMITS && offset < SOFTGPU_TURN_LIMITS + sizeof(limits) / 2)
		return in_us(limits[(offset - SOFTGPU_TURN_LIMITS) / 4]);
	for (i = 0; i < gpu->enabled; i++)
		up |= (uint32_t)fw->vfs[i].up << i;
	return offset == SOFTGPU_TURN_FLAGS   ? fw->turns.plan.keep
	       : offset == SOFTGPU_TURN_STATE ? fw->on
	       : offset == SOFTGPU_TURN_UP    ? up
					      : 0;
}

void firmware_write(struct softgpu *gpu, uint32_t offset, uint32_t value)
{
	struct firmware *fw = &gpu->firmware;
	uint32_t at = word_of(gpu, offset, SOFTGPU_TURN_PLAN, 2);

	if (offset == SOFTGPU_TURN_FLAGS)
		fw->prepared.keep = value & SOFTGPU_TURN_KEEP;
	if (at == 2 * gpu->config.n_vfs)
		return;
	if (at % 2)
		fw->prepared.vfs[at / 2].timeout = value * VGPU_USEC;
	else
		fw->prepared.vfs[at / 2].quantum = value * VGPU_USEC;
}
