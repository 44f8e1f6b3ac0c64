/* SPDX-License-Identifier: MIT */
/*
 * The scheduler follows OpenStack: placement finds resource providers whose sums have room
 * (allocation candidates, at most 1000), a weigher orders their hosts, the first candidate of the
 * best host is booked, and if the host refuses, the booking moves to the next one, three in all. A
 * host's candidates are in no order, because placement collects them in a set. Sources:
 * nova/scheduler/manager.py, placement/objects/allocation_candidate.py.
 */
#include "fleet.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fleet_host.h"
#include "fleet_rivals.h"
#include "random.h"

const struct fleet_mix fleet_mixes[] = {
	{"halves",
	 "1/8, 1/4 and 1/2 of what a GPU has to give",
	 {{125, 4}, {250, 2}, {500, 1}},
	 0,
	 0},
	{"desktops", "mostly 1/16, some 1/8 and 1/3", {{62, 8}, {125, 3}, {333, 1}}, 0, 0},
	{"any", "any share from 3 % to 60 %, and any memory", {{0, 0}}, 30, 600},
	{NULL, NULL, {{0, 0}}, 0, 0},
};

/* What is booked of a resource provider. */
struct provider {
	uint64_t used[FLEET_CLASSES];
};

/* A server that runs. */
struct server {
	vgpu_nsec until;
	uint32_t provider, gpu, vf; /* gpu: of all GPUs of the fleet */
	struct fleet_size size;
};

struct fleet {
	const struct fleet_options *o;
	struct fleet_kind kind;
	struct fleet_gpu *gpus;
	struct provider *providers;
	uint32_t n_gpus, n_providers, gpus_each; /* gpus_each: of a provider */
	struct fleet_inventory inventory;	 /* of a provider */
	struct server *servers;			 /* a heap, by their ends */
	uint32_t n_servers;
	uint64_t used;	       /* shares of running servers, per mille */
	struct rng rng, order; /* of servers; of candidates */
	struct fleet_result *r;
};

static const struct fleet_mix *mix_of(const struct fleet_options *o)
{
	const struct fleet_mix *m = fleet_mixes;

	while (m->name && strcmp(m->name, o->mix) != 0)
		m++;
	return m->name ? m : NULL;
}

/* Draws what a server asks for. Memory is in proportion to the share, or drawn independently. */
static struct fleet_size draw(struct fleet *f)
{
	const struct fleet_mix *m = mix_of(f->o);
	const struct fleet_inventory *gpu = &f->r->inventory;
	uint64_t all = 0, part, memory, n, step = gpu->step[FLEET_MEMORY];
	struct fleet_size size;
	int i;

	for (i = 0; m->sizes[i].share; i++)
		all += m->sizes[i].weight;
	part = all ? 0 : random_between(&f->rng, m->from, m->to);
	memory = all ? 0 : random_between(&f->rng, m->from, m->to);
	n = all ? random_between(&f->rng, 1, all) : 0;
	for (i = 0; all && part == 0; i++) {
		part = n <= m->sizes[i].weight ? m->sizes[i].share : 0;
		n -= part ? 0 : m->sizes[i].weight;
		memory = part;
	}
	size.share = part * gpu->total[FLEET_SHARE] / 1000;
	if (size.share < gpu->least[FLEET_SHARE])
		size.share = gpu->least[FLEET_SHARE];
	size.memory_mib = memory * gpu->total[FLEET_MEMORY] / 1000 / step * step;
	if (size.memory_mib == 0)
		size.memory_mib = step;
	return size;
}

static bool has_room(const struct fleet *f, const struct provider *p, const uint64_t *amount)
{
	const struct fleet_inventory *v = &f->inventory;
	int c;

	for (c = 0; c < FLEET_CLASSES; c++)
		if (p->used[c] + amount[c] > v->total[c] || amount[c] < v->least[c] ||
		    amount[c] > v->most[c] || amount[c] % v->step[c] != 0)
			return false;
	return true;
}

/* Books AMOUNT, or releases it if SIGN is -1. */
static void book(struct provider *p, const uint64_t *amount, int sign)
{
	int c;

	for (c = 0; c < FLEET_CLASSES; c++)
		p->used[c] += sign > 0 ? amount[c] : -amount[c];
}

