/* SPDX-License-Identifier: MIT */
/*
 * Compares the VFs' turns with the engine time that the kernel's driver counts for their workers,
 * in /proc/PID/fdinfo of each descriptor of the GPU (Linux,
 * Documentation/gpu/drm-usage-stats.rst). A worker that computes while its gate is shut has more
 * engine time there than its gate was open, whatever it writes into its page.
 *
 * A separate thread looks. No other thread waits for it, and it uses at most a twentieth of a CPU:
 * the longer a VF's processes take to look at, the less often it looks at them. The fdinfo of an
 * epoll descriptor takes a lock that the process can hold. So right before it reads a descriptor's
 * fdinfo, the thread asks the kernel alone, and no file system, what the descriptor is. In between,
 * the process can still replace the descriptor. So the thread holds no lock while it looks, and
 * the driver can close while the thread is blocked.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fdinfo.h"
#include "gated.h"
#include "vfio/kernel.h"
#include "vfio/pci.h"
#include "vfio/thread.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"
#include "vgpu/process.h"

/* The major number of all DRM devices (Linux, Documentation/admin-guide/devices.txt). */
#define DRM_MAJOR 226u
/* A GPU has a render node and a primary one. */
#define NODES 4u
/* Limits of a process: its descriptors, those of them that are of the GPU, and bytes of one
 * descriptor's fdinfo (which begins with a line for each lock that the process has taken). CLIENTS:
 * limit of a VF. */
#define DESCRIPTORS 16384u
#define OF_GPU 32u
#define TEXT 65536u
#define CLIENTS 64u
/* LOOK: how often a VF's counters are read; short, so that two readings often fall into one time in
 * which its gate is shut. SEARCH: how often /proc/PID/fd is searched for descriptors of the GPU. */
#define LOOK (4 * VGPU_MSEC)
#define SEARCH (200 * VGPU_MSEC)
/* The thread uses at most 1/PART of a CPU. */
#define PART 20u
/* How many times the length of its turns an engine may count: drivers count a job from when they
 * hand it to the GPU, where it may wait behind another one. */
#define OVERLAP 2u
/* Tolerance for work that drivers do on their own, and for counters that lag: BUDGET at once,
 * refilled by REFILL_PERCENT of the time that passes. */
#define BUDGET (50 * VGPU_MSEC)
#define REFILL_PERCENT 2u
/* In how many searches in a row, which are at least 2 s apart from the first to the last, a process
 * that is ending may show no descriptors before that is a violation. Searches rather than time:
 * this thread may have had no CPU. */
#define UNSEEN 10u
/* The least time between two reports of violations of a VF. */
#define TELL (10 * VGPU_SEC)
/* How long gated_watch_close() waits for a look that is under way. */
#define CLOSE (200 * VGPU_MSEC)

struct client {
	struct gated_fdinfo last;
	uint32_t round;	    /* the last round in which it was seen */
	vgpu_nsec at, open; /* when that was, and how long the gate had been open by then */
};

struct engine_account {
	char name[GATED_ENGINE_NAME];
	uint64_t grown;	 /* engine time that clients computed in this round, ns */
	uint64_t credit; /* engine time that the VF's turns still allow, ns */
	/* For clients that were not seen in the round before: their engine time since they could
	 * have been seen, and what the VF's turns allowed in that time. */
	uint64_t late, allowed;
};

/* What the thread knows about the worker in a place. */
struct watched {
	uint32_t entry;
	uint32_t fds[OF_GPU], n;
	vgpu_nsec search_at;
	vgpu_nsec open;	 /* how long the gate had been open at the last search */
	uint32_t unseen; /* searches in a row that have not found its descriptors */
	bool known;	 /* it was looked at before: what new clients show has come since then */
};

