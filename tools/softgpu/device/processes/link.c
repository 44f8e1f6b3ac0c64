/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "allowance.h"
#include "doors.h"
#include "groups.h"
#include "leaving.h"
#include "link.h"
#include "loan.h"
#include "local.h"
#include "program.h"
#include "says.h"
#include "stuck.h"
#include "users.h"
#include "vfio/thread.h"
#include "vfio/user_server.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"
#include "vgpu/untrusted.h"
#include "workers.h"

/* How long a process may take to stop after KILLING; then it is killed. */
#define KILL_AFTER (5 * VGPU_MSEC)
/* The same for one of ordinary priority, which may have to wait for a CPU first; and, with workers,
 * after the time that a worker may take. */
#define KILL_AFTER_ORDINARY (50 * VGPU_MSEC)
/* How long a process may take to start; and how long the device waits after one that could not. */
#define START_MS 10000
#define AGAIN_MS 1000
/* How long a process may take to answer after a reset. */
#define ANSWER_MS 2000
/* How often a thread that waits for the end of a process checks whether the device must end. */
#define GONE_MS 200
/* How often the same is asked of a worker that takes long to end. */
#define LINGERS_MS 100
/* The page of a process that notifies the device is read at most PAGE_READS times in PAGE_READS_IN,
 * so that a process cannot keep the device busy. */
#define PAGE_READS 4u
#define PAGE_READS_IN VGPU_MSEC
/* How long a thread of the device watches a VF that stops: twice as long as a tile takes. */
#define WATCH (25 * VGPU_USEC)
/* For how long a process that must stop is lent a priority; then it has to stop at an ordinary one.
 * Less than the first is not worth a loan. One that computes uses all of it; a worker mostly waits.
 */
#define LEND_LEAST VGPU_MSEC
#define LEND_MOST (20 * VGPU_MSEC)
/* For how long after a loan the sequencer looks each LINKS_LEND_LOOK, so that the next one need not
 * wake it. */
#define LEND_LOOKS (30 * LINKS_LEND_LOOK)

struct link {
	struct softgpu *gpu;
	int vf;
	pthread_t thread;
	pthread_cond_t cond;
	bool has_thread, has_process;
	bool started; /* the descriptors below are valid */

	struct vf_page *page; /* MAPPED, or UNUSED while no process is ready */
	struct vf_page unused;
	struct vf_page *mapped; /* the page of the process, from its start */
	pid_t pid;
	int pidfd, control, notice, wake, epoll, page_fd;
	int says;     /* what the process says; -1: nothing is to be heard */
	int said;     /* the same, of a process that has ended */
	int listener; /* never anybody else's */
	int client;   /* a copy of the connection that the process has; -1: no client */
	bool leaves;  /* the client had gone when the process was asked last */
	bool ready;   /* PAGE is the process's */
	bool kill;
	bool greedy;	    /* the process is killed because it took too much CPU time */
	vgpu_nsec again_at; /* no process is started before that */

	uint32_t run, context, to_vf, asked; /* serials */
	bool stopping, raised;		     /* raised: its policy is not ordinary() */
	vgpu_nsec stopped; /* with workers: when it was told to stop; VGPU_NEVER: at once */
	vgpu_nsec deadline;
	struct loan loan;     /* of a real-time priority, for a stop */
	vgpu_nsec lent_until; /* when it is taken back; VGPU_NEVER: none is lent */
	vgpu_nsec answer_by;  /* for link_check(); VGPU_NEVER: it has not been called */

	struct allowance allowance, loans;
	bool muted; /* its notices wake nobody */

	/* what was read last */
	uint64_t limit; /* of the process's memory, beside GROUPS_ALLOWANCE */
	uint32_t notices, resets, violations, gate_drops, to_pf, to_vf_taken;
	bool faulted; /* the PF was told of it; false again when the VF is as new */
	bool renewed; /* a new context was loaded since */
	vgpu_nsec page_reads_since;
	uint32_t page_reads;
};

struct vf_page *link_page(const struct link *l)
{
	return l->page;
}

static struct vf *vf_of(const struct link *l)
{
	return &l->gpu->vfs[l->vf];
}

