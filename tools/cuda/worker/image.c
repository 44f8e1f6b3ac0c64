/* SPDX-License-Identifier: MIT */
#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "gate.h"
#include "image.h"
#include "softgpu/packets.h"

#ifndef EM_CUDA
#define EM_CUDA 190
#endif
/* The beginning of the names of driver functions that GPU kernels call to launch others:
 * nvlink 13.0 leaves these names, which libcudadevrt needs, undefined. */
#define NESTED "__cuda_syscall_cnp"
/* All GPUs have less per-block memory than this; a larger section of that name is invalid. */
#define SHARED_MOST (UINT64_C(1) << 20)

/* A fat binary: a header, then members, each with its own header. NVIDIA does not document the
 * format; this is what fatbinary 13.0 writes, and what public tools that unpack fat binaries
 * read. */
#define FAT_MAGIC 0xba55ed50u
struct fat_header {
	uint32_t magic;
	uint16_t version, header;
	uint64_t bytes; /* number of bytes behind the header */
};
struct fat_member {
	uint16_t kind, version;
	uint32_t header;
	uint64_t bytes;	 /* number of bytes behind this header */
	uint32_t packed; /* number of these bytes if the member is compressed; else 0 */
	uint32_t pad[2], capability;
	uint64_t pad2, flags, pad3;
	uint64_t unpacked; /* number of bytes after unpacking; 0: the member is not compressed */
};
_Static_assert(sizeof(struct fat_header) == 16 && sizeof(struct fat_member) == 64 &&
		       offsetof(struct fat_member, capability) == 28 &&
		       offsetof(struct fat_member, flags) == 40,
	       "the file's layout");
enum { FAT_PTX = 1, FAT_CUBIN = 2 };
#define FAT_LZ4 0x2000u	     /* one block */
#define FAT_ZSTD 0x8000u     /* one frame */
#define FAT_EXACT 0x100000u  /* for this capability only: sm_90a */
#define FAT_FAMILY 0x200000u /* for GPUs of this major number only: sm_100f */

enum image_kind image_kind(const uint8_t *image, uint64_t bytes)
{
	uint32_t magic = 0;

	if (bytes >= sizeof(magic))
		memcpy(&magic, image, sizeof(magic));
	if (magic == FAT_MAGIC)
		return IMAGE_FAT;
	if (magic == SOFTGPU_IMAGES)
		return IMAGE_SEVERAL;
	if (bytes >= SELFMAG && memcmp(image, ELFMAG, SELFMAG) == 0)
		return IMAGE_CUBIN;
	return gate_is_ptx(image, strnlen((const char *)image, bytes)) ? IMAGE_PTX : IMAGE_UNKNOWN;
}

/* A cubin that is being read. */
struct cubin {
	const uint8_t *at;
	uint64_t bytes;
	Elf64_Ehdr head;
	bool has_symbols;
};

static bool inside(const struct cubin *c, uint64_t offset, uint64_t bytes)
{
	return offset <= c->bytes && bytes <= c->bytes - offset;
}

static Elf64_Shdr section_at(const struct cubin *c, uint32_t i)
{
	Elf64_Shdr s;

	memcpy(&s, c->at + c->head.e_shoff + (uint64_t)i * sizeof(s), sizeof(s));
	return s;
}

static bool read_head(struct cubin *c)
{
	const Elf64_Ehdr *h = &c->head;

	if (c->bytes < sizeof(*h))
		return false;
	memcpy(&c->head, c->at, sizeof(*h));
	return h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_ident[EI_DATA] == ELFDATA2LSB &&
	       h->e_machine == EM_CUDA && h->e_shentsize == sizeof(Elf64_Shdr) && h->e_shnum > 0 &&
	       inside(c, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr)) &&
	       h->e_shstrndx < h->e_shnum &&
	       (h->e_phnum == 0 ||
		(h->e_phentsize == sizeof(Elf64_Phdr) &&
		 inside(c, h->e_phoff, (uint64_t)h->e_phnum * sizeof(Elf64_Phdr))));
}

/* Returns whether a section describes the shared memory of blocks, which is not device memory:
 * ".nv.shared", or ".nv.shared.FUNCTION". */
