/* SPDX-License-Identifier: MIT */
/* Programs that map memory by themselves, several of them on one VF: each is a process with the
 * library, over a real worker whose CUDA driver is the one in software. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "entries.h"
#include "played_vf.h"
#include "processes.h"
#include "program.h"
#include "softgpu/packets.h"

#define GRANULE ((size_t)2 << 20)
#define GRANULES 8u /* of the VF's device memory */
#define ROUNDS 10u

/* What the test and its programs have in common. */
static struct talk {
	_Atomic uint32_t ready[4], go; /* READY: of each program */
	CUdeviceptr at[4];
} * talk;

static const struct cuda_allocation pinned = {.type = 1, .location = {1, 0}};
static const struct cuda_access both = {{1, 0}, 3};

/* Maps N new granules at AT, each of them memory by itself. */
static int map_new(CUdeviceptr at, size_t n)
{
	CUmemHandle h;
	size_t i;

	for (i = 0; i < n; i++) {
		OK(cuMemCreate(&h, GRANULE, &pinned, 0));
		OK(cuMemMap(at + i * GRANULE, GRANULE, 0, h, 0));
		OK(cuMemRelease(h));
	}
	OK(cuMemSetAccess(at, n * GRANULE, &both, 1));
	return 0;
}

/* Fills N granules from AT on with VALUE, by a copy over all of their seams. */
static int mark(CUdeviceptr at, size_t n, uint32_t value)
{
	const size_t words = n * GRANULE / 4;
	uint32_t *host = malloc(n * GRANULE);
	size_t i;

	TRY(host);
	for (i = 0; i < words; i++)
		host[i] = value;
	OK(cuMemcpyHtoD_v2(at, host, n * GRANULE));
	free(host);
	return 0;
}

/* Whether N granules from AT on are words of VALUE, looked at in steps. */
static int are(CUdeviceptr at, size_t n, uint32_t value)
{
	uint32_t seen;
	size_t i;

	for (i = 0; i < n * 4; i++) {
		OK(cuMemcpyDtoH_v2(&seen, at + i * GRANULE / 4, 4));
		TRY(seen == value);
	}
	return 0;
}

/* Maps three granules and marks them; when the test says so, they are as they were. */
static int keeper(uint32_t number)
{
	CUdeviceptr at;

	TRY(begin() == 0);
	OK(cuMemAddressReserve(&at, 64 * GRANULE, 0, 0, 0));
	TRY(map_new(at, 3) == 0);
	TRY(mark(at, 3, 0xabcd + number) == 0);
	OK(cuCtxSynchronize());
	talk->at[number] = at;
	atomic_store(&talk->ready[number], 1);
	while (!atomic_load(&talk->go))
		sched_yield();
	TRY(are(at, 3, 0xabcd + number) == 0);
	TRY(mark(at, 3, 7) == 0);
	TRY(are(at, 3, 7) == 0);
	OK(cuMemUnmap(at, 3 * GRANULE));
	return 0;
}

/* Marks all that is left through mappings, some of it at two addresses, and waits to be killed. */
static int victim(uint32_t number)
{
	CUdeviceptr at;
	CUmemHandle h;
	size_t left, all;

	TRY(begin() == 0);
	OK(cuMemGetInfo_v2(&left, &all));
	OK(cuMemAddressReserve(&at, 64 * GRANULE, 0, 0, 0));
	TRY(map_new(at, left / GRANULE) == 0);
	OK(cuMemRetainAllocationHandle(&h, (void *)(uintptr_t)at));
	OK(cuMemMap(at + 40 * GRANULE, GRANULE, 0, h, 0));
	OK(cuMemSetAccess(at + 40 * GRANULE, GRANULE, &both, 1));
	TRY(mark(at, left / GRANULE, 0x5a5a5a5a) == 0);
	OK(cuCtxSynchronize());
	talk->at[number] = at;
	atomic_store(&talk->ready[number], 1);
	pause();
	return 0;
}

/* Has the slot of one that was killed: the same addresses are free, and its memory is clear. */
static int successor(uint32_t number)
{
	CUdeviceptr at;
	size_t left, all;

	TRY(begin() == 0);
	OK(cuMemGetInfo_v2(&left, &all));
	TRY(left == (GRANULES - 3) * GRANULE);
	OK(cuMemAddressReserve(&at, 64 * GRANULE, 0, talk->at[number], 0));
	TRY(at == talk->at[number]);
	TRY(map_new(at, left / GRANULE) == 0);
	TRY(map_new(at + 40 * GRANULE, 1) != 0); /* there is no more */
	TRY(are(at, left / GRANULE, 0) == 0);
	return 0;
}

TEST(killed, "mappings of a program that is killed go, and others stay")
{
	pid_t other, dead;

	memset(talk, 0, sizeof(*talk));
	played_vf_start();
	other = process_start(keeper, 0);
	CU_ASSERT_FATAL(reaches(&talk->ready[0], 1));
	dead = process_start(victim, 1);
	CU_ASSERT_FATAL(reaches(&talk->ready[1], 1));
	CU_ASSERT(talk->at[0] != talk->at[1]);
	kill_it(dead);
	CU_ASSERT_EQUAL(end_of(process_start(successor, 1)), 0);
	atomic_store(&talk->go, 1);
	CU_ASSERT_EQUAL(end_of(other), 0);
	CU_ASSERT(played_vf_ups() == 1 && played_vf_resets() == 0);
	played_vf_end();
}

