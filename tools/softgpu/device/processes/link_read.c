/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>

#include "link_private.h"
#include "vgpu/clock.h"
#include "workers.h"

/* How long a process may take to answer after a reset. */
#define ANSWER_MS 2000

void link_read_run(struct link *l)
{
	if (!l->ready || !l->stopping ||
	    atomic_load(&l->page->run) != VF_RUN_WORD(l->run, VF_STOPPED))
		return;
	/* After KILLING a reset follows, which ends the worker. */
	if (l->stopped != VGPU_NEVER && !link_has_stopped(l))
		return;
	l->stopping = false;
	l->deadline = VGPU_NEVER;
	if (l->gpu->running == l->vf)
		engine_stopped(l->gpu);
}

bool link_lost(struct link *l)
{
	struct softgpu *gpu = l->gpu;

	if (l->faulted)
		return false;
	l->faulted = true;
	l->renewed = false;
	if (gpu->workers)
		workers_kill(gpu, l->vf);
	allowance_charge(&l->allowance, ALLOWANCE_INTERRUPT);
	gpu->hang_info = GPUIOV_FCN_VF((uint32_t)l->vf);
	if (gpu->firmware.scheduler)
		firmware_reset(gpu, l->vf);
	raise_pf(gpu, GPUIOV_VECTOR_ENGINE, GPUIOV_INTR_NEED_FLR);
	return true;
}

static void read_status(struct link *l)
{
	struct softgpu *gpu = l->gpu;
	uint64_t status = atomic_load(&l->page->status);
	bool busy = status & VF_BUSY, was = link_vf(l)->busy;

	if (status >> 32 != atomic_load(&l->page->generation))
		return;
	if (busy != was)
		allowance_charge(&l->allowance, ALLOWANCE_WORD);
	command_busy(gpu, l->vf, busy);
	if (was && !busy && !(status & VF_DEAD) && gpu->running == l->vf) {
		gpu->hvvm_waits |= 1u << l->vf;
		raise_pf(gpu, GPUIOV_VECTOR_ENGINE, GPUIOV_INTR_HVVM_RCV);
	}
	/* One fault is one interrupt, however often a process says that there is one. */
	if (!(status & VF_FAULTED) && l->renewed)
		l->faulted = false;
	if (status & VF_FAULTED)
		link_lost(l);
}

static void read_mailbox(struct link *l)
{
	struct vf_message *m = &l->page->to_pf;
	uint32_t serial = atomic_load(&m->serial), words[4], i;
	uint32_t taken = atomic_load(&l->page->to_vf_taken);

	for (i = 0; i < 4; i++)
		words[i] = atomic_load(&m->words[i]);
	/* A message that is being replaced is read when the process asks for that. */
	if (serial != l->to_pf && atomic_load(&m->serial) == serial) {
		l->to_pf = serial;
		allowance_charge(&l->allowance, ALLOWANCE_INTERRUPT);
		registers_take_message(l->gpu, l->vf, serial != 0, words);
	}
	if (taken != l->to_vf_taken) {
		l->to_vf_taken = taken;
		allowance_charge(&l->allowance, ALLOWANCE_INTERRUPT);
		if (taken != 0 && taken == atomic_load(&l->page->to_vf.serial))
			registers_take_acknowledgement(l->gpu, l->vf);
	}
}

static void read_counters(struct link *l)
{
	uint32_t violations = atomic_load(&l->page->violations);
	uint32_t drops = atomic_load(&l->page->gate_drops);
	uint32_t resets = atomic_load(&l->page->resets);

	if (violations != l->violations)
		memory_violated(l->gpu, l->vf, violations - l->violations);
	l->violations = violations;
	l->gpu->gate_drops += drops - l->gate_drops;
	l->gate_drops = drops;
	if (resets != l->resets) {
		l->resets = resets;
		allowance_charge(&l->allowance, ALLOWANCE_RESET);
		command_vf_reset(l->gpu, l->vf);
		link_set(l, &l->page->resets_taken, resets);
	}
}

void link_read_page(struct link *l)
{
	uint32_t notices = atomic_load(&l->page->notices);

	if (!l->ready || notices == l->notices)
		return;
	if (link_owes(l) > 0) {
		link_read_run(l);
		return;
	}
	l->notices = notices;
	read_counters(l);
	read_status(l);
	if (atomic_load(&l->page->status) >> 32 == atomic_load(&l->page->generation))
		read_mailbox(l);
	link_read_run(l);
}

void links_apply_pages(struct softgpu *gpu)
{
	uint32_t i;

	for (i = 0; i < gpu->enabled; i++)
		link_read_page(gpu->vfs[i].link);
}

/* A VF without a context gets another worker with its next one. */
static void look_for_worker(struct link *l)
{
	if (l->gpu->workers && link_vf(l)->state != CONTEXT_NONE && workers_died(l->gpu, l->vf) &&
	    link_lost(l))
		fprintf(stderr, "<4>softgpu: VF %d: its worker has died: the VF needs a reset\n",
			l->vf);
}

bool link_client_has_gone(const struct link *l)
{
	struct pollfd gone = {l->client, POLLRDHUP, 0};

	return l->client >= 0 && poll(&gone, 1, 0) > 0;
}

bool link_has_answered(const struct link *l)
{
	return !l->ready || atomic_load(&l->page->answered) == l->asked;
}

void link_check(struct link *l)
{
	if (!l->ready || l->kill || l->answer_by != VGPU_NEVER)
		return;
	l->answer_by = vgpu_now() + ANSWER_MS * VGPU_MSEC;
	link_set(l, &l->page->asked, ++l->asked);
	pthread_cond_signal(&l->gpu->sequencer_cond);
}

void links_ask(struct softgpu *gpu)
{
	bool gone;
	uint32_t i;

	for (i = 0; i < gpu->enabled; i++) {
		struct link *l = gpu->vfs[i].link;

		if (!l->ready || l->kill || l->answer_by != VGPU_NEVER)
			continue;
		if (!link_has_answered(l)) {
			link_end_for(l, "does not answer");
			continue;
		}
		gone = link_client_has_gone(l);
		if (gone && l->leaves) {
			link_end_for(l, "does not end with its client");
			continue;
		}
		l->leaves = gone;
		link_set(l, &l->page->asked, ++l->asked);
		look_for_worker(l);
	}
}

void links_look_at_spent(struct softgpu *gpu)
{
	const char *what;
	uint32_t i;

	for (i = 0; i < gpu->enabled; i++) {
		struct link *l = gpu->vfs[i].link;

		/* The CPU time of a killed process is checked when the process has ended. */
		what = l->kill ? NULL : spent_too_much(gpu, (int)i);
		if (!what)
			continue;
		fprintf(stderr,
			"<4>softgpu: VF %d: its %s takes more CPU time than a client can cause and "
			"is killed\n",
			l->vf, what);
		if (gpu->workers)
			workers_kill(gpu, (int)i);
		link_rest(l, l->process);
	}
}

void link_rest(struct link *l, uint64_t of)
{
	if (!l)
		return;
	l->again_at = vgpu_now() + SPENT_REST;
	if (!l->started || l->process != of)
		return;
	l->greedy = true;
	link_kill(l);
}
