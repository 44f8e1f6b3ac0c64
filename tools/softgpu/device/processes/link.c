/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>

#include "groups.h"
#include "link_private.h"
#include "stuck.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"
#include "workers.h"

/* How long a process may take to stop after KILLING; then it is killed. */
#define KILL_AFTER (5 * VGPU_MSEC)
/* The same for one of ordinary priority, which may have to wait for a CPU first; and, with workers,
 * after the time that a worker may take. */
#define KILL_AFTER_ORDINARY (50 * VGPU_MSEC)
/* How long a thread of the device watches a VF that stops: twice as long as a tile takes. */
#define WATCH (25 * VGPU_USEC)
/* For how long a process that must stop is lent a priority; after that it has to stop at an
 * ordinary one. A loan shorter than the first value is not worth it. A process that computes uses
 * all of the time; a worker mostly waits. */
#define LEND_LEAST VGPU_MSEC
#define LEND_MOST (20 * VGPU_MSEC)
/* For how long after a loan the sequencer continues to check every LINKS_LEND_LOOK, so that the
 * next loan need not wake it. */
#define LEND_LOOKS (30 * LINKS_LEND_LOOK)

struct vf_page *link_page(const struct link *l)
{
	return l->page;
}

vgpu_nsec link_owes(struct link *l)
{
	if (l->gpu->config.fifo == 0)
		return 0;
	return allowance_owes(&l->allowance, l->gpu->enabled, vgpu_now());
}

void link_ring(struct link *l)
{
	atomic_fetch_add(&l->page->bell, 1);
	if (l->ready)
		vf_futex_wake(&l->page->bell);
}

void link_set(struct link *l, _Atomic uint32_t *word, uint32_t value)
{
	atomic_store(word, value);
	link_ring(l);
}

void link_wake(struct link *l)
{
	pthread_cond_signal(&l->cond);
	if (l->started)
		vgpu_eventfd_signal(l->wake);
}

void link_kill(struct link *l)
{
	l->kill = true;
	l->deadline = l->answer_by = VGPU_NEVER;
	if (l->started)
		pidfd_send_signal(l->pidfd, SIGKILL, NULL, 0);
	/* The VF's thread continues at once, because the process's end may take as long as its
	 * client likes. */
	link_wake(l);
}

static vgpu_nsec kill_after(const struct link *l)
{
	return l->loan.out ? KILL_AFTER : KILL_AFTER_ORDINARY;
}

vgpu_nsec link_deadline(const struct link *l)
{
	vgpu_nsec first = l->deadline < l->answer_by ? l->deadline : l->answer_by;

	return first < l->lent_until ? first : l->lent_until;
}

int link_ordinary(const struct link *l)
{
	return l->gpu->workers ? SCHED_OTHER : SCHED_IDLE;
}

void link_take_back(struct link *l, int policy)
{
	vgpu_nsec had = loan_take_back(&l->loan, policy);

	l->lent_until = VGPU_NEVER;
	l->raised = policy != link_ordinary(l);
	if (l->gpu->workers)
		had += workers_lend(l->gpu, l->vf, false);
	allowance_charge(&l->loans, had);
	allowance_charge(&l->allowance, had);
}

/*
 * Lends a real-time priority to the process's first thread, which executes, and to its worker,
 * until they have stopped or the VF's allowance is used up. After that the VF stops at an ordinary
 * priority. RLIMIT_RTTIME is of no use here: it adds up what a thread had of many loans, if the
 * thread does not sleep in them, and would end an innocent process.
 */
static void lend(struct link *l)
{
	struct softgpu *gpu = l->gpu;
	vgpu_nsec now = vgpu_now(), most = allowance_has(&l->loans, gpu->enabled, now);

	if (gpu->config.fifo == 0)
		return;
	l->raised = true;
	if (most < LEND_LEAST) {
		loan_take_back(&l->loan, SCHED_OTHER);
		return;
	}
	loan_lend(&l->loan);
	if (gpu->workers)
		workers_lend(gpu, l->vf, true);
	l->lent_until = now + (gpu->workers ? LEND_MOST : most);
	if (gpu->loans_until <= now)
		pthread_cond_signal(&gpu->sequencer_cond);
	gpu->loans_until = now + LEND_LOOKS;
}

void link_end_for(struct link *l, const char *why)
{
	fprintf(stderr, "<4>softgpu: VF %d: its process %s and is killed\n", l->vf, why);
	link_kill(l);
}

/* Extends a loan to what is left of the VF's allowance: a process that has waited for a CPU, which
 * the host of this machine may have taken, has not used what it was lent. Returns false if too
 * little is left. */
