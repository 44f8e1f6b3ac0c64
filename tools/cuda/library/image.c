/* SPDX-License-Identifier: MIT */
/* Finds the length of an image, as its own headers say. An image in memory must have correct
 * headers, as with any libcuda; an image from a file is also checked against the file's length. */
#include <elf.h>
#include <string.h>

#include "cuda_base.h"

/* The wrapper that a compiler puts around a fat binary, and a fat binary's own header. NVIDIA
 * documents neither; nvcc 13.0 writes this. */
#define WRAPPER_MAGIC 0x466243b1u
#define FAT_MAGIC 0xba55ed50u
struct wrapper {
	uint32_t magic, version;
	const void *data;
	const void *more;
};
struct fat_header {
	uint32_t magic;
	uint16_t version, header;
	uint64_t bytes; /* behind the header */
};

/* The largest image that a packet can load. */
#define IMAGE_MOST ((UINT64_C(1) << 30) - 1)

struct image {
	const uint8_t *at;
	uint64_t most; /* number of bytes that can be read */
	uint64_t end;  /* length, as far as the headers so far say */
};

/* Extends the image by BYTES at AT, as its headers say. Returns false if that is impossible. */
static bool reach(struct image *m, uint64_t at, uint64_t bytes)
{
	if (at > m->most || bytes > m->most - at)
		return false;
	m->end = at + bytes > m->end ? at + bytes : m->end;
	return true;
}

static bool take(struct image *m, uint64_t at, void *to, size_t bytes)
{
	if (!reach(m, at, bytes))
		return false;
	memcpy(to, m->at + at, bytes);
	return true;
}

static bool read_cubin(struct image *m)
{
	Elf64_Ehdr head;
	Elf64_Shdr s;
	uint32_t i;

	if (!take(m, 0, &head, sizeof(head)) ||
	    !reach(m, head.e_shoff, (uint64_t)head.e_shnum * head.e_shentsize) ||
	    !reach(m, head.e_phoff, (uint64_t)head.e_phnum * head.e_phentsize))
		return false;
	for (i = 0; i < head.e_shnum && head.e_shentsize == sizeof(s); i++)
		if (!take(m, head.e_shoff + i * sizeof(s), &s, sizeof(s)) ||
		    (s.sh_type != SHT_NOBITS && !reach(m, s.sh_offset, s.sh_size)))
			return false;
	return true;
}

static bool read_fat(struct image *m)
{
	struct fat_header head;

	return take(m, 0, &head, sizeof(head)) && reach(m, head.header, head.bytes);
}

static bool read_images(struct image *m)
{
	struct softgpu_images head;
	uint64_t at = sizeof(head);
	uint32_t i;

	if (!take(m, 0, &head, sizeof(head)) || head.n > SOFTGPU_MAX_IMAGES)
		return false;
	for (i = 0; i < head.n; i++) {
		if (!reach(m, at, head.bytes[i]))
			return false;
		at += (head.bytes[i] + 7) / 8 * 8;
	}
	return true;
}

static bool begins_with(const struct image *m, const void *magic)
{
	return m->most >= 4 && memcmp(m->at, magic, 4) == 0;
}

bool image_find(const void **image, uint64_t most, uint64_t *bytes)
{
	struct image m = {.at = *image, .most = most < IMAGE_MOST ? most : IMAGE_MOST};
	struct wrapper wrapper;
	bool ok;

	/* A wrapper contains an address, so only an image in memory can have one. */
	if (most == IMAGE_UNKNOWN && begins_with(&m, &(uint32_t){WRAPPER_MAGIC})) {
		memcpy(&wrapper, m.at, sizeof(wrapper));
		m.at = wrapper.data;
	}
	if (begins_with(&m, &(uint32_t){FAT_MAGIC}))
		ok = read_fat(&m);
	else if (begins_with(&m, &(uint32_t){SOFTGPU_IMAGES}))
		ok = read_images(&m);
	else if (begins_with(&m, ELFMAG))
		ok = read_cubin(&m);
	else /* PTX, and its zero byte */
		ok = (m.end = strnlen((const char *)m.at, m.most) + 1) <= IMAGE_MOST;
	*image = m.at;
	*bytes = m.end;
	return ok;
}