struct vf_account {
	uint32_t generation, round, n_clients, n_engines;
	uint32_t shut_for; /* rounds in a row */
	vgpu_nsec at, due, open, tell_at;
	uint64_t beyond; /* the part of BUDGET that is used up, ns */
	struct client clients[CLIENTS];
	struct engine_account engines[GATED_ENGINES];
};

/* Owned by the thread, which frees it when it ends. */
struct gated_accounts {
	pthread_mutex_t lock;
	struct vgpu_driver *d; /* under the lock; NULL: closed */
	uint32_t n_vfs;
	int wake; /* eventfd: a worker has come, or the driver closes */
	uint32_t nodes[NODES], n_nodes;
	bool counts; /* the GPU's driver has shown a client, so its fdinfo can be relied on */
	struct watched places[GATED_WORKERS];
	struct vf_account vfs[VGPU_GPU_MAX_VFS];
	char text[TEXT + 1];
};

/* The live workers of a VF at the beginning of a round. */
struct stock {
	uint32_t generation, n;
	vgpu_nsec open;
	struct {
		uint32_t place, entry, pid;
		uint64_t started;
	} of[GATED_WORKERS];
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

/* The kinds of lines, longer prefixes before their own beginnings. */
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

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

void gated_fdinfo_note(struct gated_fdinfo *last, const struct gated_fdinfo *now)
{
	struct gated_engine *e;
	uint32_t i;

	last->id = now->id;
	for (i = 0; i < now->n; i++) {
		e = engine_of(last, now->engines[i].name);
		if (!e)
			continue;
		e->ns = larger(e->ns, now->engines[i].ns);
		e->cycles = larger(e->cycles, now->engines[i].cycles);
		e->total = larger(e->total, now->engines[i].total);
	}
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

/* Returns how long the VF's gate was open until NOW, with the time after each shutting in which
 * work of the VF was still in flight. */
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
	const struct gated_accounts *all;
	struct watched *w;
	const char *path;
	uint32_t n;
};

static bool is_of_gpu(const struct gated_accounts *all, const char *path)
{
	uint32_t major, minor, i;

	if (!vfio_kernel->device(path, &major, &minor) || major != DRM_MAJOR)
		return false;
	for (i = 0; i < all->n_nodes && all->nodes[i] != minor; i++)
		;
	return i < all->n_nodes;
}

static int look_at_descriptor(void *data, const char *name)
{
	struct search *s = data;
	char path[64];

	if (++s->n > DESCRIPTORS)
		return 1;
	snprintf(path, sizeof(path), "%s/%.12s", s->path, name);
	if (!is_of_gpu(s->all, path))
		return 0;
	if (s->w->n == OF_GPU)
		return 1;
	s->w->fds[s->w->n++] = (uint32_t)atoi(name);
	return 0;
}

/* Returns the place of client ID, which may be a new one or that of a client that was not seen in
 * this round or the one before. NULL: the VF has too many clients. */
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
	return a->clients[oldest].round + 1 >= a->round ? NULL : &a->clients[oldest];
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

static vgpu_nsec since(vgpu_nsec now, vgpu_nsec then)
{
	return now > then ? now - then : 0;
}

/* Adds the counters that a descriptor shows. All descriptors of a client show the same counters, so
 * only what has grown since the last one of them is added. Returns false if the VF has too many
 * clients. */
static bool take(struct vf_account *a, const struct watched *w, const struct gated_fdinfo *f,
		 vgpu_nsec open, vgpu_nsec now)
{
	bool is_new, late;
	struct client *c = client_of(a, f->id, &is_new);
	struct engine_account *e;
	uint64_t grown;
	uint32_t i;

	if (!c)
		return false;
	if (is_new)
		*c = (struct client){.at = now, .open = w->open};
	late = is_new || c->round + 1 < a->round;
	for (i = 0; i < f->n && (w->known || !is_new); i++) {
		e = account_of(a, f->engines[i].name);
		grown = gated_fdinfo_grown(f, &c->last, i, since(now, c->at)) /
			(f->engines[i].capacity ? f->engines[i].capacity : 1);
		if (late) {
			e->late += grown;
			e->allowed = larger(e->allowed, OVERLAP * since(open, c->open));
		} else {
			e->grown += grown;
		}
	}
	gated_fdinfo_note(&c->last, f);
	c->round = a->round;
	c->at = now;
	c->open = open;
	return true;
}

/* Reads a descriptor's fdinfo. Returns its length, TEXT if it is that long or longer, or -errno. */
static ssize_t read_fdinfo(char text[TEXT + 1], uint32_t pid, uint32_t number)
{
	char path[48];
	ssize_t r = 1;
	size_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/fdinfo/%u", pid, number);
	fd = vfio_kernel->open(path, O_RDONLY);
	if (fd < 0)
		return fd;
	while (n < TEXT && (r = vfio_kernel->read(fd, text + n, TEXT - n, n)) > 0)
		n += (size_t)r;
	close(fd);
	text[n] = '\0';
	return r < 0 ? r : (ssize_t)n;
}

/* Reads the counters of a descriptor. Returns false if it is of the GPU and its counters cannot be
 * had. */
static bool look_at_client(struct gated_accounts *all, struct vf_account *a,
			   const struct watched *w, uint32_t pid, uint32_t number, vgpu_nsec open)
{
	struct gated_fdinfo f;
	char path[48];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%u/fd/%u", pid, number);
	if (!is_of_gpu(all, path))
		return true;
	n = read_fdinfo(all->text, pid, number);
	if (n >= 0 && n < (ssize_t)TEXT && gated_fdinfo_parse(all->text, &f)) {
		all->counts = true;
		return take(a, w, &f, open, vgpu_now());
	}
	/* No violation if the process has closed it meanwhile, or the driver shows no counters of
	 * any client. */
	return !all->counts || !is_of_gpu(all, path);
}

/* Reads the counters of a worker. Returns false if the worker cannot be watched. */
static bool look_at_process(struct gated_accounts *all, struct vf_account *a, struct watched *w,
			    uint32_t pid, bool has_ended, vgpu_nsec open, vgpu_nsec now)
{
	char path[40];
	struct search s = {all, w, path, 0};
	bool searched = now >= w->search_at;
	uint32_t i;
	int r = 0;

	if (searched) {
		w->n = 0;
		snprintf(path, sizeof(path), "/proc/%u/fd", pid);
		r = vfio_kernel->list(path, look_at_descriptor, &s);
		w->search_at = now + SEARCH;
	}
	if (r > 0)
		return false;
	/* After its first thread has ended, its other threads may still have descriptors, which
	 * /proc/PID/fd does not show. */
	if (searched)
		w->unseen = r < 0 || has_ended ? w->unseen + 1 : 0;
	if (w->unseen > 0)
		return w->unseen <= UNSEEN;
	for (i = 0; i < w->n; i++)
		if (!look_at_client(all, a, w, pid, w->fds[i], open))
			return false;
	if (searched)
		w->open = open;
	w->known = true;
	return true;
}

/* Adds up the engine time of the round, and the part of it that the VF's turns do not allow. Work
 * that ended in a turn may be counted a little later, so credit from earlier turns is dropped only
 * in the second round in a row in which the gate was never open. */
static void settle_round(struct gated_turns *t, struct vf_account *a, vgpu_nsec now)
{
	vgpu_nsec open = open_by(t, now), opened = since(open, a->open);
	uint64_t refill = since(now, a->at) * REFILL_PERCENT / 100, done = 0, beyond = 0, part;
	uint32_t i;

	a->shut_for = opened ? 0 : a->shut_for + 1;
	for (i = 0; i < a->n_engines; i++) {
		struct engine_account *e = &a->engines[i];

		e->credit = a->shut_for > 1 ? 0 : e->credit + OVERLAP * opened;
		done += e->grown + e->late;
		e->grown += since(e->late, e->allowed);
		part = e->grown < e->credit ? e->grown : e->credit;
		e->credit -= part;
		beyond += e->grown - part;
		e->grown = e->late = e->allowed = 0;
	}
	a->beyond = since(a->beyond + beyond, refill < BUDGET ? refill : BUDGET);
	a->at = now;
	a->open = open;
	atomic_fetch_add(&t->driver, done);
	atomic_fetch_add(&t->beyond, beyond);
}

/* Begins the account of a new generation of the VF. */
static void begin_anew(struct gated_accounts *all, struct vf_account *a, const struct stock *s,
		       vgpu_nsec now)
{
	uint32_t i;

	*a = (struct vf_account){.generation = s->generation, .at = now, .open = s->open};
	for (i = 0; i < s->n; i++)
		all->places[s->of[i].place].known = false;
}

/* Has the engine thread report a violation, at most once in TELL. */
static void tell(struct vgpu_driver *d, struct vf_account *a, uint32_t vf, enum vgpu_violation what,
		 vgpu_nsec now)
{
	a->beyond = 0;
	if (now < a->tell_at)
		return;
	a->tell_at = now + TELL;
	atomic_store(&d->turns[vf].violation, what);
	atomic_store(&d->turns[vf].violation_of, a->generation + 1);
	vgpu_eventfd_signal(d->news);
}

/* Writes the VF's live workers to S: none while the VF is being reset, because they are being
 * ended. The caller holds the lock. */
static void take_stock(struct vgpu_driver *d, uint32_t vf, vgpu_nsec now, struct stock *s)
{
	uint32_t i;

	s->generation = atomic_load(&d->seats[vf].page->generation);
	s->n = 0;
	s->open = open_by(&d->turns[vf], now);
	for (i = 0; i < GATED_WORKERS && atomic_load(&d->seats[vf].page->up); i++) {
		const struct gated_worker *w = &d->workers[i];
		uint32_t entry = atomic_load(&w->entry);

		if (atomic_load(&w->place) != GATED_LIVE || w->vf != vf || w->keeps_wall)
			continue;
		s->of[s->n].place = i;
		s->of[s->n].entry = entry;
		s->of[s->n].pid = w->process;
		s->of[s->n].started = w->started;
		s->n += atomic_load(&w->entry) == entry;
	}
}

/* Reads the counters of a VF's workers. Returns false if one of them cannot be watched. */
static bool look_at_vf(struct gated_accounts *all, struct vf_account *a, const struct stock *s,
		       vgpu_nsec now)
{
	struct vgpu_process p;
	bool ok = true;
	uint32_t i;

	if (a->generation != s->generation || a->at == 0)
		begin_anew(all, a, s, now);
	a->round++;
	for (i = 0; i < s->n; i++) {
		struct watched *w = &all->places[s->of[i].place];

		if (vgpu_process_read(s->of[i].pid, &p) < 0 || p.started != s->of[i].started ||
		    (p.has_ended && p.threads <= 1))
			continue;
		if (w->entry != s->of[i].entry)
			*w = (struct watched){.entry = s->of[i].entry};
		ok &= look_at_process(all, a, w, s->of[i].pid, p.has_ended, s->open, now);
	}
	return ok;
}

static vgpu_nsec cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (vgpu_nsec)t.tv_sec * VGPU_SEC + (vgpu_nsec)t.tv_nsec;
}

