/* SPDX-License-Identifier: MIT */
/*
 * What the kernel's driver counts for the workers: /proc/PID/fdinfo of each descriptor of the GPU
 * (Linux, Documentation/gpu/drm-usage-stats.rst). A worker that computes while its gate is shut has
 * more engine time there than its gate was open, whatever it says in its page.
 *
 * A thread of its own looks, for which nobody waits, and which takes at most a twentieth of a CPU:
 * a VF whose processes take long to look at is looked at less often. It only asks the kernel what a
 * descriptor is, and no file system behind it.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fdinfo.h"
#include "gated.h"
#include "vfio/kernel.h"
#include "vfio/pci.h"
#include "vfio/thread.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/process.h"

#define DRM "/sys/class/drm"
/* Of all devices of DRM (Linux, Documentation/admin-guide/devices.txt). */
#define DRM_MAJOR 226u
/* The most of a process: descriptors, those of the GPU among them; and clients of a VF. */
#define DESCRIPTORS 16384u
#define OF_GPU 32u
#define CLIENTS 64u
/* How often a VF is looked at, while its gate is shut so often that a look begins and ends in
 * turns of others; how often its processes are searched for descriptors of the GPU. */
#define LOOK (4 * VGPU_MSEC)
#define SEARCH (200 * VGPU_MSEC)
/* The thread takes one part in so many of a CPU. */
#define PART 20u
/* Drivers count a job from when they hand it to the GPU, where another may be before it. */
#define OVERLAP 2u
/* What drivers compute on their own while a gate is shut, and what counters come late: so much at
 * once, and so much for ever. */
#define BUDGET (50 * VGPU_MSEC)
#define REFILL_PERCENT 2u

struct client {
	struct gated_fdinfo last;
	uint32_t round; /* in which it was seen last */
};

struct engine_account {
	char name[GATED_ENGINE_NAME];
	uint64_t grown; /* in this round */
	uint64_t credit;
};

/* A place for a worker, as far as it was looked at. */
struct watched {
	uint32_t entry;
	uint32_t fds[OF_GPU], n;
	vgpu_nsec search_at;
	bool known; /* what its clients had at first is history */
};

struct vf_account {
	uint32_t generation, round, n_clients, n_engines;
	uint32_t shut_for; /* rounds in a row */
	vgpu_nsec at, due, open;
	uint64_t beyond; /* the budget that is used up */
	struct client clients[CLIENTS];
	struct engine_account engines[GATED_ENGINES];
};

struct gated_accounts {
	char pdev[16]; /* of the GPU; "": it has none, and is the only one */
	struct watched places[GATED_WORKERS];
	struct vf_account vfs[VGPU_GPU_MAX_VFS];
};

static struct gated_engine *engine_of(struct gated_fdinfo *f, const char *name)
{
	uint32_t i;

	for (i = 0; i < f->n && strcmp(f->engines[i].name, name) != 0; i++)
		;
	if (i == GATED_ENGINES || strlen(name) >= GATED_ENGINE_NAME)
		return NULL;
	if (i == f->n) {
		f->engines[i] = (struct gated_engine){.capacity = 1};
		strcpy(f->engines[f->n++].name, name);
	}
	return &f->engines[i];
}

/* The kinds of lines, the longer prefixes first. */
static const struct {
	const char *prefix;
	size_t at;
} lines[] = {
	{"drm-engine-capacity-", offsetof(struct gated_engine, capacity)},
	{"drm-engine-", offsetof(struct gated_engine, ns)},
	{"drm-total-cycles-", offsetof(struct gated_engine, total)},
	{"drm-cycles-", offsetof(struct gated_engine, cycles)},
};

static void parse_line(struct gated_fdinfo *f, char *key, const char *value)
{
	uint64_t number = strtoull(value, NULL, 10);
	struct gated_engine *e;
	size_t i, n;

	if (strcmp(key, "drm-client-id") == 0) {
		f->id = number;
		f->is_client = true;
	} else if (strcmp(key, "drm-pdev") == 0) {
		snprintf(f->pdev, sizeof(f->pdev), "%.15s", value);
	}
	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		n = strlen(lines[i].prefix);
		if (strncmp(key, lines[i].prefix, n) != 0)
			continue;
		e = engine_of(f, key + n);
		if (e)
			*(uint64_t *)((char *)e + lines[i].at) = number;
		return;
	}
}

