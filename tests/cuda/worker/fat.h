/* SPDX-License-Identifier: MIT */
/* Makes fat binaries, as nvcc's fatbinary does. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { FAT_PTX = 1, FAT_CUBIN = 2 };
/* Flags of a member: how it is compressed; and that it is for one GPU, or one family, only. */
#define FAT_LZ4 0x2000u
#define FAT_ZSTD 0x8000u
#define FAT_EXACT 0x100000u
#define FAT_FAMILY 0x200000u
/* Where the header of a member has these fields, 64 bits each but the first, which has 32. */
enum { FAT_PACKED = 16, FAT_FLAGS = 40, FAT_UNPACKED = 56, FAT_MEMBER = 64 };

struct fat {
	uint8_t *at;
	size_t bytes;
};

/* Begins a fat binary; the caller frees F->at. Fails the test if there is no memory, as do all. */
void fat_begin(struct fat *f);
/* Appends a member, of N bytes at DATA before it is compressed, for GPUs of CAPABILITY (75
 * for 7.5). Returns where its header begins. */
size_t fat_add(struct fat *f, uint16_t kind, uint32_t capability, uint64_t flags, const void *data,
	       size_t n);