/* of_host returns how many providers a host has, first_of_host the first one. */
static uint32_t of_host(const struct fleet *f)
{
	return f->o->gpus / f->gpus_each;
}

static uint32_t first_of_host(const struct fleet *f, uint32_t provider)
{
	return provider / of_host(f) * of_host(f);
}

static uint64_t memory_of_host(const struct fleet *f, uint32_t provider)
{
	uint32_t first = first_of_host(f, provider), i;
	uint64_t sum = 0;

	for (i = first; i < first + of_host(f); i++)
		sum += f->providers[i].used[FLEET_MEMORY];
	return sum;
}

/* Returns whether the weigher prefers the host of provider A to that of B: by free memory, as
 * Nova's RAM weigher. Of equal hosts, the first one is preferred. */
static bool is_better(const struct fleet *f, uint32_t a, uint32_t b)
{
	uint64_t x = memory_of_host(f, a), y = memory_of_host(f, b);

	return f->o->pack ? x > y : x < y;
}

/* Returns the candidate that is booked if its host is chosen: a random one with room. */
static uint32_t candidate_of(struct fleet *f, uint32_t first, const uint64_t *amount,
			     uint32_t *found)
{
	uint32_t i, n = 0, chosen = UINT32_MAX;

	for (i = first; i < first + of_host(f); i++) {
		if (!has_room(f, &f->providers[i], amount))
			continue;
		n++;
		if (n == 1 || random_one_in(&f->order, n))
			chosen = i;
	}
	*found += n;
	return chosen;
}

/* Writes a candidate of each of the best hosts to BEST, at most FLEET_ATTEMPTS, the best first.
 * Returns how many. */
static uint32_t candidates(struct fleet *f, const uint64_t *amount, uint32_t *best)
{
	uint32_t n = 0, found = 0, first, i, k;

	for (first = 0; first < f->n_providers && found < FLEET_CANDIDATES; first += of_host(f)) {
		i = candidate_of(f, first, amount, &found);
		if (i == UINT32_MAX)
			continue;
		for (k = n; k > 0 && is_better(f, i, best[k - 1]); k--)
			if (k < FLEET_ATTEMPTS)
				best[k] = best[k - 1];
		if (k < FLEET_ATTEMPTS)
			best[k] = i;
		n += n < FLEET_ATTEMPTS;
	}
	f->r->candidates += found;
	return n;
}

/* Returns how many GPUs a host tries: those of the provider that is booked, or all that it has. */
static uint32_t tried(const struct fleet *f)
{
	return f->o->free_choice ? f->o->gpus : f->gpus_each;
}

/* Asks a host for a VF for S, GPU by GPU, as vgpud does. Returns the last GPU's answer. */
static enum fleet_why ask_host(struct fleet *f, struct server *s)
{
	uint32_t first = s->provider * f->gpus_each / tried(f) * tried(f), g;
	enum fleet_why why = FLEET_NO_VF, now;

	for (g = 0; g < tried(f) && why != FLEET_TAKEN; g++) {
		s->gpu = first + g;
		now = fleet_gpu_take(&f->gpus[s->gpu], &f->kind, &s->size, &s->vf);
		why = now == FLEET_NO_VF ? why : now;
	}
	return why;
}

static void swap(struct server *a, struct server *b)
{
	struct server s = *a;

	*a = *b;
	*b = s;
}

static void push(struct fleet *f, const struct server *s)
{
	uint32_t i = f->n_servers++;

	for (f->servers[i] = *s; i > 0 && f->servers[i].until < f->servers[(i - 1) / 2].until;
	     i = (i - 1) / 2)
		swap(&f->servers[i], &f->servers[(i - 1) / 2]);
}

static struct server pop(struct fleet *f)
{
	struct server first = f->servers[0];
	uint32_t i = 0, child;

	f->servers[0] = f->servers[--f->n_servers];
	while ((child = 2 * i + 1) < f->n_servers) {
		child += child + 1 < f->n_servers &&
			 f->servers[child + 1].until < f->servers[child].until;
		if (f->servers[i].until <= f->servers[child].until)
			break;
		swap(&f->servers[i], &f->servers[child]);
		i = child;
	}
	return first;
}

