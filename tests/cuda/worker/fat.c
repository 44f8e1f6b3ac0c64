/* SPDX-License-Identifier: MIT */
#include "fat.h"

#include <CUnit/CUnit.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define HEADER 16u

static void grow(struct fat *f, size_t by)
{
	uint8_t *more = realloc(f->at, f->bytes + by);

	CU_ASSERT_PTR_NOT_NULL_FATAL(more);
	memset(more + f->bytes, 0, by);
	f->at = more;
	f->bytes += by;
}

void fat_begin(struct fat *f)
{
	*f = (struct fat){NULL, 0};
	grow(f, HEADER);
	memcpy(f->at, "\x50\xed\x55\xba\x01\x00\x10\x00", 8);
}

/* Writes DATA to TO, where there are ROOM bytes, as FLAGS say. Returns how many bytes it became. */
static size_t pack(uint8_t *to, size_t room, uint64_t flags, const void *data, size_t n)
{
	if (flags & FAT_LZ4)
		return (size_t)LZ4_compress_default(data, (char *)to, (int)n, (int)room);
	if (flags & FAT_ZSTD)
		return ZSTD_compress(to, room, data, n, 3);
	memcpy(to, data, n);
	return n;
}

size_t fat_add(struct fat *f, uint16_t kind, uint32_t capability, uint64_t flags, const void *data,
	       size_t n)
{
	const size_t begin = f->bytes, room = 2 * n + 1024;
	const uint32_t header = FAT_MEMBER;
	uint64_t size = n, stored, all;
	uint32_t packed = 0;

	grow(f, FAT_MEMBER + room);
	stored = pack(f->at + begin + FAT_MEMBER, room, flags, data, n);
	CU_ASSERT_FATAL(stored > 0 && stored <= room);
	if (flags & (FAT_LZ4 | FAT_ZSTD))
		packed = (uint32_t)stored;
	else
		size = 0;
	stored = (stored + 7) / 8 * 8;
	memcpy(f->at + begin, &kind, sizeof(kind));
	memcpy(f->at + begin + 4, &header, sizeof(header));
	memcpy(f->at + begin + 8, &stored, sizeof(stored));
	memcpy(f->at + begin + FAT_PACKED, &packed, sizeof(packed));
	memcpy(f->at + begin + 28, &capability, sizeof(capability));
	memcpy(f->at + begin + FAT_FLAGS, &flags, sizeof(flags));
	memcpy(f->at + begin + FAT_UNPACKED, &size, sizeof(size));
	f->bytes = begin + FAT_MEMBER + stored;
	all = f->bytes - HEADER;
	memcpy(f->at + 8, &all, sizeof(all));
	return begin;
}
