/* SPDX-License-Identifier: MIT */
/*
 * The wall's keeper: the process to which the kernel brings each call that the wall's filter
 * (filter.c) catches. The rows of the kernel's driver (scheduler/base/wall.c) say what the keeper
 * does: it holds a submission until the gate opens, makes a call in place of the caller (look.c),
 * or refuses it. docs/gated.md, "The wall", lists the calls.
 *
 * For vgpud the keeper is one more process of the VF, and a submission that it holds is work of
 * that process, so the VF gets a turn. The keeper trusts no process behind the wall: it decides
 * whether a submission may pass by the gate and by the note that nothing is in flight, both of
 * which only vgpud writes.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"
#include "wall.h"

#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP /* Linux 6.6 */
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1ul << 0)
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
/* LOOK_MS: how often the keeper reads the gate while it holds a submission. IDLE_MS: how often it
 * looks for a reset of the VF otherwise. KNOCK_MS: how soon it asks vgpud again if vgpud does not
 * know the VM yet. */
#define LOOK_MS 1
#define IDLE_MS 200
#define KNOCK_MS 100
/* Time-out of the door's answer. */
#define DOOR_TIMEOUT (5 * VGPU_SEC)

/* A process that has submitted something. */
struct submitter {
	pid_t pid;
	int pidfd;
};

struct keeper {
	int listener;
	const struct vgpu_wall *wall;
	struct wall_gate *gate;
	pid_t owner;
	bool spares;
	uint64_t *held;
	size_t n_held, room;
	struct submitter *submitters;
	size_t n_submitters, room_submitters;
	bool said[256]; /* calls whose refusal was reported already, by the call's number */
};

/* Receives the answer at DOOR. Returns how many descriptors came with it, or -errno. */
static int receive(const char *door, struct gate_wall *out, int fds[GATE_DESCRIPTORS])
{
	char path[4096 + sizeof(GATE_WALL_DOOR)];
	const struct timeval timeout = {DOOR_TIMEOUT / VGPU_SEC, 0};
	struct vgpu_received got = {.n_fds = 0};
	ssize_t n;
	int fd;

	if (!realpath(door, path)) /* a VM's door is a link */
		return -errno;
	strcat(path, GATE_WALL_DOOR);
	fd = vgpu_socket_connect_within(path, DOOR_TIMEOUT);
	if (fd < 0)
		return fd;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	n = vgpu_socket_receive(fd, out, sizeof(*out), 0, &got);
	close(fd);
	if (n != sizeof(*out) || out->welcome.magic != GATE_MAGIC ||
	    (got.n_fds && got.n_fds != GATE_DESCRIPTORS)) {
		vgpu_received_drop(&got);
		return -EPROTO;
	}
	memcpy(fds, got.fds, got.n_fds * sizeof(*fds));
	return (int)got.n_fds;
}

int wall_knock(const char *door, struct wall_gate *out)
{
	struct gate_wall answer;
	int fds[GATE_DESCRIPTORS], n = receive(door, &answer, fds);
	void *seat, *page;

	*out = (struct wall_gate){.driver = "", .bell = -1};
	if (n < 0)
		return n == -ENOENT || n == -ECONNREFUSED ? 0 : n;
	memcpy(out->driver, answer.driver, sizeof(out->driver) - 1);
	if (n == 0)
		return 0;
	seat = mmap(NULL, GATE_PAGE, PROT_READ, MAP_SHARED, fds[0], 0);
	page = mmap(NULL, GATE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[2], 0);
	if (seat == MAP_FAILED || page == MAP_FAILED)
		_exit(1); /* without a keeper all caught calls fail */
	close(fds[0]);
	close(fds[1]);
	close(fds[2]);
	out->bell = fds[3];
	out->page = page;
	out->generation = answer.welcome.generation;
	out->seat = seat;
	return 0;
}

/* Returns whether a submission may pass: while the gate is open, and after it was shut until vgpud
 * has seen that nothing is in flight, because submissions that were let in before must still reach
 * the driver. */
static bool passes(const struct keeper *k)
{
	const struct gate_seat *seat = k->gate->seat;
	uint32_t gate = seat ? atomic_load(&seat->gate) : 0;

	return seat && (gate_is_open(gate) || atomic_load(&seat->shut) != gate);
}

/* Answers the call ID: its caller gets RESULT and ERROR or, with FLAGS, makes the call itself. A
 * caller that has ended needs no answer. */
static void answer(const struct keeper *k, uint64_t id, int64_t result, int error, uint32_t flags)
{
	struct seccomp_notif_resp r = {.id = id, .val = result, .error = error, .flags = flags};

	ioctl(k->listener, SECCOMP_IOCTL_NOTIF_SEND, &r);
}

