/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "gpu.h"
#include "leaving.h"
#include "link.h"
#include "spent.h"
#include "workers.h"

#include "vfio/thread.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

/* A process that was killed and has not ended after this time is reported: it is in a call of a
 * driver that hangs, or its memory is large. */
#define REPORT_AFTER (2 * VGPU_SEC)

/* How much CPU time a worker may use to end, and for each GiB that it clears; how often that is
 * looked at. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ENDS_WITHIN (10 * VGPU_SEC)
#else
#define ENDS_WITHIN (700 * VGPU_MSEC)
#endif
#define CLEARS_WITHIN VGPU_SEC
#define LOOK (100 * VGPU_MSEC)
/* A worker that has been ending for this long counts as slow: ending takes no worker so much CPU
 * time. */
#define LINGERS_AFTER (300 * VGPU_MSEC)

struct leaver {
	struct leaver *next;
	int pidfd, vf;
	vgpu_nsec until; /* when to kill it, or, if it is killed, to report it */
	bool killed;
	pid_t worker;	       /* 0: it is none */
	int of;		       /* its VF */
	uint64_t served;       /* link_serial() of the process that had it */
	vgpu_nsec since, most; /* start of its end; the CPU time within which it must end */
};

struct leaving {
	struct softgpu *gpu;
	struct leaver *first;
	int epoll, wake;
	pthread_t thread;
	bool has_thread, quit;
	vgpu_nsec quiet_since; /* when the last one without a VF had ended */
};

/* A process without a VF, which is a worker, does not disturb others any more. */
static void settled(struct leaving *l)
{
	l->quiet_since = vgpu_now();
	if (l->gpu->workers)
		workers_tell(l->gpu);
}

static void remove_leaver(struct leaving *l, struct leaver *gone)
{
	struct leaver **at = &l->first;
	int vf = gone->vf;

	while (*at != gone)
		at = &(*at)->next;
	*at = gone->next;
	/* A process that is just being started has a copy of the descriptor: closing it does not
	 * end its events. */
	epoll_ctl(l->epoll, EPOLL_CTL_DEL, gone->pidfd, NULL);
	vgpu_close(&gone->pidfd);
	free(gone);
	if (vf < 0)
		settled(l);
	else if (l->gpu->vfs[vf].link)
		link_wake(l->gpu->vfs[vf].link);
}

/* Returns whether a worker that leaves has used more than it needs for that. */
static bool computes(const struct leaver *e)
{
	return e->worker && !e->killed && spent_cpu(e->worker) > e->most;
}

/* Kills processes that have exceeded their deadline, and reports those that do not end even so;
 * what depends on them continues to wait. Returns the next deadline. */
static vgpu_nsec kill_overdue(struct leaving *l, vgpu_nsec now)
{
	vgpu_nsec next = VGPU_NEVER;
	struct leaver *e;

	for (e = l->first; e; e = e->next) {
		if (computes(e)) {
			fprintf(stderr,
				"<4>softgpu: VF %d: its worker computes instead of ending and is "
				"killed\n",
				e->of);
			link_rest(l->gpu->vfs[e->of].link, e->served);
			e->until = now;
		}
		if (e->until <= now && !e->killed) {
			pidfd_send_signal(e->pidfd, SIGKILL, NULL, 0);
			e->killed = true;
			e->until = now + REPORT_AFTER;
		} else if (e->until <= now) {
			fprintf(stderr, "<3>softgpu: a process that was killed 2 s ago has not "
					"ended: a driver "
					"may hang: look at dmesg\n");
			e->until = VGPU_NEVER;
			if (e->vf < 0)
				settled(l);
		}
		if (e->worker && !e->killed && now + LOOK < next)
			next = now + LOOK;
		if (e->until < next)
			next = e->until;
	}
	return next;
}