/* How long the VF's messages, resets and wakes have to wait, because it has caused too much. */
static vgpu_nsec owes(struct link *l)
{
	if (l->gpu->config.fifo == 0)
		return 0;
	return allowance_owes(&l->allowance, l->gpu->enabled, vgpu_now());
}

static vgpu_nsec thread_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (vgpu_nsec)t.tv_sec * VGPU_SEC + (vgpu_nsec)t.tv_nsec;
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

/* The policy of a process that need not stop: one that computes takes what others leave. */
static int ordinary(const struct link *l)
{
	return l->gpu->workers ? SCHED_OTHER : SCHED_IDLE;
}

/* Takes back what lend() has lent. The process goes on at POLICY. */
static void take_back(struct link *l, int policy)
{
	vgpu_nsec had = loan_take_back(&l->loan, policy);

	l->lent_until = VGPU_NEVER;
	l->raised = policy != ordinary(l);
	if (l->gpu->workers)
		had += workers_lend(l->gpu, l->vf, false);
	allowance_charge(&l->loans, had);
	allowance_charge(&l->allowance, had);
}

/*
 * Lends a real-time priority to the process's first thread, which executes, and to its worker,
 * until they have stopped or have had what the VF may have of that. A VF that has had it stops at
 * an ordinary priority. RLIMIT_RTTIME is of no use here: it adds up what a thread had of many
 * loans, if the thread does not sleep in them, and would end an innocent process.
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

/* Kills the process, for the reason that is logged. */
static void end_for(struct link *l, const char *why)
{
	fprintf(stderr, "<4>softgpu: VF %d: its process %s and is killed\n", l->vf, why);
	link_kill(l);
}

static bool has_answered(const struct link *l)
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

/* A process that has waited for a CPU, which the host of this machine may have taken, has not used
 * what it was lent. */
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
		take_back(l, SCHED_OTHER);
		if (!l->gpu->workers && l->stopping && l->deadline != VGPU_NEVER)
			l->deadline = vgpu_now() + KILL_AFTER_ORDINARY;
	}
	if (l->answer_by <= vgpu_now()) {
		l->answer_by = VGPU_NEVER;
		if (!has_answered(l)) {
			end_for(l, "does not answer after a reset");
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
		atomic_store(&m->words[i], vf_of(l)->to_vf.words[i]);
}

void link_message(struct link *l)
{
	atomic_store(&l->page->to_vf.serial, 0);
	link_words(l);
	link_set(l, &l->page->to_vf.serial, vf_of(l)->to_vf.valid ? ++l->to_vf : 0);
}

void link_acknowledge(struct link *l)
{
	link_set(l, &l->page->to_pf_taken, l->to_pf);
}

/* Sends an order. Kills a process that has left so many orders unread that the socket is full. */
static void send_order(struct link *l, const struct vf_order *order, const int *fds, uint32_t n)
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
	const struct vf *vf = vf_of(l);
	struct vf_order order = {.type = VF_ORDER_MEMORY};

	if (!vf->file) {
		send_order(l, &order, NULL, 0);
		return;
	}
	raise_limit(l, vf->file->size);
	order.window = vf->file->size;
	order.modules = l->gpu->workers ? workers_tested(l->gpu)->modules : 0;
	order.size = l->gpu->workers ? vf->fb_size : vf->file->size;
	send_order(l, &order, &vf->file->fd, 1);
	if (l->gpu->workers)
		link_worker(l);
}

