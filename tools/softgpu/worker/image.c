/* SPDX-License-Identifier: MIT */
#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "gate.h"
#include "image.h"

#ifndef EM_CUDA
#define EM_CUDA 190
#endif
/* Per-block memory of a GPU is below this; a larger section of that name is a lie. */
#define SHARED_MOST (UINT64_C(1) << 20)

/* A fat binary: a header, then entries, each with a header of its own. NVIDIA does not document it;
 * this is what fatbinary 13.0 writes. */
#define FAT_MAGIC 0xba55ed50u
struct fat_header {
	uint32_t magic;
	uint16_t version, header;
	uint64_t bytes; /* behind the header */
};
struct fat_entry {
	uint16_t kind, version;
	uint32_t header;
	uint64_t bytes; /* behind this header */
	uint32_t compressed, pad[2], capability;
	uint64_t pad2, flags;
};
_Static_assert(sizeof(struct fat_header) == 16 && offsetof(struct fat_entry, capability) == 28 &&
		       offsetof(struct fat_entry, flags) == 40,
	       "the file's layout");
#define FAT_CUBIN 2u
#define FAT_COMPRESSED 0xa000u /* by LZ4 or Zstandard */

enum image_kind image_kind(const uint8_t *image, uint64_t bytes)
{
	uint32_t magic = 0;

	if (bytes >= sizeof(magic))
		memcpy(&magic, image, sizeof(magic));
	if (magic == FAT_MAGIC)
		return IMAGE_FAT;
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

/* Whether a section describes the shared memory of blocks, which is no device memory: ".nv.shared",
 * or ".nv.shared.FUNCTION". */
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

/* Adds the sizes of common symbols, for which the loader makes room. A file has one table of
 * symbols; many that overlap would take hours to read. */
static bool add_commons(struct cubin *c, const Elf64_Shdr *table, uint64_t *sum)
{
	uint64_t at;
	Elf64_Sym s;

	if (c->has_symbols)
		return false;
	c->has_symbols = true;
	for (at = 0; table->sh_size - at >= sizeof(s); at += sizeof(s)) {
		memcpy(&s, c->at + table->sh_offset + at, sizeof(s));
		if (s.st_shndx == SHN_COMMON && !add(sum, s.st_size))
			return false;
	}
	return true;
}

/* Adds what section S takes: its size and what its alignment may cost, whatever its flags say,
 * since the loader may go by its name. */
static bool add_section(struct cubin *c, const Elf64_Shdr *s, struct image_needs *out)
{
	if (s->sh_type == SHT_NULL)
		return true;
	if (s->sh_flags & SHF_COMPRESSED)
		return false;
	if (s->sh_type != SHT_NOBITS && !inside(c, s->sh_offset, s->sh_size))
		return false;
	if (s->sh_type == SHT_SYMTAB && !add_commons(c, s, &out->memory))
		return false;
	out->code |= s->sh_type == SHT_PROGBITS && s->sh_flags & SHF_EXECINSTR;
	return is_shared(c, s) ||
	       (add(&out->memory, s->sh_size) && add(&out->memory, s->sh_addralign));
}

/* What the program headers say, as a second opinion. */
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

/* A cubin runs on GPUs of its major number and the same or a later minor number. */
static bool fits(const struct fat_entry *e, int major, int minor)
{
	return e->kind == FAT_CUBIN && e->compressed == 0 && !(e->flags & FAT_COMPRESSED) &&
	       e->capability / 10 == (uint32_t)major && e->capability % 10 <= (uint32_t)minor;
}

int image_find(const uint8_t *fat, uint64_t bytes, int major, int minor, const uint8_t **cubin,
	       uint64_t *cubin_bytes, struct vgpu_error *err)
{
	struct fat_header h = {0};
	struct fat_entry e;
	uint32_t best = 0;
	uint64_t at, end;

	*cubin = NULL;
	if (bytes >= sizeof(h))
		memcpy(&h, fat, sizeof(h));
	if (h.magic != FAT_MAGIC || h.header < sizeof(h) || h.header > bytes ||
	    h.bytes > bytes - h.header)
		return vgpu_error_set(err, -EINVAL, "the fat binary is cut off");
	end = h.header + h.bytes;
	for (at = h.header; end - at >= sizeof(e); at += e.header + e.bytes) {
		memcpy(&e, fat + at, sizeof(e));
		if (e.header < sizeof(e) || e.header > end - at || e.bytes > end - at - e.header)
			return vgpu_error_set(err, -EINVAL,
					      "an entry of the fat binary is cut off");
		if (!fits(&e, major, minor) || e.capability < best)
			continue;
		best = e.capability;
		*cubin = fat + at + e.header;
		*cubin_bytes = e.bytes;
	}
	return 0;
}
