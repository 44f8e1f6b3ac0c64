/* SPDX-License-Identifier: MIT */
/*
 * Which VFs are resident on the GPU, over epochs, in virtual time: VFs of random sizes, shares and
 * habits, a GPU with room for some of them, and swaps that take time. Resident VFs with work share
 * the engine by their shares, as under a policy.
 */

#include "suite.h"
#include "vgpu/residency.h"

#define TICK (2 * VGPU_MSEC)
#define EPOCH (100 * VGPU_MSEC)
#define MAX 8u

static struct vgpu_residency r;
static struct vgpu_residency_vf vfs[MAX];
static uint64_t sizes[MAX], room;
static uint32_t n_vfs, swaps;
static vgpu_nsec now, swap_time;
static uint32_t leaving, coming; /* the VFs of the swap under way, or VGPU_NO_VF */
static vgpu_nsec swap_ends;
static uint64_t seed = 3;

static uint32_t any(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % below;
}

static void begin(uint32_t n)
{
	n_vfs = n;
	memset(vfs, 0, sizeof(vfs));
	vgpu_residency_init(&r, n, EPOCH);
	r.cost = 2 * swap_time;
	leaving = coming = VGPU_NO_VF;
	swaps = 0;
}

static uint64_t in_use(void)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < n_vfs; i++)
		sum += vfs[i].here || i == coming || i == leaving ? sizes[i] : 0;
	return sum;
}

/* Gives the engine's time of a tick to the resident VFs that have work. */
static void compute(void)
{
	uint64_t all = 0;
	uint32_t i;

	for (i = 0; i < n_vfs; i++)
		all += vfs[i].here && vfs[i].wants ? vfs[i].share[0] : 0;
	for (i = 0; i < n_vfs; i++)
		if (vfs[i].here && vfs[i].wants)
			vfs[i].run_ns += TICK * vfs[i].share[0] / all;
}

/* Swaps VFs as vgpud does: one at a time. */
static void swap(void)
{
	uint32_t out[VGPU_GPU_MAX_VFS], n, i, in;

	if (now < swap_ends)
		return;
	if (coming != VGPU_NO_VF)
		vfs[coming].here = true;
	coming = leaving = VGPU_NO_VF;
	for (i = 0; i < n_vfs; i++)
		vgpu_residency_observe(&r, i, &vfs[i], now);
	in = vgpu_residency_next(&r);
	if (in == VGPU_NO_VF)
		return;
	CU_ASSERT(!vfs[in].here && (vfs[in].wants || vfs[in].pinned));
	swap_ends = now + swap_time;
	if (in_use() + sizes[in] <= room) {
		coming = in;
		swaps++;
		return;
	}
	n = vgpu_residency_candidates(&r, in, now, out);
	for (i = 0; i < n; i++) {
		CU_ASSERT(vfs[out[i]].here && !vfs[out[i]].fixed && !vfs[out[i]].pinned);
		/* a candidate with work has had its epoch, and more service than the incoming VF */
		CU_ASSERT(!vfs[out[i]].wants || vfs[in].pinned ||
			  (now - r.vfs[out[i]].came >= EPOCH &&
			   r.vfs[out[i]].served > r.vfs[in].served));
		CU_ASSERT(i == 0 || !vfs[out[i - 1]].wants || vfs[out[i]].wants);
	}
	if (n == 0) {
		swap_ends = 0;
		return;
	}
	leaving = out[0];
	vfs[leaving].here = false;
}

static void run(vgpu_nsec until)
{
	for (; now < until; now += TICK) {
		compute();
		swap();
		CU_ASSERT_FATAL(in_use() <= room && CU_get_number_of_failure_records() == 0);
	}
}

/* All VFs always have work: each gets its share of the service, and its turn. */
TEST(shares, "VFs get their shares over epochs")
{
	uint32_t round, i;
	uint64_t all, weights;
	double worst = 0;

	for (round = 0; round < 40; round++) {
		swap_time = any(3) * 4 * VGPU_MSEC;
		begin(2 + any(MAX - 1));
		/* The sizes are equal; otherwise the room would decide which VFs can be resident
		 * together. */
		room = 10 * (1 + any(n_vfs - 1));
		weights = all = 0;
		for (i = 0; i < n_vfs; i++) {
			sizes[i] = 10;
			vfs[i].wants = true;
			vfs[i].share[0] = 1 + any(3);
			weights += vfs[i].share[0];
		}
		for (i = 0; i < n_vfs; i++)
			vfs[i].share[1] = weights;
		run(now + 200 * VGPU_SEC);
		for (i = 0; i < n_vfs; i++)
			all += vfs[i].run_ns;
		for (i = 0; i < n_vfs; i++) {
			double got = (double)vfs[i].run_ns / (double)all;
			double due = (double)vfs[i].share[0] / (double)weights;

			worst = got / due - 1 > worst ? got / due - 1 : worst;
			worst = 1 - got / due > worst ? 1 - got / due : worst;
		}
		CU_ASSERT(r.wait_max < 40 * (vgpu_residency_epoch(&r) + 2 * swap_time));
		CU_ASSERT(swaps > 10);
	}
	printf("largest error of a share: %.1f %% ", 100 * worst);
	CU_ASSERT(worst < 0.05);
}