/* Does a round of a VF if it is due. USED: number of VFs with workers, which share the thread's CPU
 * time. Returns whether the VF has workers. Takes the lock, and releases it while it looks. */
static bool watch_vf(struct gated_accounts *all, uint32_t vf, uint32_t used)
{
	struct vf_account *a = &all->vfs[vf];
	vgpu_nsec now = vgpu_now(), before = cpu_time(), pay;
	struct vgpu_driver *d;
	struct stock s = {.n = 0};
	bool ok;

	pthread_mutex_lock(&all->lock);
	if (all->d)
		take_stock(all->d, vf, now, &s);
	pthread_mutex_unlock(&all->lock);
	if (s.n == 0 || now < a->due)
		return s.n > 0;
	ok = look_at_vf(all, a, &s, now);
	now = vgpu_now();
	pthread_mutex_lock(&all->lock);
	d = all->d;
	if (d)
		settle_round(&d->turns[vf], a, now);
	if (d && !ok)
		tell(d, a, vf, VGPU_VIOLATION_HIDES, now);
	else if (d && a->beyond > BUDGET)
		tell(d, a, vf, VGPU_VIOLATION_GATE, now);
	pthread_mutex_unlock(&all->lock);
	pay = (cpu_time() - before) * PART * used;
	a->due = now + (pay > LOOK ? pay : LOOK);
	return true;
}

