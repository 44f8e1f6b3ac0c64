/* SPDX-License-Identifier: MIT */
/*
 * A set of VFs, ordered by their numbers: a bitmap with two levels of summaries. A bit of a summary
 * says whether the word of 64 bits below it is not zero. Adding, removing and finding the next
 * member touch three words each, however many VFs and members there are.
 */
#pragma once

#include "vgpu/types.h"

#define SET_LEVELS 3u
#define SET_MAX_VFS (UINT32_C(1) << (6 * SET_LEVELS))

struct set {
	uint64_t *words[SET_LEVELS]; /* words[0]: one bit for each VF */
	uint32_t n;		     /* members */
};

/* Returns the number of words of LEVEL for a set of max_vfs VFs. */
static inline uint32_t set_words(uint32_t max_vfs, uint32_t level)
{
	return (max_vfs >> (6 * (level + 1))) + 1;
}

/* Returns the bytes of memory for a set of max_vfs VFs, at most SET_MAX_VFS. */
static inline size_t set_memory(uint32_t max_vfs)
{
	size_t words = 0;
	uint32_t i;

	for (i = 0; i < SET_LEVELS; i++)
		words += set_words(max_vfs, i);
	return words * sizeof(uint64_t);
}

/* Makes an empty set in MEMORY, which the caller owns, aligned to 8 bytes; returns the first byte
 * after it. */
static inline void *set_init(struct set *s, void *memory, uint32_t max_vfs)
{
	uint64_t *words = memory;
	uint32_t i, k;

	s->n = 0;
	for (i = 0; i < SET_LEVELS; i++) {
		s->words[i] = words;
		for (k = set_words(max_vfs, i); k > 0; k--)
			*words++ = 0;
	}
	return words;
}

static inline bool set_has(const struct set *s, uint32_t vf)
{
	return s->words[0][vf / 64] >> vf % 64 & 1;
}

/* Adds VF; does nothing if it is a member. */
static inline void set_add(struct set *s, uint32_t vf)
{
	uint32_t i;

	if (set_has(s, vf))
		return;
	s->n++;
	for (i = 0; i < SET_LEVELS; i++, vf /= 64)
		s->words[i][vf / 64] |= UINT64_C(1) << vf % 64;
}

/* Removes VF; does nothing if it is not a member. */
static inline void set_remove(struct set *s, uint32_t vf)
{
	uint32_t i;

	if (!set_has(s, vf))
		return;
	s->n--;
	for (i = 0; i < SET_LEVELS; i++, vf /= 64) {
		s->words[i][vf / 64] &= ~(UINT64_C(1) << vf % 64);
		if (s->words[i][vf / 64])
			return;
	}
}

/* Returns the lowest member below bit AT of LEVEL, which must be set. */
static inline uint32_t set_least(const struct set *s, uint32_t level, uint32_t at)
{
	while (level > 0) {
		level--;
		at = at * 64 + (uint32_t)__builtin_ctzll(s->words[level][at]);
	}
	return at;
}

/* Returns the member with the lowest number, or VGPU_NO_VF if the set is empty. */
static inline uint32_t set_first(const struct set *s)
{
	uint64_t top = s->words[SET_LEVELS - 1][0];

	if (top == 0)
		return VGPU_NO_VF;
	return set_least(s, SET_LEVELS - 1, (uint32_t)__builtin_ctzll(top));
}

/* Returns the first member after AFTER in circular order, in which AFTER itself comes last; the
 * member with the lowest number if AFTER is VGPU_NO_VF; VGPU_NO_VF if the set is empty. */
static inline uint32_t set_next(const struct set *s, uint32_t after)
{
	uint32_t level, at = after;
	uint64_t above;

	if (s->n == 0 || after == VGPU_NO_VF)
		return set_first(s);
	for (level = 0; level < SET_LEVELS; level++, at /= 64) {
		/* All bits above bit `at % 64`; none above bit 63. */
		above = s->words[level][at / 64] & (~UINT64_C(1) << at % 64);
		if (above)
			return set_least(s, level, at / 64 * 64 + (uint32_t)__builtin_ctzll(above));
	}
	return set_first(s);
}