bool gated_fdinfo_parse(char *text, struct gated_fdinfo *out)
{
	char *line, *rest = text, *value;

	*out = (struct gated_fdinfo){.n = 0};
	while ((line = strsep(&rest, "\n"))) {
		value = strchr(line, ':');
		if (!value)
			continue;
		*value++ = '\0';
		parse_line(out, line, value + strspn(value, " \t"));
	}
	return out->is_client;
}

uint64_t gated_fdinfo_grown(const struct gated_fdinfo *now, const struct gated_fdinfo *before,
			    uint32_t engine, vgpu_nsec passed)
{
	const struct gated_engine *e = &now->engines[engine], *was = NULL;
	struct gated_engine none = {.capacity = 1, .total = e->total};
	uint64_t cycles, total;
	uint32_t i;

	for (i = 0; i < before->n; i++)
		if (strcmp(before->engines[i].name, e->name) == 0)
			was = &before->engines[i];
	was = was ? was : &none;
	if (e->ns || !e->total)
		return e->ns > was->ns ? e->ns - was->ns : 0;
	cycles = e->cycles > was->cycles ? e->cycles - was->cycles : 0;
	total = e->total > was->total ? e->total - was->total : 0;
	return total ? (uint64_t)((double)cycles / (double)total * (double)passed) : 0;
}

/* For how long the VF's gate was open, or work of it was under way after that, by NOW. */
static vgpu_nsec open_by(const struct gated_turns *t, vgpu_nsec now)
{
	vgpu_nsec open, since;
	uint32_t before;

	do {
		before = atomic_load(&t->change);
		open = atomic_load(&t->open);
		since = atomic_load(&t->since);
	} while (before & 1 || atomic_load(&t->change) != before);
	return open + (since && now > since ? now - since : 0);
}

struct search {
	struct watched *w;
	const char *path;
	uint32_t n;
};

static int look_at_descriptor(void *data, const char *name)
{
	struct search *s = data;
	char path[64];

	if (++s->n > DESCRIPTORS || s->w->n == OF_GPU)
		return 1;
	snprintf(path, sizeof(path), "%s/%.12s", s->path, name);
	if (vfio_kernel->device_major(path) == DRM_MAJOR)
		s->w->fds[s->w->n++] = (uint32_t)atoi(name);
	return 0;
}

static struct client *client_of(struct vf_account *a, uint64_t id, bool *is_new)
{
	uint32_t i, oldest = 0;

	for (i = 0; i < a->n_clients; i++)
		if (a->clients[i].last.id == id) {
			*is_new = false;
			return &a->clients[i];
		}
	*is_new = true;
	if (a->n_clients < CLIENTS)
		return &a->clients[a->n_clients++];
	for (i = 1; i < CLIENTS; i++)
		if (a->clients[i].round < a->clients[oldest].round)
			oldest = i;
	return a->clients[oldest].round == a->round ? NULL : &a->clients[oldest];
}

static struct engine_account *account_of(struct vf_account *a, const char *name)
{
	uint32_t i;

	for (i = 0; i < a->n_engines && strcmp(a->engines[i].name, name) != 0; i++)
		;
	if (i == GATED_ENGINES)
		return &a->engines[0];
	if (i == a->n_engines)
		strcpy(a->engines[a->n_engines++].name, name);
	return &a->engines[i];
}

/* Adds what a descriptor shows. Of a client whose descriptors are several, each shows all. */
static bool take(struct vf_account *a, const struct gated_fdinfo *f, bool known, vgpu_nsec passed)
{
	static const struct gated_fdinfo nothing = {.n = 0};
	bool is_new;
	struct client *c = client_of(a, f->id, &is_new);
	uint32_t i;

	if (!c)
		return false;
	for (i = 0; i < f->n && (known || !is_new); i++)
		account_of(a, f->engines[i].name)->grown +=
			gated_fdinfo_grown(f, is_new ? &nothing : &c->last, i, passed) /
			(f->engines[i].capacity ? f->engines[i].capacity : 1);
	*c = (struct client){*f, a->round};
	return true;
}

