/* SPDX-License-Identifier: MIT */
/*
 * Makes the pages of a gated GPU, or adopts those of a former vgpud. The store (vfio/store.h) keeps
 * them over a restart of vgpud: gates stay as they are, and the next vgpud finds the VFs' owners
 * and workers, and how many submissions are in flight.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "gated.h"
#include "vfio/kernel.h"
#include "vfio/store.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/process.h"

/* How long vgpud, when it starts, waits for the end of work that passed a gate which is shut now.
 * After that it resets the VF. Milliseconds. */
#define SETTLE_MS 2000

/* Returns the name, in OUT, of a descriptor in the store. WHAT: a letter for its kind. */
static const char *kept(const struct vgpu_driver *d, char what, uint32_t i, char out[96])
{
	snprintf(out, 96, "gated-%s-%c%u", d->name, what, i);
	return out;
}

static void store_put(const struct vgpu_driver *d, char what, uint32_t i, int fd)
{
	char name[96];

	if (vfio_store)
		vfio_store->put(kept(d, what, i, name), fd);
}

static int take(const struct vgpu_driver *d, char what, uint32_t i)
{
	char name[96];

	return vfio_store ? vfio_store->take(kept(d, what, i, name)) : -ENOENT;
}

static void drop(const struct vgpu_driver *d, char what, uint32_t i)
{
	char name[96];

	if (vfio_store)
		vfio_store->drop(kept(d, what, i, name));
}

void gated_name_worker(struct gated_worker *w)
{
	struct vgpu_process p = {.started = 0};
	unsigned int pid = 0;
	char text[512];
	const char *at;

	if (kernel_read_text(text, sizeof(text), "/proc/self/fdinfo/%d", w->pidfd) > 0 &&
	    (at = strstr(text, "\nPid:")) && sscanf(at, " Pid: %u", &pid) == 1)
		vgpu_process_read(pid, &p);
	w->process = pid;
	w->started = p.started;
	w->entry++;
}

static const char worker_kinds[] = {'w', 'b', 'p'}; /* page, bell, pidfd */

void gated_keep_worker(struct vgpu_driver *d, uint32_t place)
{
	struct gated_worker *w = &d->workers[place];

	store_put(d, 'w', place, w->fd);
	store_put(d, 'b', place, w->bell);
	store_put(d, 'p', place, w->pidfd);
	if (w->keeps_wall)
		atomic_fetch_or(&d->seats[w->vf].page->walls, UINT64_C(1) << place);
	atomic_fetch_or(&d->seats[w->vf].page->workers, UINT64_C(1) << place);
}

void gated_forget_worker(struct vgpu_driver *d, uint32_t place)
{
	struct gate_seat *page = d->seats[d->workers[place].vf].page;
	size_t i;

	atomic_fetch_and(&page->workers, ~(UINT64_C(1) << place));
	atomic_fetch_and(&page->walls, ~(UINT64_C(1) << place));
	for (i = 0; i < sizeof(worker_kinds); i++)
		drop(d, worker_kinds[i], place);
}

