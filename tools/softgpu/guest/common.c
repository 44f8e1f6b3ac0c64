/* SPDX-License-Identifier: MIT */
/*
 * Device memory that processes of a VF hold in common. Each piece of it has a word that says of
 * which common memory it is, and which part; so there is no list besides. A common memory is there
 * while a process holds it, each of which has a bit, or while a descriptor with its mark is open
 * anywhere (vfio_mark()). The end of the last descriptor runs no code of ours: a process that needs
 * memory frees the memory that no process holds any more.
 *
 * A process that is killed at any instant leaves nothing that others cannot read: the number of
 * pieces is written before their words and cleared after them, so a number that is 0 has no pieces;
 * and the bit of a process is cleared when the host has closed its slot, and uses nothing of it any
 * more. A process that makes, opens or collects common memory has lock 0, so while there is no bit
 * and no mark, none can come. A mark outlives the VF's driver: then its number is not used while it
 * lasts, so no descriptor ever shows other memory than the one it was made for.
 *
 * What is read may be anything that a process of the VF has written.
 */
#include <errno.h>
#include <stdatomic.h>

#include "guest_private.h"
#include "vgpu/clock.h"

/* A word of a piece in common memory: this bit, the number, and which part of it the piece is. */
#define WORD_COMMON 0x80000000u
#define PART_BITS 17
#define PART_MASK ((1u << PART_BITS) - 1)
_Static_assert(PIECES_MOST == 1u << PART_BITS && COMMON_MOST <= 1u << (31 - PART_BITS),
	       "a word has room");
/* How long another process may begin, end, or look after slots. */
#define BEGIN_TIMEOUT (10 * VGPU_SEC)

static uint32_t word_of(uint32_t number, uint32_t part)
{
	return WORD_COMMON | number << PART_BITS | part;
}

/* Returns the number in WORD; n_common: it is a word of no common memory. */
static uint32_t number_in(const struct guest *g, uint32_t word)
{
	uint32_t number = (word & ~WORD_COMMON) >> PART_BITS;

	return word & WORD_COMMON && number < g->share.n_common ? number : g->share.n_common;
}

/* Returns a bound above every number that can have pieces or a holder. */
static uint32_t end(const struct guest *g)
{
	uint32_t most = atomic_load(g->share.common_end);

	return most < g->share.n_common ? most : g->share.n_common;
}

uint32_t guest_common_most(struct guest *g)
{
	return g->share.n_common;
}

bool guest_is_common(struct guest *g, uint32_t word)
{
	uint32_t number = number_in(g, word);

	return number < g->share.n_common && atomic_load(&g->share.commons[number].pieces) > 0;
}

/* Returns the slots that hold C; a slot that there is not holds nothing. */
static uint32_t holders(const struct shared_common *c)
{
	return atomic_load(&c->holders) & ((1u << SOFTGPU_MAX_SLOTS) - 1);
}

static uint32_t own_bit(const struct guest *g)
{
	return 1u << g->share.own;
}

/* Returns whether NUMBER is used for nothing, and no descriptor of an earlier time has it. */
static bool is_unused(struct guest *g, uint32_t number)
{
	const struct shared_common *c = &g->share.commons[number];

	return atomic_load(&c->pieces) == 0 && holders(c) == 0 &&
	       !vfio_is_marked(g->device, number);
}

/* As guest_common_make(), with lock 0. */
static int make_it(struct guest *g, const uint32_t *pieces, uint32_t n, uint32_t *out)
{
	_Atomic uint32_t *owners = share_owners(g);
	uint32_t number = 0, i;

	while (number < g->share.n_common && !is_unused(g, number))
		number++;
	if (number == g->share.n_common)
		return -ENOSPC;
	if (number >= end(g))
		atomic_store(g->share.common_end, number + 1);
	atomic_fetch_or(&g->share.commons[number].holders, own_bit(g));
	atomic_store(&g->share.commons[number].pieces, n);
	for (i = 0; i < n; i++)
		atomic_store(&owners[pieces[i]], word_of(number, i));
	*out = number;
	return 0;
}