/* Looks at the process at a place. False: it cannot be watched. */
static bool look_at_process(struct gated_accounts *all, struct vf_account *a, struct watched *w,
			    uint32_t pid, vgpu_nsec now)
{
	char path[40], text[4096];
	struct search s = {w, path, 0};
	struct gated_fdinfo f;
	bool ok = true;
	uint32_t i;

	if (now >= w->search_at) {
		w->n = 0;
		snprintf(path, sizeof(path), "/proc/%u/fd", pid);
		ok = vfio_kernel->list(path, look_at_descriptor, &s) <= 0;
		w->search_at = now + SEARCH;
	}
	for (i = 0; i < w->n && ok; i++)
		if (kernel_read_text(text, sizeof(text), "/proc/%u/fdinfo/%u", pid, w->fds[i]) >
			    0 &&
		    gated_fdinfo_parse(text, &f) &&
		    (!all->pdev[0] || strcmp(f.pdev, all->pdev) == 0))
			ok = take(a, &f, w->known, now - a->at);
	w->known = true;
	return ok;
}

/* What the engines have done in the round, and how much of it was beyond the open gate. Work that
 * ended in a turn may be counted a little later: only from the second round in which the gate was
 * never open, nothing is left of the turns before. */
static void settle_round(struct gated_turns *t, struct vf_account *a, vgpu_nsec now)
{
	vgpu_nsec open = open_by(t, now), opened = open - a->open, passed = now - a->at;
	uint64_t refill = passed * REFILL_PERCENT / 100, done = 0, beyond = 0, part;
	uint32_t i;

	a->shut_for = opened ? 0 : a->shut_for + 1;
	for (i = 0; i < a->n_engines; i++) {
		struct engine_account *e = &a->engines[i];

		e->credit = a->shut_for > 1 ? 0 : e->credit + OVERLAP * opened;
		part = e->grown < e->credit ? e->grown : e->credit;
		e->credit -= part;
		beyond += e->grown - part;
		done += e->grown;
		e->grown = 0;
	}
	a->beyond += beyond;
	a->beyond = a->beyond > refill ? a->beyond - refill : 0;
	a->at = now;
	a->open = open;
	atomic_fetch_add(&t->driver, done);
	atomic_fetch_add(&t->beyond, beyond);
}

static void begin_anew(struct gated_turns *t, struct vf_account *a, uint32_t generation,
		       vgpu_nsec now)
{
	*a = (struct vf_account){.generation = generation, .at = now, .open = open_by(t, now)};
}

static void tell(struct vgpu_driver *d, uint32_t vf, enum vgpu_violation what)
{
	d->accounts->vfs[vf].beyond = 0;
	atomic_store(&d->turns[vf].violation, what);
	atomic_store(&d->turns[vf].violation_of, d->accounts->vfs[vf].generation + 1);
	vgpu_eventfd_signal(d->news);
}

/* Whether PLACE has a live worker of the VF, and its process; ENTRY is another one if the place is
 * another's. */
static bool worker_at(const struct vgpu_driver *d, uint32_t place, uint32_t vf, uint32_t *entry,
		      uint32_t *pid)
{
	const struct gated_worker *w = &d->workers[place];
	struct vgpu_process p;
	uint64_t started;

	*entry = atomic_load(&w->entry);
	if (atomic_load(&w->place) != GATED_LIVE || w->vf != vf || w->keeps_wall)
		return false;
	*pid = w->process;
	started = w->started;
	return atomic_load(&w->entry) == *entry && vgpu_process_read(*pid, &p) == 0 &&
	       p.started == started;
}