/* A pool that grows by granules and shrinks again, beside others' and in slices. */
static int grower(uint32_t number)
{
	const size_t most = 2 + number;
	CUdeviceptr at;
	uint32_t round;
	size_t n = 0;

	TRY(begin() == 0);
	OK(cuMemAddressReserve(&at, 64 * GRANULE, 0, 0, 0));
	for (round = 0; round < ROUNDS; round++) {
		for (n = 0; n < most; n++) {
			TRY(map_new(at + n * GRANULE, 1) == 0);
			TRY(mark(at + n * GRANULE, 1, number << 8 | (uint32_t)n) == 0);
		}
		for (n = 0; n < most; n++)
			TRY(are(at + n * GRANULE, 1, number << 8 | (uint32_t)n) == 0);
		TRY(mark(at, most, number) == 0);
		TRY(are(at, most, number) == 0);
		OK(cuMemsetD32_v2(at + GRANULE - 4096, 5, 2048)); /* a GPU kernel, over a seam */
		OK(cuMemcpyDtoH_v2(&n, at + GRANULE, 4));
		TRY((uint32_t)n == 5);
		OK(cuMemUnmap(at, most * GRANULE));
	}
	return 0;
}

TEST(beside_others, "pools grow and shrink beside each other")
{
	pid_t pids[3];
	uint32_t i;

	memset(talk, 0, sizeof(*talk));
	played_vf_start();
	played_vf_slices(20000);
	for (i = 0; i < 3; i++) /* 2, 3 and 3 granules: all there are */
		pids[i] = i < 2 ? process_start(grower, i) : process_start(keeper, 2);
	CU_ASSERT_FATAL(reaches(&talk->ready[2], 1));
	CU_ASSERT_EQUAL(end_of(pids[0]), 0);
	CU_ASSERT_EQUAL(end_of(pids[1]), 0);
	atomic_store(&talk->go, 1);
	CU_ASSERT_EQUAL(end_of(pids[2]), 0);
	CU_ASSERT(played_vf_ups() == 1 && played_vf_resets() == 0);
	played_vf_end();
}

/* The host has room for five mappings of granules: what does not fit is not mapped at all, and what
 * was mapped before stays. */
static int five(uint32_t)
{
	CUmemHandle large;
	CUdeviceptr at;
	uint64_t flags;
	size_t left, all, i;

	TRY(begin() == 0);
	OK(cuMemGetInfo_v2(&left, &all));
	OK(cuMemAddressReserve(&at, 64 * GRANULE, 0, 0, 0));
	TRY(map_new(at, 1) == 0);
	TRY(mark(at, 1, 9) == 0);
	OK(cuMemCreate(&large, 4 * GRANULE, &pinned, 0));
	OK(cuMemMap(at + GRANULE, 4 * GRANULE, 0, large, 0));
	OK(cuMemMap(at + 5 * GRANULE, 4 * GRANULE, 0, large, 0));
	TRY(cuMemSetAccess(at, 9 * GRANULE, &both, 1) == CUDA_ERROR_OUT_OF_MEMORY);
	for (i = 0; i < 9; i++) {
		OK(cuMemGetAccess(&flags, &both.location, at + i * GRANULE));
		TRY(flags == (i == 0 ? 3 : 0));
	}
	TRY(are(at, 1, 9) == 0);
	TRY(cuMemsetD32_v2(at + GRANULE, 1, 1) == CUDA_ERROR_INVALID_VALUE);
	TRY(cuMemSetAccess(at + GRANULE, 4 * GRANULE, &both, 1) == CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemUnmap(at, 9 * GRANULE));
	OK(cuMemRelease(large));
	OK(cuMemGetInfo_v2(&all, &i));
	TRY(all == left);
	OK(cuMemAlloc_v2(&at, left));
	TRY(mark(at, left / GRANULE, 4) == 0);
	TRY(are(at, left / GRANULE, 4) == 0);
	return 0;
}

TEST(no_room, "a host without room maps nothing by halves")
{
	char most[12];

	snprintf(most, sizeof(most), "%u", GRANULES + 5);
	setenv("SOFT_CUDA_MAPS", most, 1);
	played_vf_start();
	unsetenv("SOFT_CUDA_MAPS");
	CU_ASSERT_EQUAL(end_of(process_start(five, 0)), 0);
	CU_ASSERT_EQUAL(played_vf_resets(), 0);
	played_vf_end();
}

/* Without the arena, everything else is there. */
static int without(uint32_t)
{
	CUdeviceptr at;
	CUmemHandle h;
	size_t bytes;
	int is = 1;

	TRY(begin() == 0);
	OK(cuDeviceGetAttribute(&is, 102, 0));
	TRY(is == 0);
	TRY(cuMemAddressReserve(&at, GRANULE, 0, 0, 0) == CUDA_ERROR_NOT_SUPPORTED);
	TRY(cuMemCreate(&h, GRANULE, &pinned, 0) == CUDA_ERROR_NOT_SUPPORTED);
	TRY(cuMemGetAllocationGranularity(&bytes, &pinned, 0) == CUDA_ERROR_NOT_SUPPORTED);
	TRY(cuMemMap(0, GRANULE, 0, 0, 0) == CUDA_ERROR_NOT_SUPPORTED);
	TRY(cuMemUnmap(0, GRANULE) == CUDA_ERROR_NOT_SUPPORTED);
	OK(cuMemAlloc_v2(&at, GRANULE));
	TRY(mark(at, 1, 4) == 0);
	TRY(are(at, 1, 4) == 0);
	return 0;
}

TEST(older_host, "an older softgpu has no arena")
{
	played_vf_start();
	played_vf_features(SOFTGPU_HAS_MODULES | SOFTGPU_HAS_SLOTS);
	CU_ASSERT_EQUAL(end_of(process_start(without, 0)), 0);
	played_vf_end();
}

int main(int argc, char **argv)
{
	return processes_main("cuda_virtual", &talk, sizeof(*talk), argc, argv);
}
