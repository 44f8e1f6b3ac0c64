/* SPDX-License-Identifier: MIT */
/* vgpu-sim fleet: bookings and GPUs agree after any run, nothing is lost, and what the figures say
 * in docs/fleet.md about sums holds. */
#include <errno.h>

#include "suite.h"
#include "fleet_host.h"
#include "fleet_rivals.h"
#include "random.h"

static struct fleet_options options(const char *words)
{
	char text[400], *list[16], *word, *rest;
	struct fleet_options o;
	struct vgpu_error err = {.text = ""};
	int n = 0;

	snprintf(text, sizeof(text), "%s", words);
	for (word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		list[n++] = word;
	CU_ASSERT_EQUAL_FATAL(fleet_read(&o, list, n, &err), 0);
	return o;
}

static struct fleet_result run(const struct fleet_options *o)
{
	struct vgpu_error err = {.text = ""};
	struct fleet_result r;

	CU_ASSERT_EQUAL(fleet_run(o, &r, &err), 0);
	if (err.text[0])
		printf("\n  %s\n", err.text);
	return r;
}

/* Random fleets: fleet_run itself compares bookings with GPUs and fails if they differ. */
TEST(random_fleets, "bookings and GPUs agree in random fleets")
{
	static const char *const mixes[] = {"halves", "desktops", "any"};
	struct rng rng = {.state = 5};
	struct fleet_options o;
	struct fleet_result r;
	uint64_t refused = 0;
	int i;

	for (i = 0; i < 60; i++) {
		o = options("memory_mib=4096");
		o.hosts = (uint32_t)random_between(&rng, 1, 12);
		o.gpus = (uint32_t)random_between(&rng, 1, 4);
		o.vfs = (uint32_t)random_between(&rng, 1, 31);
		o.switch_ns = random_between(&rng, 20, 400) * VGPU_USEC;
		o.per_gpu = random_one_in(&rng, 2);
		o.free_choice = random_one_in(&rng, 2);
		o.profile = random_one_in(&rng, 2);
		o.pack = random_one_in(&rng, 2);
		o.mix = mixes[random_draw(&rng) % 3];
		o.servers = random_one_in(&rng, 3) ? 0 : 1000;
		o.load_pct = (uint32_t)random_between(&rng, 20, 200);
		o.seed = random_draw(&rng);
		r = run(&o);
		CU_ASSERT_EQUAL(r.arrived, r.placed + r.no_host + r.gave_up);
		CU_ASSERT_EQUAL(r.sent, r.placed + r.refused);
		CU_ASSERT(r.refused <= FLEET_ATTEMPTS * r.arrived);
		CU_ASSERT(r.used_ppm <= r.inventory.total[FLEET_SHARE] * 1000);
		/* A sum of shares is safe where it is one GPU's. */
		if ((o.per_gpu && !o.free_choice) || o.gpus == 1)
			CU_ASSERT_EQUAL(r.refused_shares, 0);
		CU_ASSERT(o.servers == 0 || r.arrived == o.servers);
		refused += r.refused;
	}
	CU_ASSERT(refused > 0);
}

/* A sum of shares is safe, and a sum of memory is, if sizes are halves and lie on multiples of
 * themselves. */
TEST(sums_that_hold, "sums that a scheduler may rely on")
{
	static const char *const cases[] = {
		"hosts=20 servers=8000 placement=profile",
		"hosts=20 servers=8000 placement=profile weigher=pack load_pct=120",
		"hosts=5 gpus=4 providers=gpus servers=8000 placement=profile",
		"hosts=20 servers=8000 placement=profile vfs=16 switch_us=300",
	};
	struct fleet_options o;
	struct fleet_result r;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		o = options(cases[i]);
		r = run(&o);
		CU_ASSERT_EQUAL(r.refused, 0);
		CU_ASSERT(r.no_host > 0);
	}
	/* Time alone is never what a host refuses for, whatever the sizes. */
	o = options("hosts=20 servers=8000 mix=any weigher=pack");
	r = run(&o);
	CU_ASSERT_EQUAL(r.refused_shares, 0);
	CU_ASSERT(r.refused_memory > 0);
	/* Several GPUs behind one sum: some hosts refuse. */
	o = options("hosts=5 gpus=4 servers=8000 placement=profile");
	CU_ASSERT(run(&o).refused > 0);
	/* A provider for each GPU, and hosts that choose the GPU themselves: what is booked is not
	 * what is free. */
	o = options("hosts=5 gpus=4 providers=gpus choice=host servers=8000 placement=profile");
	CU_ASSERT(run(&o).refused > 0);
}

