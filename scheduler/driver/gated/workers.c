/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gated.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

/* How the epoll set names descriptors: a place's bell, a place's pidfd, and news. */
#define BELL(place) (place)
#define END(place) (GATED_WORKERS + (place))
#define NEWS (2 * GATED_WORKERS)

/* Adds a descriptor to the epoll set (HOW: EPOLL_CTL_ADD), or arms it again (EPOLL_CTL_MOD).
 * Returns 0 or -errno. */
static int hear(struct vgpu_driver *d, int fd, uint32_t number, int how)
{
	struct epoll_event want = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = number};

	return epoll_ctl(d->epoll, how, fd, &want) < 0 ? -errno : 0;
}

int gated_hear(struct vgpu_driver *d, uint32_t place)
{
	struct gated_worker *w = &d->workers[place];
	return hear(d, w->bell, BELL(place), EPOLL_CTL_ADD);
}

static bool is_live(const struct gated_worker *w)
{
	return atomic_load_explicit(&w->place, memory_order_acquire) == GATED_LIVE;
}

/* Returns whether the place has a worker or a keeper of the VF. NEW counts, because the process may
 * compute already. */
static bool is_of(const struct gated_worker *w, uint32_t vf)
{
	uint32_t place = atomic_load(&w->place);

	return (place == GATED_LIVE || place == GATED_NEW) && w->vf == vf;
}

/* Handles a ring of a bell, and arms the bell again: at once, or if it rings too often, later by
 * gated_rearm(). */
static void rung(struct vgpu_driver *d, uint32_t place, vgpu_nsec now)
{
	struct gated_worker *w = &d->workers[place];

	if (!is_live(w))
		return;
	vgpu_eventfd_drain(w->bell);
	if (w->bell_at + GATED_BELL_BURST < now)
		w->bell_at = now - GATED_BELL_BURST;
	w->bell_at += GATED_BELL_EVERY;
	w->rearm_at = w->bell_at > now ? w->bell_at : VGPU_NEVER;
	if (w->rearm_at == VGPU_NEVER)
		hear(d, w->bell, BELL(place), EPOLL_CTL_MOD);
}

vgpu_nsec gated_rearm(struct vgpu_driver *d, vgpu_nsec now)
{
	vgpu_nsec next = VGPU_NEVER;
	struct gated_worker *w;
	uint32_t i;

	for (i = 0; i < GATED_WORKERS; i++) {
		w = &d->workers[i];
		if (atomic_load(&w->place) != GATED_LIVE || w->rearm_at == VGPU_NEVER)
			continue;
		if (w->rearm_at <= now) {
			w->rearm_at = VGPU_NEVER;
			hear(d, w->bell, BELL(i), EPOLL_CTL_MOD);
		} else if (w->rearm_at < next) {
			next = w->rearm_at;
		}
	}
	return next;
}

/* Gives the ended worker's memory back to the VF's account. The door's thread closes its
 * descriptors. */
static void bury(struct vgpu_driver *d, uint32_t place)
{
	struct gated_worker *w = &d->workers[place];
	struct gate_account *account;
	uint64_t had, all;

	if (!is_live(w))
		return;
	account = d->seats[w->vf].account;
	had = atomic_load(&w->page->memory);
	all = atomic_load(&account->memory);
	while (!atomic_compare_exchange_weak(&account->memory, &all, all > had ? all - had : 0))
		;
	atomic_store_explicit(&w->place, GATED_ENDED, memory_order_release);
	vgpu_eventfd_signal(d->call);
}

void gated_watch(struct vgpu_driver *d, uint32_t place)
{
	struct gated_worker *w = &d->workers[place];

	if (hear(d, w->pidfd, END(place), EPOLL_CTL_ADD) == 0)
		return;
	syscall(SYS_pidfd_send_signal, w->pidfd, SIGKILL, NULL, 0);
	bury(d, place);
}

