/* SPDX-License-Identifier: MIT */
/* The set of VFs, compared with a plain array of flags. */
#include <stdlib.h>

#include "set.h"
#include "suite.h"

#define MOST 100000u

static uint64_t rng = 88172645463325252u;

static uint32_t below(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng % n);
}

static uint32_t plain_next(const bool *has, uint32_t n, uint32_t after)
{
	uint32_t i, vf;

	for (i = 1; i <= n; i++) {
		vf = after == VGPU_NO_VF ? i - 1 : (after + i) % n;
		if (has[vf])
			return vf;
	}
	return VGPU_NO_VF;
}

/* Adds and removes at random, mostly near PLENTY members, and compares after each change. */
static void random_changes(uint32_t n, uint32_t plenty, uint32_t changes)
{
	size_t bytes = set_memory(n);
	uint64_t *memory = malloc(bytes + sizeof(uint64_t));
	bool *has = calloc(n, sizeof(*has));
	uint32_t i, vf, members = 0;
	struct set s;

	memset(memory, 0xa5, bytes + sizeof(uint64_t));
	CU_ASSERT_PTR_EQUAL(set_init(&s, memory, n), (char *)memory + bytes);
	CU_ASSERT_EQUAL(set_first(&s), VGPU_NO_VF);
	CU_ASSERT_EQUAL(set_next(&s, n - 1), VGPU_NO_VF);
	for (i = 0; i < changes; i++) {
		vf = below(4) ? below(n) : (below(2) ? n - 1 : 0);
		/* Above PLENTY members, removals are more frequent; some changes have no effect. */
		if (below(plenty) >= members) {
			members += !has[vf];
			has[vf] = true;
			set_add(&s, vf);
		} else {
			if (below(8) && set_next(&s, vf) != VGPU_NO_VF)
				vf = set_next(&s, vf);
			members -= has[vf];
			has[vf] = false;
			set_remove(&s, vf);
		}
		CU_ASSERT_EQUAL_FATAL(s.n, members);
		CU_ASSERT_EQUAL_FATAL(set_has(&s, vf), has[vf]);
		CU_ASSERT_EQUAL_FATAL(set_first(&s), plain_next(has, n, VGPU_NO_VF));
		CU_ASSERT_EQUAL_FATAL(set_next(&s, vf), plain_next(has, n, vf));
		vf = below(n);
		CU_ASSERT_EQUAL_FATAL(set_next(&s, vf), plain_next(has, n, vf));
	}
	CU_ASSERT_EQUAL(memory[bytes / sizeof(uint64_t)], UINT64_C(0xa5a5a5a5a5a5a5a5));
	free(has);
	free(memory);
}

TEST(as_an_array, "behaves like an array of flags")
{
	static const uint32_t sizes[] = {1, 2, 63, 64, 65, 127, 128, 129, 4095, 4096, 4097, 16384};
	unsigned k;

	for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		random_changes(sizes[k], 2, 2000);
		random_changes(sizes[k], 20, 2000);
		random_changes(sizes[k], 2 * sizes[k], sizes[k] > 1000 ? 20000 : 4000);
	}
	random_changes(MOST, 3, 1000);
}

/* set_next() visits all members in the order of their numbers, and wraps around. */
TEST(in_order, "visits members in the order of their numbers")
{
	void *memory = malloc(set_memory(MOST));
	uint32_t i, vf = VGPU_NO_VF;
	struct set s;

	set_init(&s, memory, MOST);
	for (i = 0; i < MOST; i += 7)
		set_add(&s, i);
	for (i = 0; i < MOST; i += 7) {
		vf = set_next(&s, vf);
		CU_ASSERT_EQUAL_FATAL(vf, i);
	}
	CU_ASSERT_EQUAL(set_next(&s, vf), 0);
	for (i = 0; i < MOST; i += 7)
		set_remove(&s, i);
	CU_ASSERT_EQUAL(set_next(&s, vf), VGPU_NO_VF);
	CU_ASSERT_EQUAL(s.n, 0);
	free(memory);
}

SUITE_MAIN("set of VFs")