static int map_page(int fd, void **map)
{
	*map = mmap(NULL, GATE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return *map == MAP_FAILED ? -errno : 0;
}

int gated_make_page(const char *name, void **map)
{
	VGPU_AUTO_CLOSE int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	/* Sealed, so that no process can resize it; mode 0600, so that only processes of its owner
	 * can open it again. */
	if (fd < 0 || ftruncate(fd, GATE_PAGE) < 0 || fchmod(fd, 0600) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ||
	    map_page(fd, map) < 0)
		return -errno;
	return vgpu_take(&fd);
}

int gated_renew_account(struct vgpu_driver *d, uint32_t vf)
{
	struct gated_seat *s = &d->seats[vf];
	uint32_t owner = atomic_load(&s->page->owner);
	uint64_t started = atomic_load(&s->page->started);
	void *elsewhere = NULL;
	int fd;

	if (s->account_of == owner && s->account_since == started)
		return 0;
	fd = gated_make_page("vgpud-account", &elsewhere);
	if (fd < 0)
		return fd;
	munmap(elsewhere, GATE_PAGE);
	/* At the address of the former account, which the engine thread may be reading. */
	if (mmap(s->account, GATE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
	    MAP_FAILED) {
		vgpu_close(&fd);
		return -ENOMEM;
	}
	drop(d, 'a', vf);
	store_put(d, 'a', vf, fd);
	vgpu_close(&s->account_fd);
	s->account_fd = fd;
	s->account_of = owner;
	s->account_since = started;
	return 0;
}

/* Opens a second, read-only descriptor of the seat's page. Returns 0 or -errno. */
static int open_read_only(struct gated_seat *s)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", s->fd);
	s->read_fd = open(path, O_RDONLY | O_CLOEXEC);
	return s->read_fd < 0 ? -errno : 0;
}

static int open_seat(struct vgpu_driver *d, uint32_t vf, bool *adopted)
{
	struct gated_seat *s = &d->seats[vf];
	int r;

	s->fd = take(d, 's', vf);
	s->account_fd = take(d, 'a', vf);
	if (s->fd >= 0 && s->account_fd >= 0 && map_page(s->fd, (void **)&s->page) == 0 &&
	    map_page(s->account_fd, (void **)&s->account) == 0 && s->page->magic == GATE_MAGIC &&
	    s->page->version == GATE_VERSION) {
		s->account_of = atomic_load(&s->page->owner);
		s->account_since = atomic_load(&s->page->started);
		return open_read_only(s);
	}
	*adopted = false;
	vgpu_close(&s->fd);
	vgpu_close(&s->account_fd);
	s->fd = gated_make_page("vgpud-seat", (void **)&s->page);
	if (s->fd < 0)
		return s->fd;
	s->page->magic = GATE_MAGIC;
	s->page->version = GATE_VERSION;
	s->account_fd = gated_make_page("vgpud-account", (void **)&s->account);
	r = s->account_fd < 0 ? s->account_fd : 0;
	if (r < 0)
		return r;
	store_put(d, 's', vf, s->fd);
	store_put(d, 'a', vf, s->account_fd);
	return open_read_only(s);
}

static void adopt_worker(struct vgpu_driver *d, uint32_t vf, uint32_t place)
{
	struct gated_worker *w = &d->workers[place];

	*w = (struct gated_worker){.vf = vf,
				   .keeps_wall =
					   atomic_load(&d->seats[vf].page->walls) >> place & 1,
				   .owner = atomic_load(&d->seats[vf].page->owner),
				   .since = atomic_load(&d->seats[vf].page->started),
				   .fd = take(d, 'w', place),
				   .bell = take(d, 'b', place),
				   .pidfd = take(d, 'p', place),
				   .rearm_at = VGPU_NEVER};
	if (w->fd >= 0 && w->bell >= 0 && w->pidfd >= 0 &&
	    map_page(w->fd, (void **)&w->page) == 0 && gated_hear(d, place) == 0) {
		gated_name_worker(w);
		atomic_store(&w->place, GATED_LIVE);
		gated_watch(d, place);
		return;
	}
	vgpu_close(&w->fd);
	vgpu_close(&w->bell);
	vgpu_close(&w->pidfd);
	gated_forget_worker(d, place);
}

/* Waits for work that passed the gate before it was shut. Returns whether it has ended. */
static bool settle(struct vgpu_driver *d, uint32_t vf)
{
	struct timespec pause = {0, 1000000};
	int i;

	for (i = 0; i < SETTLE_MS && gated_in_flight(d, vf) > 0; i++) {
		nanosleep(&pause, NULL);
		gated_look(d, vgpu_now());
	}
	return gated_in_flight(d, vf) == 0;
}

static void adopt(struct vgpu_driver *d, uint32_t vf, struct vgpu_driver_found *found)
{
	struct gate_seat *page = d->seats[vf].page;
	uint64_t workers = atomic_load(&page->workers);
	uint32_t i;

	for (i = 0; i < GATED_WORKERS; i++)
		if (workers >> i & 1)
			adopt_worker(d, vf, i);
	gated_look(d, vgpu_now());
	if (!atomic_load(&page->up))
		return;
	d->up[vf] = GATED_UP;
	found->driver_up[vf] = true;
	found->contexts[vf] = VGPU_CTX_SAVED;
	if (gate_is_open(atomic_load(&page->gate))) {
		atomic_store(&d->turns[vf].since, vgpu_now());
		found->contexts[vf] = VGPU_CTX_RUNNING;
	} else if (!settle(d, vf)) {
		/* Its work is still on the GPU: it must be reset before another VF gets a turn. */
		atomic_store(&d->turns[vf].since, vgpu_now());
		found->contexts[vf] = VGPU_CTX_RUNNING;
		found->driver_up[vf] = false;
	} else {
		gated_seal(d, vf);
	}
}

int gated_pages_open(struct vgpu_driver *d, const struct vgpu_driver_config *config,
		     struct vgpu_driver_found *found, struct vgpu_error *err)
{
	uint32_t i;
	int r = 0;

	found->adopted = true;
	for (i = 0; i < d->n_vfs && r == 0; i++)
		r = open_seat(d, i, &found->adopted);
	if (r < 0)
		return vgpu_error_set(err, r, "cannot make the pages of VF %u: %s", i - 1,
				      strerror(-r));
	for (i = 0; i < d->n_vfs; i++) {
		struct gate_seat *page = d->seats[i].page;

		snprintf(page->device, sizeof(page->device), "%s",
			 config->device + strlen(GATED_PREFIX));
		d->sizes[i] = config->sizes[i] == VGPU_SIZE_NONE ? 0 : config->sizes[i];
		if (!found->adopted)
			atomic_store(&page->memory, d->sizes[i]);
		adopt(d, i, found);
	}
	return 0;
}

void gated_pages_close(struct vgpu_driver *d)
{
	uint32_t i;

	for (i = 0; i < GATED_WORKERS; i++) {
		struct gated_worker *w = &d->workers[i];

		if (w->page)
			munmap(w->page, GATE_PAGE);
		vgpu_close(&w->fd);
		vgpu_close(&w->bell);
		vgpu_close(&w->pidfd);
	}
	for (i = 0; i < d->n_vfs; i++) {
		if (d->seats[i].page)
			munmap(d->seats[i].page, GATE_PAGE);
		if (d->seats[i].account)
			munmap(d->seats[i].account, GATE_PAGE);
		vgpu_close(&d->seats[i].fd);
		vgpu_close(&d->seats[i].read_fd);
		vgpu_close(&d->seats[i].account_fd);
	}
}
