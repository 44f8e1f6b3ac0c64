/* SPDX-License-Identifier: MIT */
/*
 * The door: a socket at which processes with the layer ask for the pages of their VF, and the
 * thread that answers; no other thread waits for it. It reads nothing that they send: the kernel
 * names the process that has connected, and the process gets the VF that it or one of its ancestors
 * owns.
 *
 * Keepers of walls (tools/render/wall) connect to a second socket beside the door. Each VF has one
 * keeper at most.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "gated.h"
#include "vfio/thread.h"
#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"
#include "vgpu/process.h"
#include "vgpu/untrusted.h"

#define BACKLOG 64
/* Pause of the door's thread after a refusal or a failed accept(), so that a client that retries at
 * once cannot keep out others. */
#define BREATH_NS 1000000L
/* How many generations of ancestors are searched for the owner of a VF. */
#define ANCESTORS 64

/* Returns the VF that the process or an ancestor owns, with the VF's generation, or VGPU_NO_VF. A
 * parent that was started after its child is not its parent: it has got the number of a process
 * that has ended. */
static uint32_t vf_of(const struct vgpu_driver *d, uint32_t pid, uint32_t *generation)
{
	uint64_t child = UINT64_MAX;
	struct vgpu_process p;
	uint32_t i, vf;

	for (i = 0; i < ANCESTORS && pid > 1; i++) {
		if (vgpu_process_read(pid, &p) < 0 || p.started > child)
			break;
		for (vf = 0; vf < d->n_vfs; vf++) {
			*generation = atomic_load(&d->seats[vf].page->generation);
			if (atomic_load(&d->seats[vf].page->owner) == pid &&
			    atomic_load(&d->seats[vf].page->started) == p.started)
				return vf;
		}
		pid = p.parent;
		child = p.started;
	}
	return VGPU_NO_VF;
}

/* Returns a free place, or GATED_WORKERS; and in OF_VF how many workers the VF has. */
static uint32_t free_place(const struct vgpu_driver *d, uint32_t vf, uint32_t *of_vf)
{
	uint32_t i, place = GATED_WORKERS;

	*of_vf = 0;
	for (i = 0; i < GATED_WORKERS; i++) {
		if (atomic_load(&d->workers[i].place) == GATED_FREE)
			place = i;
		else
			*of_vf += d->workers[i].vf == vf && !d->workers[i].keeps_wall;
	}
	return place;
}

/* Returns whether the VF's owner has a wall with a keeper. Ends the keeper of a former owner, which
 * would otherwise run until the last process behind that owner's wall ends. */
static bool has_wall(const struct vgpu_driver *d, uint32_t vf)
{
	const struct gate_seat *page = d->seats[vf].page;
	bool has = false;
	uint32_t i;

	for (i = 0; i < GATED_WORKERS; i++) {
		const struct gated_worker *w = &d->workers[i];
		uint32_t place = atomic_load(&w->place);

		if ((place != GATED_NEW && place != GATED_LIVE) || w->vf != vf || !w->keeps_wall)
			continue;
		if (w->owner == atomic_load(&page->owner) &&
		    w->since == atomic_load(&page->started))
			has = true;
		else
			syscall(SYS_pidfd_send_signal, w->pidfd, SIGKILL, NULL, 0);
	}
	return has;
}

static void say(struct gate_welcome *welcome, int status, const char *why)
{
	welcome->status = status;
	snprintf(welcome->why, sizeof(welcome->why), "%s", why);
}

static void empty(struct gated_worker *w)
{
	if (w->page)
		munmap(w->page, GATE_PAGE);
	w->page = NULL;
	vgpu_close(&w->fd);
	vgpu_close(&w->bell);
	vgpu_close(&w->pidfd);
}

/* Fills a place: makes the worker's page and bell, and takes over PIDFD. Returns 0, or -errno and
 * leaves the place empty and PIDFD to the caller. */
