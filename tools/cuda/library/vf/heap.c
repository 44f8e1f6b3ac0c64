/* SPDX-License-Identifier: MIT */
/* First fit over a sorted array of allocations. Packets run in the order of their calls, so freed
 * memory can be allocated again at once: earlier packets that use it run first. */
#include <stdlib.h>
#include <string.h>

#include "cuda_vf.h"
#include "record.h"

#define GRAIN 512u /* bytes; CUDA promises an alignment of 256 */

struct block {
	uint64_t at, bytes, taken, id; /* TAKEN: BYTES rounded up */
	const void *owner;
};

static struct block *blocks;
static size_t n_blocks, room;
static uint64_t heap_size, heap_taken;

void heap_reset(uint64_t size)
{
	n_blocks = 0;
	heap_size = size;
	heap_taken = 0;
	pieces_serve(heap_uses);
}

/* Adds BYTES, which may be negative, to the allocated bytes. */
static void take_note(int64_t bytes)
{
	heap_taken += (uint64_t)bytes;
	record_used(bytes);
}

static bool insert(size_t i, struct block b)
{
	struct block *more;

	if (n_blocks == room) {
		more = realloc(blocks, (2 * room + 64) * sizeof(*blocks));
		if (!more)
			return false;
		blocks = more;
		room = 2 * room + 64;
	}
	memmove(&blocks[i + 1], &blocks[i], (n_blocks - i) * sizeof(*blocks));
	blocks[i] = b;
	n_blocks++;
	take_note((int64_t)b.taken);
	return true;
}

static uint64_t round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

static bool take(uint64_t bytes, uint64_t align, const void *owner, uint64_t *offset)
{
	struct block b = {.bytes = bytes, .owner = owner};
	uint64_t end, next;
	size_t i;

	if (bytes == 0 || bytes > heap_size)
		return false;
	b.taken = round_up(bytes, GRAIN);
	b.id = handle_number();
	for (i = 0; i <= n_blocks; i++) {
		end = i < n_blocks ? blocks[i].at : heap_size;
		while (b.at <= end && b.taken <= end - b.at) {
			if (pieces_take(b.at, b.taken, &next)) {
				*offset = b.at;
				return insert(i, b);
			}
			b.at = round_up(next, align);
		}
		if (i < n_blocks)
			b.at = round_up(blocks[i].at + blocks[i].taken, align);
	}
	return false;
}

bool heap_take(uint64_t bytes, const void *owner, uint64_t *offset)
{
	return heap_take_at(bytes, GRAIN, owner, offset);
}

bool heap_take_at(uint64_t bytes, uint64_t align, const void *owner, uint64_t *offset)
{
	return take(bytes, align, owner, offset) ||
	       (link_care() && take(bytes, align, owner, offset));
}

/* Returns the number of blocks that begin at OFFSET or before it. */
static size_t up_to(uint64_t offset)
{
	size_t low = 0, high = n_blocks, middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (blocks[middle].at <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool heap_uses(uint64_t at, uint64_t bytes)
{
	size_t i = up_to(at + bytes - 1);

	return i > 0 && blocks[i - 1].at + blocks[i - 1].taken > at;
}

bool heap_give(uint64_t offset)
{
	size_t i = up_to(offset);

	if (i == 0 || blocks[i - 1].at != offset)
		return false;
	take_note(-(int64_t)blocks[i - 1].taken);
	memmove(&blocks[i - 1], &blocks[i], (n_blocks - i) * sizeof(*blocks));
	n_blocks--;
	pieces_freed();
	return true;
}

void heap_give_all(const void *owner)
{
	size_t i, kept = 0;

	for (i = 0; i < n_blocks; i++) {
		if (blocks[i].owner == owner)
			take_note(-(int64_t)blocks[i].taken);
		else
			blocks[kept++] = blocks[i];
	}
	n_blocks = kept;
	pieces_freed();
}

bool heap_find(uint64_t offset, struct memory_range *r)
{
	size_t i = up_to(offset);

	if (i == 0 || offset - blocks[i - 1].at >= blocks[i - 1].bytes)
		return false;
	*r = (struct memory_range){blocks[i - 1].at, blocks[i - 1].bytes, blocks[i - 1].id};
	return true;
}

uint64_t heap_of(const void *owner)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < n_blocks; i++)
		sum += blocks[i].owner == owner ? blocks[i].bytes : 0;
	return sum;
}

const void *heap_owner(uint64_t offset)
{
	size_t i = up_to(offset);

	return i > 0 && offset - blocks[i - 1].at < blocks[i - 1].bytes ? blocks[i - 1].owner
									: NULL;
}

void heap_disown(const void *owner)
{
	size_t i;

	for (i = 0; i < n_blocks; i++)
		if (blocks[i].owner == owner)
			blocks[i].owner = NULL;
}

uint64_t heap_left(void)
{
	uint64_t left = pieces_left(heap_size);

	return left > heap_taken ? left - heap_taken : 0;
}