static void amounts(const struct fleet_size *size, uint64_t *out)
{
	out[FLEET_VF] = 1;
	out[FLEET_SHARE] = size->share;
	out[FLEET_MEMORY] = size->memory_mib;
}

/* Places a server: books it, asks the host, and moves the booking if the host refuses. Returns
 * whether it found a place. */
static bool place(struct fleet *f, struct server *s)
{
	uint32_t best[FLEET_ATTEMPTS], n, i;
	uint64_t amount[FLEET_CLASSES];
	enum fleet_why why = FLEET_TAKEN;

	amounts(&s->size, amount);
	n = candidates(f, amount, best);
	f->r->arrived++;
	f->r->no_host += n == 0;
	for (i = 0; i < n; i++) {
		s->provider = best[i];
		book(&f->providers[best[i]], amount, 1);
		f->r->sent++;
		why = ask_host(f, s);
		if (why == FLEET_TAKEN)
			break;
		book(&f->providers[best[i]], amount, -1);
		f->r->refused++;
		f->r->refused_memory += why == FLEET_NO_MEMORY;
		f->r->refused_shares += why == FLEET_NO_TIME;
	}
	if (n == 0 || why != FLEET_TAKEN) {
		f->r->gave_up += n > 0;
		return false;
	}
	f->r->placed++;
	f->used += s->size.share;
	push(f, s);
	return true;
}

static void leave(struct fleet *f)
{
	struct server s = pop(f);
	uint64_t amount[FLEET_CLASSES];

	amounts(&s.size, amount);
	book(&f->providers[s.provider], amount, -1);
	fleet_gpu_give(&f->gpus[s.gpu], &f->kind, s.vf);
	f->used -= s.size.share;
}

/* Draws from an exponential distribution with mean MEAN. */
static double exponential(struct fleet *f, double mean)
{
	return -mean * log1p(-(double)(random_draw(&f->rng) >> 11) * 0x1p-53);
}

static void finish(struct fleet *f)
{
	uint32_t i;

	for (i = 0; f->gpus && i < f->n_gpus; i++)
		fleet_gpu_finish(&f->gpus[i]);
	free(f->gpus);
	free(f->providers);
	free(f->servers);
	fleet_kind_finish(&f->kind);
}

/* Writes the inventory of a provider, from its number of GPUs: totals add up, and the most that one
 * server can have is what one GPU has. */
static void make_inventory(struct fleet *f)
{
	int c;

	f->inventory = f->r->inventory;
	for (c = 0; c < FLEET_CLASSES; c++)
		f->inventory.total[c] *= f->gpus_each;
}

static int init(struct fleet *f, const struct fleet_options *o, struct fleet_result *r,
		struct vgpu_error *err)
{
	uint32_t i;
	int e;

	*f = (struct fleet){.o = o,
			    .r = r,
			    .rng = {.state = o->seed},
			    .order = {.state = ~o->seed},
			    .n_gpus = o->hosts * o->gpus};
	f->gpus_each = o->per_gpu ? 1 : o->gpus;
	f->n_providers = f->n_gpus / f->gpus_each;
	e = fleet_kind_init(&f->kind, o);
	f->gpus = calloc(f->n_gpus, sizeof(*f->gpus));
	f->providers = calloc(f->n_providers, sizeof(*f->providers));
	f->servers = calloc((size_t)f->n_gpus * o->vfs, sizeof(*f->servers));
	if (!f->gpus || !f->providers || !f->servers)
		e = -ENOMEM;
	for (i = 0; i < f->n_gpus && e == 0; i++)
		e = fleet_gpu_init(&f->gpus[i], &f->kind);
	if (e < 0)
		return vgpu_error_set(err, e, "out of memory");
	if (!fleet_gpu_inventory(&f->gpus[0], &f->kind, &r->inventory))
		return vgpu_error_set(err, -EINVAL,
				      "no share is admitted: world switches are too long");
	make_inventory(f);
	return 0;
}

static uint64_t used_ppm(const struct fleet *f)
{
	return f->used * 1000 / f->n_gpus;
}

/* Fills the fleet: servers arrive until one finds no place. */
static void fill(struct fleet *f)
{
	struct server s;

	do
		s = (struct server){.size = draw(f), .until = VGPU_NEVER};
	while (place(f, &s));
	f->r->used_ppm = used_ppm(f);
}