static int furnish(struct vgpu_driver *d, uint32_t place, uint32_t vf, int pidfd, bool keeper)
{
	struct gated_worker *w = &d->workers[place];
	int r;

	w->entry++;
	w->vf = vf;
	w->keeps_wall = keeper;
	w->owner = atomic_load(&d->seats[vf].page->owner);
	w->since = atomic_load(&d->seats[vf].page->started);
	w->pidfd = pidfd;
	gated_name_worker(w);
	w->bell = vgpu_eventfd();
	w->fd = gated_make_page("vgpud-worker", (void **)&w->page);
	r = w->bell < 0 ? w->bell : w->fd < 0 ? w->fd : gated_hear(d, place);
	if (r < 0) {
		w->pidfd = -1; /* it stays the caller's */
		empty(w);
	}
	return r;
}

/* Sends the answer, with N descriptors. A keeper also gets the driver whose calls its wall
 * catches. */
static void reply(const struct vgpu_driver *d, int fd, const struct gate_welcome *welcome,
		  bool keeper, const int *fds, uint32_t n)
{
	struct gate_wall wall = {.welcome = *welcome};
	struct iovec part = {&wall, keeper ? sizeof(wall) : sizeof(wall.welcome)};

	snprintf(wall.driver, sizeof(wall.driver), "%s", d->wall);
	vgpu_socket_send(fd, &part, 1, fds, n, MSG_DONTWAIT);
}

/* Sends the pages. If sending fails, the process cannot use Vulkan and exits; its place is freed
 * then. */
static void send_pages(struct vgpu_driver *d, int fd, struct gate_welcome *welcome, uint32_t place)
{
	struct gated_worker *w = &d->workers[place];
	struct gated_seat *s = &d->seats[w->vf];
	int fds[GATE_DESCRIPTORS] = {s->read_fd, s->account_fd, w->fd, w->bell};

	reply(d, fd, welcome, w->keeps_wall, fds, GATE_DESCRIPTORS);
}

/* Gives the process PID a place as a worker or as the KEEPER of a wall, and sends it the answer.
 * Returns true if it got the place, which then owns PIDFD; false with the reason in WELCOME. */
static bool let_in(struct vgpu_driver *d, int fd, uint32_t pid, int pidfd, bool keeper,
		   struct gate_welcome *welcome)
{
	uint32_t generation = 0;
	uint32_t vf = vf_of(d, pid, &generation), of_vf, place;

	if (vf == VGPU_NO_VF) {
		say(welcome, EPERM,
		    "it was not started by \"vgpuctl run\", or its VF was taken away");
		return false;
	}
	/* A process that vgpud cannot end could keep the GPU. If this one has ended, the number
	 * above may have been another process's. */
	if (syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) < 0) {
		if (errno == ESRCH)
			say(welcome, ESRCH, "it has ended");
		else
			say(welcome, EPERM,
			    "vgpud may not end processes of its user: give vgpud.service CAP_KILL "
			    "(docs/gated.md)");
		return false;
	}
	if (d->wall[0] && has_wall(d, vf) == keeper) {
		say(welcome, EPERM,
		    keeper ? "its VF has a wall already"
			   : "there is no wall before it (docs/gated.md), or its keeper has ended: "
			     "start the program again, with this version's vgpuctl or vgpud-qemu");
		return false;
	}
	place = free_place(d, vf, &of_vf);
	if (place == GATED_WORKERS || of_vf >= GATED_OF_VF) {
		say(welcome, EBUSY,
		    of_vf >= GATED_OF_VF ? "its VF has 16 processes that use Vulkan already, the "
					   "most that there can be"
					 : "the GPU has 64 processes that use Vulkan already, the "
					   "most that there can be");
		return false;
	}
	if (gated_renew_account(d, vf) < 0 || furnish(d, place, vf, pidfd, keeper) < 0) {
		say(welcome, ENOMEM, "vgpud has no descriptors or memory left for it");
		return false;
	}
	welcome->generation = generation;
	gated_keep_worker(d, place);
	atomic_store(&d->workers[place].place, GATED_NEW);
	/* If the VF was reset meanwhile, it may have another owner. A reset that begins from now on
	 * finds the worker. */
	if (atomic_load(&d->seats[vf].page->generation) != generation)
		syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	send_pages(d, fd, welcome, place);
	vgpu_eventfd_signal(d->news);
	return true;
}

