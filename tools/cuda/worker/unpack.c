/* SPDX-License-Identifier: MIT */
/* Unpacks members of fat binaries, which nvcc compresses: as a block of LZ4 or, from CUDA 12.8 on,
 * as a frame of Zstandard. */
#include <errno.h>
#include <limits.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "image.h"

/* Each unpacks the N bytes at FROM to TO, which has ROOM bytes. Returns whether the result fills
 * TO. */
static bool copy(uint8_t *to, uint64_t room, const uint8_t *from, uint64_t n)
{
	if (n == room)
		memcpy(to, from, n);
	return n == room;
}

static bool unpack_lz4(uint8_t *to, uint64_t room, const uint8_t *from, uint64_t n)
{
	if (n > INT_MAX || room > INT_MAX)
		return false;
	return LZ4_decompress_safe((const char *)from, (char *)to, (int)n, (int)room) == (int)room;
}

/* Returns whether the N bytes are exactly one frame. The library would also unpack several frames,
 * and frames of formats before Zstandard's first release, which no CUDA compiler writes. */
static bool is_frame(const uint8_t *from, uint64_t n)
{
	static const uint8_t magic[] = {0x28, 0xb5, 0x2f, 0xfd};

	return n >= sizeof(magic) && memcmp(from, magic, sizeof(magic)) == 0 &&
	       ZSTD_findFrameCompressedSize(from, n) == n;
}

static bool unpack_zstd(uint8_t *to, uint64_t room, const uint8_t *from, uint64_t n)
{
	return is_frame(from, n) && ZSTD_decompress(to, room, from, n) == room;
}

static bool (*const unpackers[])(uint8_t *, uint64_t, const uint8_t *, uint64_t) = {
	[IMAGE_PLAIN] = copy,
	[IMAGE_LZ4] = unpack_lz4,
	[IMAGE_ZSTD] = unpack_zstd,
};

int image_unpack(const struct image_member *m, uint64_t most, uint8_t **out, struct vgpu_error *err)
{
	*out = NULL;
	if (m->unpacked > most)
		return vgpu_error_set(err, -EINVAL,
				      "a member of the fat binary takes %llu MiB when it is "
				      "unpacked; the most is %llu MiB",
				      (unsigned long long)(m->unpacked >> 20) + 1,
				      (unsigned long long)(most >> 20));
	*out = malloc(m->unpacked + 1);
	if (!*out)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	(*out)[m->unpacked] = 0;
	if (unpackers[m->packing](*out, m->unpacked, m->at, m->bytes))
		return 0;
	free(*out);
	*out = NULL;
	return vgpu_error_set(err, -EINVAL,
			      "a member of the fat binary is damaged: it does not unpack to what "
			      "its header says");
}