/* Runs the fleet: servers come and go. Their mean number and mean size give the load. */
static void run(struct fleet *f)
{
	double life = 1e9, share = 0, t = 0, between, sum = 0;
	struct rng rng = f->rng;
	struct server s;
	uint64_t i;

	for (i = 0; i < 1000; i++)
		share += (double)draw(f).share / 1000;
	f->rng = rng;
	between = life * share /
		  ((double)f->r->inventory.total[FLEET_SHARE] * f->n_gpus * f->o->load_pct / 100);
	for (i = 0; i < f->o->servers; i++) {
		t += exponential(f, between);
		while (f->n_servers > 0 && f->servers[0].until <= (vgpu_nsec)t)
			leave(f);
		s = (struct server){.size = draw(f)};
		s.until = (vgpu_nsec)(t + exponential(f, life));
		place(f, &s);
		sum += i >= f->o->servers / 2 ? (double)used_ppm(f) : 0;
	}
	f->r->used_ppm = (uint64_t)(sum / (double)(f->o->servers - f->o->servers / 2));
}

/* Returns whether each provider's booking is the sum of what its running servers have asked for. */
static bool books_agree(const struct fleet *f, struct provider *owned)
{
	uint64_t amount[FLEET_CLASSES];
	uint32_t i;

	for (i = 0; i < f->n_servers; i++) {
		amounts(&f->servers[i].size, amount);
		book(&owned[f->servers[i].provider], amount, 1);
	}
	for (i = 0; i < f->n_providers; i++)
		if (memcmp(owned[i].used, f->providers[i].used, sizeof(owned[i].used)) != 0)
			return false;
	return true;
}

/* Returns whether the GPUs from FIRST on, among which a host chooses, have assigned what is booked
 * of their providers. Profiles round sizes up. */
static bool gpus_agree(const struct fleet *f, uint32_t first)
{
	uint64_t vfs = 0, memory = 0, booked_vfs = 0, booked = 0;
	uint32_t g, p;

	for (p = first / f->gpus_each; p < (first + tried(f)) / f->gpus_each; p++) {
		booked_vfs += f->providers[p].used[FLEET_VF];
		booked += f->providers[p].used[FLEET_MEMORY];
	}
	for (g = first; g < first + tried(f); g++) {
		vfs += (uint64_t)__builtin_popcount(f->gpus[g].used);
		memory += vgpu_memory_in(&f->gpus[g].memory, VGPU_EXTENT_OWNED) >> 20;
		if (vgpu_memory_check(&f->gpus[g].memory))
			return false;
	}
	return vfs == booked_vfs && (f->o->profile ? memory >= booked : memory == booked);
}

/* Checks that bookings agree with what the GPUs have assigned. Returns 0, or -EINVAL with the
 * reason: a bug of this program. */
static int compare(struct fleet *f, struct vgpu_error *err)
{
	struct provider *owned = calloc(f->n_providers, sizeof(*owned));
	bool allocated = owned, agree = allocated && books_agree(f, owned);
	uint32_t g;

	for (g = 0; g < f->n_gpus && agree; g += tried(f))
		agree = gpus_agree(f, g);
	free(owned);
	return agree	   ? 0
	       : allocated ? vgpu_error_set(err, -EINVAL, "GPUs do not have what is booked")
			   : vgpu_error_set(err, -ENOMEM, "out of memory");
}

static struct fleet_size next(void *data)
{
	return draw(data);
}

int fleet_run(const struct fleet_options *o, struct fleet_result *out, struct vgpu_error *err)
{
	struct fleet f;
	clock_t began;
	int r;

	*out = (struct fleet_result){.arrived = 0};
	r = init(&f, o, out, err);
	began = clock();
	if (r == 0 && o->servers)
		run(&f);
	else if (r == 0)
		fill(&f);
	out->seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
	if (r == 0)
		r = compare(&f, err);
	if (r == 0 && !o->servers) {
		f.rng.state = o->seed;
		out->whole_ppm = fleet_fill_whole(f.n_gpus, next, &f);
		f.rng.state = o->seed;
		out->profiles_ppm = fleet_fill_profiles(f.n_gpus, o, next, &f);
	}
	finish(&f);
	return r;
}