static void answer(struct vgpu_driver *d, int fd, bool keeper)
{
	struct gate_welcome welcome = {.magic = GATE_MAGIC, .version = GATE_VERSION};
	struct timespec breath = {0, BREATH_NS};
	struct ucred peer;
	socklen_t size = sizeof(peer);
	int pidfd;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return;
	/* Open the pidfd first, and find out afterwards whose VF the process has. */
	pidfd = vgpu_socket_peer(fd, peer.pid);
	if (pidfd < 0)
		say(&welcome, ESRCH, "it has ended");
	else if (let_in(d, fd, (uint32_t)peer.pid, pidfd, keeper, &welcome))
		return;
	vgpu_close(&pidfd);
	reply(d, fd, &welcome, keeper, NULL, 0);
	nanosleep(&breath, NULL);
}

/* Frees the places of workers that have ended. */
static void clear_away(struct vgpu_driver *d)
{
	uint32_t i;

	vgpu_eventfd_drain(d->call);
	for (i = 0; i < GATED_WORKERS; i++) {
		struct gated_worker *w = &d->workers[i];

		if (atomic_load_explicit(&w->place, memory_order_acquire) != GATED_ENDED)
			continue;
		gated_forget_worker(d, i);
		empty(w);
		atomic_store_explicit(&w->place, GATED_FREE, memory_order_release);
	}
}

static void accept_one(struct vgpu_driver *d, int listener)
{
	struct timespec breath = {0, BREATH_NS};
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		nanosleep(&breath, NULL); /* vgpud may have no free descriptors */
		return;
	}
	answer(d, fd, listener == d->wall_listener);
	vgpu_untrusted_close(&fd);
}

static void *serve(void *arg)
{
	struct vgpu_driver *d = arg;
	struct pollfd p[3] = {{.fd = d->call, .events = POLLIN},
			      {.fd = d->listener, .events = POLLIN},
			      {.fd = d->wall_listener, .events = POLLIN}};
	int i;

	while (!atomic_load(&d->ends)) {
		if (poll(p, 3, -1) < 0)
			continue;
		clear_away(d);
		for (i = 1; i < 3; i++)
			if (p[i].revents)
				accept_one(d, p[i].fd);
	}
	return NULL;
}

static int listen_at(const char *path)
{
	VGPU_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(a.sun_path))
		return -ENAMETOOLONG;
	strcpy(a.sun_path, path);
	vgpu_untrusted_prepare(fd);
	/* Any process may ask; the answer depends on which one it is. */
	if ((unlink(path) < 0 && errno != ENOENT) ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || chmod(path, 0666) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return -errno;
	return vgpu_take(&fd);
}

int gated_door_open(struct vgpu_driver *d, struct vgpu_error *err)
{
	const char *at = d->door;
	int r = d->door[0] ? listen_at(d->door) : -EINVAL;

	d->listener = r;
	if (r >= 0 && d->wall[0]) {
		at = d->wall_door;
		r = d->wall_listener = listen_at(d->wall_door);
	}
	if (r < 0)
		return vgpu_error_set(err, r, "door = %s: cannot listen at %s: %s", d->door, at,
				      strerror(-r));
	r = vfio_thread_create(&d->thread, "vgpud-door", SCHED_OTHER, 0, serve, d);
	if (r != 0)
		return vgpu_error_set(err, -r, "cannot start the door's thread: %s", strerror(r));
	d->threaded = true;
	return 0;
}

void gated_door_close(struct vgpu_driver *d)
{
	if (d->threaded) {
		atomic_store(&d->ends, true);
		vgpu_eventfd_signal(d->call);
		pthread_join(d->thread, NULL);
		unlink(d->door);
		if (d->wall[0])
			unlink(d->wall_door);
	}
	vgpu_untrusted_close_listener(&d->listener);
	vgpu_untrusted_close_listener(&d->wall_listener);
}