static bool is_shared(const struct cubin *c, const Elf64_Shdr *s)
{
	static const char shared[] = ".nv.shared";
	const Elf64_Shdr names = section_at(c, c->head.e_shstrndx);
	const uint8_t *name;

	if (s->sh_type != SHT_NOBITS || s->sh_size > SHARED_MOST ||
	    !inside(c, names.sh_offset, names.sh_size) || s->sh_name > names.sh_size ||
	    names.sh_size - s->sh_name < sizeof(shared))
		return false;
	name = c->at + names.sh_offset + s->sh_name;
	return memcmp(name, shared, sizeof(shared) - 1) == 0 &&
	       (name[sizeof(shared) - 1] == '.' || name[sizeof(shared) - 1] == 0);
}

static bool add(uint64_t *sum, uint64_t value)
{
	return !__builtin_add_overflow(*sum, value, sum);
}

/* Reads the name at AT in a table of names, of a symbol that the driver must define, and notes in
 * OUT whether its function launches others. Returns false if the name is missing or does not end
 * within the table. */
static bool read_call(const struct cubin *c, const Elf64_Shdr *names, uint64_t at,
		      struct image_needs *out)
{
	const size_t n = sizeof(NESTED) - 1;
	const uint8_t *name;

	if (names->sh_type != SHT_STRTAB || !inside(c, names->sh_offset, names->sh_size) ||
	    at >= names->sh_size)
		return false;
	name = c->at + names->sh_offset + at;
	if (names->sh_size - at < n)
		return memchr(name, 0, names->sh_size - at);
	out->nested |= memcmp(name, NESTED, n) == 0;
	return true;
}

/* Reads the symbols: adds the sizes of common symbols, for which the loader allocates memory, and
 * looks for functions that the driver must define. Accepts only one table of symbols, because
 * reading many overlapping tables would take hours. */
static bool read_symbols(struct cubin *c, const Elf64_Shdr *table, struct image_needs *out)
{
	const Elf64_Shdr names =
		section_at(c, table->sh_link < c->head.e_shnum ? table->sh_link : 0);
	uint64_t at;
	Elf64_Sym s;

	if (c->has_symbols)
		return false;
	c->has_symbols = true;
	for (at = 0; table->sh_size - at >= sizeof(s); at += sizeof(s)) {
		memcpy(&s, c->at + table->sh_offset + at, sizeof(s));
		if (s.st_shndx == SHN_COMMON && !add(&out->memory, s.st_size))
			return false;
		if (s.st_shndx == SHN_UNDEF && s.st_name && !read_call(c, &names, s.st_name, out))
			return false;
	}
	return true;
}

/* Adds the size of section S, and what its alignment may cost. Ignores its flags, because the
 * loader may treat sections by name. */
static bool add_section(struct cubin *c, const Elf64_Shdr *s, struct image_needs *out)
{
	if (s->sh_type == SHT_NULL)
		return true;
	if (s->sh_flags & SHF_COMPRESSED)
		return false;
	if (s->sh_type != SHT_NOBITS && !inside(c, s->sh_offset, s->sh_size))
		return false;
	if (s->sh_type == SHT_SYMTAB && !read_symbols(c, s, out))
		return false;
	out->code |= s->sh_type == SHT_PROGBITS && s->sh_flags & SHF_EXECINSTR;
	return is_shared(c, s) ||
	       (add(&out->memory, s->sh_size) && add(&out->memory, s->sh_addralign));
}

/* Adds up the program headers; the larger one of this sum and that of the sections counts. */
static bool read_segments(const struct cubin *c, uint64_t *sum)
{
	Elf64_Phdr p;
	uint32_t i;

	for (i = 0; i < c->head.e_phnum; i++) {
		memcpy(&p, c->at + c->head.e_phoff + (uint64_t)i * sizeof(p), sizeof(p));
		if (p.p_type == PT_LOAD && !add(sum, p.p_memsz))
			return false;
	}
	return true;
}

int image_needs(const uint8_t *cubin, uint64_t bytes, struct image_needs *out,
		struct vgpu_error *err)
{
	struct cubin c = {.at = cubin, .bytes = bytes};
	uint64_t segments = 0;
	bool ok = read_head(&c);
	Elf64_Shdr s;
	uint32_t i;

	*out = (struct image_needs){0};
	for (i = 0; ok && i < c.head.e_shnum; i++) {
		s = section_at(&c, i);
		ok = add_section(&c, &s, out);
	}
	ok = ok && read_segments(&c, &segments);
	if (!ok)
		return vgpu_error_set(
			err, -EINVAL,
			"the binary is not one that a CUDA compiler makes: its tables "
			"are wrong");
	if (segments > out->memory)
		out->memory = segments;
	return 0;
}