/* Random habits and sizes: no VF stays out for ever, no VF with work is swapped out before its
 * epoch ends, and pinned VFs stay resident. */
TEST(habits, "no VF stays out, whatever its habits")
{
	uint32_t round, step, i, all = 0;

	for (round = 0; round < 60; round++) {
		swap_time = any(10) * VGPU_MSEC;
		begin(3 + any(MAX - 2));
		room = 0;
		for (i = 0; i < n_vfs; i++) {
			sizes[i] = 1 + any(10);
			vfs[i].share[0] = vfs[i].share[1] = 1 + any(5);
			room = sizes[i] > room ? sizes[i] : room;
		}
		vfs[0].pinned = any(2);
		vfs[0].fixed = vfs[0].pinned;
		room += vfs[0].pinned ? sizes[0] : any(10);
		for (step = 0; step < 3000; step++) {
			i = any(n_vfs);
			vfs[i].wants = any(3) != 0;
			if (!vfs[i].pinned)
				vfs[i].fixed = any(20) == 0;
			run(now + any(20) * VGPU_MSEC);
			if (vfs[0].pinned && step > 100)
				CU_ASSERT(vfs[0].here);
		}
		CU_ASSERT(r.wait_max < 20 * VGPU_SEC);
		all += swaps;
	}
	CU_ASSERT(all > 5000);
}

/* A VF that pauses for less than its swap would take stays resident; one that pauses longer makes
 * room. */
TEST(pauses, "a VF that pauses briefly stays resident")
{
	vgpu_nsec had;
	uint32_t i;

	swap_time = 10 * VGPU_MSEC;
	begin(2);
	room = 1;
	sizes[0] = sizes[1] = 1;
	for (i = 0; i < 2; i++)
		vfs[i].share[0] = vfs[i].share[1] = 1;
	vfs[0].wants = true;
	run(now + 50 * VGPU_MSEC);
	CU_ASSERT(vfs[0].here);
	vfs[1].wants = true;
	vfs[0].wants = false;
	run(now + 16 * VGPU_MSEC);
	CU_ASSERT(vfs[0].here);
	CU_ASSERT(vgpu_residency_deadline(&r, now) <= now + 10 * VGPU_MSEC);
	run(now + 40 * VGPU_MSEC);
	CU_ASSERT(!vfs[0].here && vfs[1].here);
	/* a VF without memory contents is swapped out at once */
	vfs[1].wants = false;
	vfs[1].empty = true;
	vfs[0].wants = true;
	run(now + 4 * VGPU_MSEC);
	CU_ASSERT(!vfs[1].here);
	/* an epoch lasts at least four swaps */
	r.cost = EPOCH;
	CU_ASSERT_EQUAL(vgpu_residency_epoch(&r), 4 * EPOCH);
	/* a VF that had no work has saved up at most an epoch of service */
	run(now + 20 * VGPU_SEC);
	vfs[1].wants = true;
	vfs[1].empty = false;
	run(now + 2 * TICK);
	CU_ASSERT(r.vfs[1].served + 4 * EPOCH + 2 * TICK >= r.vfs[0].served);
	/* it also owes at most that for time that no other VF wanted; otherwise it would be out for
	 * 20 s */
	vfs[1].wants = false;
	run(now + 20 * VGPU_SEC);
	vfs[0].wants = false;
	vfs[1].wants = true;
	run(now + 3 * EPOCH);
	CU_ASSERT(!vfs[0].here && vfs[1].here);
	vfs[0].wants = true;
	had = vfs[0].run_ns;
	run(now + 12 * EPOCH);
	CU_ASSERT(vfs[0].run_ns > had);
}

/* Among VFs with equal service, a resident one stays, and the one that has waited longest comes
 * in. */
TEST(equals, "among equals, the resident VF stays")
{
	struct vgpu_residency_vf is = {.here = true, .wants = true, .share = {1, 1}};
	uint32_t out[VGPU_GPU_MAX_VFS];

	vgpu_residency_init(&r, 3, EPOCH);
	vgpu_residency_observe(&r, 0, &is, 0);
	is.here = false;
	vgpu_residency_observe(&r, 2, &is, VGPU_MSEC);
	vgpu_residency_observe(&r, 1, &is, 2 * VGPU_MSEC);
	CU_ASSERT_EQUAL(vgpu_residency_next(&r), 2);
	CU_ASSERT_EQUAL(vgpu_residency_candidates(&r, 2, 2 * EPOCH, out), 0);
	is.here = true;
	is.run_ns = VGPU_MSEC;
	vgpu_residency_observe(&r, 0, &is, 2 * EPOCH);
	CU_ASSERT_EQUAL(vgpu_residency_candidates(&r, 2, 2 * EPOCH, out), 1);
	CU_ASSERT_EQUAL(out[0], 0);
	/* A pinned VF goes before them, however much service it has had. */
	is.here = false;
	is.pinned = true;
	is.run_ns = VGPU_SEC;
	vgpu_residency_observe(&r, 1, &is, 2 * EPOCH);
	CU_ASSERT_EQUAL(vgpu_residency_next(&r), 1);
}

SUITE_MAIN("residency")