static bool is_open(struct gated_accounts *all)
{
	bool open;

	pthread_mutex_lock(&all->lock);
	open = all->d;
	pthread_mutex_unlock(&all->lock);
	return open;
}

static void destroy(struct gated_accounts *all)
{
	vgpu_close(&all->wake);
	pthread_mutex_destroy(&all->lock);
	free(all);
}

static void *watch(void *arg)
{
	struct gated_accounts *all = arg;
	struct pollfd wake = {.fd = all->wake, .events = POLLIN};
	uint32_t vf, n = 0, used;

	while (is_open(all)) {
		used = n ? n : 1;
		for (vf = n = 0; vf < all->n_vfs; vf++)
			n += watch_vf(all, vf, used);
		if (poll(&wake, 1, n ? (int)(LOOK / 2 / VGPU_MSEC) : -1) > 0)
			vgpu_eventfd_drain(all->wake);
	}
	destroy(all);
	return NULL;
}

static int note_node(void *data, const char *name)
{
	struct gated_accounts *all = data;
	unsigned int minor;

	if ((sscanf(name, "renderD%u", &minor) == 1 || sscanf(name, "card%u", &minor) == 1) &&
	    all->n_nodes < NODES)
		all->nodes[all->n_nodes++] = minor;
	return 0;
}

