/* SPDX-License-Identifier: MIT */
/*
 * Device memory that several processes share. A process takes a piece when an allocation needs it,
 * and returns it when no allocation uses it and none of the process's packets runs. One atomic word
 * per piece names the owner, so a process may be killed at any instant; the next process that
 * starts or needs memory clears its pieces.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "guest.h"
#include "cuda_vf.h"

/* How long a packet of a killed process may run, ns, before other processes continue without that
 * process's memory. */
#define CARE_TIMEOUT VGPU_SEC

static _Atomic uint32_t *owners; /* NULL: this process has all memory */
static uint32_t n_pieces, mine;
static uint64_t piece;
static bool *own;     /* by piece: this process owns it; other processes may change the words of
		       * other pieces */
static bool freed;    /* an allocation has ended since pieces were last given back */
static bool taking;   /* pieces were taken for an allocation that is not recorded yet */
static bool *dropped; /* by number: common memory that this process no longer uses */
static uint32_t n_dropped; /* number of entries of DROPPED that are set */
static bool (*is_used)(uint64_t at, uint64_t bytes);

/* Returns whether the word of a piece marks it as free. Any process of the VF can write words, so a
 * word that names no slot counts as free. */
static bool is_free(uint32_t word)
{
	if (guest_is_common(link_guest(), word))
		return false;
	return word == 0 || word & GUEST_PIECE_FREE || word > SOFTGPU_MAX_SLOTS;
}

static CUresult put_fill(uint32_t from, uint32_t to)
{
	return link_put(SOFTGPU_FILL, 0,
			(uint64_t[7]){link_parts.memory_at + from * piece, (to - from) * piece});
}

/* Clears all pieces that SLOT owns, or was the last to own, and frees them. No other process may
 * have SLOT. */
static CUresult clear(uint32_t slot)
{
	const uint32_t has = 1 + slot, had = has | GUEST_PIECE_FREE;
	CUresult e = CUDA_SUCCESS;
	uint32_t i, begin = 0, word;
	bool is, was = false, any = false;

	for (i = 0; i <= n_pieces && e == CUDA_SUCCESS; i++) {
		word = had;
		/* Takes a free piece first, so that no other process takes it while it is
		 * cleared. */
		is = i < n_pieces &&
		     (atomic_compare_exchange_strong(&owners[i], &word, has) || word == has);
		if (is && !was)
			begin = i;
		if (!is && was)
			e = put_fill(begin, i);
		any |= is;
		was = is;
	}
	if (e == CUDA_SUCCESS && any)
		e = link_drain();
	for (i = 0; i < n_pieces && e == CUDA_SUCCESS; i++)
		if (atomic_load(&owners[i]) == has)
			atomic_store(&owners[i], 0);
	return e;
}

CUresult pieces_begin(struct guest *g)
{
	uint64_t bytes;
	uint32_t n;

	owners = NULL;
	freed = taking = false;
	n_dropped = 0;
	if (guest_slots(g) == 0)
		return CUDA_SUCCESS;
	owners = guest_pieces(g, &n, &bytes);
	free(own);
	free(dropped);
	own = calloc(n + 1u, sizeof(*own));
	dropped = calloc(guest_common_most(g) + 1u, sizeof(*dropped));
	n_pieces = n;
	piece = bytes;
	mine = 1 + guest_slot(g);
	return own && dropped ? clear(guest_slot(g)) : CUDA_ERROR_OUT_OF_MEMORY;
}

void pieces_end(struct guest *g)
{
	if (owners)
		clear(guest_slot(g));
	owners = NULL;
}

bool pieces_care(struct guest *g)
{
	bool any = false, clean;
	uint32_t i;

	if (!owners || !guest_begin_care(g))
		return false;
	for (i = 0; i < guest_slots(g); i++) {
		if (1 + i == mine || !guest_take_over(g, i, CARE_TIMEOUT))
			continue;
		clean = clear(i) == CUDA_SUCCESS;
		guest_let_go(g, i, clean);
		any |= clean;
	}
	any |= guest_common_collect(g);
	guest_end_care(g);
	return any;
}

