/* SPDX-License-Identifier: MIT */
/*
 * Images of GPU kernels that a guest hands over. No byte outside of the image is read. A binary
 * that is accepted needs at least as much memory as its largest section that is not shared memory,
 * and what is found in a fat binary lies inside it.
 */
#include <elf.h>
#include <errno.h>
#include <stdbool.h>

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vgpu_error err = {.text = ""};
	struct image_needs needs;
	const uint8_t *cubin;
	uint64_t bytes;
	int r;

	switch (image_kind(data, size)) {
	case IMAGE_CUBIN:
		r = image_needs(data, size, &needs, &err);
		HOLDS(r == 0 || (r == -EINVAL && err.text[0]));
		if (r == 0)
			HOLDS(needs.memory >= largest(data, 1 << 20));
		break;
	case IMAGE_FAT:
		r = image_find(data, size, 8, 6, &cubin, &bytes, &err);
		HOLDS(r == 0 || (r == -EINVAL && err.text[0]));
		if (r == 0 && cubin)
			HOLDS(cubin >= data && bytes <= size && cubin + bytes <= data + size);
		break;
	default:
		break;
	}
	return 0;
}