static bool extend(struct link *l)
{
	vgpu_nsec now = vgpu_now(), used = loan_used(&l->loan);
	vgpu_nsec has = allowance_has(&l->loans, l->gpu->enabled, now);

	if (l->gpu->workers || used + LEND_LEAST > has)
		return false;
	l->lent_until = now + has - used;
	return true;
}

void link_overdue(struct link *l)
{
	if (l->lent_until <= vgpu_now() && !extend(l)) {
		link_take_back(l, SCHED_OTHER);
		if (!l->gpu->workers && l->stopping && l->deadline != VGPU_NEVER)
			l->deadline = vgpu_now() + KILL_AFTER_ORDINARY;
	}
	if (l->answer_by <= vgpu_now()) {
		l->answer_by = VGPU_NEVER;
		if (!link_has_answered(l)) {
			link_end_for(l, "does not answer after a reset");
			return;
		}
	}
	if (l->deadline > vgpu_now())
		return;
	/* Another worker may have begun to start or end since the deadline was set. */
	if (l->gpu->workers && l->stopping && l->stopped != VGPU_NEVER) {
		l->deadline =
			l->stopped + KILL_AFTER_ORDINARY + workers_stop_most(l->gpu, l->stopped);
		if (l->deadline > vgpu_now())
			return;
	}
	fprintf(stderr, "<4>softgpu: VF %d does not %s: its process is killed\n", l->vf,
		l->ready ? "stop" : "start");
	link_kill(l);
}

void link_context(struct link *l, enum vf_context_kind kind)
{
	l->renewed |= kind == VF_CONTEXT_INIT;
	/* The process need not be woken: it reads the word before anything that depends on it. */
	atomic_store(&l->page->context, VF_CONTEXT_WORD(++l->context, kind));
}

void link_end_context(struct link *l)
{
	atomic_fetch_add(&l->page->generation, 1);
	link_context(l, VF_CONTEXT_NONE);
	link_ring(l);
}

void link_forget(struct link *l)
{
	l->faulted = false;
	memset(l->page->image, 0, sizeof(l->page->image));
	atomic_fetch_add(&l->page->forget, 1);
	link_end_context(l);
}

void link_gates(struct softgpu *gpu)
{
	uint32_t i, k, bits;

	for (i = 0; i < gpu->config.n_vfs; i++) {
		for (bits = 0, k = 0; k < VF_GATES; k++)
			bits |= (gpu->gates[k] >> i & 1) << k;
		atomic_store(&gpu->vfs[i].link->page->gates, bits);
		atomic_store(&gpu->vfs[i].link->page->dead, gpu->dead);
	}
}

void link_words(struct link *l)
{
	struct vf_message *m = &l->page->to_vf;
	uint32_t i;

	for (i = 0; i < 4 && atomic_load(&m->serial) == 0; i++)
		atomic_store(&m->words[i], link_vf(l)->to_vf.words[i]);
}

void link_message(struct link *l)
{
	atomic_store(&l->page->to_vf.serial, 0);
	link_words(l);
	link_set(l, &l->page->to_vf.serial, link_vf(l)->to_vf.valid ? ++l->to_vf : 0);
}

void link_acknowledge(struct link *l)
{
	link_set(l, &l->page->to_pf_taken, l->to_pf);
}

void link_order(struct link *l, const struct vf_order *order, const int *fds, uint32_t n)
{
	struct iovec part = {(void *)order, sizeof(*order)};

	if (!l->ready)
		return;
	if (vgpu_socket_send(l->control, &part, 1, fds, n, MSG_DONTWAIT) < 0) {
		link_kill(l);
		return;
	}
	atomic_fetch_add(&l->page->orders, 1);
	link_ring(l);
}

/* Raises the limit of the process's memory. Lowering one can take the kernel long: that waits until
 * the next process starts. */
static void raise_limit(struct link *l, uint64_t size)
{
	const struct groups *groups = l->gpu->config.groups;
	struct vgpu_error err;

	if (!groups || size <= l->limit)
		return;
	l->limit = size;
	if (groups_limit(groups, (uint32_t)l->vf, size, &err) < 0)
		fprintf(stderr, "<4>softgpu: VF %d: %s\n", l->vf, err.text);
}

void link_memory(struct link *l)
{
	const struct vf *vf = link_vf(l);
	struct vf_order order = {.type = VF_ORDER_MEMORY};

	if (!vf->file) {
		link_order(l, &order, NULL, 0);
		return;
	}
	raise_limit(l, vf->file->size);
	order.window = vf->file->size;
	order.modules = l->gpu->workers ? workers_tested(l->gpu)->modules : 0;
	order.size = l->gpu->workers ? vf->fb_size : vf->file->size;
	link_order(l, &order, &vf->file->fd, 1);
	if (l->gpu->workers)
		link_worker(l);
}