/* Looks at a VF. Returns when the next look is due. */
static void look_at_vf(struct vgpu_driver *d, uint32_t vf, vgpu_nsec now)
{
	uint32_t generation = atomic_load(&d->seats[vf].page->generation), entry, pid, i;
	struct vf_account *a = &d->accounts->vfs[vf];
	bool watched = true;

	if (a->generation != generation || a->at == 0)
		begin_anew(&d->turns[vf], a, generation, now);
	a->round++;
	for (i = 0; i < GATED_WORKERS; i++) {
		struct watched *w = &d->accounts->places[i];

		if (!worker_at(d, i, vf, &entry, &pid))
			continue;
		if (w->entry != entry)
			*w = (struct watched){.entry = entry};
		watched &= look_at_process(d->accounts, a, w, pid, now);
	}
	settle_round(&d->turns[vf], a, now);
	if (!watched)
		tell(d, vf, VGPU_VIOLATION_HIDES);
	else if (a->beyond > BUDGET)
		tell(d, vf, VGPU_VIOLATION_GATE);
}

static bool has_worker(const struct vgpu_driver *d, uint32_t vf)
{
	uint32_t i;

	for (i = 0; i < GATED_WORKERS; i++)
		if (atomic_load(&d->workers[i].place) == GATED_LIVE && d->workers[i].vf == vf &&
		    !d->workers[i].keeps_wall)
			return true;
	return false;
}

static vgpu_nsec cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (vgpu_nsec)t.tv_sec * VGPU_SEC + (vgpu_nsec)t.tv_nsec;
}

static void *watch(void *arg)
{
	struct vgpu_driver *d = arg;
	struct timespec pause = {0, (long)(LOOK / 2)};
	vgpu_nsec now, before, pay;
	uint32_t vf, n = 0;

	while (!atomic_load(&d->ends)) {
		uint32_t used = n ? n : 1;

		nanosleep(&pause, NULL);
		n = 0;
		for (vf = 0; vf < d->n_vfs; vf++) {
			struct vf_account *a = &d->accounts->vfs[vf];

			if (!has_worker(d, vf))
				continue;
			n++;
			now = vgpu_now();
			if (now < a->due)
				continue;
			before = cpu_time();
			look_at_vf(d, vf, now);
			pay = (cpu_time() - before) * PART * used;
			a->due = now + (pay > LOOK ? pay : LOOK);
		}
	}
	return NULL;
}

struct nodes {
	uint32_t n;
	char name[32];
};

static int count_node(void *data, const char *name)
{
	struct nodes *s = data;

	if (strncmp(name, "renderD", strlen("renderD")) == 0) {
		s->n++;
		snprintf(s->name, sizeof(s->name), "%.31s", name);
	}
	return 0;
}

/* The GPU's address in fdinfo. False: vgpud does not know which of the host's it is. */
static bool find_pdev(const char *device, char pdev[16])
{
	struct nodes s = {.n = 0};
	char link[32] = "";
	size_t i;

	if (!pci_is_address(device)) {
		vfio_kernel->list(DRM, count_node, &s);
		if (s.n != 1)
			return false;
		kernel_read_link(link, sizeof(link), DRM "/%s/device", s.name);
		device = pci_is_address(link) ? link : "";
	}
	snprintf(pdev, 16, "%.15s", device);
	for (i = 0; pdev[i]; i++)
		pdev[i] = (char)tolower((unsigned char)pdev[i]);
	return true;
}

int gated_watch_open(struct vgpu_driver *d, const char *device)
{
	char pdev[16];
	int r;

	if (!find_pdev(device, pdev))
		return 0;
	d->accounts = calloc(1, sizeof(*d->accounts));
	if (!d->accounts)
		return -ENOMEM;
	memcpy(d->accounts->pdev, pdev, sizeof(pdev));
	r = vfio_thread_create(&d->watcher, "vgpud-fdinfo", SCHED_OTHER, 0, watch, d);
	d->watches = r == 0;
	return -r;
}

void gated_watch_close(struct vgpu_driver *d)
{
	atomic_store(&d->ends, true);
	if (d->watches)
		pthread_join(d->watcher, NULL);
	free(d->accounts);
}
