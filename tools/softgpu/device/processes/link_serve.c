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

#include "doors.h"
#include "groups.h"
#include "leaving.h"
#include "link_private.h"
#include "local.h"
#include "program.h"
#include "says.h"
#include "users.h"
#include "vfio/thread.h"
#include "vfio/user_server.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/untrusted.h"
#include "workers.h"

/* How long a process may take to start; and how long the device waits after one that could not. */
#define START_MS 10000
#define AGAIN_MS 1000
/* How often a thread that waits for the end of a process checks whether the device must end. */
#define GONE_MS 200
/* How often the same is asked of a worker that takes long to end. */
#define LINGERS_MS 100
/* The page of a process that notifies the device is read at most PAGE_READS times in PAGE_READS_IN,
 * so that a process cannot keep the device busy. */
#define PAGE_READS 4u
#define PAGE_READS_IN VGPU_MSEC

/* More clients than can wait at a listener. */
#define MOST_WAITING 64

static vgpu_nsec thread_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (vgpu_nsec)t.tv_sec * VGPU_SEC + (vgpu_nsec)t.tv_nsec;
}

/* Writes the present state to the page of a new process. */
static void publish_all(struct link *l)
{
	const struct vf *vf = link_vf(l);

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
	link_take_back(l, link_ordinary(l)); /* its policy from now on */
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

	/* The VF has one client. After it has disconnected, the next client is accepted once the
	 * VF's next process is ready. */
	if (!l->ready || l->kill || link_client_has_gone(l))
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
	link_order(l, &order, &fd, 1);
	return true;
}

/* A client may have passed its connection to other programs, so the connection ends with the
 * process. Programs that wait to connect would otherwise be clients of the next process. */
static void end_clients(struct link *l)
{
	int fd, n;

	if (l->started && l->client >= 0)
		link_kill(l);
	for (n = 0; n < MOST_WAITING && l->listener >= 0 && doors_have_room(l->gpu->doors); n++) {
		fd = accept4(l->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return;
		doors_discard_later(l->gpu->doors, &fd);
	}
}

void links_expel(struct softgpu *gpu, uint32_t vfs)
{
	uint32_t i;

	for (i = 0; i < gpu->enabled; i++)
		if (vfs >> i & 1 && !gpu->vfs[i].local)
			end_clients(gpu->vfs[i].link);
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
		l->listener = local_listen(link_vf(l)->local, err);
	if (l->listener < 0)
		return l->listener;
	vgpu_untrusted_prepare(l->listener);
	return 0;
}

/* Makes what softgpu and the process have of each other. The process gets *CONTROL and *LOG, which
 * the caller closes. Returns 0 or -errno. */
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
	if (r == 0 && link_vf(l)->local)
		fds[n++] = local_dma_fd(link_vf(l)->local);
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
	doors_hear(l->gpu->doors, l->vf, SAYS_PROCESS, l->says);
	watch(l, l->notice, EPOLLIN | EPOLLET, NOTICE);
	watch(l, l->wake, EPOLLIN | EPOLLET, WAKE);
	watch(l, l->pidfd, EPOLLIN, GONE);
	return 0;
}

/* Returns whether the VF must have a process now. */
static bool is_wanted(const struct link *l)
{
	const struct softgpu *gpu = l->gpu;
	const struct vf *vf = link_vf(l);

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
 * While this thread starts a process, seals its page, and reaps it, it has ordinary priority,
 * because nothing waits for that and clients cause as much of it as they like. Above all, reaping
 * waits in the kernel until no program uses the process's entries in /proc: a real-time thread
 * would spin there, and keep the CPU from the program that is reading them.
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
 * Returns false if the process has no such page. Called without the lock: a process can keep the
 * lock of the page's file for as long as it lives, which is until the deadline.
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
		late = link_owes(l);
		mute(l, late > 0 && !l->stopping);
		unread = l->ready && atomic_load(&l->page->notices) != l->notices;
		softgpu_unlock(l->gpu);
		/* What is left unread because the VF owes time is read when the VF owes none. That
		 * is at once if the debt is already paid, since another thread may have charged it
		 * earlier. */
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
		link_read_run(l);
		limit_rate(l);
		link_read_page(l);
		softgpu_unlock(l->gpu); /* delivers interrupts */
		softgpu_lock(l->gpu);
		if (!l->stopping && l->raised)
			link_take_back(l, link_ordinary(l));
	}
}

/* No process is started within NS, nor before one could have been. */
static void rest_for(struct link *l, vgpu_nsec ns)
{
	vgpu_nsec at = vgpu_now() + ns;

	l->again_at = l->again_at > at ? l->again_at : at;
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
	link_take_back(l, SCHED_OTHER); /* its worker is not to keep it */
	loan_close(&l->loan);
	if (l->started)
		waitid(P_PIDFD, (id_t)l->pidfd, &info, WEXITED | WNOHANG | WNOWAIT);
	link_read_page(l); /* for the last time */
	greedy = spent_too_much(gpu, l->vf);
	if (greedy && !l->greedy) {
		l->greedy = true;
		fprintf(stderr,
			"<4>softgpu: VF %d: its %s took more CPU time than a client can cause\n",
			l->vf, greedy);
	}
	spent_ends(gpu, l->vf, SPENT_PROCESS);
	rest_for(l, spent_owed(gpu, l->vf));
	gpu->used &= ~(1u << l->vf);
	l->page = &l->unused;
	l->ready = l->kill = l->has_process = l->started = l->stopping = l->muted = false;
	l->mapped = NULL;
	l->said = vgpu_take(&l->says);
	l->deadline = l->answer_by = l->lent_until = VGPU_NEVER;
	/* The connection is useless to any other process that has it. */
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
	link_vf(l)->renew = true;
	command_vf_reset(gpu, l->vf);
	if (runs)
		command_engine_stopped(gpu);
}

/* Closes the copy of the client's connection, into which the client can have put what it likes;
 * but a carrier's is its own. Called without the lock. */
static void close_client(struct link *l, int *client)
{
	if (link_vf(l)->local)
		vgpu_close(client);
	else
		doors_discard(l->gpu->doors, client);
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

/* Returns for how long no other process may be started. */
static vgpu_nsec rests(struct link *l)
{
	vgpu_nsec late = link_owes(l), now = vgpu_now();

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

/* Closes the VF's listener and the connections that wait there. Called with the lock, which it
 * releases meanwhile, because clients may have put what they like into those connections. */
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
	int client, r;

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
		l->limit = link_vf(l)->file ? link_vf(l)->file->size : 0;
		softgpu_unlock(gpu);
		err.text[0] = 0;
		set_real_time(l, false);
		r = start(l, &err);
		set_real_time(l, true);
		softgpu_lock(gpu);
		l->started = r == 0;
		l->process += l->started;
		if (r < 0)
			fprintf(stderr, "<3>softgpu: VF %d: %s\n", l->vf, err.text);
		else
			serve(l);
		started = l->ready;
		finish(l);
		client = vgpu_take(&l->client);
		softgpu_unlock(gpu); /* delivers interrupts */
		set_real_time(l, false);
		close_client(l, &client);
		says_pass_on_last(&l->said, l->vf, SAYS_PROCESS);
		wait_for_exit(l);
		set_real_time(l, true);
		softgpu_lock(gpu);
		if (!started || l->greedy)
			rest_for(l, l->greedy ? SPENT_REST : AGAIN_MS * VGPU_MSEC);
		l->greedy = false;
	}
	close_listener(l);
	softgpu_unlock(gpu);
	return NULL;
}

/* Returns whether the VF has a process that serves it, if the VF is enabled, or else none. */
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
