/* SPDX-License-Identifier: MIT */
/*
 * Images of GPU kernels that a guest hands over. No byte outside of the image is read. A binary
 * that is accepted needs at least as much memory as its largest section that is not shared memory.
 * What is found in a fat binary lies inside it, and is unpacked to what its header says, or not.
 * Each of several images lies inside of them, behind the one before it, and is not several.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "fuzz.h"
#include "image.h"

static uint64_t largest(const uint8_t *image, uint64_t shared_most)
{
	uint64_t most = 0, n = 0;
	Elf64_Ehdr h;
	Elf64_Shdr s;
	uint32_t i;

	memcpy(&h, image, sizeof(h));
	for (i = 0; i < h.e_shnum; i++) {
		memcpy(&s, image + h.e_shoff + i * sizeof(s), sizeof(s));
		n = s.sh_type == SHT_NULL || (s.sh_type == SHT_NOBITS && s.sh_size <= shared_most)
			    ? 0
			    : s.sh_size;
		most = n > most ? n : most;
	}
	return most;
}

static void read_several(const uint8_t *data, size_t size)
{
	const uint32_t n = image_count(data, size);
	const uint8_t *at, *end = data;
	struct vgpu_error err = {.text = ""};
	uint64_t bytes;
	uint32_t i;
	int r;

	for (i = 0; i < n; i++) {
		r = image_one(data, size, i, &at, &bytes, &err);
		HOLDS(r == 0 || (r == -EINVAL && err.text[0]));
		if (r < 0)
			continue;
		HOLDS(at >= end && at <= data + size && bytes <= (size_t)(data + size - at));
		HOLDS(image_kind(at, bytes) != IMAGE_SEVERAL);
		HOLDS(image_kind(at, bytes) != IMAGE_PTX || memchr(at, 0, bytes));
		end = at + bytes;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vgpu_error err = {.text = ""};
	struct image_needs needs;
	struct image_member m;
	uint8_t *out;
	int r;

	switch (image_kind(data, size)) {
	case IMAGE_CUBIN:
		r = image_needs(data, size, &needs, &err);
		HOLDS(r == 0 || (r == -EINVAL && err.text[0]));
		if (r == 0)
			HOLDS(needs.memory >= largest(data, 1 << 20));
		break;
	case IMAGE_FAT:
		r = image_find(data, size, 8, 6, &m, &err);
		HOLDS(r == 0 || (r == -EINVAL && err.text[0]));
		if (r < 0 || m.kind == IMAGE_UNKNOWN)
			break;
		HOLDS(m.at >= data && m.bytes <= size && m.at + m.bytes <= data + size);
		r = image_unpack(&m, 1 << 20, &out, &err);
		HOLDS(r == 0 ? out && out[m.unpacked] == 0 : r == -EINVAL && err.text[0] && !out);
		free(out);
		break;
	case IMAGE_SEVERAL:
		read_several(data, size);
		break;
	default:
		break;
	}
	return 0;
}