static void let_pass(const struct keeper *k, uint64_t id)
{
	answer(k, id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

/* Makes room for one more element. Returns false if out of memory. */
static bool grow(void **list, size_t used, size_t *room, size_t size)
{
	size_t more = *room ? 2 * *room : 16;
	void *bigger = used < *room ? *list : realloc(*list, more * size);

	if (!bigger)
		return false;
	*room = used < *room ? *room : more;
	*list = bigger;
	return true;
}

/* Returns the number of a thread's process, or 0. */
static pid_t process_of(uint32_t thread)
{
	char path[40], line[256];
	unsigned int process = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/status", thread);
	f = fopen(path, "re");
	while (f && !process && fgets(line, sizeof(line), f))
		if (sscanf(line, "Tgid: %u", &process) == 1)
			break;
	if (f)
		fclose(f);
	return (pid_t)process;
}

/* If vgpud has reset the VF, kills all processes that have submitted something. vgpud itself kills
 * the processes that it knows, but not processes that never loaded the layer, or that forked after
 * loading it. */
static void end_submitters(struct keeper *k)
{
	struct wall_gate *g = k->gate;

	if (!g->seat || atomic_load(&g->seat->generation) == g->generation)
		return;
	g->generation = atomic_load(&g->seat->generation);
	while (k->n_submitters > 0) {
		struct submitter *s = &k->submitters[--k->n_submitters];

		syscall(SYS_pidfd_send_signal, s->pidfd, SIGKILL, NULL, 0);
		close(s->pidfd);
	}
}

static bool has_ended(const struct submitter *s)
{
	struct pollfd p = {.fd = s->pidfd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

/* Forgets submitters that have ended. */
static void forget_ended(struct keeper *k)
{
	size_t i, n = 0;

	for (i = 0; i < k->n_submitters; i++) {
		if (has_ended(&k->submitters[i]))
			close(k->submitters[i].pidfd);
		else
			k->submitters[n++] = k->submitters[i];
	}
	k->n_submitters = n;
}

/* Adds a process to those that end_submitters() kills. Returns false if out of memory or
 * descriptors. */
static bool remember(struct keeper *k, pid_t pid)
{
	size_t i;
	int pidfd;

	for (i = 0; i < k->n_submitters; i++) /* a submitter that has ended may have had the same
					       * number */
		if (k->submitters[i].pid == pid && !has_ended(&k->submitters[i]))
			return true;
	forget_ended(k);
	if (!grow((void **)&k->submitters, k->n_submitters, &k->room_submitters,
		  sizeof(*k->submitters)))
		return false;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return false;
	k->submitters[k->n_submitters++] = (struct submitter){pid, pidfd};
	return true;
}

static void hold(struct keeper *k, uint64_t id)
{
	if (!grow((void **)&k->held, k->n_held, &k->room, sizeof(*k->held))) {
		answer(k, id, 0, -ENOMEM, 0);
		return;
	}
	k->held[k->n_held++] = id;
}

static void let_held_pass(struct keeper *k)
{
	while (k->n_held > 0 && passes(k))
		let_pass(k, k->held[--k->n_held]);
}

static void refuse(struct keeper *k, const struct seccomp_notif *call, int error)
{
	uint32_t number = call->data.args[1] & 0xff;

	if (!k->said[number])
		fprintf(stderr, "vgpud's wall: process %u: %s's call 0x%02x is refused: %s\n",
			call->pid, k->wall->driver, number, strerror(-error));
	k->said[number] = true;
	answer(k, call->id, 0, error, 0);
}

static void take(struct keeper *k, const struct seccomp_notif *call)
{
	const struct vgpu_wall_row *row = vgpu_wall_row_of(k->wall, call->data.args[1]);
	pid_t process = process_of(call->pid);
	int64_t result = 0;
	int r;

	if (!row || process == 0 || !wall_waits(k->listener, call)) {
		answer(k, call->id, 0, -EPERM, 0);
	} else if (k->spares && process == k->owner && getppid() == k->owner) {
		let_pass(k, call->id);
	} else if (row->kind == VGPU_WALL_SUBMITS) {
		if (!remember(k, process))
			refuse(k, call, -EMFILE);
		else if (passes(k))
			let_pass(k, call->id);
		else
			hold(k, call->id);
	} else {
		r = row->kind == VGPU_WALL_LOOKED
			    ? wall_look(k->listener, call, process, row, &result)
			    : -EACCES;
		if (r == -EACCES || r == -EPERM)
			refuse(k, call, r);
		else
			answer(k, call->id, result, r, 0);
	}
}

/* Tells vgpud, by the keeper's page and bell, whether a submission is held. */
static void tell(const struct keeper *k)
{
	uint32_t held = k->n_held > 0;

	if (k->gate->seat && atomic_exchange(&k->gate->page->work, held) != held)
		vgpu_eventfd_signal(k->gate->bell);
}

static int poll_timeout(const struct keeper *k)
{
	if (!k->gate->seat)
		return KNOCK_MS;
	return k->n_held ? LOOK_MS : IDLE_MS;
}

void wall_keep(int listener, const char *door, struct wall_gate *gate, pid_t owner, bool spares)
{
	struct keeper k = {.listener = listener,
			   .wall = vgpu_wall_of(gate->driver),
			   .gate = gate,
			   .owner = owner,
			   .spares = spares};
	struct pollfd p = {.fd = listener, .events = POLLIN};
	struct seccomp_notif call;

	ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	for (;;) {
		if (poll(&p, 1, poll_timeout(&k)) < 0)
			continue;
		if (!gate->seat)
			wall_knock(door, gate);
		end_submitters(&k);
		let_held_pass(&k);
		memset(&call, 0, sizeof(call));
		if (p.revents & POLLIN && ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) == 0)
			take(&k, &call);
		else if (p.revents & (POLLHUP | POLLERR))
			return; /* no process is behind the wall any more */
		tell(&k);
	}
}