void link_worker(struct link *l)
{
	struct vf_order order = {.type = VF_ORDER_WORKER};
	int fds[VF_ORDER_FDS];

	if (workers_order(l->gpu, l->vf, &order, fds))
		send_order(l, &order, fds, VF_ORDER_FDS);
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
 * lies about its CPU costs the device WATCH at most. False: the process has not stopped; it will
 * notify the device.
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

/* The process says that the VF has stopped. Whether that is so: the worker says the same, or is
 * killed. */
static bool has_stopped(struct link *l)
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
	if ((state == VF_PARKED || state == VF_STOPPED) && (has_stopped(l) || kill))
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
		send_order(l, &look, NULL, 0);
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

/* Ends a stop if the process has stopped. */
static void read_run(struct link *l)
{
	if (!l->ready || !l->stopping ||
	    atomic_load(&l->page->run) != VF_RUN_WORD(l->run, VF_STOPPED))
		return;
	/* After KILLING a reset follows, which ends the worker. */
	if (l->stopped != VGPU_NEVER && !has_stopped(l))
		return;
	l->stopping = false;
	l->deadline = VGPU_NEVER;
	if (l->gpu->running == l->vf)
		engine_stopped(l->gpu);
}

pid_t link_process(const struct link *l, uint64_t *fences)
{
	if (!l->started)
		return 0;
	*fences = l->ready ? atomic_load(&l->page->fences) : 0;
	return l->pid;
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
	bool busy = status & VF_BUSY, was = vf_of(l)->busy;

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

/* Applies what the process has written to its page since the last call. */
static void read_page(struct link *l)
{
	uint32_t notices = atomic_load(&l->page->notices);

	if (!l->ready || notices == l->notices)
		return;
	if (owes(l) > 0) {
		read_run(l);
		return;
	}
	l->notices = notices;
	read_counters(l);
	read_status(l);
	if (atomic_load(&l->page->status) >> 32 == atomic_load(&l->page->generation))
		read_mailbox(l);
	read_run(l);
}

void links_apply_pages(struct softgpu *gpu)
{
	uint32_t i;

	for (i = 0; i < gpu->enabled; i++)
		read_page(gpu->vfs[i].link);
}

/* A VF without a context gets another worker with its next one. */
static void look_for_worker(struct link *l)
{
	if (l->gpu->workers && vf_of(l)->state != CONTEXT_NONE && workers_died(l->gpu, l->vf) &&
	    link_lost(l))
		fprintf(stderr, "<4>softgpu: VF %d: its worker has died: the VF needs a reset\n",
			l->vf);
}

static bool client_has_gone(const struct link *l)
{
	struct pollfd gone = {l->client, POLLRDHUP, 0};

	return l->client >= 0 && poll(&gone, 1, 0) > 0;
}

void links_ask(struct softgpu *gpu)
{
	bool gone;
	uint32_t i;

	for (i = 0; i < gpu->enabled; i++) {
		struct link *l = gpu->vfs[i].link;

		if (!l->ready || l->kill || l->answer_by != VGPU_NEVER)
			continue;
		if (!has_answered(l)) {
			end_for(l, "does not answer");
			continue;
		}
		gone = client_has_gone(l);
		if (gone && l->leaves) {
			end_for(l, "does not end with its client");
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

		/* What one that is killed has taken is looked at when it has ended. */
		what = l->kill ? NULL : spent_too_much(gpu, (int)i);
		if (!what)
			continue;
		fprintf(stderr,
			"<4>softgpu: VF %d: its %s takes more CPU time than a client can cause and "
			"is killed\n",
			l->vf, what);
		if (gpu->workers)
			workers_kill(gpu, (int)i);
		link_rest(l);
		if (l->started)
			link_kill(l);
	}
}

void link_rest(struct link *l)
{
	if (!l)
		return;
	l->greedy = l->started;
	l->again_at = vgpu_now() + SPENT_REST;
}

/* Writes the present state to the page of a new process. */
static void publish_all(struct link *l)
{
	const struct vf *vf = vf_of(l);

	l->notices = l->resets = l->violations = l->gate_drops = l->to_pf = l->to_vf_taken = 0;
	l->asked = 0;
	l->leaves = false;
	l->answer_by = VGPU_NEVER;
	l->faulted = l->stopping = false;
	l->deadline = VGPU_NEVER;
	if (l->gpu->workers)
		atomic_store(&l->page->quiet_since, workers_quiet_since(l->gpu));
	atomic_store(&l->page->generation, 1);
	link_gates(l->gpu);
	link_message(l);
	if (vf->state == CONTEXT_LOADED)
		link_context(l, VF_CONTEXT_INIT);
}

/* The page is sealed: hands the VF over to the process. */
static void hand_over(struct link *l)
{
	l->page = l->mapped;
	l->ready = true;
	publish_all(l);
	take_back(l, ordinary(l)); /* its policy from now on */
	link_memory(l);
	link_open(l);
	if (l->gpu->running == l->vf)
		link_run(l);
	pthread_cond_broadcast(&l->gpu->links_cond);
}

/* Called without the lock. */
static void watch(struct link *l, int fd, uint32_t events, uint64_t what)
{
	struct epoll_event e = {.events = events, .data.u64 = what};

	epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &e);
}

enum { NOTICE, WAKE, GONE };

int link_accept(struct link *l)
{
	int fd;

	/* A client that has gone leaves its place to the next one, who waits for the next process.
	 */
	if (!l->ready || l->kill || client_has_gone(l))
		return -EBUSY;
	fd = accept4(l->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

bool link_client(struct link *l, int fd)
{
	const struct vf_order order = {.type = VF_ORDER_CLIENT};

	if (l->client >= 0)
		return false;
	/* The process may take over descriptors, of memory and of eventfds. */
	vgpu_untrusted_allow(fd);
	l->client = fd;
	l->gpu->used |= 1u << l->vf;
	send_order(l, &order, &fd, 1);
	return true;
}

int link_says(const struct link *l)
{
	return l->says;
}

void link_open(struct link *l)
{
	if (l->ready)
		doors_open(l->gpu->doors, l->vf, l->listener);
}

/* Finds the listening socket, at which clients may wait already, or makes one. Until a connection
 * is passed to the process, the kernel refuses descriptors for it, where it can. */
static int find_listener(struct link *l, struct vgpu_error *err)
{
	if (l->listener >= 0)
		return 0;
	if (l->gpu->carrier->listen)
		l->listener = l->gpu->carrier->listen(l->gpu->opaque, l->vf, err);
	else
		l->listener = local_listen(vf_of(l)->local, err);
	if (l->listener < 0)
		return l->listener;
	vgpu_untrusted_prepare(l->listener);
	return 0;
}

/* Makes what softgpu and the process have of each other. The process gets *CONTROL and *LOG, which
 * the caller closes. 0 or -errno. */
static int make_ends(struct link *l, int *control, int *log, struct vgpu_error *err)
{
	int pair[2] = {-1, -1}, says[2] = {-1, -1};

	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	l->wake = vgpu_eventfd();
	l->notice = vgpu_eventfd();
	if (pipe2(says, O_CLOEXEC | O_NONBLOCK) == 0) {
		softgpu_lock(l->gpu);
		l->says = says[0];
		softgpu_unlock(l->gpu);
	}
	*log = says[1];
	l->page_fd = memfd_create("softgpu-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (l->epoll < 0 || l->wake < 0 || l->notice < 0 || l->page_fd < 0 || l->says < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return vgpu_error_set(err, -errno, "descriptors for its process: %s",
				      strerror(errno));
	*control = pair[1];
	l->control = pair[0];
	/* The process sends nothing here: what it sends would have to be closed here. */
	shutdown(l->control, SHUT_RD);
	if (ftruncate(l->page_fd, sizeof(*l->page)) < 0 ||
	    fcntl(l->page_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		return vgpu_error_set(err, -errno, "descriptors for its process: %s",
				      strerror(errno));
	l->mapped = mmap(NULL, sizeof(*l->page), PROT_READ | PROT_WRITE, MAP_SHARED, l->page_fd, 0);
	if (l->mapped == MAP_FAILED) {
		l->mapped = NULL;
		return vgpu_error_set(err, -errno, "a page for its process: %s", strerror(errno));
	}
	/* The page stays in memory, so that reading it never waits. */
	mlock(l->mapped, sizeof(*l->page));
	return find_listener(l, err);
}

/* Starts the process. Called without the lock. */
static int start(struct link *l, struct vgpu_error *err)
{
	const struct softgpu_config *c = &l->gpu->config;
	int control = -1, log = -1, fds[VF_DMA_FD + 1 - VF_CONTROL_FD], n = 0, r;
	char vf[16], vram[24], uid[16], gid[16], pid[16];
	gid_t group;
	const char *args[] = {"--vf",
			      vf,
			      "--vram",
			      vram,
			      "--layout",
			      c->layout->name,
			      "--user",
			      uid,
			      "--group",
			      gid,
			      "--device",
			      pid,
			      l->gpu->workers ? "--workers" : NULL,
			      NULL};

	snprintf(vf, sizeof(vf), "%d", l->vf);
	snprintf(vram, sizeof(vram), "%llu", (unsigned long long)c->vram);
	softgpu_lock(l->gpu);
	snprintf(uid, sizeof(uid), "%u",
		 (unsigned)users_next(l->gpu, l->vf, USERS_PROCESS, &group));
	softgpu_unlock(l->gpu);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	snprintf(gid, sizeof(gid), "%u", (unsigned)group);
	r = make_ends(l, &control, &log, err);
	fds[n++] = control;
	fds[n++] = l->page_fd;
	fds[n++] = l->notice;
	fds[n++] = log;
	if (r == 0 && vf_of(l)->local)
		fds[n++] = local_dma_fd(vf_of(l)->local);
	if (r == 0)
		r = program_start("softgpu-vf", args, fds, (uint32_t)n, &l->pid, &l->pidfd, err);
	vgpu_close(&control);
	vgpu_close(&log);
	if (n > VF_DMA_FD - VF_CONTROL_FD)
		close(fds[VF_DMA_FD - VF_CONTROL_FD]);
	if (r < 0)
		return r;
	if (c->fifo > 0)
		loan_open(&l->loan, l->pid);
	if (c->groups)
		r = groups_limit(c->groups, (uint32_t)l->vf, l->limit, err);
	if (c->groups && r == 0)
		r = groups_enter(c->groups, (uint32_t)l->vf, l->pid, err);
	if (r < 0) {
		pidfd_send_signal(l->pidfd, SIGKILL, NULL, 0);
		return r;
	}
	doors_hear(l->gpu->doors, l->vf, l->says);
	watch(l, l->notice, EPOLLIN | EPOLLET, NOTICE);
	watch(l, l->wake, EPOLLIN | EPOLLET, WAKE);
	watch(l, l->pidfd, EPOLLIN, GONE);
	return 0;
}

/* Whether the VF must have a process now. */
static bool is_wanted(const struct link *l)
{
	const struct softgpu *gpu = l->gpu;
	const struct vf *vf = vf_of(l);

	return !gpu->quit && (uint32_t)l->vf < gpu->enabled && !vf->renew && !vf->reset_waits &&
	       vf->reset_at == VGPU_NEVER && !memory_holds(gpu, l->vf);
}

/* Returns when the page may be read again: at once, or after a sleep without the lock. */
static void limit_rate(struct link *l)
{
	vgpu_nsec at = vgpu_now();
	struct timespec t;

	if (at - l->page_reads_since >= PAGE_READS_IN) {
		l->page_reads_since = at;
		l->page_reads = 0;
	}
	if (l->page_reads++ < PAGE_READS)
		return;
	t = (struct timespec){0, (long)(PAGE_READS_IN - (at - l->page_reads_since))};
	softgpu_unlock(l->gpu);
	nanosleep(&t, NULL);
	softgpu_lock(l->gpu);
}

/*
 * While this thread starts a process, seals its page, and reaps it, it has ordinary priority, since
 * nothing waits for that, and clients cause as much of it as they like. Above all, the kernel does
 * not return from reaping before nobody uses the process's entries in /proc: a thread of the
 * real-time class would spin there, and keep the CPU from the program that is reading them.
 */
static void set_real_time(const struct link *l, bool on)
{
	int fifo = l->gpu->config.fifo;
	struct sched_param param = {.sched_priority = on ? fifo : 0};

	if (fifo > 0)
		pthread_setschedparam(pthread_self(), on ? SCHED_FIFO : SCHED_OTHER, &param);
}

/*
 * The process has mapped its page: seals it, so that it cannot be taken away from the device.
 * False: the process has no such page. Called without the lock: a process can keep the lock of the
 * page's file for as long as it lives, which is until the deadline.
 */
static bool seal(struct link *l)
{
	bool sealed;

	set_real_time(l, false);
	sealed = fcntl(l->page_fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0;
	set_real_time(l, true);
	return sealed;
}

/* The notices of a VF that has caused too much do not wake this thread, unless the VF must stop. */
static void mute(struct link *l, bool on)
{
	struct epoll_event e = {.events = on ? 0 : EPOLLIN | EPOLLET, .data.u64 = NOTICE};

	if (l->muted != on)
		epoll_ctl(l->epoll, EPOLL_CTL_MOD, l->notice, &e);
	l->muted = on;
}

/* Serves the process until it has ended, or must end. */
static void serve(struct link *l)
{
	struct epoll_event events[3];
	bool gone = false, maps, unread;
	vgpu_nsec began = thread_time(), ended, late;
	int n, i;

	l->deadline = vgpu_now() + START_MS * VGPU_MSEC;
	pthread_cond_signal(&l->gpu->sequencer_cond);
	while (!gone && !l->kill && !l->gpu->quit && (uint32_t)l->vf < l->gpu->enabled) {
		ended = thread_time();
		allowance_charge(&l->allowance, ended - began);
		began = ended;
		late = owes(l);
		mute(l, late > 0 && !l->stopping);
		unread = l->ready && atomic_load(&l->page->notices) != l->notices;
		softgpu_unlock(l->gpu);
		/* What is left unread, since the VF owes time, is read when it owes none: at once,
		 * if that was paid while another thread had charged it. */
		n = epoll_wait(l->epoll, events, 3,
			       late	? (int)(late / VGPU_MSEC) + 1
			       : unread ? 0
					: -1);
		maps = !l->ready && atomic_load(&l->mapped->ready);
		if (maps && !seal(l))
			gone = true;
		softgpu_lock(l->gpu);
		for (i = 0; i < n; i++) {
			gone |= events[i].data.u64 == GONE;
			if (events[i].data.u64 == WAKE)
				vgpu_eventfd_drain(l->wake);
		}
		if (maps && !gone && !l->kill)
			hand_over(l);
		read_run(l);
		limit_rate(l);
		read_page(l);
		softgpu_unlock(l->gpu); /* delivers interrupts */
		softgpu_lock(l->gpu);
		if (!l->stopping && l->raised)
			take_back(l, ordinary(l));
	}
}

/*
 * Ends the process, frees what belongs to it, and resets the VF. After its signal the process
 * executes nothing more, so the VF stands still and is reset at once. But the system call that the
 * process is in may take as long as its client likes, if it waits for the lock of a client's file.
 */
static void finish(struct link *l)
{
	struct vf_page *page = l->mapped;
	struct softgpu *gpu = l->gpu;
	siginfo_t info = {0};
	bool was_ready = l->ready, was_killed = l->kill, runs;
	const char *greedy;

	link_kill(l);
	take_back(l, SCHED_OTHER); /* its worker is not to keep it */
	loan_close(&l->loan);
	if (l->started)
		waitid(P_PIDFD, (id_t)l->pidfd, &info, WEXITED | WNOHANG | WNOWAIT);
	read_page(l); /* for the last time */
	greedy = spent_too_much(gpu, l->vf);
	if (greedy && !l->greedy) {
		l->greedy = true;
		fprintf(stderr,
			"<4>softgpu: VF %d: its %s took more CPU time than a client can cause\n",
			l->vf, greedy);
	}
	spent_ends(gpu, l->vf, SPENT_PROCESS);
	l->again_at = vgpu_now() + spent_owed(gpu, l->vf);
	gpu->used &= ~(1u << l->vf);
	l->page = &l->unused;
	l->ready = l->kill = l->has_process = l->started = l->stopping = l->muted = false;
	l->mapped = NULL;
	l->said = vgpu_take(&l->says);
	l->deadline = l->answer_by = l->lent_until = VGPU_NEVER;
	/* Whoever else has the connection by now has nothing. */
	if (l->client >= 0)
		shutdown(l->client, SHUT_RDWR);
	vgpu_close(&l->control);
	vgpu_close(&l->notice);
	vgpu_close(&l->wake);
	vgpu_close(&l->epoll);
	vgpu_close(&l->page_fd);
	if (page)
		munmap(page, sizeof(*page));
	if (was_ready && !was_killed && info.si_code != CLD_EXITED && !gpu->quit &&
	    (uint32_t)l->vf < gpu->enabled)
		fprintf(stderr, "<4>softgpu: VF %d is reset: its process has died\n", l->vf);
	if (gpu->quit || (uint32_t)l->vf >= gpu->enabled) {
		if (was_ready && !gpu->quit)
			memory_renew(gpu, l->vf);
		return;
	}
	if (!was_ready)
		return;
	allowance_charge(&l->allowance, ALLOWANCE_PROCESS);
	/* The kernel's VFIO also resets a VF on the last close. */
	runs = gpu->running == l->vf;
	if (runs) {
		spent_turn(gpu, -1);
		gpu->running = -1;
	}
	vf_of(l)->renew = true;
	command_vf_reset(gpu, l->vf);
	if (runs)
		command_engine_stopped(gpu);
}

/* Logs what the process has said at last, its pipe's size at most. Called without the lock. */
static void pass_on_last(struct link *l)
{
	uint32_t pieces = 64;

	while (l->said >= 0 && pieces-- > 0 && says_pass_on(l->said, l->vf) > 0)
		;
	vgpu_close(&l->said);
}

/* Closes the copy of the client's connection, into which the client can have put what it likes;
 * but a carrier's is its own. Called without the lock. */
static void close_client(struct link *l)
{
	if (vf_of(l)->local)
		vgpu_close(&l->client);
	else
		doors_discard(l->gpu->doors, &l->client);
}

/* Waits until the process has ended, or the device must end. Called without the lock. */
static void wait_for_exit(struct link *l)
{
	struct pollfd p = {l->pidfd, POLLIN, 0};
	siginfo_t info;
	bool quit = false;

	while (p.fd >= 0 && poll(&p, 1, GONE_MS) == 0 && !quit) {
		softgpu_lock(l->gpu);
		quit = l->gpu->quit;
		softgpu_unlock(l->gpu);
	}
	if (p.fd >= 0)
		waitid(P_PIDFD, (id_t)p.fd, &info, WEXITED | WNOHANG);
	vgpu_close(&l->pidfd);
}

/* For how long no other process may be started. */
static vgpu_nsec rests(struct link *l)
{
	vgpu_nsec late = owes(l), now = vgpu_now();

	if (leaving_lingers(l->gpu->leaving, l->vf) && late < LINGERS_MS * VGPU_MSEC)
		late = LINGERS_MS * VGPU_MSEC;
	return l->again_at > now + late ? l->again_at - now : late;
}

/* Waits before another process is started. */
static void wait_again(struct link *l, vgpu_nsec ns)
{
	vgpu_nsec until = vgpu_now() + ns;
	struct timespec t = {(time_t)(until / VGPU_SEC), (long)(until % VGPU_SEC)};

	while (is_wanted(l) && vgpu_now() < until)
		pthread_cond_timedwait(&l->cond, &l->gpu->lock, &t);
}

/* Nobody connects to the VF any more. Called with the lock, which it releases meanwhile: others may
 * have put what they like into connections that wait there. */
static void close_listener(struct link *l)
{
	int fd = vgpu_take(&l->listener);

	softgpu_unlock(l->gpu);
	set_real_time(l, false);
	doors_discard_listener(l->gpu->doors, &fd);
	set_real_time(l, true);
	softgpu_lock(l->gpu);
}

static void *link_thread(void *arg)
{
	struct link *l = arg;
	struct softgpu *gpu = l->gpu;
	struct vgpu_error err;
	vgpu_nsec late;
	bool started;
	int r;

	softgpu_lock(gpu);
	while (!gpu->quit) {
		if ((uint32_t)l->vf >= gpu->enabled)
			l->again_at = 0;
		if ((uint32_t)l->vf >= gpu->enabled && l->listener >= 0) {
			close_listener(l);
			continue;
		}
		if (!is_wanted(l)) {
			pthread_cond_broadcast(&gpu->links_cond);
			pthread_cond_wait(&l->cond, &gpu->lock);
			continue;
		}
		late = rests(l);
		if (late > 0) {
			wait_again(l, late);
			continue;
		}
		l->has_process = true;
		l->limit = vf_of(l)->file ? vf_of(l)->file->size : 0;
		softgpu_unlock(gpu);
		err.text[0] = 0;
		set_real_time(l, false);
		r = start(l, &err);
		set_real_time(l, true);
		softgpu_lock(gpu);
		l->started = r == 0;
		if (r < 0)
			fprintf(stderr, "<3>softgpu: VF %d: %s\n", l->vf, err.text);
		else
			serve(l);
		started = l->ready;
		finish(l);
		softgpu_unlock(gpu); /* delivers interrupts */
		set_real_time(l, false);
		close_client(l);
		pass_on_last(l);
		wait_for_exit(l);
		set_real_time(l, true);
		softgpu_lock(gpu);
		if (!started || l->greedy)
			l->again_at = vgpu_now() + (l->greedy ? SPENT_REST : AGAIN_MS * VGPU_MSEC);
		l->greedy = false;
	}
	close_listener(l);
	softgpu_unlock(gpu);
	return NULL;
}

/* Whether the VF has a process that serves it, if the VF is enabled, or else none. */
static bool has_followed(struct link *l)
{
	if ((uint32_t)l->vf < l->gpu->enabled)
		return l->ready;
	/* The carrier will remove the listener's name. */
	return !l->has_process && l->listener < 0;
}

void links_follow(struct softgpu *gpu)
{
	vgpu_nsec until = vgpu_now() + START_MS * VGPU_MSEC;
	struct timespec t = {(time_t)(until / VGPU_SEC), (long)(until % VGPU_SEC)};
	bool settled = false;
	uint32_t i;

	for (i = 0; i < gpu->config.n_vfs; i++)
		if (i < gpu->enabled || !gpu->vfs[i].link->has_process)
			link_wake(gpu->vfs[i].link);
		else
			link_kill(gpu->vfs[i].link);
	while (!settled && !gpu->quit) {
		for (settled = true, i = 0; i < gpu->config.n_vfs; i++)
			settled &= has_followed(gpu->vfs[i].link);
		if (!settled && pthread_cond_timedwait(&gpu->links_cond, &gpu->lock, &t) != 0)
			break;
	}
}

int links_create(struct softgpu *gpu, struct vgpu_error *err)
{
	pthread_condattr_t attr;
	struct link *l;
	uint32_t i;
	int r = 0;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	for (i = 0; i < gpu->config.n_vfs && r == 0; i++) {
		l = calloc(1, sizeof(*l));
		if (!l)
			r = ENOMEM;
		if (r == 0) {
			*l = (struct link){.gpu = gpu,
					   .vf = (int)i,
					   .deadline = VGPU_NEVER,
					   .answer_by = VGPU_NEVER,
					   .lent_until = VGPU_NEVER};
			l->pidfd = l->control = l->notice = l->wake = l->epoll = l->page_fd = -1;
			l->listener = l->client = l->says = l->said = -1;
			l->page = &l->unused;
			allowance_begin(&l->allowance, &allowance_causes, vgpu_now());
			allowance_begin(&l->loans, &allowance_loans, vgpu_now());
			pthread_cond_init(&l->cond, &attr);
			gpu->vfs[i].link = l;
			if (!gpu->carrier->listen)
				r = local_create(&gpu->vfs[i].local, gpu, (int)i);
		}
	}
	for (i = 0; i < gpu->config.n_vfs && r == 0; i++) {
		l = gpu->vfs[i].link;
		r = vfio_thread_create(&l->thread, "sg-vf",
				       gpu->config.fifo ? SCHED_FIFO : SCHED_OTHER,
				       gpu->config.fifo, link_thread, l);
		l->has_thread = r == 0;
	}
	pthread_condattr_destroy(&attr);
	if (r != 0)
		return vgpu_error_set(err, -r, "threads for VF processes: %s", strerror(r));
	return 0;
}

void links_destroy(struct softgpu *gpu)
{
	uint32_t i;

	/* All threads first: one whose process is just ready looks at all VFs. */
	for (i = 0; i < gpu->config.n_vfs && gpu->vfs[i].link; i++) {
		softgpu_lock(gpu);
		link_kill(gpu->vfs[i].link);
		softgpu_unlock(gpu);
		if (gpu->vfs[i].link->has_thread)
			pthread_join(gpu->vfs[i].link->thread, NULL);
	}
	for (i = 0; i < gpu->config.n_vfs && gpu->vfs[i].link; i++) {
		struct vf *vf = &gpu->vfs[i];
		struct link *l = vf->link;

		softgpu_lock(gpu); /* the thread that waits for processes that exit wakes links */
		vf->link = NULL;
		softgpu_unlock(gpu);
		local_destroy(vf->local);
		pthread_cond_destroy(&l->cond);
		free(l);
	}
}