/* The offer is what the policy admits: equal shares of all VFs, and not one per mille more. */
TEST(offer, "what is offered is what is admitted")
{
	struct fleet_options o = options("vfs=8 memory_mib=1000");
	struct fleet_inventory v;
	struct fleet_kind kind;
	struct fleet_gpu gpu;
	struct fleet_size size;
	uint32_t vf, i, more;

	CU_ASSERT_EQUAL_FATAL(fleet_kind_init(&kind, &o), 0);
	CU_ASSERT_EQUAL_FATAL(fleet_gpu_init(&gpu, &kind), 0);
	CU_ASSERT(fleet_gpu_inventory(&gpu, &kind, &v));
	CU_ASSERT_EQUAL(v.total[FLEET_MEMORY], 992);
	for (more = 0; more < 2; more++) {
		size = (struct fleet_size){v.total[FLEET_SHARE] / 8 + more, 16};
		for (i = 0; i < 7; i++)
			CU_ASSERT_EQUAL(fleet_gpu_take(&gpu, &kind, &size, &vf), FLEET_TAKEN);
		CU_ASSERT_EQUAL(fleet_gpu_take(&gpu, &kind, &size, &vf),
				more ? FLEET_NO_TIME : FLEET_TAKEN);
		for (vf = 0; vf < 8; vf++)
			if (gpu.used >> vf & 1)
				fleet_gpu_give(&gpu, &kind, vf);
		CU_ASSERT_EQUAL(vgpu_memory_largest_free(&gpu.memory), UINT64_C(992) << 20);
	}
	size = (struct fleet_size){v.least[FLEET_SHARE], 16};
	CU_ASSERT_EQUAL(fleet_gpu_take(&gpu, &kind, &size, &vf), FLEET_TAKEN);
	size.share--;
	CU_ASSERT_EQUAL(fleet_gpu_take(&gpu, &kind, &size, &vf), FLEET_NO_TIME);
	size = (struct fleet_size){100, 1008};
	CU_ASSERT_EQUAL(fleet_gpu_take(&gpu, &kind, &size, &vf), FLEET_NO_MEMORY);
	CU_ASSERT_EQUAL(gpu.used, 1);
	fleet_gpu_finish(&gpu);
	fleet_kind_finish(&kind);
}

/* A quarter, a half, a quarter, a half, ... */
static struct fleet_size alternating(void *data)
{
	uint32_t *n = data;

	return (*n)++ % 2 ? (struct fleet_size){500, 8192} : (struct fleet_size){250, 4096};
}

static struct fleet_size quarter(void *)
{
	return (struct fleet_size){250, 4096};
}

TEST(rivals, "whole GPUs and equal profiles")
{
	struct fleet_options o = options("vfs=8 memory_mib=16384");
	uint32_t n = 0;

	CU_ASSERT_EQUAL(fleet_fill_whole(6, quarter, NULL), 250000);
	CU_ASSERT_EQUAL(fleet_fill_profiles(6, &o, quarter, NULL), 1000000);
	CU_ASSERT_EQUAL(fleet_fill_whole(6, alternating, &n), 375000);
	/* Six GPUs: four in halves for eight halves, two in quarters for eight quarters. */
	n = 0;
	CU_ASSERT_EQUAL(fleet_fill_profiles(6, &o, alternating, &n), 1000000);
	/* Five GPUs: after six of each (2 in quarters, 3 in halves) the seventh half finds none. */
	n = 0;
	CU_ASSERT_EQUAL(fleet_fill_profiles(5, &o, alternating, &n),
			(7 * 250 + 6 * 500) * 1000 / 5);
	/* Not more parts than VFs. */
	o.vfs = 2;
	CU_ASSERT_EQUAL(fleet_fill_profiles(6, &o, quarter, NULL), 500000);
}

TEST(settings, "settings that are wrong are refused")
{
	static const char *const bad[] = {"hosts",    "hosts=0",     "hosts=1e3",     "colour=1",
					  "mix=none", "=5",	     "providers=all", "choice=me",
					  "vfs=65",   "weigher=pac", "seed=-1"};
	struct fleet_options o;
	struct vgpu_error err;
	char *word;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		word = (char *)bad[i];
		err.text[0] = '\0';
		CU_ASSERT_EQUAL(fleet_read(&o, &word, 1, &err), -EINVAL);
		CU_ASSERT(err.text[0]);
	}
	o = options("hosts=7 switch_us=250 providers=gpus weigher=pack mix=any");
	CU_ASSERT(o.hosts == 7 && o.switch_ns == 250 * VGPU_USEC && o.per_gpu && o.pack);
	/* World switches that take the whole period leave nothing to offer. */
	o = options("switch_us=30000");
	{
		struct fleet_result r;

		CU_ASSERT_EQUAL(fleet_run(&o, &r, &err), -EINVAL);
	}
}

SUITE_MAIN("fleets of hosts")