void link_worker(struct link *l)
{
	struct vf_order order = {.type = VF_ORDER_WORKER};
	int fds[VF_ORDER_FDS];

	if (workers_order(l->gpu, l->vf, &order, fds))
		link_order(l, &order, fds, VF_ORDER_FDS);
}

void link_run(struct link *l)
{
	l->stopping = false;
	if (l->gpu->workers)
		workers_begin_turn(l->gpu, l->vf);
	atomic_store(&l->page->run, VF_RUN_WORD(++l->run, VF_RUN));
	if (l->ready)
		vf_futex_wake(&l->page->run);
}

/*
 * Watches the RUN word until the process has stopped, which saves the time of a wake. Does not
 * watch if the process executes on this CPU, because it then waits for this thread; a process that
 * lies about its CPU costs the device WATCH at most. Returns false if the process has not stopped;
 * it will notify the device.
 */
static bool watch_stop(struct link *l)
{
	uint32_t stopped = VF_RUN_WORD(l->run, VF_STOPPED);
	uint32_t watched = VF_RUN_WORD(l->run, VF_WATCHED), running = VF_RUN_WORD(l->run, VF_RUN);
	vgpu_nsec until = vgpu_now() + WATCH;

	if (atomic_load(&l->page->cpu) == (uint32_t)sched_getcpu() ||
	    !atomic_compare_exchange_strong(&l->page->run, &running, watched))
		return false;
	while (atomic_load(&l->page->run) != stopped)
		if (vgpu_now() >= until)
			return !atomic_compare_exchange_strong(&l->page->run, &watched,
							       VF_RUN_WORD(l->run, VF_STOPPING));
	return true;
}

bool link_has_stopped(struct link *l)
{
	return !l->gpu->workers || workers_end_turn(l->gpu, l->vf) || l->faulted;
}

/* Stops the process if it is parked. Returns the state that it was in. */
static enum vf_run stop_parked(struct link *l)
{
	uint32_t word = VF_RUN_WORD(l->run, VF_PARKED);

	atomic_compare_exchange_strong(&l->page->run, &word, VF_RUN_WORD(l->run, VF_STOPPED));
	return VF_RUN_STATE(word);
}

bool link_has_work(struct link *l)
{
	return l->ready && !l->stopping && stop_parked(l) == VF_RUN;
}

bool link_stop(struct link *l, bool kill)
{
	const struct vf_order look = {.type = VF_ORDER_LOOK};
	enum vf_run state;
	uint32_t was;

	if (!l->ready)
		return true;
	state = l->stopping ? VF_STOPPING : stop_parked(l);
	if ((state == VF_PARKED || state == VF_STOPPED) && (link_has_stopped(l) || kill))
		return true;
	if (!kill && !l->gpu->workers && watch_stop(l))
		return true;
	/* The process must know it before it sees the stop: it ends the worker by itself, before
	 * this device ends the process. */
	if (l->gpu->workers)
		atomic_store(&l->page->quiet_since, workers_quiet_since(l->gpu));
	/* Whatever the state was, the VF cannot be parked any more. A process that executes reads
	 * the word, and need not be woken. */
	was = atomic_exchange(&l->page->run, VF_RUN_WORD(l->run, kill ? VF_KILLING : VF_STOPPING));
	l->stopping = true;
	if (l->muted)
		vgpu_eventfd_signal(l->wake);
	lend(l);
	if (VF_RUN_STATE(was) != VF_RUN)
		vf_futex_wake(&l->page->run);
	if (l->gpu->workers)
		link_order(l, &look, NULL, 0);
	if (kill || l->gpu->workers) {
		l->stopped = kill ? VGPU_NEVER : vgpu_now();
		/* A process that ends its worker has no priority lent any more by then. */
		l->deadline = vgpu_now() + (kill ? kill_after(l) : KILL_AFTER_ORDINARY);
		if (l->gpu->workers)
			l->deadline += workers_stop_most(l->gpu, l->stopped);
		pthread_cond_signal(&l->gpu->sequencer_cond);
	}
	return false;
}

void link_log_stuck(const struct link *l)
{
	if (l->ready && l->stopping)
		stuck_log(l->vf, l->pid);
}

uint64_t link_serial(const struct link *l)
{
	return l && l->started ? l->process : 0;
}

pid_t link_process(const struct link *l, uint64_t *fences)
{
	if (!l->started)
		return 0;
	*fences = l->ready ? atomic_load(&l->page->fences) : 0;
	return l->pid;
}