int gated_watch_open(struct vgpu_driver *d, const char *device)
{
	struct gated_accounts *all = calloc(1, sizeof(*all));
	char path[64];
	size_t i;
	int r;

	if (!all)
		return -ENOMEM;
	snprintf(path, sizeof(path), PCI_DEVICES "/%.15s/drm", device);
	for (i = strlen(PCI_DEVICES); path[i]; i++)
		path[i] = (char)tolower((unsigned char)path[i]);
	vfio_mutex_init(&all->lock);
	all->d = d;
	all->n_vfs = d->n_vfs;
	all->wake = vgpu_eventfd();
	vfio_kernel->list(path, note_node, all);
	r = all->wake < 0 ? -all->wake : all->n_nodes == 0 ? ENODEV : 0;
	if (r == 0)
		r = vfio_thread_create(&d->watcher, "vgpud-fdinfo", SCHED_OTHER, 0, watch, all);
	if (r == 0)
		d->accounts = all;
	else
		destroy(all);
	return -r;
}

void gated_watch_new(const struct vgpu_driver *d)
{
	if (d->accounts)
		vgpu_eventfd_signal(d->accounts->wake);
}

void gated_watch_close(struct vgpu_driver *d)
{
	struct gated_accounts *all = d->accounts;
	struct timespec until;

	if (!all)
		return;
	pthread_mutex_lock(&all->lock);
	all->d = NULL;
	vgpu_eventfd_signal(all->wake);
	pthread_mutex_unlock(&all->lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += (long)CLOSE;
	until.tv_sec += until.tv_nsec / (long)VGPU_SEC;
	until.tv_nsec %= (long)VGPU_SEC;
	if (pthread_timedjoin_np(d->watcher, NULL, &until) != 0)
		pthread_detach(d->watcher);
	d->accounts = NULL;
}