static void *leaving_thread(void *arg)
{
	struct leaving *l = arg;
	struct epoll_event events[16];
	vgpu_nsec now = vgpu_now(), next;
	siginfo_t info;
	int n, i;

	softgpu_lock(l->gpu);
	for (;;) {
		next = kill_overdue(l, now);
		if (l->quit && next == VGPU_NEVER)
			break;
		softgpu_unlock(l->gpu);
		n = epoll_wait(l->epoll, events, 16,
			       next == VGPU_NEVER ? -1 : (int)((next - now) / VGPU_MSEC) + 1);
		softgpu_lock(l->gpu);
		now = vgpu_now();
		for (i = 0; i < n; i++) {
			struct leaver *e = events[i].data.ptr;

			if (!e)
				vgpu_eventfd_drain(l->wake);
			else if (waitid(P_PIDFD, (id_t)e->pidfd, &info, WEXITED | WNOHANG) == 0)
				remove_leaver(l, e);
		}
	}
	softgpu_unlock(l->gpu);
	return NULL;
}

int leaving_create(struct leaving **out, struct softgpu *gpu, struct vgpu_error *err)
{
	struct leaving *l = calloc(1, sizeof(*l));
	struct epoll_event want = {.events = EPOLLIN, .data.ptr = NULL};
	int r = 0;

	if (!l)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	l->gpu = gpu;
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	l->wake = vgpu_eventfd();
	if (l->epoll < 0 || l->wake < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->wake, &want) < 0)
		r = errno;
	else
		r = vfio_thread_create(&l->thread, "sg-leaving", SCHED_OTHER, 0, leaving_thread, l);
	l->has_thread = r == 0;
	if (r) {
		leaving_destroy(l);
		return vgpu_error_set(err, -r, "the thread that waits for processes: %s",
				      strerror(r));
	}
	*out = l;
	return 0;
}

void leaving_destroy(struct leaving *l)
{
	if (!l)
		return;
	if (l->has_thread) {
		softgpu_lock(l->gpu);
		l->quit = true;
		softgpu_unlock(l->gpu);
		vgpu_eventfd_signal(l->wake);
		pthread_join(l->thread, NULL);
	}
	while (l->first)
		remove_leaver(l, l->first);
	vgpu_close(&l->epoll);
	vgpu_close(&l->wake);
	free(l);
}

static void add(struct leaving *l, const struct leaver *what)
{
	struct leaver *e = malloc(sizeof(*e));
	struct epoll_event want = {.events = EPOLLIN, .data.ptr = e};
	int pidfd = what->pidfd;

	if (!e) { /* without memory nothing can wait for it: it is killed at once */
		pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
		vgpu_close(&pidfd);
		return;
	}
	*e = *what;
	e->next = l->first;
	l->first = e;
	epoll_ctl(l->epoll, EPOLL_CTL_ADD, pidfd, &want);
	vgpu_eventfd_signal(l->wake);
}

void leaving_add(struct leaving *l, int pidfd, int vf, vgpu_nsec until)
{
	add(l, &(struct leaver){.pidfd = pidfd, .vf = vf, .until = until});
}

void leaving_add_worker(struct leaving *l, int pidfd, pid_t pid, int vf, vgpu_nsec until)
{
	/* of the partition that it clears: the VF may have another one at once */
	vgpu_nsec clears = (l->gpu->vfs[vf].fb_size >> 20) * (CLEARS_WITHIN >> 10);

	add(l, &(struct leaver){.pidfd = pidfd,
				.vf = -1,
				.until = until,
				.worker = pid,
				.of = vf,
				.served = link_serial(l->gpu->vfs[vf].link),
				.since = vgpu_now(),
				.most = spent_cpu(pid) + ENDS_WITHIN + clears});
}

bool leaving_lingers(const struct leaving *l, int vf)
{
	const struct leaver *e;

	for (e = l->first; e; e = e->next)
		if (e->worker && e->of == vf && vgpu_now() - e->since > LINGERS_AFTER)
			return true;
	return false;
}

vgpu_nsec leaving_quiet_since(const struct leaving *l)
{
	const struct leaver *e;

	for (e = l->first; e; e = e->next)
		if (e->vf < 0 && e->until != VGPU_NEVER)
			return VGPU_NEVER;
	return l->quiet_since;
}

bool leaving_holds(const struct leaving *l, int vf)
{
	const struct leaver *e;

	for (e = l->first; e; e = e->next)
		if (e->vf == vf)
			return true;
	return false;
}