static void take_new(struct vgpu_driver *d)
{
	uint32_t i;

	vgpu_eventfd_drain(d->news);
	hear(d, d->news, NEWS, EPOLL_CTL_MOD);
	for (i = 0; i < GATED_WORKERS; i++) {
		struct gated_worker *w = &d->workers[i];

		if (atomic_load_explicit(&w->place, memory_order_acquire) != GATED_NEW)
			continue;
		w->bell_at = 0;
		w->rearm_at = VGPU_NEVER;
		atomic_store(&w->place, GATED_LIVE);
		gated_watch(d, i);
		gated_watch_new(d);
		/* The worker came while its VF was being reset. */
		if (d->resetting >> w->vf & 1)
			gated_kill(d, w->vf);
	}
}

void gated_look(struct vgpu_driver *d, vgpu_nsec now)
{
	struct epoll_event events[16];
	int n = epoll_wait(d->epoll, events, 16, 0), i;

	take_new(d);
	for (i = 0; i < n; i++) {
		uint32_t number = events[i].data.u32;

		if (number < GATED_WORKERS)
			rung(d, number, now);
		else if (number < NEWS)
			bury(d, number - GATED_WORKERS);
	}
}

uint64_t gated_in_flight(const struct vgpu_driver *d, uint32_t vf)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < GATED_WORKERS; i++)
		if (is_of(&d->workers[i], vf))
			sum += atomic_load(&d->workers[i].page->in_flight);
	return sum;
}

bool gated_has_work(const struct vgpu_driver *d, uint32_t vf)
{
	bool has = false;
	uint32_t i;

	for (i = 0; i < GATED_WORKERS; i++)
		has |= is_of(&d->workers[i], vf) &&
		       (atomic_load(&d->workers[i].page->work) > 0 ||
			atomic_load(&d->workers[i].page->in_flight) > 0);
	return has;
}

bool gated_has_workers(const struct vgpu_driver *d, uint32_t vf)
{
	bool has = false;
	uint32_t i;

	for (i = 0; i < GATED_WORKERS; i++)
		has |= is_of(&d->workers[i], vf) && !d->workers[i].keeps_wall;
	return has;
}

void gated_kill(struct vgpu_driver *d, uint32_t vf)
{
	uint32_t i;

	for (i = 0; i < GATED_WORKERS; i++)
		if (is_of(&d->workers[i], vf) && !d->workers[i].keeps_wall)
			syscall(SYS_pidfd_send_signal, d->workers[i].pidfd, SIGKILL, NULL, 0);
}

/* Ends the present turn, if there is one, and begins one if OPEN. fdinfo.c compares turns with what
 * the kernel's driver counts. So they are as long as the gate was really open, also if the engine
 * thread has had no CPU since it read the time of what it does: called before the gate opens, and
 * after it has shut. */
static void turn(struct gated_turns *t, bool open)
{
	vgpu_nsec since = atomic_load(&t->since), now = vgpu_now();

	atomic_fetch_add(&t->change, 1);
	if (since)
		atomic_fetch_add(&t->open, now - since);
	atomic_store(&t->since, open ? now : 0);
	atomic_fetch_add(&t->change, 1);
}

void gated_seal(struct vgpu_driver *d, uint32_t vf)
{
	struct gate_seat *page = d->seats[vf].page;

	atomic_store(&page->shut, atomic_load(&page->gate));
	turn(&d->turns[vf], false);
}

void gated_gate(struct vgpu_driver *d, uint32_t vf, bool open)
{
	_Atomic uint32_t *gate = &d->seats[vf].page->gate;

	if (gate_is_open(atomic_load(gate)) == open)
		return;
	if (open)
		turn(&d->turns[vf], true);
	atomic_fetch_add(gate, 1);
	if (open)
		/* Each worker waits for the gate in one thread, which wakes the worker's other
		 * threads. */
		syscall(SYS_futex, gate, FUTEX_WAKE, GATED_OF_VF, NULL, NULL, 0);
}