/* A cubin runs on GPUs of its major number and the same or a later minor number, PTX on all later
 * GPUs. */
static bool fits(const struct fat_member *m, int major, int minor)
{
	const uint32_t gpu = (uint32_t)(major * 10 + minor), least = m->capability;

	if (m->flags & FAT_EXACT)
		return least == gpu;
	if (m->kind == FAT_CUBIN || m->flags & FAT_FAMILY)
		return least / 10 == gpu / 10 && least <= gpu;
	return least <= gpu;
}

/* Reads member M, whose contents are at AT. Returns whether it is PTX or a cubin, plain or
 * compressed in a known way. */
static bool read_member(const struct fat_member *m, const uint8_t *at, struct image_member *out)
{
	*out = (struct image_member){.at = at, .bytes = m->bytes, .unpacked = m->bytes};
	out->kind = m->kind == FAT_CUBIN ? IMAGE_CUBIN
		    : m->kind == FAT_PTX ? IMAGE_PTX
					 : IMAGE_UNKNOWN;
	switch (m->flags & (FAT_LZ4 | FAT_ZSTD)) {
	case 0:
		return out->kind && m->packed == 0;
	case FAT_LZ4:
		out->packing = IMAGE_LZ4;
		break;
	case FAT_ZSTD:
		out->packing = IMAGE_ZSTD;
		break;
	default:
		return false;
	}
	out->bytes = m->packed;
	out->unpacked = m->unpacked;
	return out->kind && m->packed <= m->bytes;
}

/* Returns whether member A suits a GPU better than B: a binary is better than PTX, and one for a
 * later GPU is better. */
static bool is_better(const struct image_member *a, uint32_t capability,
		      const struct image_member *b, uint32_t than)
{
	return a->kind == b->kind ? capability >= than : a->kind == IMAGE_CUBIN || !b->kind;
}

int image_find(const uint8_t *fat, uint64_t bytes, int major, int minor, struct image_member *out,
	       struct vgpu_error *err)
{
	struct image_member member;
	struct fat_header h = {0};
	struct fat_member m;
	uint32_t best = 0;
	uint64_t at, end;

	*out = (struct image_member){.kind = IMAGE_UNKNOWN};
	if (bytes >= sizeof(h))
		memcpy(&h, fat, sizeof(h));
	if (h.magic != FAT_MAGIC || h.header < sizeof(h) || h.header > bytes ||
	    h.bytes > bytes - h.header)
		return vgpu_error_set(err, -EINVAL, "the fat binary is cut off");
	end = h.header + h.bytes;
	for (at = h.header; end - at >= sizeof(m); at += m.header + m.bytes) {
		memcpy(&m, fat + at, sizeof(m));
		if (m.header < sizeof(m) || m.header > end - at || m.bytes > end - at - m.header)
			return vgpu_error_set(err, -EINVAL,
					      "a member of the fat binary is cut off");
		if (!fits(&m, major, minor) || !read_member(&m, fat + at + m.header, &member) ||
		    !is_better(&member, m.capability, out, best))
			continue;
		best = m.capability;
		*out = member;
	}
	return 0;
}

uint32_t image_count(const uint8_t *image, uint64_t bytes)
{
	struct softgpu_images head;

	if (bytes < sizeof(head))
		return 0;
	memcpy(&head, image, sizeof(head));
	return head.n <= SOFTGPU_MAX_IMAGES ? head.n : 0;
}

int image_one(const uint8_t *image, uint64_t bytes, uint32_t i, const uint8_t **at, uint64_t *n,
	      struct vgpu_error *err)
{
	uint64_t begin = sizeof(struct softgpu_images), size = 0;
	struct softgpu_images head;
	enum image_kind kind;
	uint32_t k;

	memcpy(&head, image, sizeof(head));
	for (k = 0; k <= i; k++) {
		begin += (size + 7) / 8 * 8;
		size = head.bytes[k];
		if (begin > bytes || size > bytes - begin)
			return vgpu_error_set(err, -EINVAL, "image %u of %u is cut off", k + 1,
					      head.n);
	}
	*at = image + begin;
	*n = size;
	kind = image_kind(*at, *n);
	if (kind == IMAGE_SEVERAL || (kind == IMAGE_PTX && strnlen((const char *)*at, *n) == *n))
		return vgpu_error_set(err, -EINVAL, "image %u of %u %s", i + 1, head.n,
				      kind == IMAGE_PTX ? "does not end in a zero byte"
							: "consists of several images");
	return 0;
}