/* Takes lock 0, of the VF that this process has joined. Returns 0 or -errno. */
static int lock_common(struct guest *g)
{
	int r = share_take_begin(g, vgpu_now() + BEGIN_TIMEOUT);

	if (r == 0 && !share_is_valid(g)) {
		guest_end_care(g);
		return -ECONNRESET;
	}
	return r;
}

int guest_common_make(struct guest *g, const uint32_t *pieces, uint32_t n, uint32_t *number)
{
	int r = lock_common(g);

	if (r < 0)
		return r;
	r = make_it(g, pieces, n, number);
	guest_end_care(g);
	return r;
}

int guest_common_show(struct guest *g, uint32_t number)
{
	return vfio_mark(g->device, number);
}

/* Finds the pieces of NUMBER. Returns whether all of them exist, each once. */
static bool find_pieces(struct guest *g, uint32_t number, uint32_t *pieces, uint32_t n)
{
	_Atomic uint32_t *owners = share_owners(g);
	uint32_t i, word, found = 0;

	for (i = 0; i < n; i++)
		pieces[i] = UINT32_MAX;
	for (i = 0; i < g->share.n_pieces; i++) {
		word = atomic_load(&owners[i]);
		if (number_in(g, word) != number)
			continue;
		if ((word & PART_MASK) >= n || pieces[word & PART_MASK] != UINT32_MAX)
			return false;
		pieces[word & PART_MASK] = i;
		found++;
	}
	return found == n;
}

/* As guest_common_open(), with lock 0. */
static int open_it(struct guest *g, int fd, uint32_t *out, uint32_t *pieces, uint32_t *n)
{
	uint32_t number, has;
	int r = vfio_mark_of(g->device, fd, &number);

	if (r < 0)
		return r;
	if (number >= g->share.n_common)
		return -EINVAL;
	has = atomic_load(&g->share.commons[number].pieces);
	if (has == 0 || has > g->share.n_pieces || !find_pieces(g, number, pieces, has))
		return -EINVAL;
	atomic_fetch_or(&g->share.commons[number].holders, own_bit(g));
	*out = number;
	*n = has;
	return 0;
}

int guest_common_open(struct guest *g, int fd, uint32_t *number, uint32_t *pieces, uint32_t *n)
{
	int r = lock_common(g);

	if (r < 0)
		return r;
	r = open_it(g, fd, number, pieces, n);
	guest_end_care(g);
	return r;
}

void guest_common_drop(struct guest *g, uint32_t number)
{
	if (share_is_valid(g))
		atomic_fetch_and(&g->share.commons[number].holders, ~own_bit(g));
}

/* Returns whether NUMBER has pieces, but no holder any more. */
static bool is_left(struct guest *g, uint32_t number)
{
	const struct shared_common *c = &g->share.commons[number];

	return atomic_load(&c->pieces) > 0 && holders(c) == 0 && !vfio_is_marked(g->device, number);
}

/* Frees the pieces of NUMBER. Their contents stay until a process takes them. */
static void free_pieces(struct guest *g, uint32_t number)
{
	_Atomic uint32_t *owners = share_owners(g);
	uint32_t i;

	for (i = 0; i < g->share.n_pieces; i++)
		if (number_in(g, atomic_load(&owners[i])) == number)
			atomic_store(&owners[i], GUEST_PIECE_FREE);
	atomic_store(&g->share.commons[number].pieces, 0);
}

bool guest_common_collect(struct guest *g)
{
	bool any = false;
	uint32_t i;

	for (i = 0; i < end(g); i++) {
		if (!is_left(g, i))
			continue;
		free_pieces(g, i);
		any = true;
	}
	return any;
}

void common_drop_all(struct guest *g, uint32_t slot)
{
	struct shared_common *c;

	for (c = g->share.commons; c < g->share.commons + end(g); c++)
		if (holders(c) & 1u << slot)
			atomic_fetch_and(&c->holders, ~(1u << slot));
}