void pieces_stop_dead(struct guest *g)
{
	uint32_t i;

	if (!owners || !guest_begin_care(g))
		return;
	for (i = 0; i < guest_slots(g); i++)
		if (1 + i != mine && guest_take_over(g, i, CARE_TIMEOUT))
			guest_let_go(g, i, false);
	guest_end_care(g);
}

bool pieces_take(uint64_t at, uint64_t bytes, uint64_t *next)
{
	uint32_t i, first, end, word;

	if (!owners)
		return true;
	first = (uint32_t)(at / piece);
	end = (uint32_t)((at + bytes + piece - 1) / piece);
	for (i = first; i < end; i++) {
		word = atomic_load(&owners[i]);
		*next = (i + 1) * piece;
		if (!is_free(word) && word != mine)
			return false;
	}
	taking = true;
	for (i = first; i < end; i++) {
		word = atomic_load(&owners[i]);
		*next = (i + 1) * piece;
		/* Pieces that were taken although a later one failed are given back with the next
		 * ones. */
		if (word != mine &&
		    (!is_free(word) || !atomic_compare_exchange_strong(&owners[i], &word, mine)))
			break;
		own[i] = freed = true;
		/* The process that had the piece last lives, and has not cleared it. */
		if (word != 0 && word != mine && word != (mine | GUEST_PIECE_FREE) &&
		    put_fill(i, i + 1) != CUDA_SUCCESS)
			break;
	}
	taking = false;
	return i == end;
}

void pieces_serve(bool (*uses)(uint64_t at, uint64_t bytes))
{
	is_used = uses;
}

bool pieces_are_idle(void)
{
	uint32_t i;

	if (n_dropped > 0)
		return true;
	for (i = 0; owners && freed && i < n_pieces; i++)
		if (own[i] && !is_used(i * piece, piece))
			return true;
	return false;
}

static void let_go(void)
{
	uint32_t i;

	for (i = 0; n_dropped > 0; i++) {
		if (!dropped[i])
			continue;
		pieces_keep(i);
		guest_common_drop(link_guest(), i);
	}
}

void pieces_give_back(void)
{
	uint32_t i;

	if (!owners || !freed || taking)
		return;
	freed = false;
	let_go();
	for (i = 0; i < n_pieces; i++) {
		if (!own[i] || is_used(i * piece, piece))
			continue;
		own[i] = false;
		atomic_store(&owners[i], mine | GUEST_PIECE_FREE);
	}
}

void pieces_freed(void)
{
	freed = true;
}

uint32_t pieces_mine(void)
{
	return owners ? mine : 0;
}

uint64_t pieces_size(void)
{
	return owners ? piece : 0;
}

/* Writes the numbers of all pieces of the N PARTS to OUT, in their order. Returns how many there
 * are. */
static uint32_t list(const struct physical_part *parts, uint32_t n, uint32_t *out)
{
	uint32_t i, found = 0;
	uint64_t at;

	for (i = 0; i < n; i++)
		for (at = 0; at < parts[i].bytes; at += piece)
			out[found++] = (uint32_t)((parts[i].offset + at) / piece);
	return found;
}

int pieces_share(const struct physical_part *parts, uint32_t n, uint32_t *number)
{
	uint32_t *all = calloc(n_pieces, sizeof(*all)), count, i;
	int r;

	if (!all)
		return -ENOMEM;
	count = list(parts, n, all);
	r = guest_common_make(link_guest(), all, count, number);
	for (i = 0; r == 0 && i < count; i++)
		own[all[i]] = false;
	free(all);
	return r;
}

void pieces_drop(uint32_t number)
{
	n_dropped += !dropped[number];
	dropped[number] = freed = true;
}

void pieces_keep(uint32_t number)
{
	n_dropped -= dropped[number];
	dropped[number] = false;
}

bool pieces_are(uint64_t at, uint64_t bytes, uint64_t owner)
{
	uint64_t i;

	for (i = at / piece; i <= (at + bytes - 1) / piece; i++)
		if (i >= n_pieces || atomic_load(&owners[i]) != owner)
			return false;
	return true;
}

uint64_t pieces_left(uint64_t all)
{
	uint64_t n = 0;
	uint32_t i, word;

	if (!owners)
		return all;
	for (i = 0; i < n_pieces; i++) {
		word = atomic_load(&owners[i]);
		n += is_free(word) || word == mine;
	}
	return n * piece;
}
